//! The class token (Devlin et al. 2019; Dosovitskiy et al. 2021): a learned row before each sequence, from which the
//! head reads.

use crate::{
    autograd::{Tape, Value},
    backend::{Backend, Executor, Tensor},
    error::Result,
    memory::timeline::LayerId,
    nn::{Init, Layer, Param, ParamRole, Start},
};

/// Puts a learned row before each sequence: `[batch * length, width]` to `[batch * (length + 1), width]`. Saves nothing.
pub struct ClassToken<B: Backend> {
    layer: LayerId,
    length: usize,
    weight: Param<B>, // [width]
}

/// The first row of each sequence: `[batch * length, width]` to `[batch, width]`. Saves nothing.
#[derive(Debug)]
pub struct TakeFirst {
    layer: LayerId,
    length: usize,
}

impl<B: Backend> ClassToken<B> {
    /// A layer at `path` before sequences of `length`.
    ///
    /// # Errors
    /// The errors of [`Init::param`]: a parameter crosses the budget, or the device fails.
    pub fn new(init: &mut Init<'_, B>, path: &str, length: usize, width: usize, start: Start) -> Result<Self> {
        let layer = init.executor().ledger().layer_id(path);
        Ok(Self { layer, length, weight: init.param(layer, ParamRole::Weight, [width], start)? })
    }
}

impl TakeFirst {
    /// A layer at `path` over sequences of `length`.
    pub fn new<B: Backend>(executor: &Executor<B>, path: &str, length: usize) -> Self {
        Self { layer: executor.ledger().layer_id(path), length }
    }
}

/// Sequences of `length` in `x [..., width]`.
fn sequences<B: Backend>(x: &Tensor<B>, length: usize) -> usize {
    x.shape().rows() / length.max(1)
}

impl<B: Backend> Layer<B> for ClassToken<B> {
    fn forward<'m>(&'m self, tape: &mut Tape<'m, B>, x: Value<B>) -> Result<Value<B>> {
        let (length, width) = (self.length, x.tensor.shape().last());
        let (x_id, shape, batch) = (x.id(), x.tensor.shape(), sequences(&x.tensor, length));
        let y = tape.executor().prepend(self.weight.weight(), &x.tensor.reshape([batch, length, width]))?;
        drop(x);
        let y = y.reshape([batch * (length + 1), width]);
        Ok(tape.record(self.layer, x_id.is_some() || self.weight.is_trained(), y, move |back, dy| {
            let executor = back.executor();
            let dy = dy.reshape([batch, (length + 1) * width]);
            self.weight.accumulate(executor, |into| {
                let first = executor.take_columns(&dy, 0..width)?; // [batch, width]
                executor.bias_grad(&first, into)
            })?;
            let Some(id) = x_id else { return Ok(()) };
            let dx = executor.take_columns(&dy, width..(length + 1) * width)?;
            drop(dy);
            back.accumulate_grad(id, dx.reshape(shape))
        }))
    }

    fn layer(&self) -> LayerId {
        self.layer
    }

    fn each_param<'a>(&'a self, see: &mut dyn FnMut(&'a Param<B>)) {
        see(&self.weight);
    }
}

impl<B: Backend> Layer<B> for TakeFirst {
    fn forward<'m>(&'m self, tape: &mut Tape<'m, B>, x: Value<B>) -> Result<Value<B>> {
        let (x_id, shape, batch) = (x.id(), x.tensor.shape(), sequences(&x.tensor, self.length));
        let (width, columns) = (shape.last(), self.length * shape.last());
        let y = tape.executor().take_columns(&x.tensor.reshape([batch, columns]), 0..width)?; // [batch, width]
        drop(x);
        Ok(tape.record(self.layer, x_id.is_some(), y, move |back, dy| {
            let dx = back.executor().take_columns_grad(&dy, 0, [batch, columns].into())?;
            drop(dy);
            x_id.map_or(Ok(()), |id| back.accumulate_grad(id, dx.reshape(shape)))
        }))
    }

    fn layer(&self) -> LayerId {
        self.layer
    }
}
