//! Views.

use crate::{
    autograd::{Tape, Value},
    backend::{Backend, Executor},
    error::Result,
    memory::timeline::LayerId,
    nn::Layer,
};

/// `[batch, ...]` as `[batch, features]`. Allocates nothing, saves nothing.
pub struct Flatten {
    layer: LayerId,
}

/// `[batch * length, width]` as `[batch, length, width]`. Allocates nothing, saves nothing.
pub struct Sequences {
    layer: LayerId,
    length: usize,
}

impl Sequences {
    /// A layer at `path` over sequences of `length`.
    pub fn new<B: Backend>(executor: &Executor<B>, path: &str, length: usize) -> Self {
        Self { layer: executor.ledger().layer_id(path), length }
    }
}

impl<B: Backend> Layer<B> for Sequences {
    fn forward<'m>(&'m self, tape: &mut Tape<'m, B>, x: Value<B>) -> Result<Value<B>> {
        let (rows, width) = (x.tensor.shape().rows(), x.tensor.shape().last());
        let y = x.tensor.reshape([rows / self.length.max(1), self.length, width]);
        let x_id = x.id();
        drop(x);
        Ok(tape.record(self.layer, x_id.is_some(), y, move |back, dy| {
            let dx = dy.reshape([rows, width]);
            drop(dy);
            x_id.map_or(Ok(()), |id| back.accumulate_grad(id, dx))
        }))
    }

    fn layer(&self) -> LayerId {
        self.layer
    }
}

impl Flatten {
    /// A layer at `path`.
    pub fn new<B: Backend>(executor: &Executor<B>, path: &str) -> Self {
        Self { layer: executor.ledger().layer_id(path) }
    }
}

impl<B: Backend> Layer<B> for Flatten {
    fn forward<'m>(&'m self, tape: &mut Tape<'m, B>, x: Value<B>) -> Result<Value<B>> {
        let shape = x.tensor.shape();
        let batch = shape.dims()[0];
        let y = x.tensor.reshape([batch, shape.elements() / batch.max(1)]);
        let Some(id) = x.id() else { return Ok(Value::constant(y)) };
        drop(x);
        Ok(tape.record(self.layer, true, y, move |back, dy| {
            let dx = match *shape.dims() {
                [a, b, c, d] => dy.reshape([a, b, c, d]),
                _ => dy.reshape([batch, shape.elements() / batch.max(1)]),
            };
            drop(dy);
            back.accumulate_grad(id, dx)
        }))
    }

    fn layer(&self) -> LayerId {
        self.layer
    }
}
