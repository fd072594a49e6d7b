//! One run through the trainer, watched to its end.

use std::{ops::ControlFlow, sync::Arc, time::Duration};

use anyhow::Context;
use crossbeam_channel::RecvTimeoutError;
use plimsoll_engine::{
    Experiment,
    plan::Plan,
    train::{Command, Event, Outcome, Start, StepRecord, Summary, Trainer},
};

use crate::cli::interrupt::{Interrupt, Stopped};

/// How often a signal is looked for.
const GLANCE: Duration = Duration::from_millis(100);

/// Starts a run and hands every event to `watch` until the run has ended. A signal stops it, and so does a `watch` that
/// breaks off; the events to its end are then handed over as well.
///
/// # Errors
/// A trainer thread that is gone.
pub(super) fn run(
    trainer: &Trainer,
    start: Start,
    interrupt: &Interrupt,
    mut watch: impl FnMut(&Event) -> ControlFlow<()>,
) -> anyhow::Result<(Outcome, Summary)> {
    trainer.send(Command::Start(Box::new(start)));
    let (mut is_stopping, mut has_broken) = (false, false);
    loop {
        if (has_broken || interrupt.has_come()) && !is_stopping {
            trainer.send(Command::Stop);
            is_stopping = true;
        }
        let event = match trainer.events().recv_timeout(GLANCE) {
            Ok(event) => event,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => anyhow::bail!("the trainer thread is gone"),
        };
        has_broken |= watch(&event).is_break();
        if let Event::Ended { outcome, summary, .. } = event {
            return Ok((outcome, *summary));
        }
    }
}

/// The results of a run, kept whole.
pub(super) struct Record {
    pub(super) plan: Arc<Plan>,
    pub(super) steps: Vec<StepRecord>,
    pub(super) summary: Summary,
}

/// Runs `experiment` to its end, quietly.
///
/// # Errors
/// A run that fails, that is refused, or that a signal stops: [`Stopped`].
pub(super) fn record(
    trainer: &Trainer,
    name: &str,
    experiment: Experiment,
    interrupt: &Interrupt,
) -> anyhow::Result<Record> {
    let (mut plan, mut steps) = (None, Vec::new());
    let start = Start::new(experiment);
    let (outcome, summary) = run(trainer, start, interrupt, |event| {
        match event {
            Event::Started { plan: started, .. } => plan = Some(Arc::clone(started)),
            Event::Step(step) => steps.push(*step),
            _ => {}
        }
        ControlFlow::Continue(())
    })?;
    match outcome {
        Outcome::Finished => {}
        Outcome::Stopped => return Err(Stopped(name.to_owned()).into()),
        Outcome::OverBudget(refusal) => anyhow::bail!("{name}: {}", refusal.error),
        Outcome::Failed(error) => return Err(error).with_context(|| name.to_owned()),
    }
    let plan = plan.with_context(|| format!("{name}: the run never began"))?;
    Ok(Record { plan, steps, summary })
}
