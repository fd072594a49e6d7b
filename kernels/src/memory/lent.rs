//! Memory that a piece of work lends to a library for the time of a call, in place of the heap's.
//!
//! A library that allocates in every call takes as much of the heap as threads happen to call it at once, which is another
//! amount in every run. Out of memory that each piece holds from its start, it takes none.
//!
//! Owns, for each thread, what is lent and how much of it is taken. Always holds: a block is lent only during a call, and all
//! blocks are back when it ends; otherwise the program ends, because the memory has other uses then. Serves only blocks like
//! those that are packed into: aligned to a line of a cache, or zeroed. The words of a panic, which outlive the call, are
//! neither.

use std::{alloc::Layout, cell::Cell, ptr};

/// Blocks with less alignment are the heap's.
const LINE: usize = 64;

/// What is lent on this thread.
#[derive(Clone, Copy)]
struct Lent {
    /// The first byte that is not taken.
    at: *mut u8,
    start: *mut u8,
    end: *mut u8,
    /// Blocks that are taken.
    blocks: usize,
    /// Whether a call is under way.
    is_open: bool,
}

const NOTHING: Lent =
    Lent { at: ptr::null_mut(), start: ptr::null_mut(), end: ptr::null_mut(), blocks: 0, is_open: false };

thread_local! {
    static LENT: Cell<Lent> = const { Cell::new(NOTHING) };
}

/// What was lent before, which is lent again when this goes.
struct Before(Lent);

impl Drop for Before {
    fn drop(&mut self) {
        LENT.set(self.0);
    }
}

/// Runs `work`, whose calls of [`during`] may take their blocks out of `memory`.
pub fn within<R>(memory: &mut [u8], work: impl FnOnce() -> R) -> R {
    let bytes = memory.as_mut_ptr_range();
    let _before = Before(LENT.replace(Lent { at: bytes.start, start: bytes.start, end: bytes.end, ..NOTHING }));
    work()
}

/// Runs `work` with nothing lent.
pub fn without<R>(work: impl FnOnce() -> R) -> R {
    within(&mut [], work)
}

/// Whether something is lent on this thread.
pub fn is_there() -> bool {
    let lent = LENT.get();
    lent.start != lent.end
}

/// Calls a library, which allocates nothing that outlives the call.
pub fn during<R>(call: impl FnOnce() -> R) -> R {
    struct Call;
    impl Drop for Call {
        fn drop(&mut self) {
            let lent = LENT.get();
            if lent.blocks != 0 {
                // A block of it would be used after the memory has gone to another piece.
                std::process::abort();
            }
            LENT.set(Lent { at: lent.start, is_open: false, ..lent });
        }
    }
    LENT.set(Lent { is_open: true, ..LENT.get() });
    let _call = Call;
    call()
}

/// A block of what is lent, if a call is under way, the block is one that is lent and there is room for it.
pub(super) fn take(layout: Layout, is_zeroed: bool) -> Option<*mut u8> {
    if layout.align() < LINE && !is_zeroed {
        return None;
    }
    let lent = LENT.try_with(Cell::get).ok().filter(|lent| lent.is_open)?;
    let before = lent.at.align_offset(layout.align());
    let room = lent.end.addr() - lent.at.addr();
    if before.checked_add(layout.size())? > room {
        return None;
    }
    let block = lent.at.wrapping_add(before);
    if is_zeroed {
        // SAFETY: the block ends inside the memory that is lent, which this thread alone writes to.
        unsafe { block.write_bytes(0, layout.size()) };
    }
    LENT.set(Lent { at: block.wrapping_add(layout.size()), blocks: lent.blocks + 1, ..lent });
    Some(block)
}

/// Whether a block is one of what is lent.
pub(super) fn has(block: *mut u8) -> bool {
    LENT.try_with(Cell::get).is_ok_and(|lent| lent.is_open && (lent.start..lent.end).contains(&block))
}

/// Takes a block back that [`has`] knows.
pub(super) fn give_back() {
    let lent = LENT.get();
    let blocks = lent.blocks - 1;
    LENT.set(Lent { at: if blocks == 0 { lent.start } else { lent.at }, blocks, ..lent });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::probe::{Meter, meter_this_thread};

    #[derive(Clone, Copy)]
    #[repr(align(64))]
    struct Line(#[expect(dead_code, reason = "bytes that nothing reads")] [u8; 64]);

    #[derive(Clone, Copy)]
    #[repr(align(128))]
    struct Lines(#[expect(dead_code, reason = "bytes that nothing reads")] [u8; 128]);

    /// Allocates a block of `count` elements, looks where it lies, and frees it.
    fn is_lent<T>(count: usize) -> bool {
        let mut block = Vec::<T>::with_capacity(count);
        let start = std::hint::black_box(block.as_mut_ptr()).cast::<u8>();
        assert!(start.addr().is_multiple_of(align_of::<T>()));
        has(start)
    }

    /// Allocates zeros, looks where they lie, and frees them.
    fn zeros_are_lent(count: usize) -> bool {
        let mut zeros = vec![0_u8; count];
        assert!(zeros.iter().all(|zero| *zero == 0));
        has(zeros.as_mut_ptr())
    }

    #[test]
    fn a_call_takes_its_blocks_out_of_what_is_lent_and_the_heap_gives_none() {
        let mut memory = vec![7; 10_000];
        let meter = Meter::new();
        assert!(!during(|| is_lent::<Lines>(1)), "nothing is lent");
        within(&mut memory, || {
            assert!(is_there() && !without(is_there));
            assert!(!is_lent::<Lines>(1), "no call is under way");
            meter_this_thread(Some(meter));
            let of_call = during(|| [is_lent::<Lines>(70), is_lent::<Line>(140), zeros_are_lent(100)]);
            let of_heap = meter.peak().live;
            let of_others = during(|| [is_lent::<u64>(13), is_lent::<Line>(157), zeros_are_lent(10_001)]);
            meter_this_thread(None);
            assert_eq!((of_call, of_others), ([true; 3], [false; 3]));
            assert_eq!((of_heap.0, meter.peak().live.0 > 10_000, meter.now().live.0), (0, true, 0));
        });
        assert!(!is_there() && memory.iter().any(|byte| *byte != 7));
    }

    #[test]
    fn blocks_of_a_call_do_not_overlap() {
        let mut memory = vec![0; 4096];
        within(&mut memory, || {
            during(|| {
                let blocks: Vec<Vec<u8>> = (1..=5).map(|n| vec![0; 100 * n]).collect();
                let mut places: Vec<_> = blocks.iter().map(|block| block.as_ptr_range()).collect();
                places.sort_by_key(|place| place.start);
                assert!(places.windows(2).all(|pair| pair[0].end <= pair[1].start));
                assert!(blocks.iter().all(|block| has(block.as_ptr().cast_mut())));
            });
        });
    }
}
