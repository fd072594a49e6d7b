//! A session's weights as candle tensors, and candle tensors as a session's weights.
//!
//! Always holds: nothing is copied to lend: while they are looked at, the elements lie in candle's tensors, where they lay
//! before, and then they are the session's again. Refuses tensors that a model has no place for.

use std::{cell::Cell, collections::HashMap};

use candle_core::{CpuStorage, Device, InplaceOp1, Layout, Storage, op::BackpropOp};

use crate::{
    backend::{Cpu, DType, Shape, Tensor, cpu::bytes},
    error::{Problem, Result},
    memory::probe::uncounted,
    step::{Session, load::Source},
};

/// Candle tensors by the names that a checkpoint has for them, such as `block1.conv.weight`.
pub type CandleTensors = HashMap<String, candle_core::Tensor>;

/// Lends the weights and the running statistics of `session` to `look` as candle tensors, without a copy. Of parameters in
/// mixed precision it is the master weight. A tensor that outlives the call is empty.
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
/// Those of making the optimizer's choice of a tensor, which for weights are none but a failure of the device.
pub fn lend<R>(session: &Session<Cpu>, look: impl FnOnce(&CandleTensors) -> R) -> Result<R> {
    let weights = session.weights()?;
    // What candle keeps beside the elements is none of the run's.
    let lent = uncounted(|| Lent::new(weights));
    Ok(uncounted(|| look(&lent.tensors)))
}

/// Tensors on loan; their elements go back when it is dropped, also when the borrower panics.
struct Lent {
    tensors: CandleTensors,
    owners: Vec<(String, Tensor<Cpu>)>,
}

impl Lent {
    fn new(owners: Vec<(String, Tensor<Cpu>)>) -> Self {
        let lend = |(name, tensor): &(String, Tensor<Cpu>)| {
            let elements = Storage::Cpu(tensor.replace_storage(nothing()));
            let shape = tensor.shape().dims().to_vec();
            (name.clone(), candle_core::Tensor::from_storage(elements, shape, BackpropOp::none(), false))
        };
        Self { tensors: owners.iter().map(lend).collect(), owners }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        for (name, owner) in &self.owners {
            let back = Exchange(Cell::new(Some(nothing())));
            // An exchange in place fails for no tensor of the processor.
            if self.tensors.get(name).is_some_and(|tensor| tensor.inplace_op1(&back).is_ok())
                && let Some(elements) = back.0.take()
            {
                drop(owner.replace_storage(elements));
            }
        }
        uncounted(|| drop(std::mem::take(&mut self.tensors)));
    }
}

/// Elements of no tensor. It allocates nothing.
fn nothing() -> CpuStorage {
    CpuStorage::F32(Vec::new())
}

/// Puts other elements into a candle tensor, and keeps those that were in it.
struct Exchange(Cell<Option<CpuStorage>>);

impl InplaceOp1 for Exchange {
    fn name(&self) -> &'static str {
        "exchange"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, _: &Layout) -> candle_core::Result<()> {
        let other = self.0.take().unwrap_or_else(nothing);
        self.0.set(Some(std::mem::replace(storage, other)));
        Ok(())
    }
}

/// Takes candle tensors in as weights and running statistics of `session`, converted to its types. What `tensors` has no
/// tensor for stays as it is.
///
/// # Errors
/// [`Error::Experiment`](crate::Error::Experiment) for a name that the model has no place for, and for other extents: nothing is taken in then. Candle's
/// errors where a tensor cannot be read, and the failures of the device.
pub fn take_in(session: &mut Session<Cpu>, tensors: &CandleTensors) -> Result<()> {
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
    session.load(&mut Given { tensors, present: None, read: 0 })
}

/// Candle tensors as what a session is loaded from, one after another.
struct Given<'a> {
    tensors: &'a CandleTensors,
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
        let as_asked = || tensor.to_device(&Device::Cpu)?.to_dtype(candle_type(dtype))?.contiguous();
        uncounted(|| as_asked().map(|tensor| self.present = Some(tensor)))?;
        self.read = 0;
        Ok(true)
    }

    fn read(&mut self, to: &mut [u8]) -> Result<()> {
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
