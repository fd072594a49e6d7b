//! The end of a run whose model becomes one of integers.

use std::sync::Arc;

use super::RunLoop;
use crate::{
    backend::Backend,
    bytes::Bytes,
    data::{Loader, Split},
    error::Result,
    memory::probe::uncounted,
    step::{Compressed, Session},
    train::{
        command::Inbox,
        event::Event,
        fed::{Fed, next},
    },
};

impl RunLoop<'_, '_> {
    /// Tests the trained model as one of integers, if it is to become one. The trained model is saved before.
    pub(super) fn compress<B: Backend>(&mut self, session: &Session<B>, inbox: &mut Inbox<'_>) -> Result<()> {
        if self.experiment.quantise.kind.is_none() {
            return Ok(());
        }
        let (events, dataset, resolved) = (self.spec.events, Arc::clone(&self.spec.dataset), &self.spec.plan.resolved);
        let mut test = Loader::test_fed(dataset, resolved.evaluation_batch(), resolved.test_feed())?;
        // How long a calibration waits does not count in how the model was fed.
        let (loader, mut fed) = (&mut self.loader, Fed::default());
        let mut ranges = Vec::new();
        let tested = session.compress(
            || next(loader, &mut fed),
            || {
                inbox.listen(events)?;
                test.recv()
            },
            |name, range| ranges.push((name, range)),
        );
        uncounted(|| self.keep_ranges(ranges));
        let tested = tested?;
        drop(test);
        self.sampler.read(Bytes::ZERO);
        if let Some((means, took)) = tested {
            let (test_accuracy, errors) = self.spec.dataset.score(Split::Test, means);
            let [bytes, dense_bytes] = session.compressed_bytes()?;
            let trained_accuracy = self.summary.test_accuracy.unwrap_or_default();
            let is_of_values = errors.is_some();
            let compressed = Compressed {
                weights: self.experiment.quantise.coded(),
                bytes,
                dense_bytes,
                test_accuracy,
                trained_accuracy,
                test_loss: means.0,
                trained_loss: self.test_loss.unwrap_or_default(),
                test_secs: took.as_secs_f64(),
                trained_test_secs: self.test_secs,
                is_of_values,
            };
            self.summary.compressed = Some(compressed);
            events.send(Event::Compressed(compressed));
        }
        Ok(())
    }

    /// Keeps the ranges of inputs with the run's checkpoint, where it has one.
    fn keep_ranges(&self, ranges: Vec<(String, [f32; 2])>) {
        let Some(saver) = self.saver.as_ref().filter(|_| !ranges.is_empty()) else { return };
        if let Err(error) = saver.save_ranges(self.step, &ranges) {
            self.warn(|| format!("{error}: the run cannot be exported as integers (export --compressed)"));
        }
    }
}
