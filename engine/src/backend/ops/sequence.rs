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
