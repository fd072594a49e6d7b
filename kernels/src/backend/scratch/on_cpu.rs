//! Scratch of the CPU's kernels that are not matrix products, and how their sums are divided into parts, which decides it.
//!
//! Kernels divide their sums by these rules, and contracts state their bytes by them. Always holds: extents alone decide the
//! parts, so that neither a sum nor its scratch depends on the number of threads.

use crate::backend::ops::{AttentionShape, CachedAttention, Rows, Window};

/// Elements below which a loop over memory stays on one thread.
pub(in crate::backend) const GRAIN: usize = 32 << 10;
/// Bytes for the sums of the parts of rows.
const SUMS_BYTES: usize = 192 << 10;
/// Bytes for the sums of the parts of a depthwise weight gradient.
const DEPTHWISE_BYTES: usize = 64 << 10;
/// The most parts of a depthwise weight gradient.
const DEPTHWISE_PARTS: usize = 16;
/// Multiplications and additions of attention below which one thread does it all.
pub(in crate::backend) const ATTENTION_FLOPS: usize = 1 << 20;

/// Items of a piece of a loop over `length` of them, each of which stands for `weight` elements: all of them, where that is not
/// worth waking a thread.
pub(in crate::backend) fn loop_step(length: usize, weight: usize) -> usize {
    let total = length * weight.max(1);
    if total < GRAIN {
        return length;
    }
    // At least four pieces, so that a late thread still finds one.
    length.div_ceil((total / GRAIN).max(4).min(length))
}

/// Parts of the rows that are summed apart.
pub(in crate::backend) fn row_parts(e: &Rows) -> usize {
    let by_room = SUMS_BYTES / (2 * size_of::<f64>() * e.columns.max(1));
    if e.rows * e.columns < 2 * GRAIN { 1 } else { by_room.clamp(1, 8).min(e.rows) }
}

/// Elements of f64 that two sums over rows take.
pub(in crate::backend) fn row_sums(e: &Rows) -> usize {
    row_parts(e) * 2 * e.columns
}

/// Parts of the batch whose depthwise weight gradients are summed apart.
pub(in crate::backend) fn depthwise_parts(w: &Window) -> usize {
    let bytes = w.taps() * size_of::<f64>();
    let rows = w.batch * w.out_height();
    if w.out_pixels() * w.taps() < GRAIN { 1 } else { (DEPTHWISE_BYTES / bytes).clamp(1, DEPTHWISE_PARTS).min(rows) }
}

/// Elements of f64 that a thread takes for a position's angles: the sine and cosine of every pair, and of its step.
pub(in crate::backend) fn rotary_angles(s: &AttentionShape) -> usize {
    4 * (s.head_dim / 2)
}

/// Elements of a position that rotate, in all sequences.
pub(in crate::backend) fn rotated(s: &AttentionShape) -> usize {
    s.batch * (s.heads + s.kv_heads) * s.head_dim
}

/// How many of `threads` have angles at once.
pub(in crate::backend) fn rotary_at_once(s: &AttentionShape, threads: usize) -> usize {
    let pieces = s.length.div_ceil(loop_step(s.length, rotated(s)).max(1));
    threads.clamp(1, pieces.max(1))
}

/// Elements for the logits of a query over kept keys, and for its result.
pub(in crate::backend) fn cached_sizes(cached: &CachedAttention) -> [usize; 2] {
    [cached.places, cached.shape.head_dim]
}

/// Whether attention over kept keys is worth waking a thread, for as many keys as there is room for.
pub(in crate::backend) fn cached_is_parallel(cached: &CachedAttention) -> bool {
    4 * cached.shape.rows() * cached.shape.width() * cached.places >= ATTENTION_FLOPS
}

/// Elements of all the queries over kept keys that are worked on at once.
pub(in crate::backend) fn cached_elements(cached: &CachedAttention, threads: usize) -> usize {
    let pieces = cached.shape.rows() * cached.shape.heads;
    let at_once = if cached_is_parallel(cached) { threads.clamp(1, pieces.max(1)) } else { 1 };
    at_once * cached_sizes(cached).iter().sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn angles_are_there_for_the_threads_that_work() {
        let s =
            AttentionShape { batch: 2, length: 64, heads: 4, kv_heads: 2, head_dim: 16, is_causal: true, window: 0 };
        assert_eq!(s.length * rotated(&s), 12_288, "below the grain");
        assert_eq!([1, 2, 8].map(|threads| rotary_at_once(&s, threads)), [1; 3]);
        let large = AttentionShape { batch: 16, ..s };
        assert_eq!([1, 2, 8].map(|threads| rotary_at_once(&large, threads)), [1, 2, 4], "four pieces");
        assert_eq!(rotary_at_once(&AttentionShape { batch: 99, length: 1, ..s }, 8), 1);
        assert_eq!(rotary_at_once(&AttentionShape { length: 0, ..s }, 8), 1);
    }
}
