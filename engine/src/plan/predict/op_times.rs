//! How long each op of a pass takes, by another dry run that reads its clock where a run reads its memory.

use std::rc::Rc;

use super::{
    dry::{Dry, Purpose, executor, shortened},
    teaching,
};
use crate::{
    backend::{DryRun, Executor},
    bytes::Bytes,
    error::Result,
    memory::probe::{Measure, Reading},
    plan::{Pass, Plan},
    step::Blank,
};

/// The predicted time since it was last read, in picoseconds.
struct Clock(Executor<DryRun>);

impl Clock {
    const TICKS: f64 = 1e12;
}

impl Measure for Clock {
    fn now(&self) -> Reading {
        Reading::default()
    }

    fn peak(&self) -> Reading {
        let ticks = (self.0.backend().take_secs() * Self::TICKS).round();
        Reading { live: Bytes(ticks as u64), reserved: Bytes::ZERO }
    }

    fn reset_peak(&self) {}

    fn reset_live_peak(&self) {}
}

/// Predicted seconds of each op of a pass: one for each point of [`Plan::timeline`]. The making of the model, with which the
/// first step begins, and that of a teacher count nothing.
///
/// # Examples
///
/// ```
/// use plimsoll_engine::{Experiment, hardware::Machine, plan::{Pass, Plan, op_secs}};
///
/// let plan = Plan::of(&Experiment::default(), &Machine::nominal())?;
/// let secs = op_secs(&plan, Pass::Steady)?;
/// assert_eq!(secs.len(), plan.steady.points.len());
/// assert!((secs.iter().sum::<f64>() - plan.step_secs).abs() < plan.step_secs * 1e-3);
/// # Ok::<(), plimsoll_engine::Error>(())
/// ```
///
/// # Errors
/// Fails if [`predict`](super::predict()) does.
pub fn op_secs(plan: &Plan, pass: Pass) -> Result<Vec<f64>> {
    let resolved = &plan.resolved;
    let shortened = shortened(resolved.experiment());
    if pass == Pass::Teach {
        let executor = executor(resolved, &plan.machine, Purpose::Record, plan.places.as_ref())?;
        let Some(teaching) = teaching::made(&executor, resolved)? else { return Ok(Vec::new()) };
        return clocked(plan, pass, &executor, || teaching::asked(&executor, teaching, resolved).map(drop));
    }
    let mut dry = Dry::new(resolved, &shortened, &plan.machine, Purpose::Record, plan.places.as_ref())?;
    let (executor, micro) = (dry.session.executor().clone(), shortened.batch.micro);
    if matches!(pass, Pass::Steady | Pass::Prune | Pass::Pruned | Pass::Save | Pass::Compress) {
        dry.session.step(0.0, || Ok(Blank(micro)))?;
    }
    if pass == Pass::Pruned {
        dry.session.take_out_channels()?;
    }
    clocked(plan, pass, &executor, || match pass {
        Pass::First if resolved.steps_left() == 0 => Ok(()),
        Pass::First | Pass::Steady | Pass::Pruned => dry.session.step(0.0, || Ok(Blank(micro))).map(drop),
        Pass::Prune => dry.session.take_out_channels(),
        Pass::Evaluate => dry.evaluate().map(drop),
        Pass::Save => dry.save(),
        Pass::Compress => dry.compress(),
        Pass::Teach => Ok(()),
    })
}

/// Seconds of each op of `run`, which ends where the timeline of `pass` does.
fn clocked(plan: &Plan, pass: Pass, executor: &Executor<DryRun>, run: impl FnOnce() -> Result<()>) -> Result<Vec<f64>> {
    executor.backend().take_secs();
    executor.sample(Rc::new(Clock(executor.clone())), 4096);
    let ran = run();
    // Taken in any case: the sampler holds the executor that holds it.
    let ticks = executor.take_samples();
    ran?;
    // The timelines of the first step and of a teacher begin with the making of the model, which no clock was there for.
    let unclocked = plan.timeline(pass).points.len().saturating_sub(ticks.len());
    let secs = ticks.into_iter().map(|sample| sample.high.0 as f64 / Clock::TICKS);
    Ok(std::iter::repeat_n(0.0, unclocked).chain(secs).collect())
}
