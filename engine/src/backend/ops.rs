//! The ops layers call: shapes checked, outputs allocated, kernels launched. Written once for both backends.

mod attention;
mod columns;
mod gather;
mod norm;
mod sequence;

pub(crate) use norm::{Affine, Running, Statistics};

use crate::{
    backend::{
        Backend, DType, Executor, Kernel, Shape, Tensor, Window,
        kernel::{Curve, MatMul},
    },
    error::{Error, Result},
    memory::{Category, Phase},
};

/// How a weight gradient meets the buffer it goes to.
#[derive(Debug)]
pub enum GradInto<'a, B: Backend> {
    /// First contribution of the step: overwrite.
    Fresh(&'a Tensor<B>),
    /// A later contribution: add.
    Accumulate(&'a Tensor<B>),
}

impl<B: Backend> GradInto<'_, B> {
    fn parts(&self) -> (&Tensor<B>, bool) {
        match self {
            Self::Fresh(t) => (t, false),
            Self::Accumulate(t) => (t, true),
        }
    }
}

impl<B: Backend> Executor<B> {
    /// A layer's result or a gradient on its way: an activation.
    fn activation(&self, shape: impl Into<Shape>, dtype: DType, op: &'static str) -> Result<Tensor<B>> {
        self.ledger().set_op(op);
        let label = if self.ledger().phase() == Phase::Backward { "gradient of output" } else { "output" };
        self.allocate(shape, dtype, Category::Activations, label)
    }

    fn expect(&self, op: &'static str, holds: bool, message: impl FnOnce() -> String) -> Result<()> {
        if holds { Ok(()) } else { Err(Error::Kernel { op, layer: self.ledger().layer_path(), message: message() }) }
    }

    /// `x [rows, in] w^T` with `w [out, in]`: `[rows, out]`.
    pub fn linear(&self, x: &Tensor<B>, w: &Tensor<B>) -> Result<Tensor<B>> {
        let ([out, inner], rows) = (self.matrix("matmul", w)?, x.shape().rows());
        self.expect("matmul", x.shape().last() == inner, || format!("{x:?} by {w:?}"))?;
        let y = self.activation([rows, out], x.dtype(), "matmul")?;
        let product = MatMul { m: rows, n: out, k: inner, transpose_a: false, transpose_b: true, accumulate: false };
        self.launch(Kernel::MatMul(product), &[x, w], &[&y])?;
        Ok(y)
    }

    /// Gradient of [`Executor::linear`] by its input: `dy [rows, out] w`.
    pub fn linear_input_grad(&self, dy: &Tensor<B>, w: &Tensor<B>) -> Result<Tensor<B>> {
        let ([out, inner], rows) = (self.matrix("matmul", w)?, dy.shape().rows());
        self.expect("matmul", dy.shape().last() == out, || format!("{dy:?} by {w:?}"))?;
        let dx = self.activation([rows, inner], dy.dtype(), "matmul")?;
        self.linear_input_grad_into(dy, w, &dx)?;
        Ok(dx)
    }

    /// [`Executor::linear_input_grad`] over what is in `dx [rows, in]`.
    pub fn linear_input_grad_into(&self, dy: &Tensor<B>, w: &Tensor<B>, dx: &Tensor<B>) -> Result<()> {
        let ([out, inner], rows) = (self.matrix("matmul", w)?, dy.shape().rows());
        let holds = dy.shape().last() == out && dx.elements() == rows * inner;
        self.expect("matmul", holds, || format!("{dy:?} by {w:?} into {dx:?}"))?;
        let product = MatMul { m: rows, n: inner, k: out, transpose_a: false, transpose_b: false, accumulate: false };
        self.launch(Kernel::MatMul(product), &[dy, w], &[dx])
    }

    /// Adds [`Executor::linear`] of `x` to `y [rows, out]`.
    pub fn add_linear(&self, x: &Tensor<B>, w: &Tensor<B>, y: &Tensor<B>) -> Result<()> {
        let ([out, inner], rows) = (self.matrix("matmul", w)?, x.shape().rows());
        let holds = x.shape().last() == inner && y.elements() == rows * out;
        self.expect("matmul", holds, || format!("{x:?} by {w:?} onto {y:?}"))?;
        let product = MatMul { m: rows, n: out, k: inner, transpose_a: false, transpose_b: true, accumulate: true };
        self.launch(Kernel::MatMul(product), &[x, w], &[y])
    }

    /// Adds [`Executor::linear_input_grad`] of `dy` to `dx [rows, in]`.
    pub fn add_linear_input_grad(&self, dy: &Tensor<B>, w: &Tensor<B>, dx: &Tensor<B>) -> Result<()> {
        let ([out, inner], rows) = (self.matrix("matmul", w)?, dy.shape().rows());
        let holds = dy.shape().last() == out && dx.elements() == rows * inner;
        self.expect("matmul", holds, || format!("{dy:?} by {w:?} onto {dx:?}"))?;
        let product = MatMul { m: rows, n: inner, k: out, transpose_a: false, transpose_b: false, accumulate: true };
        self.launch(Kernel::MatMul(product), &[dy, w], &[dx])
    }

    /// `factor * x`, in place when nobody else holds `x`.
    pub fn scale(&self, x: Tensor<B>, factor: f64) -> Result<Tensor<B>> {
        let y = self.own(x, "scale")?;
        self.launch(Kernel::Scale(factor), &[], &[&y])?;
        Ok(y)
    }

    /// Gradient of [`Executor::linear`] by its weight: `dy^T x`, into `[out, in]`.
    pub fn linear_weight_grad(&self, x: &Tensor<B>, dy: &Tensor<B>, into: GradInto<'_, B>) -> Result<()> {
        let (dw, accumulate) = into.parts();
        let [out, inner] = self.matrix("matmul", dw)?;
        let rows = x.shape().rows();
        self.expect(
            "matmul",
            dy.shape().rows() == rows && dy.shape().last() == out && x.shape().last() == inner,
            || format!("{dy:?} by {x:?}"),
        )?;
        let product = MatMul { m: out, n: inner, k: rows, transpose_a: true, transpose_b: false, accumulate };
        self.launch(Kernel::MatMul(product), &[dy, x], &[dw])
    }

    fn matrix(&self, op: &'static str, t: &Tensor<B>) -> Result<[usize; 2]> {
        t.shape().dims().try_into().map_err(|_| Error::Kernel {
            op,
            layer: self.ledger().layer_path(),
            message: format!("{t:?} is no matrix"),
        })
    }

    /// `y += bias`, over the last extent, in place.
    pub fn add_bias(&self, y: &Tensor<B>, bias: &Tensor<B>) -> Result<()> {
        self.expect("add bias", bias.elements() == y.shape().last(), || format!("{bias:?} to {y:?}"))?;
        self.launch(Kernel::AddBias, &[bias], &[y])
    }

    /// Gradient of [`Executor::add_bias`] by the bias.
    pub fn bias_grad(&self, dy: &Tensor<B>, into: GradInto<'_, B>) -> Result<()> {
        let (db, accumulate) = into.parts();
        self.expect("bias gradient", db.elements() == dy.shape().last(), || format!("{dy:?} into {db:?}"))?;
        self.launch(Kernel::BiasGrad { accumulate }, &[dy], &[db])
    }

    /// `max(x, 0)`, in place when nobody else holds `x`.
    pub fn relu(&self, x: Tensor<B>) -> Result<Tensor<B>> {
        let y = self.own(x, "relu")?;
        self.launch(Kernel::Relu, &[], &[&y])?;
        Ok(y)
    }

    /// Gradient of [`Executor::relu`] from its output `y`, in place when nobody else holds `dy`.
    pub fn relu_grad(&self, y: &Tensor<B>, dy: Tensor<B>) -> Result<Tensor<B>> {
        let dx = self.own(dy, "relu gradient")?;
        self.launch(Kernel::ReluGrad, &[y], &[&dx])?;
        Ok(dx)
    }

    /// `x` itself when it is nobody else's, else a copy.
    pub(super) fn own(&self, x: Tensor<B>, op: &'static str) -> Result<Tensor<B>> {
        if x.is_unique() {
            return Ok(x);
        }
        let copy = self.activation(x.shape(), x.dtype(), op)?;
        self.launch(Kernel::Cast, &[&x], &[&copy])?;
        Ok(copy)
    }

    /// `min(max(x, 0), 6)`, in place when nobody else holds `x`.
    pub fn relu6(&self, x: Tensor<B>) -> Result<Tensor<B>> {
        let y = self.own(x, "relu6")?;
        self.launch(Kernel::Relu6, &[], &[&y])?;
        Ok(y)
    }

    /// Gradient of [`Executor::relu6`] from its output `y`, in place when nobody else holds `dy`.
    pub fn relu6_grad(&self, y: &Tensor<B>, dy: Tensor<B>) -> Result<Tensor<B>> {
        let dx = self.own(dy, "relu6 gradient")?;
        self.launch(Kernel::Relu6Grad, &[y], &[&dx])?;
        Ok(dx)
    }

    /// A smooth activation of `x`.
    pub fn curve(&self, curve: Curve, x: &Tensor<B>) -> Result<Tensor<B>> {
        let y = self.activation(x.shape(), x.dtype(), Kernel::Curve(curve).name())?;
        self.launch(Kernel::Curve(curve), &[x], &[&y])?;
        Ok(y)
    }

    /// Gradient of [`Executor::curve`] from its input, in place when nobody else holds `dy`.
    pub fn curve_grad(&self, curve: Curve, x: &Tensor<B>, dy: Tensor<B>) -> Result<Tensor<B>> {
        let dx = self.own(dy, Kernel::CurveGrad(curve).name())?;
        self.launch(Kernel::CurveGrad(curve), &[x], &[&dx])?;
        Ok(dx)
    }

    /// Drops a share of the elements, in place when nobody else holds `x`. With the same key, its own gradient.
    pub fn dropout(&self, x: Tensor<B>, share: f64, key: u64) -> Result<Tensor<B>> {
        let y = self.own(x, "dropout")?;
        self.launch(Kernel::Dropout { share, key }, &[], &[&y])?;
        Ok(y)
    }

    /// `y + x`, in `y` when nobody else holds it.
    pub fn add(&self, y: Tensor<B>, x: &Tensor<B>) -> Result<Tensor<B>> {
        self.expect("add", y.elements() == x.elements() && y.dtype() == x.dtype(), || format!("{x:?} to {y:?}"))?;
        let y = self.own(y, "add")?;
        self.launch(Kernel::Add, &[x], &[&y])?;
        Ok(y)
    }

    /// Copies `x` into `y`, converting.
    pub fn cast_into(&self, x: &Tensor<B>, y: &Tensor<B>) -> Result<()> {
        self.expect("cast", y.elements() == x.elements(), || format!("{x:?} into {y:?}"))?;
        self.launch(Kernel::Cast, &[x], &[y])
    }

    /// Convolution of `x [batch, height, width, channels]` by `w [filters, size, size, channels]`.
    pub fn conv2d(&self, x: &Tensor<B>, w: &Tensor<B>, window: Window) -> Result<Tensor<B>> {
        self.expect_image("convolution", x, &window)?;
        self.expect("convolution", w.elements() == window.filters * window.taps(), || format!("{w:?} for {window:?}"))?;
        let y = self.activation(self.out_shape(&window), x.dtype(), "convolution")?;
        self.launch(Kernel::Conv2d(window), &[x, w], &[&y])?;
        Ok(y)
    }

    /// Gradient of [`Executor::conv2d`] by its input.
    pub fn conv2d_input_grad(&self, dy: &Tensor<B>, w: &Tensor<B>, window: Window) -> Result<Tensor<B>> {
        let dx = self.activation(
            [window.batch, window.height, window.width, window.channels],
            dy.dtype(),
            "convolution input gradient",
        )?;
        self.launch(Kernel::Conv2dInputGrad(window), &[dy, w], &[&dx])?;
        Ok(dx)
    }

    /// Gradient of [`Executor::conv2d`] by its weight.
    pub fn conv2d_weight_grad(
        &self,
        x: &Tensor<B>,
        dy: &Tensor<B>,
        window: Window,
        into: GradInto<'_, B>,
    ) -> Result<()> {
        let (dw, accumulate) = into.parts();
        self.launch(Kernel::Conv2dWeightGrad { window, accumulate }, &[x, dy], &[dw])
    }

    /// Depthwise convolution of `x [batch, height, width, channels]` by `w [size, size, channels]`.
    pub fn depthwise(&self, x: &Tensor<B>, w: &Tensor<B>, window: Window) -> Result<Tensor<B>> {
        self.expect_image("depthwise convolution", x, &window)?;
        self.expect("depthwise convolution", w.elements() == window.taps(), || format!("{w:?} for {window:?}"))?;
        let y = self.activation(self.out_shape(&window), x.dtype(), "depthwise convolution")?;
        self.launch(Kernel::Depthwise(window), &[x, w], &[&y])?;
        Ok(y)
    }

    /// Gradient of [`Executor::depthwise`] by its input.
    pub fn depthwise_input_grad(&self, dy: &Tensor<B>, w: &Tensor<B>, window: Window) -> Result<Tensor<B>> {
        let dx = self.activation(
            [window.batch, window.height, window.width, window.channels],
            dy.dtype(),
            "depthwise input gradient",
        )?;
        self.launch(Kernel::DepthwiseInputGrad(window), &[dy, w], &[&dx])?;
        Ok(dx)
    }

    /// Gradient of [`Executor::depthwise`] by its weight.
    pub fn depthwise_weight_grad(
        &self,
        x: &Tensor<B>,
        dy: &Tensor<B>,
        window: Window,
        into: GradInto<'_, B>,
    ) -> Result<()> {
        let (dw, accumulate) = into.parts();
        self.launch(Kernel::DepthwiseWeightGrad { window, accumulate }, &[x, dy], &[dw])
    }

    /// Max pooling. The winners' places (one byte an output) come along when `keep_index`: the backward pass needs them.
    pub fn max_pool(&self, x: &Tensor<B>, window: Window, keep_index: bool) -> Result<(Tensor<B>, Option<Tensor<B>>)> {
        self.expect_image("max pool", x, &window)?;
        self.expect("max pool", window.size <= 16, || format!("a window of {} does not fit one byte", window.size))?;
        let y = self.activation(self.out_shape(&window), x.dtype(), "max pool")?;
        if !keep_index {
            self.launch(Kernel::MaxPool(window), &[x], &[&y])?;
            return Ok((y, None));
        }
        let index = self.allocate(self.out_shape(&window), DType::U8, Category::Activations, "index of maximum")?;
        self.launch(Kernel::MaxPool(window), &[x], &[&y, &index])?;
        Ok((y, Some(index)))
    }

    /// Gradient of [`Executor::max_pool`].
    pub fn max_pool_grad(&self, dy: &Tensor<B>, index: &Tensor<B>, window: Window) -> Result<Tensor<B>> {
        let dx = self.activation(
            [window.batch, window.height, window.width, window.channels],
            dy.dtype(),
            "max pool gradient",
        )?;
        self.launch(Kernel::MaxPoolGrad(window), &[dy, index], &[&dx])?;
        Ok(dx)
    }

    /// Average pooling; padding counts as zeros.
    pub fn avg_pool(&self, x: &Tensor<B>, window: Window) -> Result<Tensor<B>> {
        self.expect_image("average pool", x, &window)?;
        let y = self.activation(self.out_shape(&window), x.dtype(), "average pool")?;
        self.launch(Kernel::AvgPool(window), &[x], &[&y])?;
        Ok(y)
    }

    /// Gradient of [`Executor::avg_pool`].
    pub fn avg_pool_grad(&self, dy: &Tensor<B>, window: Window) -> Result<Tensor<B>> {
        let shape = [window.batch, window.height, window.width, window.channels];
        let dx = self.activation(shape, dy.dtype(), "average pool gradient")?;
        self.launch(Kernel::AvgPoolGrad(window), &[dy], &[&dx])?;
        Ok(dx)
    }

    /// The mean over all extents between the first and the last: `[batch, ..., channels]` to `[batch, channels]`.
    pub fn global_pool(&self, x: &Tensor<B>) -> Result<Tensor<B>> {
        let (batch, channels) = (x.shape().dims()[0], x.shape().last());
        let y = self.activation([batch, channels], x.dtype(), "global average")?;
        let pixels = x.elements() / y.elements().max(1);
        self.launch(Kernel::GlobalPool { pixels, channels }, &[x], &[&y])?;
        Ok(y)
    }

    /// Gradient of [`Executor::global_pool`] by an input of `shape`.
    pub fn global_pool_grad(&self, dy: &Tensor<B>, shape: Shape) -> Result<Tensor<B>> {
        let dx = self.activation(shape, dy.dtype(), "global average gradient")?;
        let (channels, pixels) = (shape.last(), dx.elements() / dy.elements().max(1));
        self.launch(Kernel::GlobalPoolGrad { pixels, channels }, &[dy], &[&dx])?;
        Ok(dx)
    }

    fn out_shape(&self, window: &Window) -> [usize; 4] {
        [window.batch, window.out_height(), window.out_width(), window.filters]
    }

    fn expect_image(&self, op: &'static str, x: &Tensor<B>, window: &Window) -> Result<()> {
        let wanted = Shape::from([window.batch, window.height, window.width, window.channels]);
        self.expect(op, x.shape() == wanted, || format!("{x:?} is not [{wanted}]"))
    }

    /// Adds the batch's loss and count of right answers to `stats [2]`.
    pub fn cross_entropy(&self, logits: &Tensor<B>, labels: &Tensor<B>, stats: &Tensor<B>) -> Result<()> {
        self.expect("cross entropy", logits.shape().rows() == labels.elements(), || {
            format!("{logits:?} against {labels:?}")
        })?;
        self.launch(Kernel::CrossEntropy, &[logits, labels], &[stats])
    }

    /// The gradient of `scale` times the summed loss by the logits, in place when nobody else holds them.
    pub fn cross_entropy_grad(&self, logits: Tensor<B>, labels: &Tensor<B>, scale: f64) -> Result<Tensor<B>> {
        let gradient = self.own(logits, "cross entropy gradient")?;
        self.launch(Kernel::CrossEntropyGrad { scale }, &[labels], &[&gradient])?;
        Ok(gradient)
    }
}
