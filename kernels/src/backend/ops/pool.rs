//! Pooling of windows and of whole images.

use super::{Contract, OperandBytes, Window};
use crate::{
    backend::{Backend, DType, Executor, Shape, Tensor},
    device::Processor,
    error::Result,
    memory::Category,
};

/// Kernels of pooling.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pool {
    /// in: `x`; out: `y`, and, when given, `index` (u8): the winner's place in its window, `row * size + column`.
    /// The first of equal values wins; padding never wins; a NaN wins over everything.
    Max(Window),
    /// in: `dy`, `index`; out: `dx`, overwritten: each gradient goes to its winner, zero elsewhere.
    MaxGrad(Window),
    /// in: `x [batch, height, width, channels]`; out: `y`, the mean of each window's `size * size` places;
    /// padding counts as zeros, PyTorch's default.
    Average(Window),
    /// in: `dy`; out: `dx`, overwritten.
    AverageGrad(Window),
    /// in: `x [batch, pixels, channels]`; out: `y [batch, channels]`, the mean over pixels.
    Global {
        /// Pixels of one image.
        pixels: usize,
        /// Channels of a pixel.
        channels: usize,
    },
    /// in: `dy [batch, channels]`; out: `dx [batch, pixels, channels]`, overwritten.
    GlobalGrad {
        /// Pixels of one image.
        pixels: usize,
        /// Channels of a pixel.
        channels: usize,
    },
}

impl Contract for Pool {
    fn name(&self) -> &'static str {
        match self {
            Self::Max(_) => "max pool",
            Self::MaxGrad(_) => "max pool gradient",
            Self::Average(_) => "average pool",
            Self::AverageGrad(_) => "average pool gradient",
            Self::Global { .. } => "global average",
            Self::GlobalGrad { .. } => "global average gradient",
        }
    }

    fn takes(&self, inputs: &[usize], outputs: &[usize]) -> bool {
        let fits = |w: &Window, x: usize, y: usize| w.keeps_channels() && [x, y] == [w.elements(), w.out_elements()];
        let means = |pixels: usize, channels: usize, all: usize, means: usize| {
            pixels * channels > 0 && all == means * pixels && means.is_multiple_of(channels)
        };
        match (self, inputs, outputs) {
            (Self::Max(w), [x], [y, index @ ..]) => {
                fits(w, *x, *y) && w.size <= 16 && index.len() <= 1 && index.iter().all(|i| i == y)
            }
            (Self::MaxGrad(w), [dy, index], [dx]) => fits(w, *dx, *dy) && index == dy,
            (Self::Average(w), [x], [y]) => fits(w, *x, *y),
            (Self::AverageGrad(w), [dy], [dx]) => fits(w, *dx, *dy),
            (Self::Global { pixels, channels }, [x], [y]) => means(*pixels, *channels, *x, *y),
            (Self::GlobalGrad { pixels, channels }, [dy], [dx]) => means(*pixels, *channels, *dx, *dy),
            (
                Self::Max(_)
                | Self::MaxGrad(_)
                | Self::Average(_)
                | Self::AverageGrad(_)
                | Self::Global { .. }
                | Self::GlobalGrad { .. },
                _,
                _,
            ) => false,
        }
    }

    fn flops(&self) -> u64 {
        0
    }

    fn traffic_bytes(&self, operands: &OperandBytes) -> u64 {
        operands.all()
    }

    fn cpu_scratch_bytes(&self, _dtype: DType, _: Processor) -> usize {
        0
    }

    fn cuda_scratch_bytes(&self, _dtype: DType) -> usize {
        0
    }
}

impl<B: Backend> Executor<B> {
    /// Max pooling. The winners' places (one byte an output) come along when `keep_index`: the backward pass needs them.
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn max_pool(&self, x: &Tensor<B>, window: Window, keep_index: bool) -> Result<(Tensor<B>, Option<Tensor<B>>)> {
        let kernel = Pool::Max(window);
        self.expect("max pool", window.size <= 16, || format!("a window of {} does not fit one byte", window.size))?;
        let y = self.windowed(kernel, x, &window)?;
        if !keep_index {
            self.launch(kernel, &[x], &[&y])?;
            return Ok((y, None));
        }
        let index = self.allocate(window.out_image(), DType::U8, Category::Activations, "index of maximum")?;
        self.launch(kernel, &[x], &[&y, &index])?;
        Ok((y, Some(index)))
    }

    /// Gradient of [`Executor::max_pool`].
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn max_pool_grad(&self, dy: &Tensor<B>, index: &Tensor<B>, window: Window) -> Result<Tensor<B>> {
        self.image_grad(Pool::MaxGrad(window), &window, &[dy, index])
    }

    /// Average pooling; padding counts as zeros.
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn avg_pool(&self, x: &Tensor<B>, window: Window) -> Result<Tensor<B>> {
        let kernel = Pool::Average(window);
        let y = self.windowed(kernel, x, &window)?;
        self.launch(kernel, &[x], &[&y])?;
        Ok(y)
    }

    /// Gradient of [`Executor::avg_pool`].
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn avg_pool_grad(&self, dy: &Tensor<B>, window: Window) -> Result<Tensor<B>> {
        self.image_grad(Pool::AverageGrad(window), &window, &[dy])
    }

    /// The mean over all dimensions between the first and the last: `[batch, ..., channels]` to `[batch, channels]`.
    ///
    /// # Errors
    /// Fails when memory would cross the budget ([`Error::Budget`](crate::Error::Budget)) or when the device fails.
    pub fn global_pool(&self, x: &Tensor<B>) -> Result<Tensor<B>> {
        let (batch, channels) = (x.shape().dims()[0], x.shape().last());
        let y = self.output([batch, channels], x.dtype(), "global average")?;
        let pixels = x.elements() / y.elements().max(1);
        self.launch(Pool::Global { pixels, channels }, &[x], &[&y])?;
        Ok(y)
    }

    /// Gradient of [`Executor::global_pool`] by an input of `shape`.
    ///
    /// # Errors
    /// Fails when memory would cross the budget ([`Error::Budget`](crate::Error::Budget)) or when the device fails.
    pub fn global_pool_grad(&self, dy: &Tensor<B>, shape: Shape) -> Result<Tensor<B>> {
        let dx = self.output(shape, dy.dtype(), "global average gradient")?;
        let (channels, pixels) = (shape.last(), dx.elements() / dy.elements().max(1));
        self.launch(Pool::GlobalGrad { pixels, channels }, &[dy], &[&dx])?;
        Ok(dx)
    }
}
