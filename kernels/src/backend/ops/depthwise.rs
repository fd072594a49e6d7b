//! Depthwise convolutions: each channel by a filter of its own.

use super::{Contract, GradInto, OperandBytes, Window, products};
use crate::{
    backend::{
        Backend, DType, Executor, Tensor,
        scratch::{on_cpu, split_reduction},
    },
    device::Processor,
    error::Result,
};

/// A depthwise convolution and its gradients.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Depthwise {
    /// in: `x [batch, height, width, channels]`, `w [size, size, channels]`; out: `y [batch, oh, ow, channels]`.
    Forward(Window),
    /// in: `dy`, `w`; out: `dx`, overwritten.
    InputGrad(Window),
    /// in: `x`, `dy`; out: `dw` (type of `x` or f32), added to when `accumulate`.
    WeightGrad {
        /// The geometry of the forward pass.
        window: Window,
        /// Add to `dw` rather than overwrite it.
        accumulate: bool,
    },
}

impl Depthwise {
    /// The geometry of the forward pass.
    pub fn window(&self) -> &Window {
        match self {
            Self::Forward(window) | Self::InputGrad(window) | Self::WeightGrad { window, .. } => window,
        }
    }
}

impl Contract for Depthwise {
    fn name(&self) -> &'static str {
        match self {
            Self::Forward(_) => "depthwise convolution",
            Self::InputGrad(_) => "depthwise input gradient",
            Self::WeightGrad { .. } => "depthwise weight gradient",
        }
    }

    fn takes(&self, inputs: &[usize], outputs: &[usize]) -> bool {
        let w = self.window();
        w.keeps_channels() && {
            let [x, weight, y] = [w.elements(), w.taps(), w.out_elements()];
            match self {
                Self::Forward(_) => inputs == [x, weight] && outputs == [y],
                Self::InputGrad(_) => inputs == [y, weight] && outputs == [x],
                Self::WeightGrad { .. } => inputs == [x, y] && outputs == [weight],
            }
        }
    }

    fn flops(&self) -> u64 {
        let w = self.window();
        products(w.out_pixels(), w.channels, w.size * w.size)
    }

    fn traffic_bytes(&self, operands: &OperandBytes) -> u64 {
        operands.all()
    }

    fn cpu_scratch_bytes(&self, dtype: DType, _: Processor) -> usize {
        match self {
            Self::Forward(_) | Self::InputGrad(_) => 0,
            Self::WeightGrad { window: w, .. } => on_cpu::depthwise_parts(w) * w.taps() * dtype.accumulator().size(),
        }
    }

    fn cuda_scratch_bytes(&self, dtype: DType) -> usize {
        match self {
            Self::Forward(_) | Self::InputGrad(_) => 0,
            Self::WeightGrad { window: w, .. } => {
                split_reduction::pixel_splits(w) * w.taps() * dtype.accumulator().size()
            }
        }
    }
}

impl<B: Backend> Executor<B> {
    /// Depthwise convolution of `x [batch, height, width, channels]` by `w [size, size, channels]`.
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn depthwise(&self, x: &Tensor<B>, w: &Tensor<B>, window: Window) -> Result<Tensor<B>> {
        let kernel = Depthwise::Forward(window);
        self.expect(kernel.name(), w.elements() == window.taps(), || format!("{w:?} for {window:?}"))?;
        let y = self.windowed(kernel, x, &window)?;
        self.launch(kernel, &[x, w], &[&y])?;
        Ok(y)
    }

    /// Gradient of [`Executor::depthwise`] by its input.
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn depthwise_input_grad(&self, dy: &Tensor<B>, w: &Tensor<B>, window: Window) -> Result<Tensor<B>> {
        self.image_grad(Depthwise::InputGrad(window), &window, &[dy, w])
    }

    /// Gradient of [`Executor::depthwise`] by its weight.
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn depthwise_weight_grad(
        &self,
        x: &Tensor<B>,
        dy: &Tensor<B>,
        window: Window,
        into: GradInto<'_, B>,
    ) -> Result<()> {
        let (dw, accumulate) = into.parts();
        self.launch(Depthwise::WeightGrad { window, accumulate }, &[x, dy], &[dw])
    }
}
