//! Loading weights: a model that begins with published or saved weights.
//!
//! Always holds: a tensor is written where it will stay, part by part, so that nothing as large as a tensor is held in
//! addition; of parameters in mixed precision the master weight is written, from which the narrower one follows; of a weight
//! that is held as codes a part at a time is read, and coded. A tensor that a source does not have begins as it would without
//! the source.

use super::{
    Session,
    slots::{Slot, named, slots},
};
use crate::{
    backend::{Backend, DType, Executor, Shape, Tensor},
    error::Result,
    experiment::Optimizer,
    memory::Phase,
    models::Model,
    nn::{Layer, ParamRole},
};

/// Where weights come from.
pub trait Source {
    /// Goes to the beginning of the tensor `name`; false where it begins as it would without a source.
    ///
    /// # Errors
    /// Fails when it should be there and cannot be read.
    fn find(&mut self, name: &str, shape: Shape, dtype: DType) -> Result<bool>;

    /// Reads the next bytes of the tensor, as its type has them.
    ///
    /// # Errors
    /// Fails when they cannot be read.
    fn read(&mut self, to: &mut [u8]) -> Result<()>;

    /// The tensor itself, if candle has it on a device: a tensor on the same device is copied from it, without a read.
    fn on_device(&self) -> Option<&candle_core::Tensor> {
        None
    }

    /// Whether it has the codes of weights that are held as such, rather than numbers.
    fn has_codes(&self) -> bool {
        false
    }
}

/// A source of a dry run: it has every tensor, and no elements.
#[derive(Debug)]
pub struct Anything;

impl Source for Anything {
    fn find(&mut self, _: &str, _: Shape, _: DType) -> Result<bool> {
        Ok(true)
    }

    fn read(&mut self, _: &mut [u8]) -> Result<()> {
        Ok(())
    }
}

impl<B: Backend> Session<B> {
    /// The weights and the running statistics, by their names in a file.
    ///
    /// # Errors
    /// Fails for a tensor that is not made yet; all of these are made with the model.
    pub(crate) fn weights(&self) -> Result<Vec<(String, Tensor<B>)>> {
        let (executor, choice) = (&self.executor, &self.experiment.optimizer);
        let with_name = |slot: Slot<'_, B>| Ok((slot.name(executor.ledger()), slot.tensor(executor, choice)?));
        slots(&self.model, choice, None, false).map(with_name).collect()
    }

    /// Takes the weights and the running statistics that `from` has.
    ///
    /// # Errors
    /// The failures of the device, and the errors of `from`.
    pub fn load(&mut self, from: &mut dyn Source) -> Result<()> {
        self.executor.ledger().set_phase(Phase::Loading);
        taken(&self.executor, &self.model, &self.experiment.optimizer, from)
    }
}

/// Gives a model the weights and the running statistics that `from` has.
pub(super) fn taken<B: Backend>(
    executor: &Executor<B>,
    model: &Model<B>,
    choice: &Optimizer,
    from: &mut dyn Source,
) -> Result<()> {
    let (ledger, has_codes) = (executor.ledger(), from.has_codes());
    for slot in slots(model, choice, None, false).filter(|slot| has_codes || !slot.is_of_codes()) {
        let _layer = executor.enter(slot.layer);
        if from.find(&slot.name(ledger), slot.shape, slot.dtype)? {
            let tensor = slot.tensor(executor, choice)?;
            let is_copied = from.on_device().map(|source| executor.load_on_device(&tensor, source)).transpose()?;
            if is_copied != Some(true) {
                executor.load(&tensor, &mut |to| from.read(to))?;
            }
            slot.was_replaced(executor)?;
        }
    }
    // Weights that are held as codes come as numbers, a part at a time.
    for coded in model.leaves().into_iter().filter_map(Layer::coded).filter(|_| !has_codes) {
        let name = named(ledger, coded.layer(), ParamRole::Weight.name());
        if from.find(&name, coded.sizes().into(), DType::F32)? {
            coded.write(executor, |room, _| executor.load(room, &mut |to| from.read(to)))?;
        }
    }
    Ok(())
}
