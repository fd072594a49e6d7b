//! The processor's memory: a range of addresses for tensors and the scratch of kernels, which this model places, and the C
//! library's heap for the engine's own structures.
//!
//! Always holds: a run puts its blocks where the model has put them (`memory/arena.rs`), so the range is as long in a run
//! as in the dry run before it. The model's own lists are part of the allocator, as the heap's are of the C library: they
//! are not counted as bookkeeping.

use std::ops;

use crate::{
    bytes::Bytes,
    device::profile::PoolProfile,
    memory::{
        allocator::{
            pool::Pool,
            spans::{Span, join, leave},
        },
        probe::uncounted,
        tally,
    },
};

/// Blocks begin at multiples of this, as vector loads and lines of the cache like it.
pub(in crate::memory) const GRANULE: Bytes = Bytes(64);
/// The range grows by multiples of this.
pub(in crate::memory) const PAGE: Bytes = Bytes(4096);
/// More bits than places in a segment have.
const SEGMENT_AT: u32 = 44;
/// How the range hands out memory.
pub(in crate::memory) const PROFILE: PoolProfile =
    PoolProfile { granule: GRANULE, segment: PAGE, page: PAGE, mapped: None };

/// Bytes that a process grows by in a run whose range and heap come to `reserved` bytes: those bytes, and a bit for each
/// granule.
pub(in crate::memory) fn grows(reserved: u64) -> u64 {
    reserved + reserved.div_ceil(8 * GRANULE.0)
}

/// A range, and the bookkeeping on the heap next to it.
#[derive(Debug)]
pub struct Range(Option<Box<Parts>>);

#[derive(Debug)]
struct Parts {
    pool: Pool,
    /// Bytes that the heap holds.
    heap: u64,
    /// The pages that blocks have lain on and that were not given back, behind the number of their segment.
    touched: Vec<Span>,
}

/// Runs `f`, whose memory is the allocator's own.
pub(in crate::memory) fn apart<T>(f: impl FnOnce() -> T) -> T {
    uncounted(|| tally::suspended(f))
}

impl Range {
    /// An empty one.
    pub(super) fn new() -> Self {
        Self(Some(apart(|| Box::new(Parts { pool: Pool::range(PROFILE), heap: 0, touched: Vec::new() }))))
    }

    fn parts(&self) -> &Parts {
        self.0.as_ref().expect("there until it is dropped")
    }

    fn parts_mut(&mut self) -> &mut Parts {
        self.0.as_mut().expect("there until it is dropped")
    }

    /// The model of the range.
    pub(super) fn pool(&self) -> &Pool {
        &self.parts().pool
    }

    /// The model of the range, for later requests.
    pub(super) fn pool_mut(&mut self) -> &mut Pool {
        &mut self.parts_mut().pool
    }

    /// The bytes that range and heap hold.
    pub(super) fn reserved(&self) -> Bytes {
        self.pool().reserved() + self.heap()
    }

    /// The bytes that the heap holds.
    pub(super) fn heap(&self) -> Bytes {
        Bytes(self.parts().heap)
    }

    /// Takes a block of the range; the number of its place.
    pub(super) fn take(&mut self, bytes: u64) -> u32 {
        apart(|| {
            let Parts { pool, touched, .. } = self.parts_mut();
            let number = pool.take(bytes);
            if let Some(place) = pool.place(number) {
                let segment = u64::from(place.segment) << SEGMENT_AT;
                let end = (place.start + place.bytes).next_multiple_of(PAGE.0);
                join(touched, (segment | (place.start / PAGE.0 * PAGE.0), segment | end));
            }
            number
        })
    }

    /// The bytes of the pages that blocks have lain on so far, without those that were given back.
    pub(super) fn touched(&self) -> Bytes {
        Bytes(self.parts().touched.iter().map(|(start, end)| end - start).sum())
    }

    /// Gives back a block.
    pub(super) fn give(&mut self, place: u32) {
        apart(|| self.parts_mut().pool.give(place));
    }

    /// Gives back pages under the next hole that is unneeded from now on; where they begin and end.
    pub(super) fn give_back(&mut self) -> Option<ops::Range<u64>> {
        apart(|| {
            let Parts { pool, touched, .. } = self.parts_mut();
            let pages = pool.give_back()?;
            // Places in the first segment are those in the range.
            leave(touched, (pages.start, pages.end));
            Some(pages)
        })
    }

    /// Replaces `before` bytes of the heap with `now` bytes.
    pub(super) fn keep_books(&mut self, before: u64, now: u64) {
        let parts = self.parts_mut();
        parts.heap = parts.heap - before + now;
    }
}

impl Drop for Range {
    fn drop(&mut self) {
        apart(|| drop(self.0.take()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_stay_touched_when_their_blocks_are_gone() {
        let mut range = Range::new();
        assert_eq!(range.touched(), Bytes::ZERO);
        let one = range.take(3 * PAGE.0);
        let two = range.take(64);
        assert_eq!(range.touched(), Bytes(4 * PAGE.0));
        range.give(one);
        range.give(two);
        let other = range.take(PAGE.0);
        assert_eq!(range.touched(), Bytes(4 * PAGE.0), "on pages that were touched before");
        range.take(9 * PAGE.0);
        assert!(range.touched() >= Bytes(10 * PAGE.0) && range.touched() <= range.reserved(), "{range:?}");
        range.give(other);
    }
}
