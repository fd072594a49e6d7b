//! Models of allocators: the bytes that an allocator holds for the live bytes. They are modelled nowhere else.
//!
//! [`Allocator`] follows every block: a [`pool::Pool`] finds a place for it and grows, on the processor as on a GPU; on the
//! heap each is rounded for itself. Always holds: *reserved* is at least *used*. The models are checked against measurements
//! in `engine/tests`: the probe's own sum of usable sizes and of the range's length, and the driver's counters where there
//! is a GPU. Refuses nothing: the ledger decides whether a pool may grow.

pub mod heap;
pub mod places;
pub mod pool;
pub(in crate::memory) mod range;
mod spans;

use std::ops;

use crate::{
    bytes::Bytes,
    device::{PoolPolicy, Profile, Target},
    memory::allocator::{
        pool::{NOWHERE, Pool},
        range::Range,
    },
};
pub use places::{Places, Requests, Search};
pub use pool::Place;

/// Bytes that a process grows by in a run on the processor whose allocator comes to hold `reserved` bytes, with its tensors
/// in a range or on the heap. The pages of the program and of its threads come on top.
pub fn process_grows(reserved: Bytes, is_in_range: bool) -> Bytes {
    // Other systems than Linux have no range.
    Bytes(if cfg!(target_os = "linux") && is_in_range { range::grows(reserved.0) } else { heap::grows(reserved.0) })
}

/// A model of an allocator, with the bytes that it holds.
#[derive(Debug)]
pub enum Allocator {
    /// The C library's heap, with the bytes it holds.
    Heap(u64),
    /// A range of the processor's addresses, and the heap next to it.
    Range(Range),
    /// A driver's memory pool.
    Pool(Box<Pool>),
}

impl Allocator {
    /// The allocator of the C library's heap.
    pub const fn heap() -> Self {
        Self::Heap(0)
    }

    /// The allocator of a run on the processor whose tensors lie in a range.
    pub fn range() -> Self {
        Self::Range(Range::new())
    }

    /// The allocator of a run on the processor.
    pub fn of_processor(is_in_range: bool) -> Self {
        if is_in_range { Self::range() } else { Self::heap() }
    }

    /// The pool of a GPU in a process that may take `budget`: the context takes its part first.
    pub fn pool(profile: &Profile, policy: PoolPolicy, budget: Bytes) -> Self {
        Self::Pool(Box::new(Pool::new(profile.pool, policy, budget.saturating_sub(profile.context))))
    }

    /// The allocator of `target`.
    pub fn of(target: &Target, policy: PoolPolicy, budget: Bytes) -> Self {
        match target {
            Target::Cpu(_) => Self::heap(),
            Target::Gpu(profile) => Self::pool(profile, policy, budget),
        }
    }

    /// The bytes of a block of `bytes` that count as used.
    pub(super) fn held(&self, bytes: u64) -> u64 {
        match self {
            Self::Heap(_) | Self::Range(_) => bytes,
            Self::Pool(pool) => pool.rounded(bytes),
        }
    }

    /// The reserved bytes.
    pub fn reserved(&self) -> Bytes {
        match self {
            Self::Heap(reserved) => Bytes(*reserved),
            Self::Range(range) => range.reserved(),
            Self::Pool(pool) => pool.reserved(),
        }
    }

    /// The bytes of the range or of the pool, and those of the heap.
    pub(super) fn apart(&self) -> [Bytes; 2] {
        match self {
            Self::Heap(reserved) => [Bytes::ZERO, Bytes(*reserved)],
            Self::Range(range) => [range.pool().reserved(), range.heap()],
            Self::Pool(pool) => [pool.reserved(), Bytes::ZERO],
        }
    }

    /// The bytes of the pages of the range that blocks have lain on so far, whether they are alive or not.
    pub(super) fn touched(&self) -> Bytes {
        match self {
            Self::Heap(_) | Self::Pool(_) => Bytes::ZERO,
            Self::Range(range) => range.touched(),
        }
    }

    /// Takes a block, and returns the number of its place.
    pub(super) fn take(&mut self, bytes: u64) -> u32 {
        match self {
            Self::Heap(reserved) => {
                *reserved += heap::reserved(bytes);
                NOWHERE
            }
            Self::Range(range) => range.take(bytes),
            Self::Pool(pool) => pool.take(bytes),
        }
    }

    /// The place of this number, if the model has places.
    pub(super) fn place(&self, number: u32) -> Option<Place> {
        match self {
            Self::Heap(_) => None,
            Self::Range(range) => range.pool().place(number),
            Self::Pool(pool) => pool.place(number),
        }
    }

    /// Takes a block of `bytes` away from its place.
    pub(super) fn give(&mut self, place: u32, bytes: u64) {
        match self {
            Self::Heap(reserved) => *reserved -= heap::reserved(bytes),
            Self::Range(range) => range.give(place),
            Self::Pool(pool) => pool.give(place),
        }
    }

    /// Replaces the bookkeeping's `before` bytes of the heap with `now` bytes. A pool has no bookkeeping.
    pub(super) fn keep_books(&mut self, before: u64, now: u64) {
        match self {
            Self::Heap(reserved) => *reserved = *reserved - before + now,
            Self::Range(range) => range.keep_books(before, now),
            Self::Pool(_) => {}
        }
    }

    /// A hash of where free space lies, which decides where later blocks go; 0 for a heap.
    pub(super) fn fingerprint(&self) -> u64 {
        match self {
            Self::Heap(_) => 0,
            Self::Range(range) => range.pool().fingerprint(),
            Self::Pool(pool) => pool.fingerprint(),
        }
    }

    /// The pool, if it is one.
    pub(super) fn pool_mut(&mut self) -> Option<&mut Pool> {
        match self {
            Self::Heap(_) => None,
            Self::Range(range) => Some(range.pool_mut()),
            Self::Pool(pool) => Some(pool),
        }
    }

    /// Gives back pages of a range that a smaller model does not need, hole by hole; `None` once that is done.
    pub(super) fn give_back(&mut self) -> Option<ops::Range<u64>> {
        match self {
            Self::Heap(_) | Self::Pool(_) => None,
            Self::Range(range) => range.give_back(),
        }
    }

    /// A step is over: a pool may give back empty memory.
    pub(super) fn step_ended(&mut self) {
        if let Self::Pool(pool) = self {
            pool.step_ended();
        }
    }
}
