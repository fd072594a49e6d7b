//! Attention over packed queries, keys and values.

mod cached;
mod shape;

pub use self::{cached::CachedAttention, shape::AttentionShape};
use super::{Contract, OperandBytes, products};
use crate::{
    backend::{
        Backend, DType, Executor, Tensor,
        scratch::{gemm, on_cpu},
    },
    device::Processor,
    error::Result,
    memory::Category,
};

/// Attention in its two forms, their gradients, and over keys and values that were kept.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Attention {
    /// in: `qkv [batch * length, (heads + 2 kv_heads) * head_dim]`; out: `y [batch * length, heads * head_dim]`, of each
    /// head `softmax(q k^T / sqrt(head_dim)) v` over the positions that are seen, and `lse [batch, heads, length]` (f32, or
    /// f64 for f64), the logarithm of each softmax's denominator. Block by block, in memory that does not grow with the
    /// length (Rabe & Staats 2021; Dao et al. 2022).
    Efficient(AttentionShape),
    /// in: `qkv`, `y`, `lse`, as of [`Attention::Efficient`], `dy`; out: `dqkv`, overwritten. Probabilities are recomputed.
    EfficientGrad(AttentionShape),
    /// in: `qkv`; out: `y`, as of [`Attention::Efficient`], and the probabilities `p [batch, heads, length, length]` (type
    /// of `qkv`), zero where nothing is seen.
    Plain(AttentionShape),
    /// in: `qkv`, `p`, as of [`Attention::Plain`], `dy`; out: `dqkv`, overwritten.
    PlainGrad(AttentionShape),
    /// in: `qkv [length, (heads + 2 kv_heads) * head_dim]` of the new positions, `kept [places, 2 kv_heads * head_dim]`, a
    /// row the keys of a position and then its values, of the new positions too; out: `y [length, heads * head_dim]`, as of
    /// [`Attention::Efficient`] over all positions. Later rows of `kept` are not read.
    Cached(CachedAttention),
}

impl Attention {
    /// The shape that it is over.
    pub fn shape(&self) -> &AttentionShape {
        match self {
            Self::Efficient(s) | Self::EfficientGrad(s) | Self::Plain(s) | Self::PlainGrad(s) => s,
            Self::Cached(cached) => &cached.shape,
        }
    }

    /// Heads of sequences that a launch goes through one by one. A gradient counts as half a head more.
    pub(in crate::backend) fn heads(&self) -> f64 {
        let s = self.shape();
        let all = (s.batch * s.heads) as f64;
        match self {
            Self::Efficient(_) | Self::Plain(_) | Self::Cached(_) => all,
            Self::EfficientGrad(_) | Self::PlainGrad(_) => 1.5 * all,
        }
    }
}

impl Contract for Attention {
    fn name(&self) -> &'static str {
        match self {
            Self::Efficient(_) => "attention",
            Self::EfficientGrad(_) => "attention gradient",
            Self::Plain(_) => "plain attention",
            Self::PlainGrad(_) => "plain attention gradient",
            Self::Cached(_) => "attention over kept keys",
        }
    }

    fn takes(&self, inputs: &[usize], outputs: &[usize]) -> bool {
        let s = self.shape();
        let [qkv, y, scores] = [s.rows() * s.packed(), s.rows() * s.width(), s.batch * s.heads * s.length];
        s.is_valid()
            && match self {
                Self::Efficient(_) => inputs == [qkv] && outputs == [y, scores],
                Self::EfficientGrad(_) => inputs == [qkv, y, scores, y] && outputs == [qkv],
                Self::Plain(_) => inputs == [qkv] && outputs == [y, scores * s.length],
                Self::PlainGrad(_) => inputs == [qkv, scores * s.length, y] && outputs == [qkv],
                Self::Cached(cached) => {
                    cached.is_valid() && inputs == [qkv, cached.places * cached.row()] && outputs == [y]
                }
            }
    }

    fn flops(&self) -> u64 {
        let s = self.shape();
        // Of the pairs that are seen: two products forward, five back.
        let product = products(s.batch * s.heads, s.pairs(), s.head_dim);
        match self {
            Self::Efficient(_) | Self::Plain(_) => 2 * product,
            Self::EfficientGrad(_) | Self::PlainGrad(_) => 5 * product,
            Self::Cached(cached) => cached.flops(),
        }
    }

    fn traffic_bytes(&self, operands: &OperandBytes) -> u64 {
        operands.all()
    }

    fn cpu_scratch_bytes(&self, dtype: DType, processor: Processor) -> usize {
        match self {
            Self::Efficient(s) => gemm::attention(s, false, dtype, processor),
            Self::Plain(s) => gemm::attention(s, true, dtype, processor),
            // Also the means of each row of each head.
            Self::EfficientGrad(s) | Self::PlainGrad(s) => {
                s.batch * s.heads * s.length * dtype.accumulator().size() + gemm::attention_grad(s, dtype, processor)
            }
            Self::Cached(cached) => on_cpu::cached_elements(cached, processor.threads) * dtype.accumulator().size(),
        }
    }

    fn cuda_scratch_bytes(&self, dtype: DType) -> usize {
        match self {
            Self::Efficient(_) => 0,
            // A number of each row of each head: the softmax's denominators, or the means of gradients.
            Self::Plain(s) | Self::EfficientGrad(s) | Self::PlainGrad(s) => {
                s.rows() * s.heads * dtype.accumulator().size()
            }
            // The logits of each row of each head.
            Self::Cached(cached) => {
                cached.shape.rows() * cached.shape.heads * cached.places * dtype.accumulator().size()
            }
        }
    }
}

impl<B: Backend> Executor<B> {
    /// Refuses a tensor that is not the packed queries, keys and values of `shape`.
    pub(super) fn expect_packed(&self, op: &'static str, qkv: &Tensor<B>, shape: &AttentionShape) -> Result<()> {
        let grouped = shape.kv_heads > 0 && shape.heads.is_multiple_of(shape.kv_heads);
        self.expect(op, grouped, || format!("{} heads share {}", shape.heads, shape.kv_heads))?;
        self.expect(op, qkv.elements() == shape.rows() * shape.packed(), || format!("{qkv:?} for {shape:?}"))
    }

    /// Attention that keeps nothing of the size length x length: `[batch * length, heads * head_dim]`, and the logarithms
    /// of the softmax's denominators, `[batch, heads, length]`, for the gradient.
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn attention(&self, qkv: &Tensor<B>, shape: AttentionShape) -> Result<(Tensor<B>, Tensor<B>)> {
        let kernel = Attention::Efficient(shape);
        self.expect_packed(kernel.name(), qkv, &shape)?;
        let y = self.output([shape.rows(), shape.width()], qkv.dtype(), kernel.name())?;
        let sizes = [shape.batch, shape.heads, shape.length];
        let lse = self.allocate(sizes, qkv.dtype().accumulator(), Category::Activations, "softmax denominators")?;
        self.launch(kernel, &[qkv], &[&y, &lse])?;
        Ok((y, lse))
    }

    /// Gradient of [`Executor::attention`] by the packed queries, keys and values.
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn attention_grad(
        &self,
        qkv: &Tensor<B>,
        [y, lse]: [&Tensor<B>; 2],
        dy: &Tensor<B>,
        shape: AttentionShape,
    ) -> Result<Tensor<B>> {
        let kernel = Attention::EfficientGrad(shape);
        self.expect_packed(kernel.name(), qkv, &shape)?;
        let dqkv = self.output(qkv.shape(), dy.dtype(), kernel.name())?;
        self.launch(kernel, &[qkv, y, lse, dy], &[&dqkv])?;
        Ok(dqkv)
    }

    /// Attention that keeps its probabilities, `[batch, heads, length, length]`, for the gradient.
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn attention_plain(&self, qkv: &Tensor<B>, shape: AttentionShape) -> Result<(Tensor<B>, Tensor<B>)> {
        let kernel = Attention::Plain(shape);
        self.expect_packed(kernel.name(), qkv, &shape)?;
        let y = self.output([shape.rows(), shape.width()], qkv.dtype(), kernel.name())?;
        let sizes = [shape.batch, shape.heads, shape.length, shape.length];
        let p = self.allocate(sizes, qkv.dtype(), Category::Activations, "attention probabilities")?;
        self.launch(kernel, &[qkv], &[&y, &p])?;
        Ok((y, p))
    }

    /// Gradient of [`Executor::attention_plain`] by the packed queries, keys and values.
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn attention_plain_grad(
        &self,
        qkv: &Tensor<B>,
        p: &Tensor<B>,
        dy: &Tensor<B>,
        shape: AttentionShape,
    ) -> Result<Tensor<B>> {
        let kernel = Attention::PlainGrad(shape);
        self.expect_packed(kernel.name(), qkv, &shape)?;
        let dqkv = self.output(qkv.shape(), dy.dtype(), kernel.name())?;
        self.launch(kernel, &[qkv, p, dy], &[&dqkv])?;
        Ok(dqkv)
    }
}
