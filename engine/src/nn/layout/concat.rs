//! Concatenates a skip connection and the output of the layers that it skips.

use crate::{
    autograd::{Tape, Value},
    backend::{Backend, Executor},
    error::Result,
    memory::timeline::LayerId,
};

/// Two values side by side: `[..., n]` and `[..., m]` to `[..., n + m]`. Saves nothing.
#[derive(Debug, Clone, Copy)]
pub struct Concat {
    layer: LayerId,
}

impl Concat {
    /// A layer at `path`.
    pub fn new<B: Backend>(executor: &Executor<B>, path: &str) -> Self {
        Self { layer: executor.ledger().layer_id(path) }
    }

    /// Joins two values. This is not a [`Layer`](crate::nn::Layer), because a layer has one input.
    ///
    /// # Errors
    /// The errors of [`Executor::concat`](crate::backend::Executor::concat): the values have different numbers of rows, the
    /// output crosses the budget, or the device fails.
    pub fn forward<'m, B: Backend>(&self, tape: &mut Tape<'m, B>, a: Value<B>, b: Value<B>) -> Result<Value<B>> {
        let _layer = tape.executor().enter(self.layer);
        let y = tape.executor().concat(&a.tensor, &b.tensor)?;
        let (a_id, b_id, at) = (a.id(), b.id(), a.tensor.shape().last());
        drop((a, b));
        Ok(tape.record(self.layer, a_id.is_some() || b_id.is_some(), y, move |back, dy| {
            let width = dy.shape().last();
            for (id, columns) in [(a_id, 0..at), (b_id, at..width)] {
                if let Some(id) = id {
                    back.accumulate_grad(id, back.executor().take_columns(&dy, columns)?)?;
                }
            }
            Ok(())
        }))
    }
}
