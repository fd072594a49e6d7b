//! The forward passes: the softmax carried along the blocks of keys (Milakov & Gimelshein 2018), or kept whole.

use super::{
    super::{
        convert::down,
        float::{Accumulator, Float},
        gemm::{copied_rows, multiply},
        lanes::{largest, sum_mut},
        parallel::{self, Shared},
        scratch::Scratch,
        simd::simd,
    },
    Cut, Head, Pairs, Positions, carve, overlap, scale, steps,
};
use crate::backend::AttentionShape;

/// [`Kernel::Attention`](crate::backend::Kernel::Attention).
pub(in super::super) fn forward<T: Float>(s: &AttentionShape, qkv: &[T], y: &mut [T], lse: &mut [T::Acc]) {
    let (cut, blocks, dim) = (Cut::of::<T>(s), s.length.div_ceil(Cut::of::<T>(s).queries()), s.head_dim);
    let (y, lse, sizes, scale) = (Shared::new(y), Shared::new(lse), cut.forward_room(), scale(s));
    parallel::pieces(s.batch * s.heads * blocks, cut.is_parallel(), |piece| {
        let mut scratch = Scratch::<T::Acc>::new(sizes.iter().sum());
        let [in_q, in_k, in_v, logits, result, max, total] = carve(scratch.elements(), sizes);
        let (place, block) = (piece / blocks, piece % blocks);
        let head = Head::new(s, place / s.heads, place % s.heads);
        let rows = block * cut.queries()..((block + 1) * cut.queries()).min(s.length);
        let [queries, keys, values] =
            [head.queries, head.keys, head.values].map(|start| Positions::new(qkv, start, s.packed(), dim));
        let q = queries.block(rows.clone(), in_q);
        result.fill(T::Acc::ZERO);
        max.fill(T::Acc::from_f64(f64::NEG_INFINITY));
        total.fill(T::Acc::ZERO);
        for seen in steps(s.seen_by(&rows), cut.keys()) {
            let pairs = Pairs { s, queries: overlap(&rows, &s.that_see(&seen)), keys: seen.clone() };
            let from = pairs.queries.start - rows.start;
            let within = from..from + pairs.queries.len();
            let k = keys.turned(seen.clone(), in_k);
            // SAFETY: the views hold the blocks, and the room the logits.
            unsafe { multiply(pairs.extents(dim), q.below(from), k, logits.as_mut_ptr(), seen.len(), false) };
            let result = &mut result[from * dim..];
            weigh(&pairs, scale, logits, &mut max[within.clone()], &mut total[within], result);
            let (weights, v) = (copied_rows(logits, seen.len()), values.block(seen.clone(), in_v));
            let extents = [pairs.queries.len(), dim, seen.len()];
            // SAFETY: the views hold the blocks, and the room the result.
            unsafe { multiply(extents, weights, v, result.as_mut_ptr(), dim, true) };
        }
        // SAFETY: every piece has rows of its own.
        let lse = unsafe { lse.part(head.row + rows.start..head.row + rows.end) };
        for ((lse, max), total) in lse.iter_mut().zip(&*max).zip(&*total) {
            *lse = *max + T::Acc::from_f64(total.to_f64().ln());
        }
        for ((row, result), total) in rows.zip(result.chunks_exact_mut(dim)).zip(&*total) {
            let start = head.result + row * s.width();
            result.iter_mut().for_each(|x| *x = *x / *total);
            // SAFETY: every piece has rows and columns of its own.
            down(result, unsafe { y.part(start..start + dim) });
        }
    });
}

/// [`Kernel::AttentionPlain`](crate::backend::Kernel::AttentionPlain).
pub(in super::super) fn forward_plain<T: Float>(s: &AttentionShape, qkv: &[T], y: &mut [T], p: &mut [T]) {
    let (cut, blocks, dim) = (Cut::of::<T>(s), s.length.div_ceil(Cut::of::<T>(s).plain_rows()), s.head_dim);
    let (y, p, sizes, scale) = (Shared::new(y), Shared::new(p), cut.plain_room(), scale(s));
    parallel::pieces(s.batch * s.heads * blocks, cut.is_parallel(), |piece| {
        let mut scratch = Scratch::<T::Acc>::new(sizes.iter().sum());
        let [in_q, in_k, in_v, aside, result] = carve(scratch.elements(), sizes);
        let (place, block) = (piece / blocks, piece % blocks);
        let head = Head::new(s, place / s.heads, place % s.heads);
        let rows = block * cut.plain_rows()..((block + 1) * cut.plain_rows()).min(s.length);
        // SAFETY: every piece has rows of its own.
        let kept = || unsafe { p.part((head.row + rows.start) * s.length..(head.row + rows.end) * s.length) };
        let weights = T::direct_mut(kept()).unwrap_or(aside);
        let [queries, keys, values] =
            [head.queries, head.keys, head.values].map(|start| Positions::new(qkv, start, s.packed(), dim));
        let q = queries.block(rows.clone(), in_q);
        let seen = s.seen_by(&rows);
        for seen in steps(seen.clone(), cut.keys()) {
            let k = keys.turned(seen.clone(), in_k);
            let logits = weights[seen.start..].as_mut_ptr();
            // SAFETY: the views hold the blocks, and the rows of probabilities are `length` apart.
            unsafe { multiply([rows.len(), seen.len(), dim], q, k, logits, s.length, false) };
        }
        let all = Pairs { s, queries: rows.clone(), keys: 0..s.length };
        soften(&all, scale, weights);
        for (i, seen) in steps(seen, cut.keys()).enumerate() {
            let v = values.block(seen.clone(), in_v);
            let weights = copied_rows(&weights[seen.start..], s.length);
            // SAFETY: the views hold the blocks, and the room the result.
            unsafe { multiply([rows.len(), dim, seen.len()], weights, v, result.as_mut_ptr(), dim, i > 0) };
        }
        if !T::DIRECT {
            down(&weights[..rows.len() * s.length], kept());
        }
        for (row, result) in rows.clone().zip(result.chunks_exact(dim)) {
            let start = head.result + row * s.width();
            // SAFETY: every piece has rows and columns of its own.
            down(result, unsafe { y.part(start..start + dim) });
        }
    });
}

simd! {
    /// Turns a block's logits into weights relative to the largest logit so far, and what is summed so far with them.
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
