//! The up-convolution of U-Net (Ronneberger et al. 2015).

use crate::{
    autograd::{Tape, Value},
    backend::{Backend, Tensor, Window},
    error::Result,
    memory::timeline::LayerId,
    nn::{Init, Layer, Param, ParamRole, ParamUse, convolution::image},
};

/// A transposed convolution, 2 x 2 with stride 2, that doubles height and width. It computes the input gradient of a
/// convolution. Saves its input.
pub struct UpConv2d<B: Backend> {
    layer: LayerId,
    filters: usize,
    weight: Param<B>, // [channels, 2, 2, filters]
    bias: Param<B>,   // [filters]
}

impl<B: Backend> UpConv2d<B> {
    /// A layer at `path` from `channels` to `filters`.
    ///
    /// # Errors
    /// The errors of [`Init::uniform`]: a parameter crosses the budget, or the device fails.
    pub fn new(init: &mut Init<'_, B>, path: &str, channels: usize, filters: usize) -> Result<Self> {
        let layer = init.executor().ledger().layer_id(path);
        // Windows do not overlap: each output reads one pixel.
        let weight = init.uniform(layer, ParamRole::Weight, [channels, 2, 2, filters], channels)?;
        let weight = weight.used(ParamUse::HiddenMatrix);
        let bias = init.uniform(layer, ParamRole::Bias, [filters], channels)?;
        Ok(Self { layer, filters, weight, bias })
    }

    /// The window of the convolution from the output to `x`.
    fn window(&self, x: &Tensor<B>) -> Window {
        let [batch, height, width, channels] = image(x);
        let (height, width) = (2 * height, 2 * width);
        Window { batch, height, width, channels: self.filters, filters: channels, size: 2, stride: 2, padding: 0 }
    }
}

impl<B: Backend> Layer<B> for UpConv2d<B> {
    fn forward<'m>(&'m self, tape: &mut Tape<'m, B>, x: Value<B>) -> Result<Value<B>> {
        let executor = tape.executor();
        let window = self.window(&x.tensor);
        let y = executor.conv2d_input_grad(&x.tensor, self.weight.weight(), window)?; // [batch, 2 height, 2 width, filters]
        executor.add_bias(&y, self.bias.weight())?;
        let x_id = x.id();
        let x = self.weight.is_trained().then_some(x.tensor);
        let requires_grad = x_id.is_some() || self.weight.is_trained();
        Ok(tape.record(self.layer, requires_grad, y, move |back, dy| {
            let executor = back.executor();
            self.bias.accumulate(executor, |into| executor.bias_grad(&dy, into))?;
            if let Some(x) = x {
                self.weight.accumulate(executor, |into| executor.conv2d_weight_grad(&dy, &x, window, into))?;
                back.release([x]);
            }
            match x_id {
                Some(id) => back.accumulate_grad(id, back.executor().conv2d(&dy, self.weight.weight(), window)?),
                None => Ok(()),
            }
        }))
    }

    fn layer(&self) -> LayerId {
        self.layer
    }

    fn prunable(&self) -> Option<&Param<B>> {
        Some(&self.weight)
    }

    fn each_param<'a>(&'a self, see: &mut dyn FnMut(&'a Param<B>)) {
        [&self.weight, &self.bias].into_iter().for_each(see);
    }
}
