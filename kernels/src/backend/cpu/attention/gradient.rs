//! The gradients, by queries, keys and values.
//!
//! The gradient of a logit is its probability times the difference between the gradient of that probability and the mean of
//! its row. The means are computed first. Then each block of keys is multiplied by the queries that see it. Where a sequence
//! and a key head are one piece of work, the gradients of queries are added up at the same time; otherwise each block of
//! queries visits the keys that it sees once more.

use std::ops::Range;

use super::{
    super::{
        convert::{down, up},
        float::{Accumulator, Float},
        gemm::copied,
        lanes::dot,
        matrix::{MatMut, MatRef, multiply},
        parallel,
        scratch::Scratch,
        simd::simd,
    },
    AttentionTiling, Head, Pairs, Positions, by_blocks, in_room, overlap, scale, steps,
};
use crate::backend::AttentionShape;

/// The values that the forward pass kept for the probabilities.
#[derive(Debug, Clone, Copy)]
pub(in super::super) enum Weights<'a, T: Float> {
    /// The result and the softmax's denominators, from which they are recomputed.
    Recomputed { y: &'a [T], lse: &'a [T::Acc] },
    /// All the probabilities, as they were kept.
    Kept(&'a [T]),
}

/// A gradient that is being computed.
struct Gradient<'a, T: Float> {
    s: &'a AttentionShape,
    tiling: AttentionTiling,
    qkv: &'a [T],
    weights: Weights<'a, T>,
    dy: &'a [T],
    /// For each row of each head, the mean of its values' gradients.
    means: &'a [T::Acc],
}

/// [`Attention::EfficientGrad`](crate::backend::ops::Attention::EfficientGrad) and
/// Runs [`Attention::PlainGrad`](crate::backend::ops::Attention::PlainGrad).
pub(in super::super) fn gradient<T: Float>(
    s: &AttentionShape,
    qkv: &[T],
    weights: Weights<'_, T>,
    dy: &[T],
    dqkv: &mut [T],
) {
    let tiling = AttentionTiling::of::<T>(s);
    let mut means = Scratch::<T::Acc>::new(s.batch * s.heads * s.length);
    match weights {
        Weights::Recomputed { y, .. } => means_of_results(s, y, dy, means.elements()),
        Weights::Kept(p) => means_of_probabilities(s, &tiling, [qkv, p, dy], means.elements()),
    }
    let means = &*means.elements();
    let (gradient, dim, parallel) = (Gradient { s, tiling, qkv, weights, dy, means }, s.head_dim, tiling.is_parallel());
    let (dq, rest) = MatMut::new(dqkv, [s.rows(), s.packed()], s.packed()).split_columns(s.heads * dim);
    let (dk, dv) = rest.split_columns(s.kv_heads * dim);
    let (blocks, shared) = (s.length.div_ceil(tiling.keys()), s.heads / s.kv_heads * dim);
    let keys = |block: usize| block * tiling.keys()..((block + 1) * tiling.keys()).min(s.length);
    if tiling.is_fused() {
        let parts = [dq.by_rows(s.length), dk.by_rows(s.length), dv.by_rows(s.length)];
        return parallel::pieces(s.batch, parallel, parts, |sequence, [dq, dk, dv]| {
            let parts = [dq.by_columns(shared), dk.by_columns(dim), dv.by_columns(dim)];
            parallel::pieces(s.kv_heads, parallel, parts, |group, [mut dq, mut dk, mut dv]| {
                (0..s.length).for_each(|position| dq.row(position).fill(T::ZERO));
                for keys in (0..blocks).map(keys) {
                    let [dk, dv] = [&mut dk, &mut dv].map(|gradient| gradient.part(keys.clone(), 0..dim));
                    gradient.by_keys([sequence, group], keys, [dk, dv], Some(&mut dq));
                }
            });
        });
    }
    let parts = [dk.by_rows(s.length), dv.by_rows(s.length)];
    parallel::pieces(s.batch, parallel, parts, |sequence, parts| {
        let parts = parts.map(|part| part.by_columns(dim));
        parallel::pieces(s.kv_heads, parallel, parts, |group, parts| {
            let parts = parts.map(|part| part.by_rows(tiling.keys()));
            parallel::pieces(blocks, parallel, parts, |block, parts| {
                gradient.by_keys([sequence, group], keys(block), parts, None);
            });
        });
    });
    by_blocks(s, (tiling.queries(), parallel), dq, &mut [(); 0], &|head, rows, dq, _| {
        gradient.by_queries(&head, rows, dq)
    });
}

/// The mean of the values' gradients, weighed by their probabilities, is the result times its gradient.
fn means_of_results<T: Float>(s: &AttentionShape, y: &[T], dy: &[T], means: &mut [T::Acc]) {
    parallel::ranges(means.len(), s.head_dim, parallel::rows(means, 1), |range, means| {
        for (at, mean) in range.zip(means) {
            let (sequence, head, position) = (at / (s.length * s.heads), at / s.length % s.heads, at % s.length);
            let start = (sequence * s.length + position) * s.width() + head * s.head_dim;
            *mean = dot_of(&y[start..start + s.head_dim], &dy[start..start + s.head_dim]);
        }
    });
}

fn means_of_probabilities<T: Float>(
    s: &AttentionShape,
    tiling: &AttentionTiling,
    [qkv, p, dy]: [&[T]; 3],
    means: &mut [T::Acc],
) {
    let (sizes, none) = (tiling.gradient_room(), MatMut::<T>::new(&mut [], [s.rows(), 0], 0));
    by_blocks(s, (tiling.queries(), tiling.is_parallel()), none, means, &|head, rows, _, means| {
        in_room::<T::Acc, _>(tiling, sizes, |[_, in_dy, _, _, in_v, _, slopes, ..]| {
            means.fill(T::Acc::ZERO);
            let values = Positions::new(qkv, head.values, s.packed(), s.head_dim);
            let dy = Positions::new(dy, head.result, s.width(), s.head_dim).block(rows.clone(), in_dy);
            for seen in steps(s.seen_by(&rows), tiling.keys()) {
                let extents = [rows.len(), seen.len()];
                multiply(dy, values.turned(seen.clone(), in_v), MatMut::new(slopes, extents, extents[1]), false);
                for ((row, slopes), mean) in rows.clone().zip(slopes.chunks_exact(seen.len())).zip(&mut *means) {
                    let start = (head.row + row) * s.length;
                    *mean += dot_of(&p[start + seen.start..start + seen.end], slopes);
                }
            }
        });
    });
}

impl<'a, T: Float> Gradient<'a, T> {
    fn packed(&self, start: usize) -> Positions<'a, T> {
        Positions::new(self.qkv, start, self.s.packed(), self.s.head_dim)
    }

    /// The gradients of a sequence's and group's keys and values at `keys`, and their terms of the gradients of its queries.
    fn by_keys(
        &self,
        [sequence, group]: [usize; 2],
        keys: Range<usize>,
        [to_k, to_v]: [MatMut<'_, T>; 2],
        mut queries: Option<&mut MatMut<'_, T>>,
    ) {
        let (s, dim, sizes) = (self.s, self.s.head_dim, self.tiling.gradient_room());
        in_room::<T::Acc, _>(
            &self.tiling,
            sizes,
            |[in_q, in_dy, in_k, turned_k, turned_v, weights, slopes, dk, dv]| {
                let shared = s.heads / s.kv_heads;
                let first = Head::new(s, sequence, group * shared);
                let k = self.packed(first.keys).turned(keys.clone(), turned_k);
                let v = self.packed(first.values).turned(keys.clone(), turned_v);
                dk.fill(T::Acc::ZERO);
                dv.fill(T::Acc::ZERO);
                for i in 0..shared {
                    let head = Head::new(s, sequence, group * shared + i);
                    for rows in steps(s.that_see(&keys), self.tiling.queries()) {
                        let pairs = Pairs { s, queries: rows.clone(), keys: keys.clone() };
                        let q = self.packed(head.queries).block(rows.clone(), in_q);
                        let dy = Positions::new(self.dy, head.result, s.width(), dim).block(rows.clone(), in_dy);
                        self.slopes(&pairs, &head, [q, dy, k, v], weights, slopes);
                        let (p, ds) = (copied(weights, pairs.extents()), copied(slopes, pairs.extents()));
                        let extents = [keys.len(), dim];
                        multiply(p.transposed(), dy, MatMut::new(dv, extents, dim), true);
                        multiply(ds.transposed(), q, MatMut::new(dk, extents, dim), true);
                        if let Some(queries) = &mut queries {
                            let mut dq = queries.part(rows, i * dim..(i + 1) * dim);
                            let dq = dq.direct().expect("added up in the type of arithmetic");
                            multiply(ds, self.packed(first.keys).block(keys.clone(), in_k), dq, true);
                        }
                    }
                }
                store(dk, to_k);
                store(dv, to_v);
            },
        );
    }

    /// The gradients of one head's queries at `rows`.
    fn by_queries(&self, head: &Head, rows: Range<usize>, to: MatMut<'_, T>) {
        let (s, dim, sizes) = (self.s, self.s.head_dim, self.tiling.gradient_room());
        in_room::<T::Acc, _>(&self.tiling, sizes, |[in_q, in_dy, in_k, turned_k, turned_v, weights, slopes, dq, _]| {
            let q = self.packed(head.queries).block(rows.clone(), in_q);
            let dy = Positions::new(self.dy, head.result, s.width(), dim).block(rows.clone(), in_dy);
            dq.fill(T::Acc::ZERO);
            for keys in steps(s.seen_by(&rows), self.tiling.keys()) {
                let pairs = Pairs { s, queries: overlap(&rows, &s.that_see(&keys)), keys: keys.clone() };
                let from = pairs.queries.start - rows.start;
                let within = from..from + pairs.queries.len();
                let k = self.packed(head.keys).turned(keys.clone(), turned_k);
                let v = self.packed(head.values).turned(keys.clone(), turned_v);
                self.slopes(&pairs, head, [q.rows(within.clone()), dy.rows(within), k, v], weights, slopes);
                let k = self.packed(head.keys).block(keys, in_k);
                let sums = MatMut::new(&mut dq[from * dim..], [pairs.queries.len(), dim], dim);
                multiply(copied(slopes, pairs.extents()), k, sums, true);
            }
            store(dq, to);
        });
    }

    /// The probabilities of a block's pairs, and their logits' gradients times the scale. Of `[q, dy, k, v]`, the last
    /// two are transposed.
    fn slopes(
        &self,
        pairs: &Pairs<'_>,
        head: &Head,
        [q, dy, k, v]: [MatRef<'_, T::Acc>; 4],
        weights: &mut [T::Acc],
        slopes: &mut [T::Acc],
    ) {
        let (extents, scale) = (pairs.extents(), scale(self.s));
        let rows = head.row + pairs.queries.start..head.row + pairs.queries.end;
        match self.weights {
            Weights::Recomputed { lse, .. } => {
                multiply(q, k, MatMut::new(weights, extents, extents[1]), false);
                weigh_again(pairs, scale, &lse[rows.clone()], weights);
            }
            Weights::Kept(p) => {
                for (row, to) in rows.clone().zip(weights.chunks_exact_mut(pairs.keys.len())) {
                    up(&p[row * self.s.length..][pairs.keys.clone()], to);
                }
            }
        }
        multiply(dy, v, MatMut::new(slopes, extents, extents[1]), false);
        slope(pairs.keys.len(), scale, &self.means[rows], weights, slopes);
    }
}

/// Rounds the gradients of some positions to where they belong.
fn store<T: Float>(sums: &[T::Acc], mut to: MatMut<'_, T>) {
    let [rows, columns] = to.extents();
    for (row, sums) in sums.chunks_exact(columns).take(rows).enumerate() {
        down(sums, to.row(row));
    }
}

simd! {
    fn dot_of [T: Float, U: Float<Acc = T::Acc>] (a: &[T], b: &[U]) -> T::Acc {
        dot(a, b)
    }

    /// Turns a block's logits into probabilities.
    fn weigh_again [A: Accumulator] (pairs: &Pairs<'_>, scale: A, lse: &[A], logits: &mut [A]) {
        for (row, (logits, lse)) in logits.chunks_exact_mut(pairs.keys.len()).zip(lse).enumerate() {
            let seen = pairs.seen(row);
            logits[..seen.start].fill(A::ZERO);
            logits[seen.end..].fill(A::ZERO);
            for x in &mut logits[seen] {
                *x = (*x * scale - *lse).exp();
            }
        }
    }

    /// Turns the gradients of probabilities into gradients of logits, times the scale.
    fn slope [A: Accumulator] (keys: usize, scale: A, means: &[A], weights: &[A], slopes: &mut [A]) {
        for ((slopes, weights), mean) in slopes.chunks_exact_mut(keys).zip(weights.chunks_exact(keys)).zip(means) {
            for (slope, weight) in slopes.iter_mut().zip(weights) {
                *slope = *weight * (*slope - *mean) * scale;
            }
        }
    }
}
