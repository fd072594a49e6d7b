//! The taking out of channels in the course of a run.

use super::RunLoop;
use crate::{backend::Backend, bytes::Bytes, error::Result, step::Session, train::event::Event};

/// What a user learns who asks for a test that is not predicted.
pub(super) const TEST_WAITS: &str =
    "The test waits until channels are taken out, because the prediction has no test of the whole model.";

impl RunLoop<'_, '_> {
    /// Whether the model is the one before channels are taken out, and the prediction has no test of it.
    pub(super) fn is_larger_than_tested<B: Backend>(&self, session: &Session<B>) -> bool {
        !session.is_thinned() && !self.spec.plan.resolved.tests_whole_model()
    }

    /// Takes channels out of the model if that is due. Returns whether it was.
    pub(super) fn thin<B: Backend>(&mut self, session: &mut Session<B>) -> Result<bool> {
        let after = self.spec.plan.resolved.thinned_after();
        if session.is_thinned() || after.is_none_or(|after| self.step < after) {
            return Ok(false);
        }
        self.tell(session, 0)?;
        session.take_out_channels()?;
        self.sampler.read(Bytes::ZERO);
        self.summary.stripped = session.stripped()?;
        if let Some(stripped) = self.summary.stripped {
            self.spec.events.send(Event::Thinned { step: self.step, stripped });
        }
        Ok(true)
    }

    /// Whether pruning is over, if there is any. A better test before it is one of another model.
    pub(super) fn is_pruned<B: Backend>(&self, session: &Session<B>) -> bool {
        // Masks follow updates, of which f16 may have skipped some.
        let updates = self.step - self.summary.skipped_steps.min(self.step);
        let masked = self.spec.plan.resolved.masked_after();
        session.is_thinned() || masked.is_none_or(|after| updates >= after) && !self.thins()
    }

    /// Whether channels are taken out in the course of the run.
    pub(super) fn thins(&self) -> bool {
        self.spec.plan.resolved.thinned_after().is_some()
    }
}
