//! Loading: a session as it was when it was saved.
//!
//! Always holds: every tensor is looked for before the first one is read, so that a refusal leaves no session half replaced.
//! Refuses a source that lacks a tensor, has one of another shape or type, or has one that this session lacks.

use super::{
    Session,
    slots::{Counters, slots},
};
use crate::{
    backend::{Backend, DType, Shape},
    error::Result,
    memory::Phase,
    nn::Layer,
};

/// Where a session is read from.
pub trait Source {
    /// Goes to the beginning of the tensor `name`.
    ///
    /// # Errors
    /// Fails when there is no tensor of this name, shape and type.
    fn find(&mut self, name: &str, shape: Shape, dtype: DType) -> Result<()>;

    /// Reads the next bytes of the tensor.
    ///
    /// # Errors
    /// Fails when they cannot be read.
    fn read(&mut self, to: &mut [u8]) -> Result<()>;

    /// Refuses to have more than `tensors`, and other than `passes` layers that draw random numbers.
    ///
    /// # Errors
    /// Fails when it has.
    fn is_all(&self, tensors: usize, passes: usize) -> Result<()>;
}

/// A source of a dry run: it has every tensor, and no elements.
#[derive(Debug)]
pub struct Anything;

impl Source for Anything {
    fn find(&mut self, _: &str, _: Shape, _: DType) -> Result<()> {
        Ok(())
    }

    fn read(&mut self, _: &mut [u8]) -> Result<()> {
        Ok(())
    }

    fn is_all(&self, _: usize, _: usize) -> Result<()> {
        Ok(())
    }
}

impl<B: Backend> Session<B> {
    /// Takes the place of the session that had `counters` and whose tensors `from` has.
    ///
    /// # Errors
    /// [`crate::Error::Budget`] when the optimizer's state would cross the budget, the failures of the device, and the
    /// errors of `from`.
    pub fn restore(&mut self, counters: &Counters, from: &mut dyn Source) -> Result<()> {
        self.executor.ledger().set_phase(Phase::Loading);
        if counters.is_thinned && !self.is_thinned() {
            self.thin()?;
        }
        let (executor, choice) = (self.executor.clone(), &self.experiment.optimizer);
        let ledger = executor.ledger();
        let mut tensors = 0;
        for slot in slots(&self.model, choice, self.pruning.as_ref(), counters.has_state()) {
            from.find(&slot.name(ledger), slot.shape, slot.dtype)?;
            tensors += 1;
        }
        let layers = self.model.leaves();
        from.is_all(tensors, layers.iter().filter(|layer| layer.passes().is_some()).count())?;
        for slot in slots(&self.model, choice, self.pruning.as_ref(), counters.has_state()) {
            let _layer = executor.enter(slot.layer);
            from.find(&slot.name(ledger), slot.shape, slot.dtype)?;
            executor.load(&slot.tensor(&executor, choice)?, &mut |to| from.read(to))?;
            slot.was_replaced(&executor)?;
        }
        for (own, passes) in layers.into_iter().filter_map(Layer::passes).zip(&counters.passes) {
            own.set(*passes);
        }
        self.loss_scale = self.loss_scale.restored(counters.loss_scale);
        self.updates = counters.updates;
        Ok(())
    }
}
