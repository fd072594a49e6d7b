//! Blocks of the heap that are aligned to more than the C library aligns by itself.
//!
//! The GNU C library cuts such a block out of a larger one, and keeps the ends for small requests of the same thread. The ends
//! then lie between blocks of scratch. When those are freed, their holes cannot join, so a larger scratch fits in none of them,
//! and heaps grow to several times what is alive on them. Here the ends stay part of the block. Always holds: the word before a
//! block is the address of the whole that it lies in.

use std::{alloc::Layout, ptr};

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

/// The layout of the whole that a block of this layout lies in; `None` if no system has so much memory.
pub(super) fn whole(layout: Layout) -> Option<Layout> {
    Layout::from_size_align(layout.size().checked_add(layout.align())?, BY_ITSELF).ok()
}

/// A block in a whole that `ask` allocates; null if that is.
pub(super) fn alloc(layout: Layout, ask: impl FnOnce(Layout) -> *mut u8) -> *mut u8 {
    let start = whole(layout).map_or(ptr::null_mut(), ask);
    if start.is_null() {
        return start;
    }
    // The start is a multiple of 16, so at least 16 bytes lie before the block, and at most its alignment.
    let block = start.wrapping_add(layout.align() - start.addr() % layout.align());
    // SAFETY: the whole is longer than the block by the alignment. The word before the block lies in it and is aligned.
    unsafe { note(block).write(start) };
    block
}

/// Where the start of the whole that a block lies in is noted: the word before it, for as long as the block is alive.
pub(super) fn note(block: *mut u8) -> *mut *mut u8 {
    block.cast::<*mut u8>().wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_aligned_and_note_the_whole_that_they_lie_in() {
        for align in [32, 64, 128] {
            for size in [1, 63, 64, 4096, 100_000] {
                let layout = Layout::from_size_align(size, align).expect("a layout");
                let (mut memory, mut length) = (vec![0_u128; (size + align) / BY_ITSELF + 1], 0);
                let start = memory.as_mut_ptr().cast::<u8>();
                let block = alloc(layout, |whole| {
                    length = whole.size();
                    start
                });
                let before = block.addr() - start.addr();
                assert!(block.addr().is_multiple_of(align) && (16..=align).contains(&before), "{before}");
                assert!(before + size <= length && length <= size_of_val(memory.as_slice()), "{length}");
                let words: &[usize] = bytemuck::cast_slice(&memory);
                assert_eq!(words[before / size_of::<usize>() - 1], start.addr());
            }
        }
        let beyond = Layout::from_size_align(isize::MAX as usize - 127, 128).expect("a layout");
        assert!(alloc(beyond, |_| unreachable!("no system has so much")).is_null());
    }
}
