//! A session's weights as candle tensors, and candle tensors as a session's weights.
//!
//! Always holds: lending copies nothing. While candle has the tensors, the elements stay where they lay; then they are the
//! session's again. On a GPU that takes a build with candle's CUDA device. Refuses tensors that a model has no place for.

use std::{cell::Cell, collections::HashMap};

use candle_core::{CpuStorage, CudaStorage, Device, InplaceOp1, Layout, Storage, op::BackpropOp};

#[cfg(feature = "candle-cuda")]
use crate::backend::Cuda;
use crate::{
    backend::{Backend, Cpu, DType, Shape, Tensor, cpu::bytes},
    error::{Problem, Result},
    memory::probe::uncounted,
    step::{Session, load::Source},
};

/// Candle tensors by the names that a checkpoint has for them, such as `block1.conv.weight`.
pub type CandleTensors = HashMap<String, candle_core::Tensor>;

/// A backend whose tensors candle can have without a copy.
pub trait Lends: Backend {
    /// The device as candle has it.
    fn candle(&self) -> Device;

    /// Hands the elements of a tensor to candle; the second value takes their place in candle's tensor once they are back.
    ///
    /// # Errors
    /// A failure of the device, or no room on it for that.
    fn lend(&self, tensor: &Tensor<Self>) -> Result<[Storage; 2]>;

    /// The elements are back.
    fn take_back(&self, tensor: &Tensor<Self>, elements: Storage);

    /// Candle begins or ends to work on the device.
    ///
    /// # Errors
    /// A failure of the device, also in a kernel that was launched before.
    fn changes_hands(&self) -> Result<()> {
        Ok(())
    }
}

impl Lends for Cpu {
    fn candle(&self) -> Device {
        Device::Cpu
    }

    fn lend(&self, tensor: &Tensor<Self>) -> Result<[Storage; 2]> {
        Ok([Storage::Cpu(tensor.replace_storage(nothing())), Storage::Cpu(nothing())])
    }

    fn take_back(&self, tensor: &Tensor<Self>, elements: Storage) {
        if let Storage::Cpu(elements) = elements {
            drop(tensor.replace_storage(elements));
        }
    }
}

#[cfg(feature = "candle-cuda")]
impl Lends for Cuda {
    fn candle(&self) -> Device {
        Device::Cuda(self.candle_device())
    }

    fn lend(&self, tensor: &Tensor<Self>) -> Result<[Storage; 2]> {
        self.lend(tensor).map(|both| both.map(Storage::Cuda))
    }

    fn take_back(&self, _: &Tensor<Self>, elements: Storage) {
        if let Storage::Cuda(elements) = elements {
            Self::take_back(elements);
        }
    }

    fn changes_hands(&self) -> Result<()> {
        // The device gets back the memory that candle allocated and freed, so that the pool has its planned size.
        self.pool().release()
    }
}

/// Lends the weights and the running statistics of `session` to `look` as candle tensors, without a copy. For parameters in
/// mixed precision it is the master weight. A tensor that outlives the call is empty. A write to a tensor in place is a
/// write to the session; a narrower copy of a master weight follows with [`take_in`] or the next update.
///
/// On a GPU, candle's allocations come from the run's memory pool: its limit holds for them, and the measurement includes
/// them.
///
/// # Examples
///
/// ```
/// use plimsoll_engine::{
///     Experiment,
///     backend::{Cpu, Executor},
///     hardware::Machine,
///     interop::{lend, take_in},
///     memory::Ledger,
///     plan::Resolved,
///     step::Session,
/// };
///
/// let experiment = Experiment::default();
/// let resolved = Resolved::new(&experiment, &Machine::nominal()).expect("the default is valid");
/// let executor = Executor::new(Cpu::new(1), Ledger::new(None, false));
/// let mut session = Session::new(executor, &experiment, resolved.info())?;
///
/// // How large is the largest weight of each tensor?
/// let largest = lend(&session, |tensors| -> candle_core::Result<Vec<f32>> {
///     tensors.values().map(|tensor| tensor.abs()?.flatten_all()?.max(0)?.to_scalar()).collect()
/// })?;
/// assert!(largest?.iter().all(|weight| *weight < 10.0));
///
/// // And half of all of them goes back.
/// let halved = lend(&session, |tensors| {
///     tensors.iter().map(|(name, tensor)| Ok((name.clone(), (tensor * 0.5)?))).collect::<candle_core::Result<_>>()
/// })?;
/// take_in(&mut session, &halved?)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// A failure of the device. On a GPU, too, that it has no room for candle's part of a tensor.
pub fn lend<B: Lends, R>(session: &Session<B>, look: impl FnOnce(&CandleTensors) -> R) -> Result<R> {
    let (weights, backend) = (session.weights()?, session.executor().backend());
    backend.changes_hands()?;
    // Candle's memory in addition to the elements does not belong to the run.
    let lent = uncounted(|| Lent::new(backend, weights))?;
    let seen = uncounted(|| look(&lent.tensors));
    drop(lent);
    backend.changes_hands()?;
    Ok(seen)
}

/// Tensors on loan; their elements go back when it is dropped, also when the borrower panics.
struct Lent<'a, B: Lends> {
    backend: &'a B,
    tensors: CandleTensors,
    owners: Vec<(String, Tensor<B>)>,
    /// The elements that replace those of the tensors of the first owners.
    returns: Vec<Exchange>,
}

impl<'a, B: Lends> Lent<'a, B> {
    fn new(backend: &'a B, owners: Vec<(String, Tensor<B>)>) -> Result<Self> {
        let mut lent = Self { backend, tensors: CandleTensors::new(), owners, returns: Vec::new() };
        for (name, tensor) in &lent.owners {
            let [elements, after] = backend.lend(tensor)?;
            let shape = tensor.shape().dims().to_vec();
            let tensor = candle_core::Tensor::from_storage(elements, shape, BackpropOp::none(), false);
            lent.tensors.insert(name.clone(), tensor);
            lent.returns.push(Exchange(Cell::new(Some(after))));
        }
        Ok(lent)
    }
}

impl<B: Lends> Drop for Lent<'_, B> {
    fn drop(&mut self) {
        for ((name, owner), back) in self.owners.iter().zip(&self.returns) {
            // An exchange in place fails for no tensor of the processor or a GPU.
            if self.tensors.get(name).is_some_and(|tensor| tensor.inplace_op1(back).is_ok())
                && let Some(elements) = back.0.take()
            {
                self.backend.take_back(owner, elements);
            }
        }
        uncounted(|| drop((std::mem::take(&mut self.tensors), std::mem::take(&mut self.returns))));
    }
}

/// Elements of no tensor. It allocates nothing.
fn nothing() -> CpuStorage {
    CpuStorage::F32(Vec::new())
}

/// Puts other elements into a candle tensor, and keeps those that were in it.
struct Exchange(Cell<Option<Storage>>);

impl InplaceOp1 for Exchange {
    fn name(&self) -> &'static str {
        "exchange"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, _: &Layout) -> candle_core::Result<()> {
        if let Some(Storage::Cpu(other)) = self.0.take() {
            self.0.set(Some(Storage::Cpu(std::mem::replace(storage, other))));
        }
        Ok(())
    }

    fn cuda_fwd(&self, storage: &mut CudaStorage, _: &Layout) -> candle_core::Result<()> {
        if let Some(Storage::Cuda(other)) = self.0.take() {
            self.0.set(Some(Storage::Cuda(std::mem::replace(storage, other))));
        }
        Ok(())
    }
}

/// Takes candle tensors in as weights and running statistics of `session`, converted to its types. Weights without a tensor
/// in `tensors` stay as they are. Tensors on the session's GPU are copied there.
///
/// # Errors
/// [`Error::Experiment`](crate::Error::Experiment) for a name that the model has no place for, and for other extents: nothing
/// is taken in then. Candle's errors where a tensor cannot be read, and the failures of the device.
pub fn take_in<B: Lends>(session: &mut Session<B>, tensors: &CandleTensors) -> Result<()> {
    let weights = session.weights()?;
    for (name, tensor) in tensors {
        let Some((_, own)) = weights.iter().find(|(own, _)| own == name) else {
            let known: Vec<&str> = weights.iter().take(3).map(|(name, _)| name.as_str()).collect();
            let mend = format!("name tensors as a checkpoint does: {}, ...", known.join(", "));
            return Err(Problem::new("weights", format!("the model has no tensor {name}"), mend).into());
        };
        let extents = own.shape().dims().to_vec();
        if tensor.dims() != extents {
            let why = format!("{name} is {:?}, and the model's is {extents:?}", tensor.dims());
            return Err(Problem::new("weights", why, "bring it to the model's extents").into());
        }
    }
    drop(weights);
    let home = session.executor().backend().candle();
    session.load(&mut Given { tensors, home, present: None, read: 0 })?;
    session.executor().backend().changes_hands()
}

/// Candle tensors as the source of a session, one after another.
struct Given<'a> {
    tensors: &'a CandleTensors,
    /// The session's device.
    home: Device,
    /// The present one, in the type and the order that are asked for.
    present: Option<candle_core::Tensor>,
    /// How many of its bytes were read.
    read: usize,
}

fn candle_type(dtype: DType) -> candle_core::DType {
    match dtype {
        DType::F64 => candle_core::DType::F64,
        DType::F32 => candle_core::DType::F32,
        DType::Bf16 => candle_core::DType::BF16,
        DType::F16 => candle_core::DType::F16,
        DType::U32 => candle_core::DType::U32,
        DType::U8 => candle_core::DType::U8,
    }
}

impl Source for Given<'_> {
    fn find(&mut self, name: &str, _: Shape, dtype: DType) -> Result<bool> {
        let Some(tensor) = self.tensors.get(name) else { return Ok(false) };
        let place = if tensor.device().is_cuda() { &self.home } else { &Device::Cpu };
        let as_asked = || tensor.to_device(place)?.to_dtype(candle_type(dtype))?.contiguous();
        uncounted(|| as_asked().map(|tensor| self.present = Some(tensor)))?;
        self.read = 0;
        Ok(true)
    }

    fn on_device(&self) -> Option<&candle_core::Tensor> {
        self.present.as_ref().filter(|tensor| tensor.device().is_cuda())
    }

    fn read(&mut self, to: &mut [u8]) -> Result<()> {
        // A tensor that is read after all comes to the host, once.
        if let Some(tensor) = self.on_device() {
            self.present = Some(uncounted(|| tensor.to_device(&Device::Cpu))?);
        }
        let Some(tensor) = &self.present else { return Ok(()) };
        let (storage, layout) = tensor.storage_and_layout();
        let place = layout.start_offset()..layout.start_offset() + layout.shape().elem_count();
        if let Storage::Cpu(elements) = &*storage
            && let Some(all) = bytes::of(elements, place)
        {
            to.copy_from_slice(&all[self.read..self.read + to.len()]);
        }
        self.read += to.len();
        Ok(())
    }
}

impl Drop for Given<'_> {
    fn drop(&mut self) {
        uncounted(|| drop(self.present.take()));
    }
}
