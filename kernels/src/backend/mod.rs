//! The ops, and the backends that run them.
//!
//! Layers and optimizers call the [`Executor`]: it checks shapes, allocates outputs and scratch through the
//! [`Ledger`](crate::memory::Ledger), and launches a [`Kernel`]. All of that is written once and is the same for all
//! backends, so a dry run allocates exactly as a real run does. A [`Backend`] only stores elements and runs kernels;
//! [`DryRun`] does neither.
//!
//! Rules for every op:
//! - Tensors are contiguous and row-major; images are `[batch, height, width, channels]`. A tensor may be some rows of
//!   another's buffer.
//! - A kernel reads its inputs and writes its outputs; an in-place kernel has the tensor among its outputs only.
//! - A kernel allocates nothing that outlives it, and nothing beyond what [`Kernel::scratch_bytes`] states.

pub mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
mod dry_run;
mod execution;
mod executor;
mod nodes;
mod operands;
pub mod ops;
mod readback;
mod roofline;
mod scratch;
mod tensor;
pub mod thread_pool;

pub use cpu::Cpu;
#[cfg(feature = "cuda")]
pub use cuda::Cuda;
pub use dry_run::DryRun;
pub use execution::Execution;
pub use executor::{Executor, Launched, LayerGuard, Sample};
pub use ops::{AttentionShape, IGNORE_INDEX, Kernel, Window};
pub use readback::{PendingReadback, Readback};
pub use roofline::{F32, FLOATS};
pub use roofline::{Rates, Streams};
pub use tensor::Tensor;

pub use crate::tensor::{DType, HostSlice, Shape};
use std::ops::Range;

use crate::{
    device::Target,
    error::Result,
    memory::{Ticket, allocator::Place},
};

/// The storage of elements, and the kernels that run on it.
pub trait Backend: Sized + 'static {
    /// The elements of one buffer.
    type Storage;

    /// Makes room for `elements` of `dtype`, uninitialised. The ledger has already agreed, and its model has found a `place`
    /// for them if it has places. A backend that has memory of its own puts them there.
    ///
    /// # Errors
    /// The system or the card gives no memory, or the driver fails. The executor adds the layer, the op and the purpose.
    fn allocate(&self, elements: usize, dtype: DType, place: Option<Place>) -> Result<Self::Storage>;

    /// Names the elements that were made room for last, where the backend tells of blocks that were written past.
    fn name(&self, _name: &dyn Fn() -> String) {}

    /// Runs a kernel, with as many bytes of `scratch` as the ledger has agreed to; they have a place as a tensor has.
    ///
    /// # Errors
    /// [`Error::Kernel`](crate::Error::Kernel) for operands that no kernel supports; no memory for scratch; a failure of the
    /// device. A device that runs kernels later reports a kernel's failure in a later call.
    fn launch(
        &self,
        kernel: &Kernel,
        inputs: &[&Tensor<Self>],
        outputs: &[&Tensor<Self>],
        scratch: Option<&Ticket>,
    ) -> Result<()>;

    /// Copies numbers of the host into a tensor of as many elements, converting floating-point types.
    ///
    /// # Errors
    /// [`Error::Kernel`](crate::Error::Kernel) when the number of elements or their type differs; a failure of the device.
    fn write(&self, tensor: &Tensor<Self>, source: HostSlice<'_>) -> Result<()>;

    /// The elements as f64, or `None` if there are none (dry run). Waits for the device.
    ///
    /// # Errors
    /// A failure of the device, also in a kernel that was launched before.
    fn read(&self, tensor: &Tensor<Self>) -> Result<Option<Vec<f64>>>;

    /// Starts to copy the elements to the host, after the kernels that were launched so far.
    ///
    /// # Errors
    /// A failure of the device. [`Readback::wait`] reports failures until the elements have come.
    fn fetch(&self, tensor: &Tensor<Self>) -> Result<Readback> {
        self.read(tensor).map(Readback::Ready)
    }

    /// Hands the elements to `take` as they are, in bytes and in order: all at once where they lie in host memory, and
    /// otherwise in parts of a bounded size. Waits for the device. There are none in a dry run.
    ///
    /// # Errors
    /// A failure of the device, also in a kernel that was launched before; the errors of `take`.
    fn read_bytes(&self, tensor: &Tensor<Self>, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>;

    /// Lets `fill` write the elements as they are, in bytes and in order, in parts as [`Backend::read_bytes`] gives them.
    /// Not called in a dry run.
    ///
    /// # Errors
    /// A failure of the device; the errors of `fill`.
    fn write_bytes(&self, tensor: &Tensor<Self>, fill: &mut dyn FnMut(&mut [u8]) -> Result<()>) -> Result<()>;

    /// Copies a tensor of candle's that lies on the device, in the order and the type of `tensor`, without the host; false where
    /// it does not.
    ///
    /// # Errors
    /// A failure of the device.
    fn copy_of(&self, _tensor: &Tensor<Self>, _from: &candle_core::Tensor) -> Result<bool> {
        Ok(false)
    }

    /// How the last kernel ran, where a kernel of its kind runs in one of several ways; empty otherwise.
    fn way(&self) -> &'static str {
        ""
    }

    /// The device that kernels run on; [`Kernel::scratch_bytes`] depends on it.
    fn target(&self) -> &Target;

    /// A step begins. A backend may keep its kernels back and launch them together, until numbers of them are due or the step
    /// is over.
    fn step_begins(&self) {}

    /// A step or an evaluation is over. A pool that returns empty memory does so now.
    ///
    /// # Errors
    /// The driver fails to give memory back.
    fn step_ended(&self) -> Result<()> {
        Ok(())
    }

    /// The model of a range of addresses has given back these, whole pages: their memory goes back to the system.
    ///
    /// # Errors
    /// [`Error::Misused`](crate::error::Error::Misused) if a block lies there.
    fn give_back(&self, _pages: Range<u64>) -> Result<()> {
        Ok(())
    }

    /// Lends a buffer of `U8` to the libraries that need a workspace, until the end of the run.
    ///
    /// # Errors
    /// A library refuses the buffer, or did not start.
    fn lend_workspace(&self, _workspace: &Tensor<Self>) -> Result<()> {
        Ok(())
    }
}
