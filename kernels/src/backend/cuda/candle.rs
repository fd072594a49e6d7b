//! Candle's CUDA device beneath the backend, in a build with the feature `candle-cuda`.
//!
//! Owns the stream of kernels, which is candle's, so that what candle and the engine queue is in order without waiting. A block
//! is candle's storage only while it is on loan: cudarc frees every slice by a call to the driver, and a block is a place in a
//! segment that the ledger's model has chosen, which the driver does not know. As slices at all times, blocks would lie where
//! the driver puts them, and what is held could not be predicted. A loan is an address and costs nothing: candle computes on
//! the elements where they lie, and what it writes in place is the session's. What candle makes itself comes from the run's
//! pool, because that is the device's pool, so its limit holds for candle too. Always holds: a slice of a block is never freed
//! as a slice. Refuses to lend where the driver has no room for what takes a slice's place in a tensor that outlives the loan.

use std::sync::Arc;

use candle_core::{CudaDevice, CudaStorage, Storage, backend::BackendDevice, cuda_backend::CudaStorageSlice as Slice};
use cudarc::driver::{CudaSlice, CudaStream, DevicePtr, result};

use super::{
    Cuda,
    fault::{failed, of_library, refused},
    stream::Queue,
};
use crate::{
    backend::{DType, Tensor},
    error::Result,
};

/// What a loan needs of the driver, by its name in a refusal.
const LOAN: &str = "candle's tensors";

/// Candle's device: a context, a stream, and the libraries that candle starts on it.
pub(super) struct Candle {
    device: CudaDevice,
    stream: Arc<CudaStream>,
}

impl Candle {
    /// Opens the GPU at `index` with a stream of its own, because the thread's default one waits for others.
    ///
    /// # Errors
    /// The card has no room for it, or a library does not start.
    pub(super) fn open(index: usize) -> Result<Self> {
        let device = CudaDevice::new_with_stream(index).map_err(|error| {
            of_library("candle's device", &format!("opening cuda:{index}"), &format_args!("{error}"), true)
        })?;
        Ok(Self { stream: device.cuda_stream(), device })
    }

    /// What is queued on the stream.
    pub(super) fn queue(&self) -> Queue<'_> {
        Queue::of(self.stream.cu_stream(), self)
    }
}

impl Drop for Candle {
    fn drop(&mut self) {
        // cudarc panics where a library does not end, as none does in a lost context. That goes with what lives in it: what
        // is held once more, and never let go, is not dropped.
        if self.queue().finish().is_err() {
            std::mem::forget((self.stream.clone(), self.device.clone()));
        }
    }
}

impl Cuda {
    fn candle(&self) -> &Candle {
        self.device().opened().candle()
    }

    /// The GPU as candle's device.
    pub(crate) fn candle_device(&self) -> CudaDevice {
        self.candle().device.clone()
    }

    /// A tensor's elements as candle's, where they lie, and what stands in their place once they are back: a type that candle
    /// has no kernel for, so that a tensor which outlives the loan answers with an error.
    ///
    /// # Errors
    /// The card has no room for what stands in their place, or the driver fails.
    pub(crate) fn lend(&self, tensor: &Tensor<Self>) -> Result<[CudaStorage; 2]> {
        tensor.storage().borrow().settle()?;
        let (stream, handle) = (&self.candle().stream, self.device().handle());
        // What failed in candle where it could not say so is said now: cudarc would panic of it below.
        stream.context().bind_to_thread().map_err(|error| failed("lending a tensor", error))?;
        let (at, length) = (tensor.pointer().0, tensor.elements());
        // SAFETY: device and stream are alive, and nothing else has the byte. The elements are the tensor's, of its type,
        // and the caller keeps it; their slice is taken apart by `take_back` and never dropped.
        let slices = unsafe {
            // Not from the run's pool, which may be full.
            let byte = result::device::get_default_mem_pool(handle)
                .and_then(|pool| result::mem_pool::alloc_async(pool, 1, stream.cu_stream()))
                .map_err(|error| self.explained(refused(LOAN, "lending a tensor", error)))?;
            let elements = match tensor.dtype() {
                DType::F64 => Slice::F64(stream.upgrade_device_ptr(at, length)),
                DType::F32 => Slice::F32(stream.upgrade_device_ptr(at, length)),
                DType::Bf16 => Slice::BF16(stream.upgrade_device_ptr(at, length)),
                DType::F16 => Slice::F16(stream.upgrade_device_ptr(at, length)),
                DType::U32 => Slice::U32(stream.upgrade_device_ptr(at, length)),
                DType::U8 => Slice::U8(stream.upgrade_device_ptr(at, length)),
            };
            [elements, Slice::F4(stream.upgrade_device_ptr(byte, 1))]
        };
        Ok(slices.map(|slice| CudaStorage { slice, device: self.candle_device() }))
    }

    /// Takes the slice of a loan apart. What candle does with the elements on other streams comes before what the engine
    /// queues from now on.
    pub(crate) fn take_back(elements: CudaStorage) {
        let _ = match elements.slice {
            Slice::U8(s) | Slice::F4(s) | Slice::F6E2M3(s) | Slice::F6E3M2(s) | Slice::F8E8M0(s) => s.leak(),
            Slice::U32(s) => s.leak(),
            Slice::I16(s) => s.leak(),
            Slice::I32(s) => s.leak(),
            Slice::I64(s) => s.leak(),
            Slice::BF16(s) => s.leak(),
            Slice::F16(s) => s.leak(),
            Slice::F32(s) => s.leak(),
            Slice::F64(s) => s.leak(),
            Slice::F8E4M3(s) => s.leak(),
        };
    }

    /// Copies candle's tensor on the device; false where it does not lie there in order, in the tensor's type.
    ///
    /// # Errors
    /// Fails when the driver does.
    pub(super) fn copy_of_candle(&self, tensor: &Tensor<Self>, from: &candle_core::Tensor) -> Result<bool> {
        let (storage, layout) = from.storage_and_layout();
        let Storage::Cuda(storage) = &*storage else { return Ok(false) };
        let is_here = storage.device.same_device(&self.candle().device);
        if !is_here || !layout.is_contiguous() || layout.shape().elem_count() != tensor.elements() {
            return Ok(false);
        }
        let first = layout.start_offset();
        match (tensor.dtype(), &storage.slice) {
            (DType::F64, Slice::F64(slice)) => self.copy_slice(tensor, slice, first),
            (DType::F32, Slice::F32(slice)) => self.copy_slice(tensor, slice, first),
            (DType::Bf16, Slice::BF16(slice)) => self.copy_slice(tensor, slice, first),
            (DType::F16, Slice::F16(slice)) => self.copy_slice(tensor, slice, first),
            (DType::U32, Slice::U32(slice)) => self.copy_slice(tensor, slice, first),
            (DType::U8, Slice::U8(slice)) => self.copy_slice(tensor, slice, first),
            _ => return Ok(false),
        }?;
        Ok(true)
    }

    /// Copies from the element `first` of a slice on.
    fn copy_slice<T>(&self, tensor: &Tensor<Self>, slice: &CudaSlice<T>, first: usize) -> Result<()> {
        tensor.storage().borrow().settle()?;
        let stream = &self.candle().stream;
        // Until it is dropped, candle's other streams wait for the copy.
        let (start, _read) = slice.device_ptr(stream);
        let from = start + (first * size_of::<T>()) as u64;
        let bytes = tensor.elements() * size_of::<T>();
        // SAFETY: both places are as long, and what frees either is queued behind the copy.
        unsafe { result::memcpy_dtod_async(tensor.pointer().0, from, bytes, stream.cu_stream()) }
            .map_err(|error| failed("copying a tensor of candle's", error))
    }
}
