//! Scratch of the pieces of a kernel, out of the [`Room`] of its launch.

mod room;

use std::{
    alloc::{self, Layout},
    mem::ManuallyDrop,
    panic::resume_unwind,
    ptr::NonNull,
    sync::Arc,
};

pub(super) use self::room::{Room, current, enter};
use crate::{
    backend::cpu::{Plain, ScratchRefused},
    bytes::Bytes,
    memory::lent,
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
    /// The room that it lies in.
    room: Option<Arc<Room>>,
    /// Its own block, where it lies in no room and has elements.
    _block: Option<Block>,
}

// SAFETY: it owns its elements, as a vector does.
unsafe impl<A: Send> Send for Scratch<A> {}
// SAFETY: as above.
unsafe impl<A: Sync> Sync for Scratch<A> {}

impl<A: Plain> Scratch<A> {
    /// Room for `length` elements: in the room of the launch, or a block of its own where no launch is under way.
    pub(super) fn new(length: usize) -> Self {
        if length == 0 {
            return Self { pointer: NonNull::dangling(), length, room: None, _block: None };
        }
        let bytes = Layout::array::<A>(length).expect(TOO_LONG).size();
        let part = current().and_then(|room| Some((room.take(bytes, align_of::<A>())?, room)));
        debug_assert!(part.is_some() || current().is_none(), "{bytes} bytes of scratch are not booked");
        if let Some((part, room)) = part {
            return Self { pointer: part.cast(), length, room: Some(room), _block: None };
        }
        let block = Block::new(bytes);
        Self { pointer: block.start.cast(), length, room: None, _block: Some(block) }
    }

    /// The elements.
    pub(super) fn elements(&mut self) -> &mut [A] {
        // SAFETY: what it lies in holds `length` elements, or none, and each is a value since the block was made.
        unsafe { std::slice::from_raw_parts_mut(self.pointer.as_ptr(), self.length) }
    }
}

/// Runs a piece of work that has scratch for `length` elements, and lends `bytes` more to a library that it calls.
pub(super) fn lending<A: Plain, R>(length: usize, bytes: usize, work: impl FnOnce(&mut [A]) -> R) -> R {
    let mut scratch = Scratch::<A>::new(length + bytes.div_ceil(size_of::<A>()));
    let (elements, rest) = scratch.elements().split_at_mut(length);
    lent::within(bytemuck::cast_slice_mut(rest), || work(elements))
}

impl<A> Drop for Scratch<A> {
    fn drop(&mut self) {
        if let Some(room) = &self.room {
            room.give_back(self.pointer.cast());
        }
    }
}

/// Alignment that vector loads like.
const ALIGNMENT: usize = 64;

/// What an extent is that no block has.
const TOO_LONG: &str = "less than an address space";

/// A block whose bytes have arbitrary values at first.
#[derive(Debug)]
pub(super) struct Block {
    start: NonNull<u8>,
    bytes: usize,
    /// Whether it is a vector of the arena.
    is_placed: bool,
}

// SAFETY: it owns its bytes, as a vector does.
unsafe impl Send for Block {}

impl Block {
    /// A block of `bytes`, at least one. A refusal of the system unwinds to the launch, which turns it into an error.
    pub(super) fn new(bytes: usize) -> Self {
        assert!(bytes > 0, "bytes of a block");
        // SAFETY: the layout is not empty. A block that is there has so many bytes, which are ours to write.
        let start = unsafe {
            let start = NonNull::new(alloc::alloc(Self::layout(bytes)));
            start.inspect(|start| take_as_it_is(start.as_ptr(), bytes))
        };
        let Some(start) = start else {
            // Without the panic hook, which would print a trace.
            resume_unwind(Box::new(ScratchRefused { asked: Bytes(bytes as u64) }));
        };
        Self { start, bytes, is_placed: false }
    }

    /// The block that a vector of the arena is, whose places are aligned. Not empty.
    pub(super) fn placed(memory: Vec<u8>) -> Self {
        let mut memory = ManuallyDrop::new(memory);
        assert!(!memory.is_empty() && memory.len() == memory.capacity(), "bytes of a block");
        let start = NonNull::new(memory.as_mut_ptr()).expect("a vector's");
        assert!(start.addr().get().is_multiple_of(ALIGNMENT), "places are aligned");
        Self { start, bytes: memory.len(), is_placed: true }
    }

    fn layout(bytes: usize) -> Layout {
        Layout::from_size_align(bytes, ALIGNMENT).expect(TOO_LONG)
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: it was a vector of so many bytes in `placed`, or was allocated in `new` with this layout.
        unsafe {
            match self.is_placed {
                true => drop(Vec::from_raw_parts(self.start.as_ptr(), 0, self.bytes)),
                false => alloc::dealloc(self.start.as_ptr(), Self::layout(self.bytes)),
            }
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
        memory::{
            Category, Ledger, arena,
            host::{LimitedBy, Line},
        },
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

    #[cfg(all(target_os = "linux", not(miri)))]
    #[test]
    fn scratch_that_is_booked_lies_where_tensors_do_and_goes_with_its_launch() {
        let cpu = Cpu::in_arena(1, Bytes(1 << 20));
        let line = Line { bytes: Bytes(u64::MAX), limited_by: LimitedBy::Budget };
        let ledger = Ledger::within(line, true);
        let booked = [1, 100, 65_536].map(|bytes| ledger.take(bytes, Category::Scratch, "scratch").expect("no line"));
        let blocks = booked.each_ref().map(|ticket| cpu.scratch(Some(ticket)).expect("a place").expect("a block"));
        for (block, ticket) in blocks.iter().zip(&booked) {
            assert!(arena::has(block.start.as_ptr()) && block.bytes as u64 == ticket.bytes(), "{block:?}");
        }
        drop(blocks);
        // The places are free again: a block that stayed would refuse another one there.
        assert!(cpu.scratch(Some(&booked[1])).is_ok_and(|block| block.is_some()));
        assert!(cpu.scratch(None).is_ok_and(|block| block.is_none()));
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
