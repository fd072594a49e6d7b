//! The gradients, by queries, keys and values.
//!
//! A logit's gradient is its probability times what its value's gradient is above the mean of its row's. These means come
//! first. Then each block of keys meets the queries that see it. Where a sequence and key head is one piece of work, the
//! queries' gradients are added up on the way; else each block of queries meets the keys it sees once more.

use std::ops::Range;

use super::{
    super::{
        convert::{down, up},
        float::{Accumulator, Float},
        gemm::{copied_rows, multiply},
        lanes::dot,
        parallel::{self, Shared},
        scratch::Scratch,
        simd::simd,
    },
    Cut, Head, Pairs, Positions, carve, overlap, scale, steps,
};
use crate::backend::AttentionShape;

/// What the forward pass kept of the probabilities.
#[derive(Debug, Clone, Copy)]
pub(in super::super) enum Weights<'a, T: Float> {
    /// The result and the softmax's denominators: they are made again.
    Again { y: &'a [T], lse: &'a [T::Acc] },
    /// All of them.
    Kept(&'a [T]),
}

/// A gradient in the making.
struct Gradient<'a, T: Float> {
    s: &'a AttentionShape,
    cut: Cut,
    qkv: &'a [T],
    weights: Weights<'a, T>,
    dy: &'a [T],
    /// Of each row of each head: the mean of its values' gradients.
    means: &'a [T::Acc],
    dqkv: Shared<'a, T>,
}

/// [`Kernel::AttentionGrad`](crate::backend::Kernel::AttentionGrad) and
/// [`Kernel::AttentionPlainGrad`](crate::backend::Kernel::AttentionPlainGrad).
pub(in super::super) fn gradient<T: Float>(
    s: &AttentionShape,
    qkv: &[T],
    weights: Weights<'_, T>,
    dy: &[T],
    dqkv: &mut [T],
) {
    let cut = Cut::of::<T>(s);
    let mut means = Scratch::<T::Acc>::new(s.batch * s.heads * s.length);
    match weights {
        Weights::Again { y, .. } => means_of_results(s, y, dy, means.elements()),
        Weights::Kept(p) => means_of_probabilities(s, &cut, [qkv, p, dy], means.elements()),
    }
    let means = &*means.elements();
    let gradient = Gradient { s, cut, qkv, weights, dy, means, dqkv: Shared::new(dqkv) };
    let (groups, blocks) = (s.batch * s.kv_heads, s.length.div_ceil(cut.keys()));
    let keys = |block: usize| block * cut.keys()..((block + 1) * cut.keys()).min(s.length);
    if cut.is_fused() {
        return parallel::pieces(groups, cut.is_parallel(), |group| {
            gradient.clear_queries(group);
            (0..blocks).for_each(|block| gradient.by_keys(group, keys(block), true));
        });
    }
    parallel::pieces(groups * blocks, cut.is_parallel(), |piece| {
        gradient.by_keys(piece / blocks, keys(piece % blocks), false);
    });
    let blocks = s.length.div_ceil(cut.queries());
    parallel::pieces(s.batch * s.heads * blocks, cut.is_parallel(), |piece| {
        let start = piece % blocks * cut.queries();
        gradient.by_queries(piece / blocks, start..(start + cut.queries()).min(s.length));
    });
}

/// The mean of the values' gradients, weighed by their probabilities, is the result times its gradient.
fn means_of_results<T: Float>(s: &AttentionShape, y: &[T], dy: &[T], means: &mut [T::Acc]) {
    let means = Shared::new(means);
    parallel::ranges(s.rows(), s.width(), |rows| {
        for row in rows {
            for head in 0..s.heads {
                let at = (row / s.length * s.heads + head) * s.length + row % s.length;
                let start = row * s.width() + head * s.head_dim;
                let place = start..start + s.head_dim;
                // SAFETY: every row has its own.
                unsafe { means.part(at..at + 1)[0] = dot_of(&y[place.clone()], &dy[place]) };
            }
        }
    });
}

fn means_of_probabilities<T: Float>(s: &AttentionShape, cut: &Cut, [qkv, p, dy]: [&[T]; 3], means: &mut [T::Acc]) {
    let (blocks, sizes, means) = (s.length.div_ceil(cut.queries()), cut.gradient_room(), Shared::new(means));
    parallel::pieces(s.batch * s.heads * blocks, cut.is_parallel(), |piece| {
        let mut scratch = Scratch::<T::Acc>::new(sizes.iter().sum());
        let [_, in_dy, _, _, in_v, _, slopes, ..] = carve(scratch.elements(), sizes);
        let (place, start) = (piece / blocks, piece % blocks * cut.queries());
        let head = Head::new(s, place / s.heads, place % s.heads);
        let rows = start..(start + cut.queries()).min(s.length);
        // SAFETY: every piece has rows of its own.
        let means = unsafe { means.part(head.row + rows.start..head.row + rows.end) };
        means.fill(T::Acc::ZERO);
        let values = Positions::new(qkv, head.values, s.packed(), s.head_dim);
        let dy = Positions::new(dy, head.result, s.width(), s.head_dim).block(rows.clone(), in_dy);
        for seen in steps(s.seen_by(&rows), cut.keys()) {
            let v = values.turned(seen.clone(), in_v);
            let extents = [rows.len(), seen.len(), s.head_dim];
            // SAFETY: the views hold the blocks, and the room the product.
            unsafe { multiply(extents, dy, v, slopes.as_mut_ptr(), seen.len(), false) };
            for ((row, slopes), mean) in rows.clone().zip(slopes.chunks_exact(seen.len())).zip(&mut *means) {
                let start = (head.row + row) * s.length;
                *mean += dot_of(&p[start + seen.start..start + seen.end], slopes);
            }
        }
    });
}

impl<T: Float> Gradient<'_, T> {
    fn head(&self, sequence: usize, head: usize) -> Head {
        Head::new(self.s, sequence, head)
    }

    fn packed(&self, start: usize) -> Positions<'_, T> {
        Positions::new(self.qkv, start, self.s.packed(), self.s.head_dim)
    }

    /// Zeros for the gradients of a group's queries.
    fn clear_queries(&self, group: usize) {
        let (s, shared) = (self.s, self.s.heads / self.s.kv_heads);
        let head = self.head(group / s.kv_heads, group % s.kv_heads * shared);
        for position in 0..s.length {
            let start = head.queries + position * s.packed();
            // SAFETY: every group has columns of its own.
            unsafe { self.dqkv.part(start..start + shared * s.head_dim) }.fill(T::ZERO);
        }
    }

    /// The gradients of a group's keys and values at `keys`, and what they add to those of its queries.
    fn by_keys(&self, group: usize, keys: Range<usize>, with_queries: bool) {
        let (s, dim, sizes) = (self.s, self.s.head_dim, self.cut.gradient_room());
        let mut scratch = Scratch::<T::Acc>::new(sizes.iter().sum());
        let [in_q, in_dy, in_k, turned_k, turned_v, weights, slopes, dk, dv] = carve(scratch.elements(), sizes);
        let (sequence, group) = (group / s.kv_heads, group % s.kv_heads);
        let shared = s.heads / s.kv_heads;
        let first = self.head(sequence, group * shared);
        let k = self.packed(first.keys).turned(keys.clone(), turned_k);
        let v = self.packed(first.values).turned(keys.clone(), turned_v);
        dk.fill(T::Acc::ZERO);
        dv.fill(T::Acc::ZERO);
        for head in (group * shared..(group + 1) * shared).map(|head| self.head(sequence, head)) {
            for rows in steps(s.that_see(&keys), self.cut.queries()) {
                let pairs = Pairs { s, queries: rows.clone(), keys: keys.clone() };
                let q = self.packed(head.queries).block(rows.clone(), in_q);
                let dy = Positions::new(self.dy, head.result, s.width(), dim).block(rows.clone(), in_dy);
                self.slopes(&pairs, &head, [q, dy, k, v], weights, slopes);
                let (p, ds) = (copied_rows(weights, keys.len()), copied_rows(slopes, keys.len()));
                let extents = [keys.len(), dim, rows.len()];
                // SAFETY: the views hold the blocks, and the room the sums.
                unsafe {
                    multiply(extents, p.transposed(), dy, dv.as_mut_ptr(), dim, true);
                    multiply(extents, ds.transposed(), q, dk.as_mut_ptr(), dim, true);
                }
                if with_queries {
                    let k = self.packed(first.keys).block(keys.clone(), in_k);
                    let dq = self.dqkv.pointer(head.queries + rows.start * s.packed()).cast();
                    debug_assert!(T::DIRECT, "added up in place");
                    // SAFETY: the views hold the blocks; the group's queries are this piece's, in the type of arithmetic.
                    unsafe { multiply([rows.len(), dim, keys.len()], ds, k, dq, s.packed(), true) };
                }
            }
        }
        self.store(first.keys, keys.clone(), dk);
        self.store(first.values, keys, dv);
    }

    /// The gradients of one head's queries at `rows`.
    fn by_queries(&self, place: usize, rows: Range<usize>) {
        let (s, dim, sizes) = (self.s, self.s.head_dim, self.cut.gradient_room());
        let mut scratch = Scratch::<T::Acc>::new(sizes.iter().sum());
        let [in_q, in_dy, in_k, turned_k, turned_v, weights, slopes, dq, _] = carve(scratch.elements(), sizes);
        let head = self.head(place / s.heads, place % s.heads);
        let q = self.packed(head.queries).block(rows.clone(), in_q);
        let dy = Positions::new(self.dy, head.result, s.width(), dim).block(rows.clone(), in_dy);
        dq.fill(T::Acc::ZERO);
        for keys in steps(s.seen_by(&rows), self.cut.keys()) {
            let pairs = Pairs { s, queries: overlap(&rows, &s.that_see(&keys)), keys: keys.clone() };
            let from = pairs.queries.start - rows.start;
            let k = self.packed(head.keys).turned(keys.clone(), turned_k);
            let v = self.packed(head.values).turned(keys.clone(), turned_v);
            self.slopes(&pairs, &head, [q.below(from), dy.below(from), k, v], weights, slopes);
            let k = self.packed(head.keys).block(keys.clone(), in_k);
            let (ds, dq) = (copied_rows(slopes, keys.len()), dq[from * dim..].as_mut_ptr());
            // SAFETY: the views hold the blocks, and the room the sums.
            unsafe { multiply([pairs.queries.len(), dim, keys.len()], ds, k, dq, dim, true) };
        }
        self.store(head.queries, rows, dq);
    }

    /// The probabilities of a block's pairs, and their logits' gradients times the scale. Of `[q, dy, k, v]`, the last
    /// two are turned.
    fn slopes(
        &self,
        pairs: &Pairs<'_>,
        head: &Head,
        [q, dy, k, v]: [super::View<T::Acc>; 4],
        weights: &mut [T::Acc],
        slopes: &mut [T::Acc],
    ) {
        let (extents, scale) = (pairs.extents(self.s.head_dim), scale(self.s));
        let rows = head.row + pairs.queries.start..head.row + pairs.queries.end;
        match self.weights {
            Weights::Again { lse, .. } => {
                // SAFETY: the views hold the blocks, and the room the logits.
                unsafe { multiply(extents, q, k, weights.as_mut_ptr(), pairs.keys.len(), false) };
                weigh_again(pairs, scale, &lse[rows.clone()], weights);
            }
            Weights::Kept(p) => {
                for (row, to) in rows.clone().zip(weights.chunks_exact_mut(pairs.keys.len())) {
                    up(&p[row * self.s.length..][pairs.keys.clone()], to);
                }
            }
        }
        // SAFETY: the views hold the blocks, and the room the products.
        unsafe { multiply(extents, dy, v, slopes.as_mut_ptr(), pairs.keys.len(), false) };
        slope(pairs.keys.len(), scale, &self.means[rows], weights, slopes);
    }

    /// Rounds the gradients of some positions to where they belong.
    fn store(&self, start: usize, positions: Range<usize>, sums: &[T::Acc]) {
        for (position, sums) in positions.zip(sums.chunks_exact(self.s.head_dim)) {
            let start = start + position * self.s.packed();
            // SAFETY: every piece has rows and columns of its own.
            down(sums, unsafe { self.dqkv.part(start..start + self.s.head_dim) });
        }
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

    /// Turns the gradients of probabilities into those of logits, times the scale.
    fn slope [A: Accumulator] (keys: usize, scale: A, means: &[A], weights: &[A], slopes: &mut [A]) {
        for ((slopes, weights), mean) in slopes.chunks_exact_mut(keys).zip(weights.chunks_exact(keys)).zip(means) {
            for (slope, weight) in slopes.iter_mut().zip(weights) {
                *slope = *weight * (*slope - *mean) * scale;
            }
        }
    }
}
