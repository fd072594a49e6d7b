//! Convolutions over `[batch, height, width, channels]`.

use crate::{
    autograd::{Tape, Value},
    backend::{Backend, Tensor, Window},
    error::Result,
    memory::timeline::LayerId,
    nn::{Init, Layer, Param},
};

/// What a convolution is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConvShape {
    /// Input channels.
    pub channels: usize,
    /// Output channels; as many as input channels for a depthwise convolution.
    pub filters: usize,
    /// Side of the square kernel.
    pub size: usize,
    /// Step between windows.
    pub stride: usize,
    /// Zeros around the image.
    pub padding: usize,
    /// Whether a bias is added.
    pub bias: bool,
}

impl ConvShape {
    /// Height and width stay (for odd kernels): stride 1, padding of half the kernel; with bias.
    pub fn same(channels: usize, filters: usize, size: usize) -> Self {
        Self { channels, filters, size, stride: 1, padding: size / 2, bias: true }
    }

    /// Where its windows lie on `x`.
    fn window<B: Backend>(&self, x: &Tensor<B>) -> Window {
        let [batch, height, width, channels] = image(x);
        let Self { filters, size, stride, padding, .. } = *self;
        Window { batch, height, width, channels, filters, size, stride, padding }
    }
}

/// A convolution. Saves its input.
pub struct Conv2d<B: Backend> {
    layer: LayerId,
    shape: ConvShape,
    weight: Param<B>,       // [filters, size, size, channels]
    bias: Option<Param<B>>, // [filters]
}

/// A depthwise convolution: one filter a channel. Saves its input.
pub struct Depthwise<B: Backend> {
    layer: LayerId,
    shape: ConvShape,
    weight: Param<B>,       // [size, size, channels]
    bias: Option<Param<B>>, // [channels]
}

/// Extents of an image tensor; ones where there are fewer than four, which the executor's check then refuses.
pub(super) fn image<B: Backend>(x: &Tensor<B>) -> [usize; 4] {
    x.shape().dims().try_into().unwrap_or([1; 4])
}

impl<B: Backend> Conv2d<B> {
    /// A layer at `path` from `channels` to `filters`, with a kernel of side `size`, that keeps height and width.
    pub fn new(init: &mut Init<'_, B>, path: &str, channels: usize, filters: usize, size: usize) -> Result<Self> {
        Self::with(init, path, ConvShape::same(channels, filters, size))
    }

    /// A layer at `path`.
    pub fn with(init: &mut Init<'_, B>, path: &str, shape: ConvShape) -> Result<Self> {
        let layer = init.executor().ledger().layer_id(path);
        let ConvShape { channels, filters, size, .. } = shape;
        let fan_in = size * size * channels;
        let weight = init.uniform(layer, "weight", [filters, size, size, channels], fan_in)?;
        let bias = shape.bias.then(|| init.uniform(layer, "bias", [filters], fan_in)).transpose()?;
        Ok(Self { layer, shape, weight, bias })
    }
}

impl<B: Backend> Layer<B> for Conv2d<B> {
    fn forward<'m>(&'m self, tape: &mut Tape<'m, B>, x: Value<B>) -> Result<Value<B>> {
        let executor = tape.executor();
        let window = self.shape.window(&x.tensor);
        let y = executor.conv2d(&x.tensor, self.weight.weight(), window)?; // [batch, out height, out width, filters]
        if let Some(bias) = &self.bias {
            executor.add_bias(&y, bias.weight())?;
        }
        let x_id = x.id();
        let x = x.tensor;
        Ok(tape.record(self.layer, true, y, move |back, dy| {
            let executor = back.executor();
            if let Some(bias) = &self.bias {
                bias.accumulate(executor, |into| executor.bias_grad(&dy, into))?;
            }
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
        [&self.weight].into_iter().chain(&self.bias).collect()
    }
}

impl<B: Backend> Depthwise<B> {
    /// A layer at `path` over `channels`, with kernels of side `size`, that keeps height and width; without bias.
    pub fn new(init: &mut Init<'_, B>, path: &str, channels: usize, size: usize) -> Result<Self> {
        Self::with(init, path, ConvShape { bias: false, ..ConvShape::same(channels, channels, size) })
    }

    /// A layer at `path`; its filters are as many as its channels.
    pub fn with(init: &mut Init<'_, B>, path: &str, shape: ConvShape) -> Result<Self> {
        let layer = init.executor().ledger().layer_id(path);
        let ConvShape { channels, size, .. } = shape;
        let weight = init.uniform(layer, "weight", [size, size, channels], size * size)?;
        let bias = shape.bias.then(|| init.uniform(layer, "bias", [channels], size * size)).transpose()?;
        Ok(Self { layer, shape, weight, bias })
    }
}

impl<B: Backend> Layer<B> for Depthwise<B> {
    fn forward<'m>(&'m self, tape: &mut Tape<'m, B>, x: Value<B>) -> Result<Value<B>> {
        let executor = tape.executor();
        let window = self.shape.window(&x.tensor);
        let y = executor.depthwise(&x.tensor, self.weight.weight(), window)?; // [batch, out height, out width, channels]
        if let Some(bias) = &self.bias {
            executor.add_bias(&y, bias.weight())?;
        }
        let x_id = x.id();
        let x = x.tensor;
        Ok(tape.record(self.layer, true, y, move |back, dy| {
            let executor = back.executor();
            if let Some(bias) = &self.bias {
                bias.accumulate(executor, |into| executor.bias_grad(&dy, into))?;
            }
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
        [&self.weight].into_iter().chain(&self.bias).collect()
    }
}
