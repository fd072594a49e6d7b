//! Room that a kernel makes itself, within what its scratch rule states.

use std::{
    alloc::{self, Layout},
    panic::resume_unwind,
    ptr::NonNull,
};

use crate::{
    backend::cpu::{Plain, ScratchRefused},
    bytes::Bytes,
};

/// Room for what a piece of work makes aside; not initialised with anything but left-overs of no meaning.
pub(super) struct Scratch<A> {
    pointer: NonNull<A>,
    length: usize,
}

// SAFETY: it owns its elements, as a vector does.
unsafe impl<A: Send> Send for Scratch<A> {}
// SAFETY: as above.
unsafe impl<A: Sync> Sync for Scratch<A> {}

impl<A> Scratch<A> {
    /// Alignment that vector loads like.
    const ALIGNMENT: usize = 64;

    fn block(length: usize) -> Layout {
        Layout::from_size_align(length * size_of::<A>(), Self::ALIGNMENT).expect("a few hundred KiB at most")
    }
}

impl<A: Plain> Scratch<A> {
    /// Room for `length` elements.
    pub(super) fn new(length: usize) -> Self {
        if length == 0 {
            return Self { pointer: NonNull::dangling(), length };
        }
        let block = Self::block(length);
        // SAFETY: the block is not empty.
        let pointer = unsafe { alloc::alloc(block) };
        let Some(pointer) = NonNull::new(pointer.cast()) else {
            // Without the panic hook, which would print a trace: whoever launched the kernel makes an error of it.
            resume_unwind(Box::new(ScratchRefused { asked: Bytes(block.size() as u64) }));
        };
        Self { pointer, length }
    }

    /// The elements. Every bit pattern is a number, and who reads one wrote it before.
    pub(super) fn elements(&mut self) -> &mut [A] {
        // SAFETY: the block holds `length` elements, or none.
        unsafe { std::slice::from_raw_parts_mut(self.pointer.as_ptr(), self.length) }
    }
}

impl<A> Drop for Scratch<A> {
    fn drop(&mut self) {
        if self.length > 0 {
            // SAFETY: allocated in `new` with this layout.
            unsafe { alloc::dealloc(self.pointer.as_ptr().cast(), Self::block(self.length)) };
        }
    }
}
