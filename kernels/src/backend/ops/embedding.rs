//! Embeddings: of tokens by a table, and of positions.

use super::{Contract, GradInto, Linear, OperandBytes};
use crate::{
    backend::{Backend, DType, Executor, Tensor},
    device::Processor,
    error::Result,
};

/// Rows of a table, and their gradient.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Embedding {
    /// in: `tokens [rows]` (u32), `table [vocabulary, width]`; out: `y [rows, width]`, the table's row of each token.
    Forward,
    /// in: `tokens [rows]` (u32), `dy [rows, width]`; out: `dtable [vocabulary, width]` (type of `dy` or f32), the sum over
    /// the rows of each token, added to `dtable` when `accumulate`.
    Grad {
        /// How many tokens.
        rows: usize,
        /// Add to `dtable` rather than overwrite it.
        accumulate: bool,
    },
}

impl Contract for Embedding {
    fn name(&self) -> &'static str {
        match self {
            Self::Forward => "embedding",
            Self::Grad { .. } => "embedding gradient",
        }
    }

    fn takes(&self, inputs: &[usize], outputs: &[usize]) -> bool {
        let fits = |tokens: usize, y: usize, table: usize| {
            tokens > 0 && y > 0 && y.is_multiple_of(tokens) && table > 0 && table.is_multiple_of(y / tokens)
        };
        match self {
            Self::Forward => {
                matches!((inputs, outputs), ([tokens, table], [y]) if fits(*tokens, *y, *table))
            }
            Self::Grad { rows, .. } => {
                matches!((inputs, outputs), ([tokens, dy], [table]) if tokens == rows && fits(*tokens, *dy, *table))
            }
        }
    }

    fn flops(&self) -> u64 {
        0
    }

    fn traffic_bytes(&self, operands: &OperandBytes) -> u64 {
        match self {
            // It reads as much of the table as it writes.
            Self::Forward => 2 * operands.written,
            Self::Grad { .. } => operands.all(),
        }
    }

    fn cpu_scratch_bytes(&self, _dtype: DType, _: Processor) -> usize {
        self.order_bytes()
    }

    fn cuda_scratch_bytes(&self, _dtype: DType) -> usize {
        self.order_bytes()
    }
}

impl Embedding {
    /// Bytes of the order of the tokens: each token and its place.
    fn order_bytes(&self) -> usize {
        match self {
            Self::Forward => 0,
            Self::Grad { rows, .. } => rows * size_of::<u64>(),
        }
    }
}

impl<B: Backend> Executor<B> {
    /// The rows of `table [vocabulary, width]` that `tokens` name: `[tokens, width]`.
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn embedding(&self, tokens: &Tensor<B>, table: &Tensor<B>) -> Result<Tensor<B>> {
        self.matrix("embedding", table)?;
        let y = self.output([tokens.elements(), table.shape().last()], table.dtype(), "embedding")?;
        self.launch(Embedding::Forward, &[tokens, table], &[&y])?;
        Ok(y)
    }

    /// Gradient of [`Executor::embedding`] by its table.
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn embedding_grad(&self, tokens: &Tensor<B>, dy: &Tensor<B>, into: GradInto<'_, B>) -> Result<()> {
        let (dtable, accumulate) = into.parts();
        let rows = tokens.elements();
        self.expect("embedding gradient", dy.elements() == rows * dtable.shape().last(), || {
            format!("{dy:?} of {tokens:?} into {dtable:?}")
        })?;
        self.launch(Embedding::Grad { rows, accumulate }, &[tokens, dy], &[dtable])
    }

    /// Adds `positions [length, width]` to each sequence of `x [batch * length, width]`, in place when nothing else holds
    /// `x`.
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn add_positions(&self, x: Tensor<B>, positions: &Tensor<B>) -> Result<Tensor<B>> {
        let rows = self.sequences("add positions", &x, positions)?;
        let y = self.own(x, "add positions")?;
        self.launch(Linear::AddBias, &[positions], &[&y.reshape(rows)])?;
        Ok(y)
    }

    /// Gradient of [`Executor::add_positions`] by the positions.
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn positions_grad(&self, dy: &Tensor<B>, into: GradInto<'_, B>) -> Result<()> {
        let rows = self.sequences("positions gradient", dy, into.parts().0)?;
        self.bias_grad(&dy.reshape(rows), into)
    }

    /// The shape of `x` with a row for each sequence as long as `positions`.
    fn sequences(&self, op: &'static str, x: &Tensor<B>, positions: &Tensor<B>) -> Result<[usize; 2]> {
        let columns = positions.elements();
        let holds = columns > 0 && x.elements().is_multiple_of(columns);
        self.expect(op, holds, || format!("{positions:?} to {x:?}"))?;
        Ok([x.elements() / columns, columns])
    }
}
