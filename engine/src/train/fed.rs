//! Batches as a step takes them, and how long it waits for them.

use std::time::{Duration, Instant};

use crate::{
    backend::HostSlice,
    data::{Batch, Loader},
    error::{Error, Result},
    step::MicroBatch,
};

impl MicroBatch for Batch {
    fn samples(&self) -> usize {
        self.len
    }

    fn inputs(&self) -> HostSlice<'_> {
        self.inputs.slice()
    }

    fn labels(&self) -> &[u32] {
        &self.labels
    }
}

/// The next training batch; there is always one. What it is waited for is added to `waited`.
pub(super) fn next(loader: &mut Loader, waited: &mut Duration) -> Result<Batch> {
    let asked = Instant::now();
    let batch = loader.recv()?.ok_or_else(|| Error::Misused("the loader ended before the run".to_owned()))?;
    *waited += asked.elapsed();
    Ok(batch)
}
