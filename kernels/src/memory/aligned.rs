//! Blocks of the heap that are aligned to more than the C library aligns by itself.
//!
//! The GNU C library cuts such a block out of a larger one, and keeps the ends for small requests of the same thread. The ends
//! then lie between blocks of scratch. When those are freed, their holes cannot join, so a larger scratch fits in none of them,
//! and heaps grow to several times what is alive on them. Here the ends stay part of the block. Always holds: the word before a
//! block is the address of the whole that it lies in.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    ptr,
};

/// The multiple that every block of the C library begins at.
const BY_ITSELF: usize = 16;
/// The largest alignment that is made here: that of vectors and of lines of a cache.
const MOST: usize = 128;

/// Whether a block of this layout is made here.
#[inline]
pub(super) fn is_here(layout: Layout) -> bool {
    let is_between = layout.align() > BY_ITSELF && layout.align() <= MOST;
    is_between && cfg!(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))
}

/// The block that one of this layout lies in; `None` if no system has so much memory.
fn whole(layout: Layout) -> Option<Layout> {
    Layout::from_size_align(layout.size().checked_add(layout.align())?, BY_ITSELF).ok()
}

/// A block in a whole that `ask` allocates; null if that is.
pub(super) fn alloc(layout: Layout, ask: impl FnOnce(Layout) -> *mut u8) -> *mut u8 {
    let start = whole(layout).map_or(ptr::null_mut(), ask);
    if start.is_null() {
        return start;
    }
    // The start is a multiple of 16, so at least 16 bytes lie before the block, and at most its alignment.
    let before = layout.align() - start.addr() % layout.align();
    // SAFETY: the whole is longer than the block by the alignment. The word before the block lies in it and is aligned.
    unsafe {
        let block = start.add(before);
        block.cast::<*mut u8>().sub(1).write(start);
        block
    }
}

/// The start of the whole that a block lies in.
///
/// # Safety
/// The block came from [`alloc`] and is alive.
pub(super) unsafe fn start(block: *mut u8) -> *mut u8 {
    // SAFETY: the word before a living block is the address of its whole.
    unsafe { block.cast::<*mut u8>().sub(1).read() }
}

/// Gives a block back.
///
/// # Safety
/// The block came from [`alloc`] with this layout, is alive, and is not used any more.
pub(super) unsafe fn dealloc(block: *mut u8, layout: Layout) {
    let Some(whole) = whole(layout) else { return };
    // SAFETY: the whole was allocated with this layout.
    unsafe { System.dealloc(start(block), whole) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_aligned_and_come_back_whole() {
        for align in [32, 64, 128] {
            for size in [1, 63, 64, 4096, 100_000] {
                let layout = Layout::from_size_align(size, align).expect("a layout");
                // SAFETY: the layout is not empty; the block is written inside its size and given back once.
                unsafe {
                    let block = alloc(layout, |whole| System.alloc_zeroed(whole));
                    assert!(!block.is_null() && block.addr().is_multiple_of(align));
                    let before = block.addr() - start(block).addr();
                    assert!((16..=align).contains(&before), "{before}");
                    assert!((0..size).all(|at| block.add(at).read() == 0));
                    block.write_bytes(7, size);
                    dealloc(block, layout);
                }
            }
        }
        let beyond = Layout::from_size_align(isize::MAX as usize - 127, 128).expect("a layout");
        assert!(alloc(beyond, |_| unreachable!("no system has so much")).is_null());
    }
}
