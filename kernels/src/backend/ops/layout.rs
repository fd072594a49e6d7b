//! The same elements in another type or another order: casts, columns of matrices, transposes.

use std::ops::Range;

use super::{Contract, Elementwise, OperandBytes};
use crate::{
    backend::{Backend, DType, Executor, Shape, Tensor},
    device::Processor,
    error::Result,
};

/// Some columns of one matrix to some columns of another: `rows` times, `columns` elements from
/// `x[row * from_stride + from_offset]` become those from `y[row * to_stride + to_offset]`. A `from_stride` of 0 copies one
/// row to all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyColumns {
    /// How many rows.
    pub rows: usize,
    /// Elements of a row that are copied.
    pub columns: usize,
    /// Elements from one row of `x` to the next.
    pub from_stride: usize,
    /// Where the first row of `x` starts.
    pub from_offset: usize,
    /// Elements from one row of `y` to the next.
    pub to_stride: usize,
    /// Where the first row of `y` starts.
    pub to_offset: usize,
}

/// Kernels that move elements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Layout {
    /// in: `x`; out: `y` with as many elements, of any floating-point type.
    Cast,
    /// in: `x`; out: `y`, of any floating-point types, updated in some of its columns.
    CopyColumns(CopyColumns),
    /// in: `x [batch, rows, columns]`; out: `y [batch, columns, rows]`.
    Transpose {
        /// Matrices.
        batch: usize,
        /// Rows of `x`.
        rows: usize,
        /// Columns of `x`.
        columns: usize,
    },
}

impl CopyColumns {
    fn takes(&self, x: usize, y: usize) -> bool {
        let last = self.rows.saturating_sub(1);
        self.rows * self.columns > 0
            && self.to_stride >= self.columns
            && last * self.from_stride + self.from_offset + self.columns <= x
            && last * self.to_stride + self.to_offset + self.columns <= y
    }
}

impl Contract for Layout {
    fn name(&self) -> &'static str {
        match self {
            Self::Cast => "cast",
            Self::CopyColumns(_) => "copy columns",
            Self::Transpose { .. } => "transpose",
        }
    }

    fn takes(&self, inputs: &[usize], outputs: &[usize]) -> bool {
        let ([x], [y]) = (inputs, outputs) else { return false };
        match self {
            Self::Cast => x == y,
            Self::CopyColumns(copy) => copy.takes(*x, *y),
            Self::Transpose { batch, rows, columns } => *x > 0 && x == y && *x == batch * rows * columns,
        }
    }

    fn flops(&self) -> u64 {
        0
    }

    fn traffic_bytes(&self, operands: &OperandBytes) -> u64 {
        match self {
            Self::Cast | Self::Transpose { .. } => operands.all(),
            Self::CopyColumns(copy) => (2 * copy.rows * copy.columns * operands.dtype.size()) as u64,
        }
    }

    fn cpu_scratch_bytes(&self, _dtype: DType, _: Processor) -> usize {
        0
    }

    fn cuda_scratch_bytes(&self, _dtype: DType) -> usize {
        0
    }
}

impl<B: Backend> Executor<B> {
    /// Copies `x` into `y`, converting.
    ///
    /// # Errors
    /// Fails when the sizes differ or when the device fails.
    pub fn cast_into(&self, x: &Tensor<B>, y: &Tensor<B>) -> Result<()> {
        self.expect("cast", y.elements() == x.elements(), || format!("{x:?} into {y:?}"))?;
        self.launch(Layout::Cast, &[x], &[y])
    }

    /// Copies the columns of `x [..., columns]` to those of `y` that start at `offset`.
    fn copy_to(&self, x: &Tensor<B>, y: &Tensor<B>, offset: usize) -> Result<()> {
        let (columns, to_stride) = (x.shape().last(), y.shape().last());
        let rows = x.shape().rows();
        let copy = CopyColumns { rows, columns, from_stride: columns, from_offset: 0, to_stride, to_offset: offset };
        self.launch(Layout::CopyColumns(copy), &[x], &[y])
    }

    /// Joins `a [..., n]` and `b [..., m]` row by row: `[..., n + m]`.
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn concat(&self, a: &Tensor<B>, b: &Tensor<B>) -> Result<Tensor<B>> {
        let holds = a.shape().rows() == b.shape().rows() && a.dtype() == b.dtype();
        self.expect("concat", holds, || format!("{a:?} and {b:?}"))?;
        let y = self.output(a.shape().with_last(a.shape().last() + b.shape().last()), a.dtype(), "concat")?;
        self.copy_to(a, &y, 0)?;
        self.copy_to(b, &y, a.shape().last())?;
        Ok(y)
    }

    /// Columns `..at` and `at..` of `x [..., columns]`: the gradient of [`Executor::concat`].
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn split(&self, x: &Tensor<B>, at: usize) -> Result<[Tensor<B>; 2]> {
        Ok([self.take_columns(x, 0..at)?, self.take_columns(x, at..x.shape().last())?])
    }

    /// Some columns of `x [..., columns]`.
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn take_columns(&self, x: &Tensor<B>, columns: Range<usize>) -> Result<Tensor<B>> {
        let stride = x.shape().last();
        self.expect("take columns", columns.start <= columns.end && columns.end <= stride, || {
            format!("{columns:?} of {x:?}")
        })?;
        let y = self.output(x.shape().with_last(columns.len()), x.dtype(), "take columns")?;
        let copy = CopyColumns {
            rows: x.shape().rows(),
            columns: columns.len(),
            from_stride: stride,
            from_offset: columns.start,
            to_stride: columns.len(),
            to_offset: 0,
        };
        self.launch(Layout::CopyColumns(copy), &[x], &[&y])?;
        Ok(y)
    }

    /// Gradient of [`Executor::take_columns`] by an input of `shape`: zero where nothing was taken.
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn take_columns_grad(&self, dy: &Tensor<B>, offset: usize, shape: Shape) -> Result<Tensor<B>> {
        let holds = dy.shape().rows() == shape.rows() && offset + dy.shape().last() <= shape.last();
        self.expect("take columns gradient", holds, || format!("{dy:?} at {offset} of [{shape}]"))?;
        let dx = self.output(shape, dy.dtype(), "take columns gradient")?;
        self.launch(Elementwise::Fill(0.0), &[], &[&dx])?;
        self.copy_to(dy, &dx, offset)?;
        Ok(dx)
    }

    /// Writes `part [..., n]` over the columns of `x [..., columns]` from `offset` on, in place when nothing else holds `x`.
    ///
    /// # Errors
    /// Fails when the shapes do not fit, when a copy would cross the budget or when the device fails.
    pub fn put_columns(&self, part: &Tensor<B>, x: Tensor<B>, offset: usize) -> Result<Tensor<B>> {
        let holds = part.shape().rows() == x.shape().rows() && offset + part.shape().last() <= x.shape().last();
        self.expect("put columns", holds, || format!("{part:?} at {offset} of {x:?}"))?;
        let y = self.own(x, "put columns")?;
        self.copy_to(part, &y, offset)?;
        Ok(y)
    }

    /// Puts `row [columns]`, of any type, before the rows of each `x [batch, length, columns]`:
    /// `[batch, length + 1, columns]`. Its gradient is [`Executor::split`] of `[batch, (length + 1) * columns]`, and the
    /// first part's [`Executor::bias_grad`].
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn prepend(&self, row: &Tensor<B>, x: &Tensor<B>) -> Result<Tensor<B>> {
        let [batch, length, columns] = x.shape().dims().try_into().unwrap_or([0; 3]);
        self.expect("prepend", batch > 0 && row.elements() == columns, || format!("{row:?} to {x:?}"))?;
        let y = self.output([batch, length + 1, columns], x.dtype(), "prepend")?;
        let to_stride = (length + 1) * columns;
        let copy = CopyColumns { rows: batch, columns, from_stride: 0, from_offset: 0, to_stride, to_offset: 0 };
        self.launch(Layout::CopyColumns(copy), &[row], &[&y])?;
        self.copy_to(&x.reshape([batch, length * columns]), &y.reshape([batch, to_stride]), columns)?;
        Ok(y)
    }

    /// `[batch, rows, columns]` to `[batch, columns, rows]`: its own gradient.
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn transpose(&self, x: &Tensor<B>) -> Result<Tensor<B>> {
        let [batch, rows, columns] = x.shape().dims().try_into().unwrap_or([0; 3]);
        self.expect("transpose", batch * rows * columns == x.elements(), || {
            format!("{x:?} is not a batch of matrices")
        })?;
        let y = self.output([batch, columns, rows], x.dtype(), "transpose")?;
        self.launch(Layout::Transpose { batch, rows, columns }, &[x], &[&y])?;
        Ok(y)
    }
}
