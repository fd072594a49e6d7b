//! The bookkeeping of a run on the CPU, counted by a dry run of its steps.

use crate::{
    backend::{DryRun, Executor, Rates},
    data::DatasetInfo,
    device::{Processor, Target},
    error::Result,
    experiment::{Experiment, PruneKind},
    memory::{Bookkeeping, Ledger, tally},
    step::{Blank, Session, Teaching, load::Anything, save::Nowhere},
};

/// The bytes of the engine's own structures in each phase of a run of `experiment` on the CPU, which `teacher` teaches if
/// there is one. The first step makes the optimizer's state, the second has it from the start, and every later one repeats
/// the second.
///
/// # Errors
/// Fails when the model cannot be built.
pub fn bookkeeping(experiment: &Experiment, teacher: Option<&Experiment>, info: &DatasetInfo) -> Result<Bookkeeping> {
    let mut shortened = experiment.clone();
    // Every micro-batch after the second repeats the second.
    shortened.batch.accumulation = experiment.batch.accumulation.min(2);
    shortened.quantise.calibration = experiment.quantise.calibration.min(2);
    tally::counted(|| {
        let ledger = Ledger::gathering();
        let executor =
            Executor::new(DryRun::new(Target::Cpu(Processor::with_threads(1)), Rates::NOMINAL), ledger.clone());
        let batch = Blank(experiment.batch.micro);
        if let Some(teacher) = teacher.filter(|_| experiment.distil.is_asked_before()) {
            let teaching = Teaching::new(executor.clone(), teacher, &shortened, info, &mut Anything)?;
            let mut once = Some(batch);
            teaching.ask(|| Ok(once.take()), &mut |_, _| Ok(()))?;
            teaching.end()?;
        }
        let mut session = Session::new(executor, &shortened, info)?;
        if experiment.weights.chosen().is_some() {
            session.load(&mut Anything)?;
        }
        if let Some(teacher) = teacher.filter(|_| !experiment.distil.is_asked_before()) {
            session.teach(teacher, &mut Anything)?;
        }
        for _ in 0..2 {
            session.step(0.0, || Ok(batch))?;
        }
        let mut once = Some(batch);
        session.evaluate(|| Ok(once.take()))?;
        session.save(&[], &mut Nowhere)?;
        if experiment.prune.kind == PruneKind::Channels {
            session.take_out_channels()?;
        }
        let mut once = Some(batch);
        session.compress(|| Ok(batch), || Ok(once.take()), |_, _| {})?;
        Ok(ledger.gathered())
    })
}
