//! Convolutions over `[batch, height, width, channels]`, odd kernels, "same" padding.

use crate::{
    autograd::{Tape, Value},
    backend::{Backend, Tensor, Window},
    error::Result,
    memory::timeline::LayerId,
    nn::{Init, Layer, Param},
};

/// A convolution with bias. Saves its input.
pub struct Conv2d<B: Backend> {
    layer: LayerId,
    weight: Param<B>, // [filters, size, size, channels]
    bias: Param<B>,   // [filters]
}

/// A depthwise convolution without bias: one filter a channel. Saves its input.
pub struct Depthwise<B: Backend> {
    layer: LayerId,
    weight: Param<B>, // [size, size, channels]
}

/// The window that keeps height and width: stride 1, padding of half the kernel.
fn same<B: Backend>(x: &Tensor<B>, filters: usize, size: usize) -> Window {
    let [batch, height, width, channels] = image(x);
    Window { batch, height, width, channels, filters, size, stride: 1, padding: size / 2 }
}

/// Extents of an image tensor; ones where there are fewer than four, which the executor's check then refuses.
pub(super) fn image<B: Backend>(x: &Tensor<B>) -> [usize; 4] {
    x.shape().dims().try_into().unwrap_or([1; 4])
}

impl<B: Backend> Conv2d<B> {
    /// A layer at `path` from `channels` to `filters`, with a kernel of side `size`.
    pub fn new(init: &mut Init<'_, B>, path: &str, channels: usize, filters: usize, size: usize) -> Result<Self> {
        let layer = init.executor().ledger().layer_id(path);
        let fan_in = size * size * channels;
        let weight = init.uniform(layer, "weight", [filters, size, size, channels], fan_in)?;
        let bias = init.uniform(layer, "bias", [filters], fan_in)?;
        Ok(Self { layer, weight, bias })
    }
}

impl<B: Backend> Layer<B> for Conv2d<B> {
    fn forward<'m>(&'m self, tape: &mut Tape<'m, B>, x: Value<B>) -> Result<Value<B>> {
        let executor = tape.executor();
        let [filters, size, ..] = image(self.weight.weight());
        let window = same(&x.tensor, filters, size);
        let y = executor.conv2d(&x.tensor, self.weight.weight(), window)?; // [batch, height, width, filters]
        executor.add_bias(&y, self.bias.weight())?;
        let x_id = x.id();
        let x = x.tensor;
        Ok(tape.record(self.layer, true, y, move |back, dy| {
            let executor = back.executor();
            self.bias.accumulate(executor, |into| executor.bias_grad(&dy, into))?;
            self.weight.accumulate(executor, |into| executor.conv2d_weight_grad(&x, &dy, window, into))?;
            drop(x);
            match x_id {
                Some(id) => back.give(id, back.executor().conv2d_input_grad(&dy, self.weight.weight(), window)?),
                None => Ok(()),
            }
        }))
    }

    fn layer(&self) -> LayerId {
        self.layer
    }

    fn params(&self) -> Vec<&Param<B>> {
        vec![&self.weight, &self.bias]
    }
}

impl<B: Backend> Depthwise<B> {
    /// A layer at `path` over `channels`, with kernels of side `size`.
    pub fn new(init: &mut Init<'_, B>, path: &str, channels: usize, size: usize) -> Result<Self> {
        let layer = init.executor().ledger().layer_id(path);
        Ok(Self { layer, weight: init.uniform(layer, "weight", [size, size, channels], size * size)? })
    }
}

impl<B: Backend> Layer<B> for Depthwise<B> {
    fn forward<'m>(&'m self, tape: &mut Tape<'m, B>, x: Value<B>) -> Result<Value<B>> {
        let weight = self.weight.weight();
        let window = same(&x.tensor, weight.shape().last(), weight.shape().dims()[0]);
        let y = tape.executor().depthwise(&x.tensor, weight, window)?; // [batch, height, width, channels]
        let x_id = x.id();
        let x = x.tensor;
        Ok(tape.record(self.layer, true, y, move |back, dy| {
            let executor = back.executor();
            self.weight.accumulate(executor, |into| executor.depthwise_weight_grad(&x, &dy, window, into))?;
            drop(x);
            match x_id {
                Some(id) => back.give(id, back.executor().depthwise_input_grad(&dy, self.weight.weight(), window)?),
                None => Ok(()),
            }
        }))
    }

    fn layer(&self) -> LayerId {
        self.layer
    }

    fn params(&self) -> Vec<&Param<B>> {
        vec![&self.weight]
    }
}
