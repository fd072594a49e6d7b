//! Where the results of ops are written.

use crate::words;

words! {
    /// Where the results of ops are written, and which of them are kept.
    pub enum Execution {
        /// An op writes over an operand that nothing else holds, and only tensors that a gradient rule needs are kept.
        InPlace = "in-place",
        /// In place, and elementwise work of layers in a row is done in one pass over memory: a bias and the function after
        /// it, a batch norm with the sum and the rectifier after it, and a sum with the bias and the dropout before it and
        /// the norm after it. On a GPU, cuBLASLt also adds biases in the kernels of products, applies GELU and sums gradients
        /// of biases. It adds before it rounds and sums in its own order, so losses may differ from those in place by
        /// roundings, in bf16 and f16 more than in f32. On the CPU they are the same to the last bit.
        Fused = "fused",
        /// Ops write to memory of their own, and the same tensors are kept as in an eager framework: the masks of dropout,
        /// the activated half of gated units, and the input of a rectifier with an upper end.
        Eager = "eager",
    }
}

impl Execution {
    /// The way that takes no memory for copies: this one, or execution in place.
    pub fn without_copies(self) -> Self {
        match self {
            Self::Eager => Self::InPlace,
            Self::InPlace | Self::Fused => self,
        }
    }
}
