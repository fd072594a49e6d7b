//! Findings about data that a look at them makes, and an open data set shares: a listing, a table, the places of samples in texts.
//!
//! Owns [`Weighed`]. Always holds: its memory counts on no meter, because several threads and runs share it; it knows its bytes,
//! as the allocator counted them, so that the host memory of each run that uses it has them.

use std::{ops::Deref, sync::Arc};

use crate::{
    bytes::Bytes,
    error::Result,
    memory::probe::{Meter, counted_on, uncounted},
};

thread_local! {
    /// Counts this thread's findings while they are made, and what its helpers make of them.
    static METER: &'static Meter = Meter::new();
}

/// A finding, and the memory that it took to keep.
#[derive(Debug)]
pub(super) struct Weighed<T> {
    /// `None` only while it is dropped.
    finding: Option<T>,
    bytes: Bytes,
}

impl<T> Weighed<T> {
    /// What `find` finds.
    ///
    /// # Errors
    /// Those of `find`.
    pub(super) fn new(find: impl FnOnce() -> Result<T>) -> Result<Arc<Self>> {
        let meter = METER.with(|meter| *meter);
        counted_on(Some(meter), || {
            let before = meter.now().live;
            let finding = find()?;
            let bytes = meter.now().live.saturating_sub(before);
            Ok(uncounted(|| Arc::new(Self { finding: Some(finding), bytes })))
        })
    }

    /// Bytes of host memory.
    pub(super) fn bytes(&self) -> Bytes {
        self.bytes + Bytes(size_of::<Self>() as u64)
    }
}

impl<T> Deref for Weighed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.finding.as_ref().expect("it is there until it is dropped")
    }
}

impl<T> Drop for Weighed<T> {
    fn drop(&mut self) {
        uncounted(|| drop(self.finding.take()));
    }
}

/// The result of `work`, and the most bytes that this thread and its helpers held for it.
pub(super) fn peak_of<T>(work: impl FnOnce() -> T) -> (T, Bytes) {
    let meter = METER.with(|meter| *meter);
    counted_on(Some(meter), || {
        let before = meter.now().live;
        meter.reset_peak();
        let done = work();
        (done, meter.peak().live.saturating_sub(before))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_weighs_what_is_left_of_finding_it() {
        let found = Weighed::new(|| {
            drop(vec![0u8; 5000]);
            Ok(vec![0u8; 1000])
        });
        let found = found.expect("it is found");
        let own = size_of::<Weighed<Vec<u8>>>() as u64;
        assert_eq!((found.len(), found.bytes()), (1000, Bytes(1000 + own)));
    }
}
