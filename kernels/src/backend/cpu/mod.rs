//! The backend of the processor: candle's storage and the engine's kernels.
//!
//! Each family of kernels has a file, which picks the function for the types of its operands. `Operands::new` checks the
//! number and the sizes of operands once, and the families rely on it. Refuses operands that no kernel supports with
//! [`Error::Kernel`].
//!
//! Owns the number of threads it runs on, and the [`Arena`] that the tensors of a run lie in. Elements live in candle's
//! [`CpuStorage`]; a kernel borrows them as slices. A new buffer holds arbitrary values: the caller that allocates it launches
//! a kernel that writes all of it before another kernel reads it. [`Cpu::read`](Backend::read) of an unwritten tensor is a bug
//! of the caller.

mod activation;
pub(in crate::backend) mod attention;
mod by_type;
pub mod bytes;
mod code;
pub mod coded;
mod convert;
pub(in crate::backend) mod convolution;
mod depthwise;
mod dropout;
mod elementwise;
mod embedding;
pub(in crate::backend) mod float;
mod fused;
mod gather;
pub(in crate::backend) mod gemm;
pub mod int8;
mod lanes;
mod layout;
mod linear;
mod loss;
pub(in crate::backend) mod matrix;
mod norm;
mod operands;
mod optimizer;
mod parallel;
mod pool;
mod prune;
mod rotary;
mod scratch;
mod simd;
mod sixteen;

use std::{
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::Arc,
};

use candle_core::CpuStorage;
use half::{bf16, f16};

use self::{
    float::Float,
    operands::Operands,
    scratch::{Block, Room},
};
use crate::{
    backend::{Backend, DType, HostSlice, Kernel, Tensor},
    bytes::Bytes,
    device::{Processor, Target},
    error::{Error, MemoryRefused, Problem, Result},
    memory::{Ticket, allocator::Place, arena::Arena, guard},
};

/// Kernels on the CPU, parallel over the rayon pool they are called in.
#[derive(Debug)]
pub struct Cpu {
    target: Target,
    arena: Option<Arena>,
    room: Arc<Room>,
}

impl Cpu {
    /// A backend whose kernels run on `threads` threads of the surrounding rayon pool.
    pub fn new(threads: usize) -> Self {
        let target = Target::Cpu(Processor::with_threads(threads));
        Self { target, arena: None, room: Room::new(threads) }
    }

    /// The same backend for a run whose ledger gives tensors places, `expected` bytes of them: they lie in an arena, if there
    /// is one.
    pub fn in_arena(threads: usize, expected: Bytes) -> Self {
        Self { arena: Arena::new(expected), ..Self::new(threads) }
    }

    /// The same backend with a gap behind each block, which nothing may write to: `None` if the system has no range of addresses
    /// for it.
    pub fn guarded(threads: usize) -> Option<Self> {
        Some(Self { arena: Some(Arena::guarded()?), ..Self::new(threads) })
    }

    /// The backend of a run: [guarded](Cpu::guarded) if the environment asks for it, and otherwise [in an arena](Cpu::in_arena).
    ///
    /// # Errors
    /// [`Error::Experiment`] if it asks where the system has no range of addresses.
    pub fn of_run(threads: usize, expected: Bytes) -> Result<Self> {
        if !guard::is_guarded() {
            return Ok(Self::in_arena(threads, expected));
        }
        let refused = || {
            let message =
                "a gap behind each block needs a range of addresses, and the system sets none aside for this process";
            Problem::new(guard::VARIABLE, message, "unset it, or lift the limit of the address space").into()
        };
        Self::guarded(threads).ok_or_else(refused)
    }

    /// What was done to a block that was written past, if blocks are guarded.
    fn look(&self) -> Option<String> {
        self.arena.as_ref().and_then(Arena::look)
    }

    /// A vector of `elements` with arbitrary values, at `place` if there is an arena.
    fn placed<T: Plain>(&self, elements: usize, place: Option<Place>) -> Result<Vec<T>> {
        let (Some(arena), 1..) = (&self.arena, elements) else { return unwritten(elements) };
        arena.vector(place, elements)?.map_or_else(|| unwritten(elements), |vector| Ok(whole(vector, elements)))
    }

    /// The block of the scratch that is booked for a launch, where tensors lie if they are in an arena.
    fn scratch(&self, booked: Option<&Ticket>) -> Result<Option<Block>> {
        let Some(booked) = booked else { return Ok(None) };
        let bytes = booked.bytes() as usize;
        let placed = self.arena.as_ref().map_or(Ok(None), |arena| arena.vector(booked.place(), bytes))?;
        Ok(Some(placed.map_or_else(|| Block::new(bytes), |vector| Block::placed(whole(vector, bytes)))))
    }
}

/// Allocates the buffers that libraries keep on every thread of the surrounding rayon pool, and maps the code of kernels, so that
/// a later measurement sees only the memory of a launch. The gemm crate keeps a packing buffer of the size of the second-level
/// cache on each thread. False if the system maps code only as it is called.
pub fn warm_up() -> bool {
    rayon::broadcast(|_| gemm::warm_up_once());
    code::map()
}

impl Tensor<Cpu> {
    /// Puts other elements in place of the tensor's, and returns the old ones.
    pub fn replace_storage(&self, with: CpuStorage) -> CpuStorage {
        self.storage().replace(with)
    }
}

impl Backend for Cpu {
    type Storage = CpuStorage;

    fn allocate(&self, elements: usize, dtype: DType, place: Option<Place>) -> Result<CpuStorage> {
        Ok(match dtype {
            DType::F64 => CpuStorage::F64(self.placed(elements, place)?),
            DType::F32 => CpuStorage::F32(self.placed(elements, place)?),
            DType::Bf16 => CpuStorage::BF16(self.placed(elements, place)?),
            DType::F16 => CpuStorage::F16(self.placed(elements, place)?),
            DType::U32 => CpuStorage::U32(self.placed(elements, place)?),
            DType::U8 => CpuStorage::U8(self.placed(elements, place)?),
        })
    }

    fn launch(
        &self,
        kernel: &Kernel,
        inputs: &[&Tensor<Self>],
        outputs: &[&Tensor<Self>],
        scratch: Option<&Ticket>,
    ) -> Result<()> {
        refusable(|| {
            self.room.during(self.scratch(scratch)?, || {
                let o = Operands::new(kernel, inputs, outputs)?;
                dispatch(kernel, &o)
            })
        })?;
        let overrun = |message| Err(Error::Kernel { op: kernel.name(), layer: String::new(), message });
        self.look().map_or(Ok(()), overrun)
    }

    fn name(&self, name: &dyn Fn() -> String) {
        self.arena.iter().for_each(|arena| arena.name(name));
    }

    fn write(&self, tensor: &Tensor<Self>, source: HostSlice<'_>) -> Result<()> {
        let mut storage = tensor.storage().borrow_mut();
        let place = tensor.place();
        let written = tensor.elements() == source.len()
            && match (&mut *storage, source) {
                (CpuStorage::F64(to), HostSlice::F32(from)) => convert(from, &mut to[place]),
                (CpuStorage::F32(to), HostSlice::F32(from)) => copy(from, &mut to[place]),
                (CpuStorage::BF16(to), HostSlice::F32(from)) => convert::<bf16>(from, &mut to[place]),
                (CpuStorage::F16(to), HostSlice::F32(from)) => convert::<f16>(from, &mut to[place]),
                (CpuStorage::U32(to), HostSlice::U32(from)) => copy(from, &mut to[place]),
                (CpuStorage::U8(to), HostSlice::U8(from)) => copy(from, &mut to[place]),
                (to, HostSlice::Rounded(from, dtype)) if dtype == tensor.dtype() => {
                    bytes::of_mut(to, place).is_some_and(|to| copy(from, to))
                }
                _ => false,
            };
        if written { Ok(()) } else { Err(unwritable(tensor, source)) }
    }

    fn read(&self, tensor: &Tensor<Self>) -> Result<Option<Vec<f64>>> {
        let place = tensor.place();
        Ok(Some(match &*tensor.storage().borrow() {
            CpuStorage::F64(v) => v[place].to_vec(),
            CpuStorage::F32(v) => v[place].iter().map(|&x| f64::from(x)).collect(),
            CpuStorage::BF16(v) => v[place].iter().map(|&x| f64::from(x)).collect(),
            CpuStorage::F16(v) => v[place].iter().map(|&x| f64::from(x)).collect(),
            CpuStorage::U32(v) => v[place].iter().map(|&x| f64::from(x)).collect(),
            CpuStorage::U8(v) => v[place].iter().map(|&x| f64::from(x)).collect(),
            _ => return Err(unused(tensor)),
        }))
    }

    fn read_bytes(&self, tensor: &Tensor<Self>, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        take(bytes::of(&tensor.storage().borrow(), tensor.place()).ok_or_else(|| unused(tensor))?)
    }

    fn write_bytes(&self, tensor: &Tensor<Self>, fill: &mut dyn FnMut(&mut [u8]) -> Result<()>) -> Result<()> {
        fill(bytes::of_mut(&mut tensor.storage().borrow_mut(), tensor.place()).ok_or_else(|| unused(tensor))?)
    }

    fn target(&self) -> &Target {
        &self.target
    }

    fn step_ended(&self) -> Result<()> {
        self.look().map_or(Ok(()), |overrun| Err(Error::Misused(format!("what is no kernel {overrun}"))))
    }

    fn give_back(&self, pages: Range<u64>) -> Result<()> {
        self.arena.as_ref().map_or(Ok(()), |arena| arena.give_back(pages))
    }
}

/// Runs a kernel by its family.
fn dispatch(kernel: &Kernel, o: &Operands<'_>) -> Result<()> {
    match kernel {
        Kernel::Activation(kernel) => activation::launch(kernel, o),
        Kernel::Attention(kernel) => attention::launch(kernel, o),
        Kernel::Coded(kernel) => coded::launch(kernel, o),
        Kernel::Convolution(kernel) => convolution::launch(kernel, o),
        Kernel::Depthwise(kernel) => depthwise::launch(kernel, o),
        Kernel::Dropout(kernel) => dropout::launch(kernel, o),
        Kernel::Elementwise(kernel) => elementwise::launch(kernel, o),
        Kernel::Embedding(kernel) => embedding::launch(kernel, o),
        Kernel::Fused(kernel) => fused::launch(kernel, o),
        Kernel::Gather(kernel) => gather::launch(kernel, o),
        Kernel::Int8(kernel) => int8::launch(kernel, o),
        Kernel::Layout(kernel) => layout::launch(kernel, o),
        Kernel::Linear(kernel) => linear::launch(kernel, o),
        Kernel::Loss(kernel) => loss::launch(kernel, o),
        Kernel::Norm(kernel) => norm::launch(kernel, o),
        Kernel::Optimizer(kernel) => optimizer::launch(kernel, o),
        Kernel::Pool(kernel) => pool::launch(kernel, o),
        Kernel::Prune(kernel) => prune::launch(kernel, o),
        Kernel::Rotary(kernel) => rotary::launch(kernel, o),
    }
}

/// The system's refusal of a kernel's scratch, on its way up from a thread that runs a piece of the kernel.
pub(in crate::backend) struct ScratchRefused {
    pub(in crate::backend) asked: Bytes,
}

/// Runs a kernel, and turns a refusal of its scratch into an error.
fn refusable(launch: impl FnOnce() -> Result<()>) -> Result<()> {
    // The error ends the run, and drops tensors that the kernel may have left half written.
    catch_unwind(AssertUnwindSafe(launch)).unwrap_or_else(|panic| match panic.downcast::<ScratchRefused>() {
        Ok(refused) => Err(MemoryRefused::of(refused.asked).into()),
        Err(panic) => resume_unwind(panic),
    })
}

/// Types for which any bytes are a valid value.
pub(in crate::backend) trait Plain: bytemuck::Pod {}
impl Plain for f64 {}
impl Plain for f32 {}
impl Plain for bf16 {}
impl Plain for f16 {}
impl Plain for u64 {}
impl Plain for u32 {}
impl Plain for u8 {}
impl Plain for i32 {}
impl Plain for i16 {}

/// A vector of `elements` with arbitrary values.
fn unwritten<T: Plain>(elements: usize) -> Result<Vec<T>> {
    let mut vector = Vec::new();
    vector.try_reserve_exact(elements).map_err(|_| MemoryRefused::of(Bytes((elements * size_of::<T>()) as u64)))?;
    Ok(whole(vector, elements))
}

/// The vector, once it has `elements` with arbitrary values, for which it has room.
fn whole<T: Plain>(mut vector: Vec<T>, elements: usize) -> Vec<T> {
    assert!(elements <= vector.capacity(), "room for the elements");
    // SAFETY: the capacity is there, and its elements are values once they are taken as they are.
    unsafe {
        scratch::take_as_it_is::<T>(vector.as_mut_ptr(), elements);
        vector.set_len(elements);
    }
    vector
}

fn copy<T: Copy>(from: &[T], to: &mut [T]) -> bool {
    to.copy_from_slice(from);
    true
}

fn convert<T: Float>(from: &[f32], to: &mut [T]) -> bool {
    let from_f64 = |x: f32| T::from_f64(f64::from(x));
    for (to, &from) in to.iter_mut().zip(from) {
        *to = from_f64(from);
    }
    true
}

fn unused(tensor: &Tensor<Cpu>) -> Error {
    Error::Misused(format!("{tensor:?} has elements of a type the engine does not use"))
}

fn unwritable(tensor: &Tensor<Cpu>, source: HostSlice<'_>) -> Error {
    let (count, kind) = match source {
        HostSlice::F32(s) => (s.len(), "f32"),
        HostSlice::U32(s) => (s.len(), "u32"),
        HostSlice::U8(s) => (s.len(), "u8"),
        HostSlice::Rounded(_, dtype) => (source.len(), dtype.name()),
    };
    Error::Kernel { op: "upload", layer: String::new(), message: format!("{count} numbers of {kind} to {tensor:?}") }
}

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests;
