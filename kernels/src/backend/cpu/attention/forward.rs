//! The forward passes: the softmax is updated block by block of keys (Milakov & Gimelshein 2018), or kept whole.

use super::{
    super::{
        convert::down,
        float::{Accumulator, Float},
        gemm::copied,
        lanes::{largest, sum_mut},
        matrix::{MatMut, MatRef, multiply},
        simd::simd,
    },
    AttentionTiling, Pairs, Positions, by_blocks, in_room, overlap, scale, steps,
};
use crate::backend::AttentionShape;

/// Runs [`Attention::Efficient`](crate::backend::ops::Attention::Efficient).
pub(in super::super) fn forward<T: Float>(s: &AttentionShape, qkv: &[T], y: &mut [T], lse: &mut [T::Acc]) {
    let (tiling, dim, scale) = (AttentionTiling::of::<T>(s), s.head_dim, scale(s));
    let (sizes, y) = (tiling.forward_room(), MatMut::new(y, [s.rows(), s.width()], s.width()));
    by_blocks(s, (tiling.queries(), tiling.is_parallel()), y, lse, &|head, rows, mut y, lse| {
        in_room::<T::Acc, _>(&tiling, sizes, |[in_q, in_k, in_v, logits, result, max, total]| {
            let [queries, keys, values] =
                [head.queries, head.keys, head.values].map(|start| Positions::new(qkv, start, s.packed(), dim));
            let q = queries.block(rows.clone(), in_q);
            result.fill(T::Acc::ZERO);
            max.fill(T::Acc::from_f64(f64::NEG_INFINITY));
            total.fill(T::Acc::ZERO);
            for seen in steps(s.seen_by(&rows), tiling.keys()) {
                let pairs = Pairs { s, queries: overlap(&rows, &s.that_see(&seen)), keys: seen.clone() };
                let from = pairs.queries.start - rows.start;
                let within = from..from + pairs.queries.len();
                let (extents, q) = (pairs.extents(), q.rows(within.clone()));
                multiply(q, keys.turned(seen.clone(), in_k), MatMut::new(logits, extents, extents[1]), false);
                let result = &mut result[from * dim..];
                weigh(&pairs, scale, logits, &mut max[within.clone()], &mut total[within], result);
                let sums = MatMut::new(result, [extents[0], dim], dim);
                multiply(copied(logits, extents), values.block(seen.clone(), in_v), sums, true);
            }
            for ((lse, max), total) in lse.iter_mut().zip(&*max).zip(&*total) {
                *lse = *max + T::Acc::from_f64(total.to_f64().ln());
            }
            for (row, (result, total)) in result.chunks_exact_mut(dim).zip(&*total).take(rows.len()).enumerate() {
                result.iter_mut().for_each(|x| *x = *x / *total);
                down(result, y.row(row));
            }
        });
    });
}

/// Runs [`Attention::Plain`](crate::backend::ops::Attention::Plain).
pub(in super::super) fn forward_plain<T: Float>(s: &AttentionShape, qkv: &[T], y: &mut [T], p: &mut [T]) {
    let (tiling, dim, scale) = (AttentionTiling::of::<T>(s), s.head_dim, scale(s));
    let (sizes, y) = (tiling.plain_room(), MatMut::new(y, [s.rows(), s.width()], s.width()));
    by_blocks(s, (tiling.plain_rows(), tiling.is_parallel()), y, p, &|head, rows, mut y, kept| {
        in_room::<T::Acc, _>(&tiling, sizes, |[in_q, in_k, in_v, aside, result]| {
            let [queries, keys, values] =
                [head.queries, head.keys, head.values].map(|start| Positions::new(qkv, start, s.packed(), dim));
            let q = queries.block(rows.clone(), in_q);
            let seen = s.seen_by(&rows);
            // Makes the rows of probabilities, `length` apart, and the result.
            let mut attend = |weights: &mut [T::Acc]| {
                for seen in steps(seen.clone(), tiling.keys()) {
                    let logits = MatMut::new(&mut weights[seen.start..], [rows.len(), seen.len()], s.length);
                    multiply(q, keys.turned(seen.clone(), in_k), logits, false);
                }
                let all = Pairs { s, queries: rows.clone(), keys: 0..s.length };
                soften(&all, scale, weights);
                for (i, seen) in steps(seen.clone(), tiling.keys()).enumerate() {
                    let weights = MatRef::new(&weights[seen.start..], [rows.len(), seen.len()], s.length);
                    let sums = MatMut::new(result, [rows.len(), dim], dim);
                    multiply(weights, values.block(seen, in_v), sums, i > 0);
                }
            };
            if let Some(weights) = T::direct_mut(kept) {
                attend(weights);
            } else {
                attend(aside);
                down(&aside[..kept.len()], kept);
            }
            for (row, result) in result.chunks_exact(dim).take(rows.len()).enumerate() {
                down(result, y.row(row));
            }
        });
    });
}

simd! {
    /// Turns a block's logits into weights relative to the largest logit so far, and rescales the sums so far.
    fn weigh [A: Accumulator] (
        pairs: &Pairs<'_>, scale: A, logits: &mut [A], max: &mut [A], total: &mut [A], result: &mut [A],
    ) {
        let (keys, dim) = (pairs.keys.len(), pairs.s.head_dim);
        let rows = logits.chunks_exact_mut(keys).zip(result.chunks_exact_mut(dim)).zip(max).zip(total);
        for (row, (((logits, result), max), total)) in rows.enumerate() {
            let seen = pairs.seen(row);
            logits[..seen.start].fill(A::ZERO);
            logits[seen.end..].fill(A::ZERO);
            let logits = &mut logits[seen];
            if logits.is_empty() {
                continue;
            }
            let top = largest(logits) * scale;
            let before = *max;
            *max = if before >= top { before } else { top };
            let (max, shrink) = (*max, (before - *max).exp());
            let sum = sum_mut(logits, |x| {
                *x = (*x * scale - max).exp();
                *x
            });
            *total = *total * shrink + sum;
            if shrink != A::ONE {
                result.iter_mut().for_each(|x| *x *= shrink);
            }
        }
    }

    /// Turns whole rows of logits into probabilities.
    fn soften [A: Accumulator] (pairs: &Pairs<'_>, scale: A, logits: &mut [A]) {
        for (row, logits) in logits.chunks_exact_mut(pairs.keys.len()).take(pairs.queries.len()).enumerate() {
            let seen = pairs.seen(row);
            logits[..seen.start].fill(A::ZERO);
            logits[seen.end..].fill(A::ZERO);
            let logits = &mut logits[seen];
            let max = largest(logits) * scale;
            let sum = sum_mut(logits, |x| {
                *x = (*x * scale - max).exp();
                *x
            });
            let share = A::ONE / sum;
            logits.iter_mut().for_each(|x| *x *= share);
        }
    }
}
