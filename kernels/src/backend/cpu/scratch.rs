//! Scratch that a kernel allocates itself, within the bytes of its scratch rule.

use std::{
    alloc::{self, Layout},
    panic::resume_unwind,
    ptr::NonNull,
};

use crate::{
    backend::cpu::{Plain, ScratchRefused},
    bytes::Bytes,
};

/// Makes uninitialised memory count as initialised with arbitrary values, as a reference to it requires. It writes nothing,
/// because that would cost as much as the kernel that writes the memory next.
///
/// # Safety
/// `length` elements at `pointer` are the caller's to write.
pub(super) unsafe fn take_as_it_is<T: Plain>(pointer: *mut T, length: usize) {
    // SAFETY: zeros are values. Assembly that is given a pointer may write to it, so the compiler has to treat that memory
    // as written; any bytes are a `Plain`, and the C library does not change the bytes of a block in use.
    unsafe {
        if cfg!(miri) || !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
            pointer.write_bytes(0, length);
        }
        #[cfg(all(not(miri), any(target_arch = "x86_64", target_arch = "aarch64")))]
        std::arch::asm!("/* {0} */", in(reg) pointer, options(nostack, preserves_flags));
    }
}

/// Scratch of a piece of work. Its elements have arbitrary values at first.
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
        // SAFETY: the block is not empty, and where it was given it is ours.
        let pointer = unsafe {
            let pointer = alloc::alloc(block).cast::<A>();
            if !pointer.is_null() {
                take_as_it_is(pointer, length);
            }
            pointer
        };
        let Some(pointer) = NonNull::new(pointer) else {
            // Without the panic hook, which would print a trace: the launch turns the panic into an error.
            resume_unwind(Box::new(ScratchRefused { asked: Bytes(block.size() as u64) }));
        };
        Self { pointer, length }
    }

    /// The elements.
    pub(super) fn elements(&mut self) -> &mut [A] {
        // SAFETY: the block holds `length` elements, or none, and each is a value since the block was made.
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

#[cfg(test)]
mod tests {
    use rayon::prelude::*;

    use super::*;
    use crate::{
        backend::{
            Backend, DType, Executor,
            cpu::{Cpu, refusable},
        },
        error::{Error, MemoryRefused},
        memory::{Category, Ledger},
        tensor::MAX_ELEMENTS,
    };

    /// More bytes than an address space has.
    const TOO_MANY: usize = 1 << 48;

    #[test]
    fn scratch_that_the_system_refuses_is_the_kernels_error_on_any_thread() {
        let asked = Bytes((TOO_MANY * size_of::<f64>()) as u64);
        let refused = Err(Error::MemoryRefused(MemoryRefused::of(asked)));
        let ask = || drop(Scratch::<f64>::new(TOO_MANY));
        let alone = refusable(|| {
            ask();
            Ok(())
        });
        assert_eq!(alone, refused);
        let on_threads = refusable(|| {
            (0..64).into_par_iter().for_each(|_| ask());
            Ok(())
        });
        assert_eq!(on_threads, refused);
    }

    #[test]
    fn a_tensor_that_the_system_refuses_is_an_error_with_its_place_and_leaves_nothing() {
        let executor = Executor::new(Cpu::new(1), Ledger::new(None, false));
        executor.ledger().set_op("matmul");
        let _layer = executor.enter(executor.ledger().layer_id("block1/dense"));
        let refused = executor.allocate([MAX_ELEMENTS], DType::F64, Category::Activations, "output");
        let error = refused.expect_err("no machine has so much");
        let asked = Bytes((MAX_ELEMENTS * DType::F64.size()) as u64);
        let place = format!("block1/dense, matmul: the system refused {asked} for output");
        assert!(error.to_string().starts_with(&place), "{error}");
        assert_eq!(executor.ledger().live(), Bytes(0));
        assert!(executor.backend().target().profile().is_none());
    }
}
