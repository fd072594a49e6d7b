//! The pass before the first step in which a teacher is asked about every training sample.

use super::passes::Layouts;
use crate::{
    backend::{DryRun, Executor},
    error::Result,
    plan::Resolved,
    step::{Blank, Teaching, load},
};

/// The result of asking a teacher.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    /// Predicted seconds for all training samples.
    pub(super) secs: f64,
    /// Parameters of the teacher, which is freed by then.
    pub(super) parameters: u64,
}

/// The teacher of `resolved`, if it is asked before the first step.
pub(super) fn made(executor: &Executor<DryRun>, resolved: &Resolved) -> Result<Option<Teaching<DryRun>>> {
    let (experiment, info) = (resolved.experiment(), resolved.info());
    let Some(teacher) = resolved.teacher().filter(|_| experiment.distil.is_asked_before()) else { return Ok(None) };
    Teaching::new(executor.clone(), teacher, experiment, info, &mut load::Anything).map(Some)
}

/// Asks the teacher, micro-batch by micro-batch, until the pool is as it was before an earlier one, because the others would
/// only repeat. Then frees the teacher.
pub(super) fn asked(executor: &Executor<DryRun>, teaching: Teaching<DryRun>, resolved: &Resolved) -> Result<Asked> {
    let micro = resolved.experiment().batch.micro;
    let all = resolved.info().train.div_ceil(micro.max(1));
    let (mut layouts, mut count) = (Layouts::default(), 0);
    executor.backend().take_secs();
    let next = || {
        let is_new = layouts.insert(executor.ledger().fingerprint());
        let goes_on = is_new && count < all.min(Layouts::MOST);
        count += usize::from(goes_on);
        Ok(goes_on.then_some(Blank(micro)))
    };
    teaching.ask(next, &mut |_, _| Ok(()))?;
    let secs = executor.backend().take_secs() / count.max(1) as f64 * all as f64;
    let parameters = teaching.model().parameters();
    teaching.end()?;
    Ok(Asked { secs, parameters })
}
