//! Pooling.

use crate::{
    autograd::{Tape, Value},
    backend::{Backend, Executor, Window},
    error::Result,
    memory::timeline::LayerId,
    nn::{Layer, conv::image},
};

/// Max pooling with a square window. Saves one byte an output: the winner's place.
pub struct MaxPool {
    layer: LayerId,
    size: usize,
    stride: usize,
}

impl MaxPool {
    /// A layer at `path`.
    pub fn new<B: Backend>(executor: &Executor<B>, path: &str, size: usize, stride: usize) -> Self {
        Self { layer: executor.ledger().layer_id(path), size, stride }
    }
}

impl<B: Backend> Layer<B> for MaxPool {
    fn forward<'m>(&'m self, tape: &mut Tape<'m, B>, x: Value<B>) -> Result<Value<B>> {
        let [batch, height, width, channels] = image(&x.tensor);
        let (size, stride) = (self.size, self.stride);
        let window = Window { batch, height, width, channels, filters: channels, size, stride, padding: 0 };
        let x_id = x.id();
        let (y, index) = tape.executor().max_pool(&x.tensor, window, tape.is_recording() && x_id.is_some())?;
        drop(x);
        let (Some(id), Some(index)) = (x_id, index) else { return Ok(Value::constant(y)) };
        Ok(tape.record(self.layer, true, y, move |back, dy| {
            let dx = back.executor().max_pool_grad(&dy, &index, window)?;
            back.give(id, dx)
        }))
    }

    fn layer(&self) -> LayerId {
        self.layer
    }
}
