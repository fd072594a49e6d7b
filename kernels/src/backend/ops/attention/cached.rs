//! Attention of new positions over keys and values that were kept.

use super::{Attention, AttentionShape};
use crate::{
    backend::{
        Backend, Executor, Tensor,
        ops::{Contract, CopyColumns, Layout, products},
    },
    error::Result,
};

/// One sequence whose first positions were seen before: `shape.length` positions are new. It is causal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CachedAttention {
    /// The new positions; its batch is 1.
    pub shape: AttentionShape,
    /// Positions before them, whose keys and values are kept.
    pub seen: usize,
    /// Positions that there is room for. The scratch follows from this number, so each pass over one sequence takes the same.
    pub places: usize,
}

impl CachedAttention {
    /// The attention of all positions up to the last new one.
    pub fn whole(&self) -> AttentionShape {
        AttentionShape { length: self.seen + self.shape.length, ..self.shape }
    }

    /// Elements that are kept of a position: its keys, then its values.
    pub fn row(&self) -> usize {
        2 * self.shape.kv_heads * self.shape.head_dim
    }

    /// Whether there is something to attend to, and room for it.
    pub fn is_valid(&self) -> bool {
        let s = &self.shape;
        s.is_valid() && s.batch == 1 && s.is_causal && self.seen + s.length <= self.places
    }

    /// Multiplications and additions of the pairs that are seen.
    pub(super) fn flops(&self) -> u64 {
        let before = AttentionShape { length: self.seen, ..self.shape };
        let pairs = self.whole().pairs() - before.pairs();
        2 * products(self.shape.heads, pairs, self.shape.head_dim)
    }
}

impl<B: Backend> Executor<B> {
    /// Keeps the keys and values of `qkv [length, (heads + 2 kv_heads) * head_dim]` in the rows of
    /// `kept [places, 2 kv_heads * head_dim]` from `cached.seen` on.
    ///
    /// # Errors
    /// Fails on shapes that do not fit and when the device fails.
    pub fn keep_keys_and_values(&self, qkv: &Tensor<B>, kept: &Tensor<B>, cached: CachedAttention) -> Result<()> {
        self.expect_cached("keep keys and values", qkv, kept, &cached)?;
        let CachedAttention { shape: s, seen, .. } = cached;
        let copy = CopyColumns {
            rows: s.length,
            columns: cached.row(),
            from_stride: s.packed(),
            from_offset: s.width(),
            to_stride: cached.row(),
            to_offset: seen * cached.row(),
        };
        self.launch(Layout::CopyColumns(copy), &[qkv], &[kept])
    }

    /// Attention of the new positions `qkv [length, (heads + 2 kv_heads) * head_dim]` over `kept`, which has their own keys
    /// and values too: `[length, heads * head_dim]`. It has no gradient.
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn attention_cached(&self, qkv: &Tensor<B>, kept: &Tensor<B>, cached: CachedAttention) -> Result<Tensor<B>> {
        let kernel = Attention::Cached(cached);
        self.expect_cached(kernel.name(), qkv, kept, &cached)?;
        let y = self.output([cached.shape.rows(), cached.shape.width()], qkv.dtype(), kernel.name())?;
        self.launch(kernel, &[qkv, kept], &[&y])?;
        Ok(y)
    }

    fn expect_cached(
        &self,
        op: &'static str,
        qkv: &Tensor<B>,
        kept: &Tensor<B>,
        cached: &CachedAttention,
    ) -> Result<()> {
        self.expect_packed(op, qkv, &cached.shape)?;
        let holds = cached.is_valid() && kept.elements() == cached.places * cached.row() && kept.dtype() == qkv.dtype();
        self.expect(op, holds, || format!("{kept:?} for {cached:?}"))
    }
}
