//! Transposes.

use crate::{
    autograd::{Tape, Value},
    backend::{Backend, Executor},
    error::Result,
    memory::timeline::LayerId,
    nn::Layer,
};

/// Transposes matrices: `[batch * rows, columns]` to `[batch * columns, rows]`. Saves nothing.
#[derive(Debug)]
pub struct Transpose {
    layer: LayerId,
    rows: usize,
}

impl Transpose {
    /// A layer at `path` over matrices of `rows`.
    pub fn new<B: Backend>(executor: &Executor<B>, path: &str, rows: usize) -> Self {
        Self { layer: executor.ledger().layer_id(path), rows }
    }
}

impl<B: Backend> Layer<B> for Transpose {
    fn forward<'m>(&'m self, tape: &mut Tape<'m, B>, x: Value<B>) -> Result<Value<B>> {
        let (x_id, rows, columns) = (x.id(), self.rows, x.tensor.shape().last());
        let batch = x.tensor.shape().rows() / rows.max(1);
        let y = tape.executor().transpose(&x.tensor.reshape([batch, rows, columns]))?;
        drop(x);
        let y = y.reshape([batch * columns, rows]);
        Ok(tape.record(self.layer, x_id.is_some(), y, move |back, dy| {
            let dx = back.executor().transpose(&dy.reshape([batch, columns, rows]))?;
            drop(dy);
            x_id.map_or(Ok(()), |id| back.accumulate_grad(id, dx.reshape([batch * rows, columns])))
        }))
    }

    fn layer(&self) -> LayerId {
        self.layer
    }
}
