//! Embeddings and gated units.

use super::GradInto;
use crate::{
    backend::{Backend, Executor, Kernel, Tensor, kernel::Rows},
    error::Result,
};

impl<B: Backend> Executor<B> {
    /// The rows of `table [vocabulary, width]` that `tokens` name: `[tokens, width]`.
    pub fn embedding(&self, tokens: &Tensor<B>, table: &Tensor<B>) -> Result<Tensor<B>> {
        self.matrix("embedding", table)?;
        let y = self.activation([tokens.elements(), table.shape().last()], table.dtype(), "embedding")?;
        self.launch(Kernel::Embedding, &[tokens, table], &[&y])?;
        Ok(y)
    }

    /// Gradient of [`Executor::embedding`] by its table.
    pub fn embedding_grad(&self, tokens: &Tensor<B>, dy: &Tensor<B>, into: GradInto<'_, B>) -> Result<()> {
        let (dtable, accumulate) = into.parts();
        let rows = tokens.elements();
        self.expect("embedding gradient", dy.elements() == rows * dtable.shape().last(), || {
            format!("{dy:?} of {tokens:?} into {dtable:?}")
        })?;
        self.launch(Kernel::EmbeddingGrad { rows, accumulate }, &[tokens, dy], &[dtable])
    }

    /// Adds `positions [length, width]` to each sequence of `x [batch * length, width]`, in place when nobody else holds
    /// `x`.
    pub fn add_positions(&self, x: Tensor<B>, positions: &Tensor<B>) -> Result<Tensor<B>> {
        let rows = self.sequences("add positions", &x, positions)?;
        let y = self.own(x, "add positions")?;
        self.launch(Kernel::AddBias, &[positions], &[&y.reshape(rows)])?;
        Ok(y)
    }

    /// Gradient of [`Executor::add_positions`] by the positions.
    pub fn positions_grad(&self, dy: &Tensor<B>, into: GradInto<'_, B>) -> Result<()> {
        let rows = self.sequences("positions gradient", dy, into.parts().0)?;
        self.bias_grad(&dy.reshape(rows), into)
    }

    /// Extents of `x` with a row for each sequence as long as `positions`.
    fn sequences(&self, op: &'static str, x: &Tensor<B>, positions: &Tensor<B>) -> Result<[usize; 2]> {
        let columns = positions.elements();
        let holds = columns > 0 && x.elements().is_multiple_of(columns);
        self.expect(op, holds, || format!("{positions:?} to {x:?}"))?;
        Ok([x.elements() / columns, columns])
    }

    /// Gates beside values, `gu [rows, 2 hidden]`, to `silu(gate) * value`, `[rows, hidden]`.
    pub fn swiglu(&self, gu: &Tensor<B>) -> Result<Tensor<B>> {
        let extents = self.gated("swiglu", gu)?;
        let y = self.activation([extents.rows, extents.columns], gu.dtype(), "swiglu")?;
        self.launch(Kernel::SwiGlu { extents }, &[gu], &[&y])?;
        Ok(y)
    }

    /// Gradient of [`Executor::swiglu`].
    pub fn swiglu_grad(&self, gu: &Tensor<B>, dy: &Tensor<B>) -> Result<Tensor<B>> {
        let extents = self.gated("swiglu gradient", gu)?;
        let dgu = self.activation(gu.shape(), dy.dtype(), "swiglu gradient")?;
        self.launch(Kernel::SwiGluGrad { extents }, &[gu, dy], &[&dgu])?;
        Ok(dgu)
    }

    fn gated(&self, op: &'static str, gu: &Tensor<B>) -> Result<Rows> {
        let (rows, width) = (gu.shape().rows(), gu.shape().last());
        self.expect(op, width.is_multiple_of(2), || format!("{gu:?} has no halves"))?;
        Ok(Rows { rows, columns: width / 2 })
    }
}
