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

    fn answers(&self) -> &[u8] {
        &self.answers
    }
}

/// How a model was fed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Fed {
    /// How long batches were waited for.
    pub(super) waited: Duration,
    /// Batches that were ready when the last one was asked for.
    pub(super) ready: usize,
    /// The sum of ready batches over all times that one was asked for, and the number of these times.
    ready_in_all: u64,
    asked: u64,
}

impl Fed {
    /// How many batches were ready in the mean.
    pub(super) fn mean_ready(&self) -> f64 {
        self.ready_in_all as f64 / self.asked.max(1) as f64
    }
}

/// The next training batch; there is always one. The time spent waiting for it is added to `fed`.
pub(super) fn next(loader: &mut Loader, fed: &mut Fed) -> Result<Batch> {
    fed.ready = loader.ready().0;
    fed.ready_in_all += fed.ready as u64;
    fed.asked += 1;
    let asked = Instant::now();
    let batch = loader.recv()?.ok_or_else(|| Error::Misused("the loader ended before the run".to_owned()))?;
    fed.waited += asked.elapsed();
    Ok(batch)
}
