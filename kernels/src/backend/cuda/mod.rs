//! The backend of NVIDIA GPUs: memory with a limit, products by cuBLAS, cuBLASLt and cuDNN, everything else by the
//! engine's own kernels.
//!
//! Built on the driver's own interface (through cudarc) and opened at run time, so that the program needs nothing of
//! CUDA to build or to start. A family of kernels is a pair of files, `.rs` (which launches) and `.cu` (what runs),
//! compiled by NVRTC when it is first needed. Always holds: all calls come from the thread that opened the [`Device`];
//! the host waits for the device only where numbers are due ([`Backend::read`]; what [`Backend::fetch`] brings, when it
//! is asked for or let go), where more copies to the device are under way than there are pieces of page-locked memory
//! ([`Backend::write`]), and where the pool gives memory back ([`Backend::step_ended`], if that is chosen, and the end
//! of a run). Refuses: what crosses the pool's limit ([`Error::Budget`]), what the card has no room for
//! ([`Error::DeviceFull`]), and operands that no kernel supports ([`Error::Kernel`]).

mod activation;
mod arena;
pub mod attention;
#[cfg(feature = "candle-cuda")]
mod candle;
mod coded;
mod convolution;
mod depthwise;
mod device;
mod driver_pool;
mod dropout;
mod elementwise;
mod embedding;
mod epilogue;
mod fault;
mod fused;
mod gather;
mod gemm;
mod graph;
mod guard;
mod handle;
mod instead;
mod int8;
mod kept;
mod launch;
mod layout;
pub mod library;
mod linear;
mod loss;
mod memory_pool;
mod module;
mod norm;
mod opened;
mod operands;
mod optimizer;
mod pool;
pub mod pool_manners;
mod prune;
mod rotary;
mod space;
mod stream;
mod threads;
mod transfer;
mod virtual_memory;
mod work;

use std::{cell::Cell, rc::Rc, sync::Arc};

use half::{bf16, f16};

pub use self::{
    device::{Device, describe},
    memory_pool::Pool,
};
use self::{
    gemm::Blas,
    launch::{Pointer, args},
    module::{Source, Types},
    operands::Operands,
    transfer::{Parcel, Staging},
};
use crate::{
    backend::{Backend, DType, HostSlice, Kernel, PendingReadback, Readback, Tensor},
    bytes::Bytes,
    device::{Profile, Target, graphs},
    error::{DeviceLost, Error, Result},
    memory::{Ticket, allocator::Place},
};

/// Every source of kernels.
const SOURCES: &[&Source] = &[
    &activation::SOURCE,
    &activation::swiglu::SOURCE,
    &attention::CACHED,
    &attention::FORWARD,
    &attention::GRADIENT,
    &attention::TENSOR,
    &coded::SOURCE,
    &convolution::direct::SOURCE,
    &convolution::patches::SOURCE,
    &depthwise::SOURCE,
    &dropout::SOURCE,
    &elementwise::SOURCE,
    &embedding::SORT,
    &embedding::SOURCE,
    &fused::bias::SOURCE,
    &fused::channels::SOURCE,
    &fused::sum::SOURCE,
    &gather::SOURCE,
    &int8::SOURCE,
    &layout::SOURCE,
    &layout::transpose::SOURCE,
    &linear::SOURCE,
    &loss::SOURCE,
    &norm::batch::SOURCE,
    &norm::row::SOURCE,
    &optimizer::SOURCE,
    &optimizer::adafactor::SOURCE,
    &optimizer::apollo::SOURCE,
    &optimizer::flash::SOURCE,
    &optimizer::four_bit::SOURCE,
    &optimizer::quantised::SOURCE,
    &optimizer::several::SOURCE,
    &optimizer::gradient_norm::SOURCE,
    &pool::SOURCE,
    &prune::SOURCE,
    &rotary::SOURCE,
];

/// How a GPU is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Options {
    /// What no tensor lies in goes back to the driver after each step.
    pub gives_back: bool,
    /// Products of f32 with operands rounded to TF32.
    pub tf32: bool,
    /// Whether only algorithms whose sums have a fixed order are used.
    pub deterministic: bool,
    /// Each block is one of the driver's own, with a gap behind it that nothing may write to. It takes more memory than was
    /// planned, and time.
    pub guarded: bool,
    /// Attention in bf16 and f16 by tensor cores.
    pub tensor_cores: bool,
}

/// Kernels on a GPU.
pub struct Cuda {
    pool: Rc<Pool>,
    staging: Staging,
    target: Target,
    options: Options,
    workspace: Cell<(Pointer, usize)>,
    /// How the last kernel ran.
    way: Cell<&'static str>,
}

impl Cuda {
    /// A backend whose tensors take no more than `limit` bytes of `device`; without a limit, all its memory. `profile` is
    /// its data sheet.
    ///
    /// # Errors
    /// Fails when the driver does.
    pub fn new(device: &Rc<Device>, profile: Arc<Profile>, limit: Option<Bytes>, options: Options) -> Result<Self> {
        let limit = limit.map(|limit| memory_pool::Limit { bytes: limit.0, growth: profile.pool });
        let pool = Rc::new(if options.guarded { Pool::guarded(device) } else { Pool::new(device, limit) }?);
        device.epilogues().begin();
        // Until memory is lent, the libraries work without it.
        device.blas()?.take_back()?;
        let (staging, target) = (Staging::new(device), Target::Gpu(profile));
        Ok(Self { pool, staging, target, options, workspace: Cell::default(), way: Cell::default() })
    }

    /// Launches what repeats from step to step as graphs, which take no more of the card than `room` says at the beginning of each
    /// step.
    pub fn capture(&self, room: impl Fn() -> Bytes + 'static) {
        let has_places = !self.options.guarded && !self.options.gives_back && cfg!(not(feature = "candle-cuda"));
        let node = self.target.profile().map_or(graphs::NODE, |profile| profile.graph_node());
        if has_places {
            self.device().kept().start(Box::new(room), node);
        } else {
            self.device().kept().start(Box::new(|| Bytes::ZERO), node);
        }
    }

    /// The pool that all tensors lie in, whose counters are measurements.
    pub fn pool(&self) -> &Rc<Pool> {
        &self.pool
    }

    /// How it is used.
    fn options(&self) -> Options {
        self.options
    }

    /// The kernel that is launched runs in this way.
    fn goes_by(&self, way: &'static str) {
        self.way.set(way);
    }

    /// The workspace of cuBLAS and cuDNN: its address and its bytes.
    fn workspace(&self) -> (Pointer, usize) {
        self.workspace.get()
    }

    /// The GPU.
    pub fn device(&self) -> &Device {
        self.pool.device()
    }

    /// An error with what the GPU and the pool add to it.
    fn explained(&self, error: Error) -> Error {
        match &error {
            // A library that fails does not say when the GPU is the cause.
            Error::Device(doing) => match self.device().finish() {
                Err(Error::DeviceLost(lost)) => DeviceLost { doing: doing.clone(), ..lost }.into(),
                _ => error,
            },
            Error::DeviceFull(full) => self.pool.device_full(full.asked, full.label),
            _ => error,
        }
    }
}

impl Drop for Cuda {
    fn drop(&mut self) {
        self.device().end_graphs();
        // What was lent goes with the run. A library that does not answer has failed with its device.
        let _ = self.device().blas().and_then(Blas::take_back);
    }
}

impl Backend for Cuda {
    type Storage = memory_pool::Block;

    fn allocate(&self, elements: usize, dtype: DType, place: Option<Place>) -> Result<memory_pool::Block> {
        self.pool.allocate((elements * dtype.size()) as u64, place)
    }

    fn launch(
        &self,
        kernel: &Kernel,
        inputs: &[&Tensor<Self>],
        outputs: &[&Tensor<Self>],
        scratch: Option<&Ticket>,
    ) -> Result<()> {
        self.goes_by("");
        // Freed after the kernel.
        let scratch = scratch.map(|booked| self.pool.allocate(booked.bytes(), booked.place())).transpose()?;
        let start = scratch.as_ref().map_or(Pointer::default(), |block| Pointer(block.address()));
        let o = Operands::new(self, kernel, inputs, outputs, start)?;
        if outputs.iter().all(|output| output.elements() == 0) {
            return Ok(());
        }
        dispatch(kernel, &o).map_err(|error| self.explained(error))
    }

    fn write(&self, tensor: &Tensor<Self>, source: HostSlice<'_>) -> Result<()> {
        let block = tensor.storage().borrow();
        let fits = tensor.elements() == source.len();
        let fill: &dyn Fn(&mut [u8]) = match (tensor.dtype(), source) {
            _ if !fits => return Err(unwritable(tensor, source)),
            (DType::F64, HostSlice::F32(from)) => &|to| lay(from, to, |x| f64::from(x).to_ne_bytes()),
            (DType::F32, HostSlice::F32(from)) => &|to| lay(from, to, f32::to_ne_bytes),
            (DType::Bf16, HostSlice::F32(from)) => &|to| lay(from, to, |x| bf16::from_f32(x).to_ne_bytes()),
            (DType::F16, HostSlice::F32(from)) => &|to| lay(from, to, |x| f16::from_f32(x).to_ne_bytes()),
            (DType::U32, HostSlice::U32(from)) => &|to| lay(from, to, u32::to_ne_bytes),
            (DType::U8, HostSlice::U8(from)) => &|to| to.copy_from_slice(from),
            (dtype, HostSlice::Rounded(from, own)) if dtype == own => &|to| to.copy_from_slice(from),
            _ => return Err(unwritable(tensor, source)),
        };
        self.staging.send(source.len() * tensor.dtype().size(), fill, tensor.pointer(), &block)
    }

    fn read(&self, tensor: &Tensor<Self>) -> Result<Option<Vec<f64>>> {
        let mut found = Vec::with_capacity(tensor.elements());
        self.read_bytes(tensor, &mut |part| {
            found.extend(numbers(part, tensor.dtype()));
            Ok(())
        })?;
        self.pool.look()?;
        Ok(Some(found))
    }

    fn fetch(&self, tensor: &Tensor<Self>) -> Result<Readback> {
        tensor.storage().borrow().settle()?;
        let (dtype, bytes) = (tensor.dtype(), tensor.elements() * tensor.dtype().size());
        let parcel = self.staging.fetch(tensor.pointer(), bytes)?;
        Ok(Readback::Pending(Box::new(Fetched { parcel, dtype })))
    }

    fn read_bytes(&self, tensor: &Tensor<Self>, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        tensor.storage().borrow().settle()?;
        self.staging.fetch_in_parts(tensor.pointer(), tensor.bytes() as usize, take)
    }

    fn write_bytes(&self, tensor: &Tensor<Self>, fill: &mut dyn FnMut(&mut [u8]) -> Result<()>) -> Result<()> {
        let block = tensor.storage().borrow();
        self.staging.send_in_parts(tensor.bytes() as usize, fill, tensor.pointer(), &block)
    }

    #[cfg(feature = "candle-cuda")]
    fn copy_of(&self, tensor: &Tensor<Self>, from: &candle_core::Tensor) -> Result<bool> {
        self.copy_of_candle(tensor, from)
    }

    fn way(&self) -> &'static str {
        self.way.get()
    }

    fn target(&self) -> &Target {
        &self.target
    }

    fn step_begins(&self) {
        self.device().kept().begin_step();
    }

    fn step_ended(&self) -> Result<()> {
        self.device().flush()?;
        self.device().kept().end_step();
        self.pool.look()?;
        if self.options.gives_back { self.pool.trim() } else { Ok(()) }
    }

    fn lend_workspace(&self, workspace: &Tensor<Self>) -> Result<()> {
        let (start, bytes) = (workspace.pointer(), workspace.elements());
        self.workspace.set((start, bytes));
        self.device().blas()?.lend(start, bytes);
        Ok(())
    }
}

/// Numbers on their way from the device.
struct Fetched {
    parcel: Parcel,
    dtype: DType,
}

impl PendingReadback for Fetched {
    fn is_ready(&self) -> bool {
        self.parcel.is_ready()
    }

    fn wait(self: Box<Self>) -> Result<Vec<f64>> {
        let dtype = self.dtype;
        self.parcel.open(|bytes| numbers(bytes, dtype))
    }
}

/// The numbers that bytes of the device are.
fn numbers(bytes: &[u8], dtype: DType) -> Vec<f64> {
    match dtype {
        DType::F64 => take(bytes, f64::from_ne_bytes),
        DType::F32 => take(bytes, |b| f64::from(f32::from_ne_bytes(b))),
        DType::Bf16 => take(bytes, |b| f64::from(bf16::from_ne_bytes(b))),
        DType::F16 => take(bytes, |b| f64::from(f16::from_ne_bytes(b))),
        DType::U32 => take(bytes, |b| f64::from(u32::from_ne_bytes(b))),
        DType::U8 => bytes.iter().copied().map(f64::from).collect(),
    }
}

/// Writes numbers as bytes.
fn lay<T: Copy, const N: usize>(from: &[T], to: &mut [u8], bytes: impl Fn(T) -> [u8; N]) {
    for (to, &from) in to.chunks_exact_mut(N).zip(from) {
        to.copy_from_slice(&bytes(from));
    }
}

/// The numbers that bytes are.
fn take<const N: usize>(bytes: &[u8], number: impl Fn([u8; N]) -> f64) -> Vec<f64> {
    bytes.as_chunks::<N>().0.iter().map(|chunk| number(*chunk)).collect()
}

fn unwritable(tensor: &Tensor<Cuda>, source: HostSlice<'_>) -> Error {
    let message = format!("{} numbers to {tensor:?}", source.len());
    Error::Kernel { op: "upload", layer: String::new(), message }
}

/// Launches a kernel by its family.
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
