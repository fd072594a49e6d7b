//! A row times a transposed matrix: a dense layer of one sample, or of one token.
//!
//! A tiled product would lay out a block of the matrix for a few sums each. Here each element of the result is a sum over two
//! rows that lie in memory as they are, so there is no scratch.

use super::super::{float::Float, lanes::dot, parallel, simd::simd};
use crate::backend::ops::MatMul;

/// Whether a product is one of those.
pub(in crate::backend) fn is_row(p: &MatMul) -> bool {
    p.m == 1 && p.transpose_b
}

/// `c (+)= a b^T`, of `a [1, k]` and `b [n, k]`.
pub(super) fn row_product<T: Float, W: Float<Acc = T::Acc>>(p: &MatMul, a: &[T], b: &[T], c: &mut [W]) {
    parallel::ranges(p.n, p.k, parallel::rows(c, 1), |columns, c| {
        sums(&a[..p.k], &b[columns.start * p.k..columns.end * p.k], c, p.accumulate);
    });
}

simd! {
    fn sums [T: Float, W: Float<Acc = T::Acc>] (a: &[T], b: &[T], c: &mut [W], accumulate: bool) {
        for (c, b) in c.iter_mut().zip(b.chunks_exact(a.len().max(1))) {
            let sum = dot(a, b);
            *c = W::down(if accumulate { c.up() + sum } else { sum });
        }
    }
}
