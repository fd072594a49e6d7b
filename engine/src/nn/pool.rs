//! Pooling.

use crate::{
    autograd::{Tape, Value},
    backend::{Backend, Executor, Tensor, Window},
    error::Result,
    memory::timeline::LayerId,
    nn::{Layer, convolution::image},
};

/// Max pooling with a square window. Saves one byte an output: the winner's place.
pub struct MaxPool {
    layer: LayerId,
    places: Places,
}

/// Average pooling with a square window; padding counts as zeros. Saves nothing.
pub struct AvgPool {
    layer: LayerId,
    places: Places,
}

/// The mean over all pixels: `[batch, ..., channels]` to `[batch, channels]`. Saves nothing.
pub struct GlobalPool {
    layer: LayerId,
}

/// Where windows lie.
#[derive(Debug, Clone, Copy)]
struct Places {
    size: usize,
    stride: usize,
    padding: usize,
}

impl Places {
    fn window<B: Backend>(self, x: &Tensor<B>) -> Window {
        let [batch, height, width, channels] = image(x);
        let Self { size, stride, padding } = self;
        Window { batch, height, width, channels, filters: channels, size, stride, padding }
    }
}

impl MaxPool {
    /// A layer at `path`, without padding.
    pub fn new<B: Backend>(executor: &Executor<B>, path: &str, size: usize, stride: usize) -> Self {
        Self::with(executor, path, size, stride, 0)
    }

    /// A layer at `path`.
    pub fn with<B: Backend>(executor: &Executor<B>, path: &str, size: usize, stride: usize, padding: usize) -> Self {
        Self { layer: executor.ledger().layer_id(path), places: Places { size, stride, padding } }
    }
}

impl AvgPool {
    /// A layer at `path`.
    pub fn new<B: Backend>(executor: &Executor<B>, path: &str, size: usize, stride: usize, padding: usize) -> Self {
        Self { layer: executor.ledger().layer_id(path), places: Places { size, stride, padding } }
    }
}

impl GlobalPool {
    /// A layer at `path`.
    pub fn new<B: Backend>(executor: &Executor<B>, path: &str) -> Self {
        Self { layer: executor.ledger().layer_id(path) }
    }
}

impl<B: Backend> Layer<B> for MaxPool {
    fn forward<'m>(&'m self, tape: &mut Tape<'m, B>, x: Value<B>) -> Result<Value<B>> {
        let window = self.places.window(&x.tensor);
        let x_id = x.id();
        let (y, index) = tape.executor().max_pool(&x.tensor, window, tape.is_recording() && x_id.is_some())?;
        drop(x);
        let (Some(id), Some(index)) = (x_id, index) else { return Ok(Value::constant(y)) };
        Ok(tape.record(self.layer, true, y, move |back, dy| {
            let dx = back.executor().max_pool_grad(&dy, &index, window)?;
            drop(dy);
            back.release([index]);
            back.accumulate_grad(id, dx)
        }))
    }

    fn layer(&self) -> LayerId {
        self.layer
    }
}

impl<B: Backend> Layer<B> for AvgPool {
    fn forward<'m>(&'m self, tape: &mut Tape<'m, B>, x: Value<B>) -> Result<Value<B>> {
        let window = self.places.window(&x.tensor);
        let y = tape.executor().avg_pool(&x.tensor, window)?;
        let Some(id) = x.id() else { return Ok(Value::constant(y)) };
        drop(x);
        Ok(tape.record(self.layer, true, y, move |back, dy| {
            let dx = back.executor().avg_pool_grad(&dy, window)?;
            drop(dy);
            back.accumulate_grad(id, dx)
        }))
    }

    fn layer(&self) -> LayerId {
        self.layer
    }
}

impl<B: Backend> Layer<B> for GlobalPool {
    fn forward<'m>(&'m self, tape: &mut Tape<'m, B>, x: Value<B>) -> Result<Value<B>> {
        let shape = x.tensor.shape();
        let y = tape.executor().global_pool(&x.tensor)?; // [batch, channels]
        let Some(id) = x.id() else { return Ok(Value::constant(y)) };
        drop(x);
        Ok(tape.record(self.layer, true, y, move |back, dy| {
            let dx = back.executor().global_pool_grad(&dy, shape)?;
            drop(dy);
            back.accumulate_grad(id, dx)
        }))
    }

    fn layer(&self) -> LayerId {
        self.layer
    }
}
