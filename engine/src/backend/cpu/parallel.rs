//! How a launch is cut into pieces that threads take.
//!
//! Pieces depend on the work alone, never on the number of threads, so that a result does not either. Work too small
//! to pay for waking a thread stays on the caller's.

use std::{marker::PhantomData, ops::Range};

use rayon::prelude::*;

/// Elements below which a loop over memory stays on one thread.
pub(super) const GRAIN: usize = 32 << 10;

/// Runs `piece` for each of `0..count`, on all threads when `parallel`.
pub(super) fn pieces(count: usize, parallel: bool, piece: impl Fn(usize) + Sync + Send) {
    if parallel && count > 1 && rayon::current_num_threads() > 1 {
        (0..count).into_par_iter().with_max_len(1).for_each(piece);
    } else {
        (0..count).for_each(piece);
    }
}

/// Cuts `0..length` into ranges of about [`GRAIN`] elements, where an item of the range stands for `weight` elements,
/// and runs `piece` on each.
pub(super) fn ranges(length: usize, weight: usize, piece: impl Fn(Range<usize>) + Sync + Send) {
    let total = length * weight.max(1);
    if total < GRAIN {
        return piece(0..length);
    }
    // At least four pieces, so that a thread that comes late still finds one.
    let count = (total / GRAIN).max(4).min(length);
    let step = length.div_ceil(count);
    pieces(count, true, |i| {
        let range = (i * step).min(length)..((i + 1) * step).min(length);
        if !range.is_empty() {
            piece(range);
        }
    });
}

/// A slice that pieces write disjoint parts of.
#[derive(Debug)]
pub(in crate::backend) struct Shared<'a, T> {
    pointer: *mut T,
    length: usize,
    life: PhantomData<&'a mut [T]>,
}

// SAFETY: a `Shared` is a `&mut [T]` that several threads hold; `Shared::part` makes its callers promise disjointness.
unsafe impl<T: Send> Sync for Shared<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Shared<'_, T> {}

impl<'a, T> Shared<'a, T> {
    /// Shares a slice for the time of a launch.
    pub(in crate::backend) fn new(slice: &'a mut [T]) -> Self {
        Self { pointer: slice.as_mut_ptr(), length: slice.len(), life: PhantomData }
    }

    /// The elements of `range`.
    ///
    /// # Safety
    /// No two parts that are alive at once overlap.
    #[inline(always)]
    #[expect(clippy::mut_from_ref, reason = "disjointness is the caller's promise")]
    pub(in crate::backend) unsafe fn part(&self, range: Range<usize>) -> &mut [T] {
        assert!(range.start <= range.end && range.end <= self.length, "a part of the slice");
        // SAFETY: inside the slice by the assertion, disjoint by the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.pointer.add(range.start), range.len()) }
    }

    /// A pointer to an element, for kernels that stride.
    #[inline(always)]
    pub(super) fn pointer(&self, offset: usize) -> *mut T {
        debug_assert!(offset <= self.length, "inside the slice");
        self.pointer.wrapping_add(offset)
    }

    /// How many elements.
    pub(super) fn len(&self) -> usize {
        self.length
    }
}
