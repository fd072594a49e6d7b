//! Dense layers: products of matrices, and the bias.

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
}

impl Contract for Linear {
    fn name(&self) -> &'static str {
        match self {
            Self::MatMul(_) => "matmul",
            Self::AddBias => "add bias",
            Self::BiasGrad { .. } => "bias gradient",
        }
    }

    fn takes(&self, inputs: &[usize], outputs: &[usize]) -> bool {
        let repeats = |part: usize, all: usize| part > 0 && all.is_multiple_of(part);
        match self {
            Self::MatMul(p) => {
                matches!((inputs, outputs), ([a, b], [c]) if [*a, *b, *c] == [p.m * p.k, p.k * p.n, p.m * p.n])
            }
            Self::AddBias => matches!((inputs, outputs), ([part], [all]) if repeats(*part, *all)),
            Self::BiasGrad { .. } => matches!((inputs, outputs), ([all], [part]) if repeats(*part, *all)),
        }
    }

    fn flops(&self) -> u64 {
        match self {
            Self::MatMul(p) => products(p.m, p.n, p.k),
            Self::AddBias | Self::BiasGrad { .. } => 0,
        }
    }

    fn traffic_bytes(&self, operands: &OperandBytes) -> u64 {
        operands.all()
    }

    fn cpu_scratch_bytes(&self, dtype: DType, processor: Processor) -> usize {
        match self {
            Self::MatMul(p) => gemm::matmul(p, dtype, processor),
            // Sums are in registers and on the stack.
            Self::AddBias | Self::BiasGrad { .. } => 0,
        }
    }

    fn cuda_scratch_bytes(&self, _dtype: DType) -> usize {
        match self {
            // cuBLAS works in the run's workspace.
            Self::MatMul(_) => 0,
            Self::AddBias => 0,
            // One part writes its result at once; a row that is longer than these sums is always one part.
            Self::BiasGrad { .. } => split_reduction::BIAS_SUMS * size_of::<f64>(),
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
        let [out, inner] = self.matrix("matmul", dw)?;
        let rows = x.shape().rows();
        let holds = dy.shape().rows() == rows && dy.shape().last() == out && x.shape().last() == inner;
        self.expect("matmul", holds, || format!("{dy:?} by {x:?}"))?;
        let product = MatMul { m: out, n: inner, k: rows, transpose_a: true, transpose_b: false, accumulate };
        self.launch(Linear::MatMul(product), &[dy, x], &[dw])
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
