//! Convolutions over `[batch, height, width, channels]`.

mod up;

pub use up::UpConv2d;

use crate::{
    autograd::{Source, Tape, Value},
    backend::{Backend, Executor, Shape, Tensor, Window},
    error::Result,
    memory::timeline::LayerId,
    nn::{
        ChannelGroup, ChannelMap, Init, IntegerLayer, Layer, Param, ParamRole, ParamUse, TensorChannels,
        fused::{Tail, bias_then},
        int8::rounded_gradients,
    },
};

/// The settings of a convolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConvShape {
    /// The number of input channels.
    pub channels: usize,
    /// The number of output channels; as many as input channels for a depthwise convolution.
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

/// Taps of a filter up to which a convolution takes about as long as writing its output. Its output may be recomputed.
const FEW_TAPS: usize = 32;

/// A convolution, dense or depthwise. Saves its input.
pub struct Convolution<B: Backend, const DEPTHWISE: bool> {
    layer: LayerId,
    shape: ConvShape,
    weight: Param<B>,       // [filters, size, size, channels]; depthwise: [size, size, channels]
    bias: Option<Param<B>>, // [filters]
    /// The state of a layer of 8-bit integers. Boxed, because most layers have none.
    integers: Option<Box<IntegerLayer<B>>>,
}

/// A convolution: every filter over all channels. With few taps, its output can be recomputed from its input.
pub type Conv2d<B> = Convolution<B, false>;

/// A depthwise convolution: one filter a channel.
pub type Depthwise<B> = Convolution<B, true>;

/// Extents of an image tensor; ones if there are fewer than four, which the executor's check then refuses.
pub(super) fn image<B: Backend>(x: &Tensor<B>) -> [usize; 4] {
    x.shape().dims().try_into().unwrap_or([1; 4])
}

impl<B: Backend> Conv2d<B> {
    /// A layer at `path` from `channels` to `filters`, with a kernel of side `size`, that keeps height and width.
    ///
    /// # Errors
    /// The errors of [`Init::uniform`]: a parameter crosses the budget, or the device fails.
    pub fn new(init: &mut Init<'_, B>, path: &str, channels: usize, filters: usize, size: usize) -> Result<Self> {
        Self::with(init, path, ConvShape::same(channels, filters, size))
    }
}

impl<B: Backend> Depthwise<B> {
    /// A layer at `path` over `channels`, with kernels of side `size`, that keeps height and width; without bias.
    ///
    /// # Errors
    /// The errors of [`Init::uniform`]: a parameter crosses the budget, or the device fails.
    pub fn new(init: &mut Init<'_, B>, path: &str, channels: usize, size: usize) -> Result<Self> {
        Self::with(init, path, ConvShape { bias: false, ..ConvShape::same(channels, channels, size) })
    }
}

impl<B: Backend, const DEPTHWISE: bool> Convolution<B, DEPTHWISE> {
    /// Makes a layer at `path`; a depthwise layer has as many filters as channels.
    ///
    /// # Errors
    /// The errors of [`Init::uniform`]: a parameter crosses the budget, or the device fails.
    pub fn with(init: &mut Init<'_, B>, path: &str, shape: ConvShape) -> Result<Self> {
        let layer = init.executor().ledger().layer_id(path);
        let ConvShape { channels, filters, size, .. } = shape;
        let fan_in = size * size * if DEPTHWISE { 1 } else { channels };
        let extents = match DEPTHWISE {
            true => Shape::from([size, size, channels]),
            false => Shape::from([filters, size, size, channels]),
        };
        let used_as = if DEPTHWISE { ParamUse::Other } else { ParamUse::HiddenMatrix };
        let weight = init.uniform(layer, ParamRole::Weight, extents, fan_in)?.used(used_as);
        let bias = shape.bias.then(|| init.uniform(layer, ParamRole::Bias, [filters], fan_in)).transpose()?;
        let integers = if DEPTHWISE { None } else { init.integers(layer, fan_in)? };
        Ok(Self { layer, shape, weight, bias, integers })
    }

    fn weight_gradient(&self, executor: &Executor<B>, x: &Tensor<B>, dy: &Tensor<B>, window: Window) -> Result<()> {
        self.weight.accumulate(executor, |into| match DEPTHWISE {
            true => executor.depthwise_weight_grad(x, dy, window, into),
            false => executor.conv2d_weight_grad(x, dy, window, into),
        })
    }

    fn input_gradient(&self, executor: &Executor<B>, dy: &Tensor<B>, window: Window) -> Result<Tensor<B>> {
        match DEPTHWISE {
            true => executor.depthwise_input_grad(dy, self.weight.weight(), window),
            false if self.rounded().is_some() => {
                executor.conv2d_input_grad(dy, &executor.fake_weight(self.weight.weight())?, window)
            }
            false => executor.conv2d_input_grad(dy, self.weight.weight(), window),
        }
    }

    /// The output with `bias`, which is the layer's own, or not added here.
    fn forward_with<'m>(&'m self, tape: &mut Tape<'m, B>, x: Value<B>, bias: Option<&'m Param<B>>) -> Result<Value<B>> {
        let window = self.shape.window(&x.tensor);
        let (weight, added) = (self.weight.weight().clone(), bias.map(|bias| bias.weight().clone()));
        let again = move |executor: &Executor<B>, x: Tensor<B>| {
            convolve::<B, DEPTHWISE>(executor, &x, &weight, added.as_ref(), window)
        };
        if let Some(integers) = &self.integers {
            integers.learn(tape.executor(), &x.tensor, tape.pass())?;
        }
        let y = match self.int8_output(tape.executor(), &x.tensor, window)? {
            Some(y) => y,
            None => again(tape.executor(), x.tensor.clone())?,
        };
        let is_rounded = self.rounded().is_some();
        let is_cheap = !DEPTHWISE && !is_rounded && window.taps() <= FEW_TAPS;
        let source = if is_cheap { tape.recomputable(self.layer, &x, again) } else { Source::Itself };
        let x_id = x.id();
        let needs_input = self.weight.is_trained() || (is_rounded && x_id.is_some());
        let saved = needs_input.then(|| x.save());
        drop(x);
        let requires_grad = x_id.is_some() || saved.is_some();
        let y = tape.record(self.layer, requires_grad, y, move |back, dy| {
            let executor = back.executor().clone();
            if let Some(bias) = bias {
                bias.accumulate(&executor, |into| executor.bias_grad(&dy, into))?;
            }
            let weight_gradient = |x: &Tensor<B>| self.weight_gradient(&executor, x, &dy, window);
            if let Some(range) = self.rounded() {
                let of = (saved, x_id, self.weight.is_trained());
                let input_gradient = || self.input_gradient(&executor, &dy, window);
                return rounded_gradients(back, range, of, weight_gradient, input_gradient);
            }
            back.linear_gradients(saved, weight_gradient, x_id, || self.input_gradient(&executor, &dy, window))
        });
        Ok(y.with_source(source))
    }

    /// The range of the inputs, where it learns with rounded numbers.
    fn rounded(&self) -> Option<&Tensor<B>> {
        self.integers.as_ref().and_then(|integers| integers.learned())
    }

    /// The output, if the layer computes by codes, or by the values of codes.
    fn int8_output(&self, executor: &Executor<B>, x: &Tensor<B>, window: Window) -> Result<Option<Tensor<B>>> {
        let Some(integers) = &self.integers else { return Ok(None) };
        let bias = self.bias.as_ref().map(Param::weight);
        if let Some(y) = integers.output(executor, x, bias, Some(window))? {
            return Ok(Some(y));
        }
        let Some(range) = integers.learned() else { return Ok(None) };
        let x = executor.fake_input(x, range)?;
        let weight = executor.fake_weight(self.weight.weight())?;
        convolve::<B, DEPTHWISE>(executor, &x, &weight, bias, window).map(Some)
    }
}

/// `[batch, out height, out width, filters]` of `x`.
fn convolve<B: Backend, const DEPTHWISE: bool>(
    executor: &Executor<B>,
    x: &Tensor<B>,
    weight: &Tensor<B>,
    bias: Option<&Tensor<B>>,
    window: Window,
) -> Result<Tensor<B>> {
    let y = match DEPTHWISE {
        true => executor.depthwise(x, weight, window)?,
        false => executor.conv2d(x, weight, window)?,
    };
    bias.map_or(Ok(()), |bias| executor.add_bias(&y, bias))?;
    Ok(y)
}

impl<B: Backend, const DEPTHWISE: bool> Layer<B> for Convolution<B, DEPTHWISE> {
    fn forward<'m>(&'m self, tape: &mut Tape<'m, B>, x: Value<B>) -> Result<Value<B>> {
        self.forward_with(tape, x, self.bias.as_ref())
    }

    fn forward_through<'m>(&'m self, tape: &mut Tape<'m, B>, x: Value<B>, tail: Tail<'m, B>) -> Result<Value<B>> {
        match (&self.bias, &self.integers, tail.function_alone()) {
            (Some(bias), None, Some(function)) => {
                let product = self.forward_with(tape, x, None)?;
                bias_then(tape, function, product, bias)
            }
            _ => {
                let y = self.forward(tape, x)?;
                tail.apart(tape, y)
            }
        }
    }

    fn layer(&self) -> LayerId {
        self.layer
    }

    fn buffers(&self) -> Vec<(&'static str, &Tensor<B>)> {
        self.integers.as_ref().and_then(|integers| integers.buffer()).into_iter().collect()
    }

    fn integers(&self) -> Option<&IntegerLayer<B>> {
        self.integers.as_deref()
    }

    fn prunable(&self) -> Option<&Param<B>> {
        (!DEPTHWISE).then_some(&self.weight)
    }

    fn channels(&self, map: &mut ChannelMap, input: ChannelGroup) -> ChannelGroup {
        let output = if DEPTHWISE { input } else { map.group(self.shape.filters) };
        let (layer, rows) = (self.layer, (!DEPTHWISE).then_some(output));
        map.note(TensorChannels { layer, name: self.weight.name(), rows, columns: Some(input) });
        if let Some(bias) = &self.bias {
            map.note(TensorChannels { layer, name: bias.name(), rows: None, columns: Some(output) });
        }
        output
    }

    fn each_param<'a>(&'a self, see: &mut dyn FnMut(&'a Param<B>)) {
        [&self.weight].into_iter().chain(&self.bias).for_each(see);
    }
}
