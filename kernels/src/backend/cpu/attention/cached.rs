//! Attention of new positions over kept keys and values: each query of each head alone, its logits whole.

use super::{
    super::{
        convert::down,
        float::{Accumulator, Float},
        lanes::{dot, largest, sum_mut},
        parallel,
        scratch::Scratch,
        simd::simd,
    },
    carve, scale,
};
use crate::backend::{
    ops::CachedAttention,
    scratch::on_cpu::{cached_is_parallel, cached_sizes},
};

/// Runs [`Attention::Cached`](crate::backend::ops::Attention::Cached).
pub(in super::super) fn cached<T: Float>(cached: &CachedAttention, qkv: &[T], kept: &[T], y: &mut [T]) {
    let (s, whole, sizes) = (&cached.shape, cached.whole(), cached_sizes(cached));
    let (dim, shared, scale) = (s.head_dim, s.heads / s.kv_heads, scale(s));
    // A piece is a query of a head.
    let pieces = s.rows() * s.heads;
    parallel::pieces(pieces, cached_is_parallel(cached), parallel::rows(y, dim), |piece, y| {
        let (row, head) = (piece / s.heads, piece % s.heads);
        let mut scratch = Scratch::<T::Acc>::new(sizes.iter().sum());
        let [logits, result] = carve(scratch.elements(), sizes);
        let position = cached.seen + row;
        let seen = whole.seen_by(&(position..position + 1));
        let query = &qkv[row * s.packed() + head * dim..][..dim];
        let [keys, values] = [head / shared, s.kv_heads + head / shared].map(|at| at * dim);
        let rows = &kept[seen.start * cached.row()..seen.end * cached.row()];
        attend(query, rows, cached.row(), [keys, values], scale, &mut logits[..seen.len()], result);
        down(result, y);
    });
}

simd! {
    /// `result` is the values of `rows`, each `stride` elements, weighted by the softmax of their keys' products with `query`.
    fn attend [T: Float] (
        query: &[T], rows: &[T], stride: usize, places: [usize; 2], scale: T::Acc,
        logits: &mut [T::Acc], result: &mut [T::Acc],
    ) {
        let [keys, values] = places.map(|at| at..at + query.len());
        for (logit, row) in logits.iter_mut().zip(rows.chunks_exact(stride)) {
            *logit = dot(query, &row[keys.clone()]);
        }
        let max = largest(logits) * scale;
        let total = sum_mut(logits, |x| {
            *x = (*x * scale - max).exp();
            *x
        });
        result.fill(T::Acc::ZERO);
        for (weight, row) in logits.iter().zip(rows.chunks_exact(stride)) {
            for (sum, value) in result.iter_mut().zip(&row[values.clone()]) {
                *sum += *weight * value.up();
            }
        }
        result.iter_mut().for_each(|x| *x = *x / total);
    }
}
