//! A batch of one sample, that no loader filled.

use crate::{backend::HostSlice, data::HostBatch, memory::probe::uncounted, step::MicroBatch};

/// A batch that does not come from a loader.
pub(super) struct OneSample(pub(super) HostBatch);

impl MicroBatch for OneSample {
    fn samples(&self) -> usize {
        self.0.len
    }

    fn inputs(&self) -> HostSlice<'_> {
        self.0.inputs.slice()
    }

    fn labels(&self) -> &[u32] {
        &self.0.labels
    }
}

impl Drop for OneSample {
    /// Frees it as it was made: uncounted.
    fn drop(&mut self) {
        uncounted(|| drop(std::mem::take(&mut self.0)));
    }
}
