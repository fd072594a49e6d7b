//! The backend of NVIDIA GPUs: memory from a pool with a limit, products by cuBLAS and cuDNN, everything else by kernels
//! of our own.
//!
//! Built on the driver's own interface (through cudarc) and opened at run time, so that the program needs nothing of CUDA
//! to build or to start. A family of kernels is a pair of files, `.rs` (which launches) and `.cu` (what runs), compiled
//! by NVRTC when it is first needed. Holds: all calls come from the thread that opened the [`Device`]; the host waits for
//! the device only in [`Backend::read`]. Refuses: what crosses the pool's limit ([`Error::Budget`]), what the card has no
//! room for ([`Error::DeviceFull`]), and operands that no kernel supports ([`Error::Kernel`]).

mod device;
mod elementwise;
mod launch;
pub mod library;
mod module;
mod operands;
mod pool;
mod transfer;

use std::{rc::Rc, sync::Arc};

use half::{bf16, f16};

pub use self::device::{Device, count};
use self::{
    launch::{Pointer, args},
    module::{Source, Types},
    operands::Operands,
    pool::Pool,
    transfer::Staging,
};
use crate::{
    backend::{Backend, DType, HostSlice, Kernel, Tensor},
    bytes::Bytes,
    device::{Profile, Target},
    error::{Error, Result},
};

/// Every source of kernels.
const SOURCES: &[&Source] = &[&elementwise::SOURCE];

/// Kernels on a GPU.
pub struct Cuda {
    pool: Rc<Pool>,
    staging: Staging,
    target: Target,
}

impl Cuda {
    /// A backend whose tensors take no more than `limit` bytes of `device`; none: all it has. `profile` is what is known of it.
    ///
    /// # Errors
    /// The driver's.
    pub fn new(device: &Rc<Device>, profile: Arc<Profile>, limit: Option<Bytes>) -> Result<Self> {
        let pool = Rc::new(Pool::new(device, limit.map(|limit| limit.0))?);
        Ok(Self { pool, staging: Staging::new(device), target: Target::Gpu(profile) })
    }

    /// The GPU.
    pub fn device(&self) -> &Device {
        self.pool.device()
    }
}

impl Backend for Cuda {
    type Storage = pool::Block;

    fn allocate(&self, elements: usize, dtype: DType) -> Result<pool::Block> {
        self.pool.allocate((elements * dtype.size()) as u64)
    }

    fn launch(&self, kernel: &Kernel, inputs: &[&Tensor<Self>], outputs: &[&Tensor<Self>]) -> Result<()> {
        let o = Operands::new(self, kernel, inputs, outputs, Pointer::default())?;
        if outputs.iter().all(|output| output.elements() == 0) {
            return Ok(());
        }
        dispatch(kernel, &o)
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
            _ => return Err(unwritable(tensor, source)),
        };
        self.staging.send(source.len() * tensor.dtype().size(), fill, tensor.pointer(), &block)
    }

    fn read(&self, tensor: &Tensor<Self>) -> Result<Option<Vec<f64>>> {
        tensor.storage().borrow().settle()?;
        let bytes = transfer::receive(self.device(), tensor.pointer(), tensor.elements() * tensor.dtype().size())?;
        Ok(Some(match tensor.dtype() {
            DType::F64 => take(&bytes, f64::from_ne_bytes),
            DType::F32 => take(&bytes, |b| f64::from(f32::from_ne_bytes(b))),
            DType::Bf16 => take(&bytes, |b| f64::from(bf16::from_ne_bytes(b))),
            DType::F16 => take(&bytes, |b| f64::from(f16::from_ne_bytes(b))),
            DType::U32 => take(&bytes, |b| f64::from(u32::from_ne_bytes(b))),
            DType::U8 => bytes.into_iter().map(f64::from).collect(),
        }))
    }

    fn target(&self) -> &Target {
        &self.target
    }
}

/// Lays numbers out as bytes.
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

/// Which family runs a kernel.
fn dispatch(kernel: &Kernel, o: &Operands<'_>) -> Result<()> {
    match kernel {
        Kernel::Fill(_)
        | Kernel::Uniform { .. }
        | Kernel::Normal { .. }
        | Kernel::Relu
        | Kernel::ReluGrad
        | Kernel::Relu6
        | Kernel::Relu6Grad
        | Kernel::Add
        | Kernel::Scale(_) => elementwise::launch(kernel, o),
        _ => o.unsupported(),
    }
}
