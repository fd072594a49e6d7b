//! Convolutions over images `[batch, height, width, channels]`.

use super::{Contract, GradInto, OperandBytes, Window, products};
use crate::{
    backend::{Backend, DType, Executor, Tensor, scratch::gemm},
    device::Processor,
    error::Result,
};

/// A convolution and its gradients.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Convolution {
    /// in: `x [batch, height, width, channels]`, `w [filters, size, size, channels]`; out: `y [batch, oh, ow, filters]`.
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

impl Convolution {
    /// The geometry of the forward pass.
    pub fn window(&self) -> &Window {
        match self {
            Self::Forward(window) | Self::InputGrad(window) | Self::WeightGrad { window, .. } => window,
        }
    }

    /// Elements of the patches that are multiplied by filters, or that gradients are made of.
    pub(in crate::backend) fn gathered(&self) -> u64 {
        let w = self.window();
        (w.out_pixels() * w.taps()) as u64
    }
}

impl Contract for Convolution {
    fn name(&self) -> &'static str {
        match self {
            Self::Forward(_) => "convolution",
            Self::InputGrad(_) => "convolution input gradient",
            Self::WeightGrad { .. } => "convolution weight gradient",
        }
    }

    fn takes(&self, inputs: &[usize], outputs: &[usize]) -> bool {
        let w = self.window();
        w.is_valid() && {
            let [x, weight, y] = [w.elements(), w.filters * w.taps(), w.out_elements()];
            match self {
                Self::Forward(_) => inputs == [x, weight] && outputs == [y],
                Self::InputGrad(_) => inputs == [y, weight] && outputs == [x],
                Self::WeightGrad { .. } => inputs == [x, y] && outputs == [weight],
            }
        }
    }

    fn flops(&self) -> u64 {
        let w = self.window();
        products(w.out_pixels(), w.filters, w.taps())
    }

    fn traffic_bytes(&self, operands: &OperandBytes) -> u64 {
        operands.all()
    }

    fn cpu_scratch_bytes(&self, dtype: DType, processor: Processor) -> usize {
        match self {
            Self::Forward(w) => gemm::convolution(w, dtype, processor),
            Self::InputGrad(w) => gemm::convolution_input_grad(w, dtype, processor),
            Self::WeightGrad { window, .. } => gemm::convolution_weight_grad(window, dtype, processor),
        }
    }

    fn cuda_scratch_bytes(&self, _dtype: DType) -> usize {
        // cuDNN and cuBLAS work in the run's workspace.
        0
    }
}

impl<B: Backend> Executor<B> {
    /// Convolution of `x [batch, height, width, channels]` by `w [filters, size, size, channels]`.
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn conv2d(&self, x: &Tensor<B>, w: &Tensor<B>, window: Window) -> Result<Tensor<B>> {
        let kernel = Convolution::Forward(window);
        let holds = w.elements() == window.filters * window.taps();
        self.expect(kernel.name(), holds, || format!("{w:?} for {window:?}"))?;
        let y = self.windowed(kernel, x, &window)?;
        self.launch(kernel, &[x, w], &[&y])?;
        Ok(y)
    }

    /// Gradient of [`Executor::conv2d`] by its input.
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn conv2d_input_grad(&self, dy: &Tensor<B>, w: &Tensor<B>, window: Window) -> Result<Tensor<B>> {
        self.image_grad(Convolution::InputGrad(window), &window, &[dy, w])
    }

    /// Gradient of [`Executor::conv2d`] by its weight.
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn conv2d_weight_grad(
        &self,
        x: &Tensor<B>,
        dy: &Tensor<B>,
        window: Window,
        into: GradInto<'_, B>,
    ) -> Result<()> {
        let (dw, accumulate) = into.parts();
        self.launch(Convolution::WeightGrad { window, accumulate }, &[x, dy], &[dw])
    }
}
