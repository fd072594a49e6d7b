//! Dense layers: products of matrices, and the bias.
//!
//! On a GPU, cuBLASLt runs a product with its bias as one kernel where it serves it. A bias is then added, and GELU applied,
//! before the sum is rounded to the type of the elements, and a bias's gradient is summed in f32 (f64 for f64), in an order of
//! the library's. Otherwise the kernels are those of the parts one after the other, and round as they do.

use super::{Contract, GradInto, OperandBytes, products};
use crate::{
    backend::{
        Backend, DType, Executor, Tensor,
        scratch::{gemm, split_reduction},
    },
    device::Processor,
    error::Result,
};

/// A matrix product `c = op(a) op(b)`, or `c += op(a) op(b)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MatMul {
    /// Rows of `c`.
    pub m: usize,
    /// Columns of `c`.
    pub n: usize,
    /// Terms of each sum.
    pub k: usize,
    /// `a` is stored `[k, m]` rather than `[m, k]`.
    pub transpose_a: bool,
    /// `b` is stored `[n, k]` rather than `[k, n]`.
    pub transpose_b: bool,
    /// Add to `c` rather than overwrite it.
    pub accumulate: bool,
}

/// Kernels of dense layers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Linear {
    /// in: `a`, `b` of one type; out: `c` of that type or f32.
    MatMul(MatMul),
    /// in: `bias [columns]`; out: `y [rows, columns]`, updated: `y += bias`.
    AddBias,
    /// in: `dy [rows, columns]`; out: `db [columns]` (type of `dy` or f32), the sum over rows, added to `db` when
    /// `accumulate`.
    BiasGrad {
        /// Add to `db` rather than overwrite it.
        accumulate: bool,
    },
    /// in: `a`, `b`, `bias [n]`, all of one type; out: `c` of that type, the product plus the bias.
    Biased(MatMul),
    /// in: as of [`Linear::Biased`]; out: `c`, as of it, and `y`, GELU of that in its tanh form.
    BiasedGelu(MatMul),
    /// in: `dy`, `w`, `sum`; out: `dx`, the product times the derivative at `sum` of GELU in its tanh form. All are of one type.
    GeluGrad(MatMul),
    /// in: `dy`, `x`; out: `dw`, their product, `db [m]` (type of `dw`), the sum of `dy` over rows. Both are added to where the
    /// product is.
    WeightGrads(MatMul),
}

impl Linear {
    /// The product, of kernels that have one.
    fn product(&self) -> Option<&MatMul> {
        match self {
            Self::MatMul(p) | Self::Biased(p) | Self::BiasedGelu(p) | Self::GeluGrad(p) | Self::WeightGrads(p) => {
                Some(p)
            }
            Self::AddBias | Self::BiasGrad { .. } => None,
        }
    }
}

impl MatMul {
    /// Elements of `a`, `b` and `c`.
    fn elements(&self) -> [usize; 3] {
        [self.m * self.k, self.k * self.n, self.m * self.n]
    }
}

impl Contract for Linear {
    fn name(&self) -> &'static str {
        match self {
            Self::MatMul(_) => "matmul",
            Self::AddBias => "add bias",
            Self::BiasGrad { .. } => "bias gradient",
            Self::Biased(_) => "matmul, bias",
            Self::BiasedGelu(_) => "matmul, bias, gelu",
            Self::GeluGrad(_) => "matmul, gelu gradient",
            Self::WeightGrads(_) => "matmul, bias gradient",
        }
    }

    fn takes(&self, inputs: &[usize], outputs: &[usize]) -> bool {
        let repeats = |part: usize, all: usize| part > 0 && all.is_multiple_of(part);
        match self {
            Self::MatMul(p) => {
                matches!((inputs, outputs), ([a, b], [c]) if [*a, *b, *c] == p.elements())
            }
            Self::Biased(p) => match (inputs, outputs) {
                ([a, b, bias], [c]) => [*a, *b, *c] == p.elements() && *bias == p.n && !p.accumulate,
                _ => false,
            },
            Self::BiasedGelu(p) => match (inputs, outputs) {
                ([a, b, bias], [c, y]) => [*a, *b, *c] == p.elements() && *bias == p.n && y == c && !p.accumulate,
                _ => false,
            },
            Self::GeluGrad(p) => match (inputs, outputs) {
                ([dy, w, sum], [dx]) => [*dy, *w, *dx] == p.elements() && sum == dx && !p.accumulate,
                _ => false,
            },
            Self::WeightGrads(p) => match (inputs, outputs) {
                ([dy, x], [dw, db]) => [*dy, *x, *dw] == p.elements() && *db == p.m && p.transpose_a,
                _ => false,
            },
            Self::AddBias => matches!((inputs, outputs), ([part], [all]) if repeats(*part, *all)),
            Self::BiasGrad { .. } => matches!((inputs, outputs), ([all], [part]) if repeats(*part, *all)),
        }
    }

    fn flops(&self) -> u64 {
        self.product().map_or(0, |p| products(p.m, p.n, p.k))
    }

    fn traffic_bytes(&self, operands: &OperandBytes) -> u64 {
        operands.all()
    }

    fn cpu_scratch_bytes(&self, dtype: DType, processor: Processor) -> usize {
        // Sums are in registers and on the stack.
        self.product().map_or(0, |p| gemm::matmul(p, dtype, processor))
    }

    fn cuda_scratch_bytes(&self, _dtype: DType) -> usize {
        match self {
            // cuBLAS and cuBLASLt work in the run's workspace.
            Self::MatMul(_) | Self::Biased(_) | Self::BiasedGelu(_) | Self::GeluGrad(_) => 0,
            Self::AddBias => 0,
            // One part writes its result at once; a row that is longer than these sums is always one part. So it is where the
            // library sums in its own kernel as well: whether it does is known only then.
            Self::BiasGrad { .. } => split_reduction::BIAS_SUMS * size_of::<f64>(),
            // The library overwrites a bias's gradient: one that is to be added lies behind the parts.
            Self::WeightGrads(p) => {
                (split_reduction::BIAS_SUMS + if p.accumulate { p.m } else { 0 }) * size_of::<f64>()
            }
        }
    }
}

impl<B: Backend> Executor<B> {
    /// `x [rows, in] w^T` with `w [out, in]`: `[rows, out]`.
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn linear(&self, x: &Tensor<B>, w: &Tensor<B>) -> Result<Tensor<B>> {
        let ([out, inner], rows) = (self.matrix("matmul", w)?, x.shape().rows());
        self.expect("matmul", x.shape().last() == inner, || format!("{x:?} by {w:?}"))?;
        let y = self.output([rows, out], x.dtype(), "matmul")?;
        self.forward_into(x, w, &y, false)?;
        Ok(y)
    }

    /// Adds [`Executor::linear`] of `x` to `y [rows, out]`.
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn add_linear(&self, x: &Tensor<B>, w: &Tensor<B>, y: &Tensor<B>) -> Result<()> {
        self.forward_into(x, w, y, true)
    }

    /// Gradient of [`Executor::linear`] by its input: `dy [rows, out] w`.
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn linear_input_grad(&self, dy: &Tensor<B>, w: &Tensor<B>) -> Result<Tensor<B>> {
        let ([out, inner], rows) = (self.matrix("matmul", w)?, dy.shape().rows());
        self.expect("matmul", dy.shape().last() == out, || format!("{dy:?} by {w:?}"))?;
        let dx = self.output([rows, inner], dy.dtype(), "matmul")?;
        self.linear_input_grad_into(dy, w, &dx)?;
        Ok(dx)
    }

    /// Writes [`Executor::linear_input_grad`] to `dx [rows, in]`.
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn linear_input_grad_into(&self, dy: &Tensor<B>, w: &Tensor<B>, dx: &Tensor<B>) -> Result<()> {
        self.input_grad_into(dy, w, dx, false)
    }

    /// Adds [`Executor::linear_input_grad`] of `dy` to `dx [rows, in]`.
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn add_linear_input_grad(&self, dy: &Tensor<B>, w: &Tensor<B>, dx: &Tensor<B>) -> Result<()> {
        self.input_grad_into(dy, w, dx, true)
    }

    fn forward_into(&self, x: &Tensor<B>, w: &Tensor<B>, y: &Tensor<B>, accumulate: bool) -> Result<()> {
        let ([out, inner], rows) = (self.matrix("matmul", w)?, x.shape().rows());
        let holds = x.shape().last() == inner && y.elements() == rows * out;
        self.expect("matmul", holds, || format!("{x:?} by {w:?} into {y:?}"))?;
        let product = MatMul { m: rows, n: out, k: inner, transpose_a: false, transpose_b: true, accumulate };
        self.launch(Linear::MatMul(product), &[x, w], &[y])
    }

    fn input_grad_into(&self, dy: &Tensor<B>, w: &Tensor<B>, dx: &Tensor<B>, accumulate: bool) -> Result<()> {
        let ([out, inner], rows) = (self.matrix("matmul", w)?, dy.shape().rows());
        let holds = dy.shape().last() == out && dx.elements() == rows * inner;
        self.expect("matmul", holds, || format!("{dy:?} by {w:?} into {dx:?}"))?;
        let product = MatMul { m: rows, n: inner, k: out, transpose_a: false, transpose_b: false, accumulate };
        self.launch(Linear::MatMul(product), &[dy, w], &[dx])
    }

    /// Gradient of [`Executor::linear`] by its weight: `dy^T x`, into `[out, in]`.
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn linear_weight_grad(&self, x: &Tensor<B>, dy: &Tensor<B>, into: GradInto<'_, B>) -> Result<()> {
        let (dw, accumulate) = into.parts();
        self.launch(Linear::MatMul(self.weight_product(x, dy, dw, accumulate)?), &[dy, x], &[dw])
    }

    fn weight_product(&self, x: &Tensor<B>, dy: &Tensor<B>, dw: &Tensor<B>, accumulate: bool) -> Result<MatMul> {
        let [out, inner] = self.matrix("matmul", dw)?;
        let rows = x.shape().rows();
        let holds = dy.shape().rows() == rows && dy.shape().last() == out && x.shape().last() == inner;
        self.expect("matmul", holds, || format!("{dy:?} by {x:?}"))?;
        Ok(MatMul { m: out, n: inner, k: rows, transpose_a: true, transpose_b: false, accumulate })
    }

    /// [`Executor::linear`] plus `bias [out]`, by one kernel.
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn linear_biased(&self, x: &Tensor<B>, w: &Tensor<B>, bias: &Tensor<B>) -> Result<Tensor<B>> {
        let product = self.biased(x, w, bias)?;
        let y = self.output([product.m, product.n], x.dtype(), "matmul, bias")?;
        self.launch(Linear::Biased(product), &[x, w, bias], &[&y])?;
        Ok(y)
    }

    /// [`Executor::linear_biased`], and GELU of it in its tanh form, by one kernel.
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn linear_gelu(&self, x: &Tensor<B>, w: &Tensor<B>, bias: &Tensor<B>) -> Result<[Tensor<B>; 2]> {
        let product = self.biased(x, w, bias)?;
        let make = || self.output([product.m, product.n], x.dtype(), "matmul, bias, gelu");
        let [sum, y] = [make()?, make()?];
        self.launch(Linear::BiasedGelu(product), &[x, w, bias], &[&sum, &y])?;
        Ok([sum, y])
    }

    /// [`Executor::linear_input_grad`], and the gradient of GELU, in its tanh form, of `sum [rows, in]`, by one kernel.
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn linear_gelu_grad(&self, dy: &Tensor<B>, w: &Tensor<B>, sum: &Tensor<B>) -> Result<Tensor<B>> {
        let ([out, inner], rows) = (self.matrix("matmul", w)?, dy.shape().rows());
        let holds = dy.shape().last() == out && sum.elements() == rows * inner;
        self.expect("matmul", holds, || format!("{dy:?} by {w:?} at {sum:?}"))?;
        let product = MatMul { m: rows, n: inner, k: out, transpose_a: false, transpose_b: false, accumulate: false };
        let dx = self.output([rows, inner], dy.dtype(), "matmul, gelu gradient")?;
        self.launch(Linear::GeluGrad(product), &[dy, w, sum], &[&dx])?;
        Ok(dx)
    }

    fn biased(&self, x: &Tensor<B>, w: &Tensor<B>, bias: &Tensor<B>) -> Result<MatMul> {
        let ([out, inner], rows) = (self.matrix("matmul", w)?, x.shape().rows());
        let holds = x.shape().last() == inner && bias.elements() == out;
        self.expect("matmul", holds, || format!("{x:?} by {w:?} plus {bias:?}"))?;
        Ok(MatMul { m: rows, n: out, k: inner, transpose_a: false, transpose_b: true, accumulate: false })
    }

    /// [`Executor::linear_weight_grad`] and [`Executor::bias_grad`], by one launch where ops are joined.
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn linear_grads(
        &self,
        x: &Tensor<B>,
        dy: &Tensor<B>,
        weight: GradInto<'_, B>,
        bias: GradInto<'_, B>,
    ) -> Result<()> {
        let ([dw, db], [adds, adds_bias]) = ([weight.parts().0, bias.parts().0], [weight.parts().1, bias.parts().1]);
        if adds != adds_bias || !self.joins_ops() {
            self.bias_grad(dy, bias)?;
            return self.linear_weight_grad(x, dy, weight);
        }
        let product = self.weight_product(x, dy, dw, adds)?;
        self.expect("matmul", db.elements() == product.m, || format!("{dy:?} into {db:?}"))?;
        self.launch(Linear::WeightGrads(product), &[dy, x], &[dw, db])
    }

    /// `y += bias`, over the last dimension, in place.
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn add_bias(&self, y: &Tensor<B>, bias: &Tensor<B>) -> Result<()> {
        self.expect("add bias", bias.elements() == y.shape().last(), || format!("{bias:?} to {y:?}"))?;
        self.launch(Linear::AddBias, &[bias], &[y])
    }

    /// Gradient of [`Executor::add_bias`] by the bias.
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn bias_grad(&self, dy: &Tensor<B>, into: GradInto<'_, B>) -> Result<()> {
        let (db, accumulate) = into.parts();
        self.expect("bias gradient", db.elements() == dy.shape().last(), || format!("{dy:?} into {db:?}"))?;
        self.launch(Linear::BiasGrad { accumulate }, &[dy], &[db])
    }
}
