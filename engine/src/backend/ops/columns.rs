//! Ops that move elements: columns of matrices, and transposes.

use std::ops::Range;

use crate::{
    backend::{Backend, Executor, Kernel, Shape, Tensor},
    error::Result,
};

impl<B: Backend> Executor<B> {
    /// Copies the columns of `x [..., columns]` to those of `y` that start at `offset`.
    fn copy_to(&self, x: &Tensor<B>, y: &Tensor<B>, offset: usize) -> Result<()> {
        let (columns, to_stride) = (x.shape().last(), y.shape().last());
        let rows = x.shape().rows();
        let kernel =
            Kernel::CopyColumns { rows, columns, from_stride: columns, from_offset: 0, to_stride, to_offset: offset };
        self.launch(kernel, &[x], &[y])
    }

    /// Joins `a [..., n]` and `b [..., m]` row by row: `[..., n + m]`.
    pub fn concat(&self, a: &Tensor<B>, b: &Tensor<B>) -> Result<Tensor<B>> {
        let holds = a.shape().rows() == b.shape().rows() && a.dtype() == b.dtype();
        self.expect("concat", holds, || format!("{a:?} and {b:?}"))?;
        let y = self.activation(a.shape().with_last(a.shape().last() + b.shape().last()), a.dtype(), "concat")?;
        self.copy_to(a, &y, 0)?;
        self.copy_to(b, &y, a.shape().last())?;
        Ok(y)
    }

    /// Columns `..at` and `at..` of `x [..., columns]`: the gradient of [`Executor::concat`].
    pub fn split(&self, x: &Tensor<B>, at: usize) -> Result<[Tensor<B>; 2]> {
        Ok([self.take_columns(x, 0..at)?, self.take_columns(x, at..x.shape().last())?])
    }

    /// Some columns of `x [..., columns]`.
    pub fn take_columns(&self, x: &Tensor<B>, columns: Range<usize>) -> Result<Tensor<B>> {
        let stride = x.shape().last();
        self.expect("take columns", columns.start <= columns.end && columns.end <= stride, || {
            format!("{columns:?} of {x:?}")
        })?;
        let y = self.activation(x.shape().with_last(columns.len()), x.dtype(), "take columns")?;
        let kernel = Kernel::CopyColumns {
            rows: x.shape().rows(),
            columns: columns.len(),
            from_stride: stride,
            from_offset: columns.start,
            to_stride: columns.len(),
            to_offset: 0,
        };
        self.launch(kernel, &[x], &[&y])?;
        Ok(y)
    }

    /// Writes `part [..., n]` over the columns of `x [..., columns]` from `offset` on, in place when nobody else holds `x`.
    ///
    /// # Errors
    /// Shapes that do not fit, and the refusal of a copy.
    pub fn put_columns(&self, part: &Tensor<B>, x: Tensor<B>, offset: usize) -> Result<Tensor<B>> {
        let holds = part.shape().rows() == x.shape().rows() && offset + part.shape().last() <= x.shape().last();
        self.expect("put columns", holds, || format!("{part:?} at {offset} of {x:?}"))?;
        let y = self.own(x, "put columns")?;
        self.copy_to(part, &y, offset)?;
        Ok(y)
    }

    /// Gradient of [`Executor::take_columns`] by an input of `shape`: zero where nothing was taken.
    pub fn take_columns_grad(&self, dy: &Tensor<B>, offset: usize, shape: Shape) -> Result<Tensor<B>> {
        let holds = dy.shape().rows() == shape.rows() && offset + dy.shape().last() <= shape.last();
        self.expect("take columns gradient", holds, || format!("{dy:?} at {offset} of [{shape}]"))?;
        let dx = self.activation(shape, dy.dtype(), "take columns gradient")?;
        self.launch(Kernel::Fill(0.0), &[], &[&dx])?;
        self.copy_to(dy, &dx, offset)?;
        Ok(dx)
    }

    /// Puts `row [columns]`, of any type, before the rows of each `x [batch, length, columns]`:
    /// `[batch, length + 1, columns]`. Its gradient is [`Executor::split`] of `[batch, (length + 1) * columns]`, and the
    /// first part's [`Executor::bias_grad`].
    pub fn prepend(&self, row: &Tensor<B>, x: &Tensor<B>) -> Result<Tensor<B>> {
        let [batch, length, columns] = x.shape().dims().try_into().unwrap_or([0; 3]);
        self.expect("prepend", batch > 0 && row.elements() == columns, || format!("{row:?} to {x:?}"))?;
        let y = self.activation([batch, length + 1, columns], x.dtype(), "prepend")?;
        let to_stride = (length + 1) * columns;
        let kernel =
            Kernel::CopyColumns { rows: batch, columns, from_stride: 0, from_offset: 0, to_stride, to_offset: 0 };
        self.launch(kernel, &[row], &[&y])?;
        self.copy_to(&x.reshape([batch, length * columns]), &y.reshape([batch, to_stride]), columns)?;
        Ok(y)
    }

    /// `[batch, rows, columns]` to `[batch, columns, rows]`: its own gradient.
    pub fn transpose(&self, x: &Tensor<B>) -> Result<Tensor<B>> {
        let [batch, rows, columns] = x.shape().dims().try_into().unwrap_or([0; 3]);
        self.expect("transpose", batch * rows * columns == x.elements(), || format!("{x:?} is no batch of matrices"))?;
        let y = self.activation([batch, columns, rows], x.dtype(), "transpose")?;
        self.launch(Kernel::Transpose { batch, rows, columns }, &[x], &[&y])?;
        Ok(y)
    }
}
