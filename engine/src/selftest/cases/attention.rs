//! Attention in its two forms, and over kept keys and values.

use super::{Case, Extent, Operand, kernel_names, statistics};
use crate::backend::ops::{Attention, CachedAttention};
use crate::{
    backend::{AttentionShape, DType},
    selftest::draw::Draw,
};

kernel_names! {
    Attention;
    Attention::Efficient(_) => "attention",
    Attention::EfficientGrad(_) => "attention-gradient",
    Attention::Plain(_) => "plain-attention",
    Attention::PlainGrad(_) => "plain-attention-gradient",
    Attention::Cached(_) => "cached-attention",
}

/// Both forms and their gradients.
pub fn attention(draw: &mut Draw, dtype: DType, s: AttentionShape) -> Vec<Case> {
    let qkv: Operand = (draw.numbers(s.rows() * s.packed()), dtype);
    let (y, dy) = ((draw.numbers(s.rows() * s.width()), dtype), (draw.numbers(s.rows() * s.width()), dtype));
    let scores = s.batch * s.heads * s.length;
    let lse: Operand = (draw.numbers(scores).iter().map(|x| x + 2.0).collect(), statistics(dtype));
    let seen = |(i, p): (usize, &f64)| if s.sees(i / s.length % s.length, i % s.length) { p.abs() } else { 0.0 };
    let p: Operand = (draw.numbers(scores * s.length).iter().enumerate().map(seen).collect(), dtype);
    let terms = 64 * (s.length + s.head_dim);
    vec![
        Case::new(Attention::Efficient(s), vec![qkv.clone()], vec![y.clone(), lse.clone()], terms),
        Case::new(Attention::Plain(s), vec![qkv.clone()], vec![y.clone(), p.clone()], terms),
        Case::new(Attention::EfficientGrad(s), vec![qkv.clone(), y, lse, dy.clone()], vec![qkv.clone()], 16 * terms),
        Case::new(Attention::PlainGrad(s), vec![qkv.clone(), p, dy], vec![qkv], 16 * terms),
    ]
}

/// The new positions `s` of one sequence, after others that were seen, with room for more.
pub fn cached(draw: &mut Draw, dtype: DType, s: AttentionShape, seen: usize, more: usize) -> Case {
    let s = AttentionShape { batch: 1, is_causal: true, ..s };
    let kernel = CachedAttention { shape: s, seen, places: seen + s.length + more };
    let qkv = (draw.numbers(s.rows() * s.packed()), dtype);
    let kept = (draw.numbers(kernel.places * kernel.row()), dtype);
    let y = (draw.numbers(s.rows() * s.width()), dtype);
    let terms = 64 * (seen + s.length + s.head_dim);
    Case::new(Attention::Cached(kernel), vec![qkv, kept], vec![y], terms)
}

/// `[batch, length], [heads, kv_heads, head_dim], is_causal, window`.
pub(super) const SHAPES: [([usize; 2], [usize; 3], bool, usize); 11] = [
    ([2, 5], [2, 1, 8], true, 0),
    ([1, 33], [4, 2, 16], false, 0),
    ([1, 1], [1, 1, 1], true, 0),
    ([2, 17], [3, 3, 20], true, 5),
    ([1, 65], [2, 1, 32], false, 7),
    ([1, 70], [2, 2, 64], true, 0),
    ([3, 9], [6, 2, 3], true, 1),
    ([1, 131], [1, 1, 5], true, 64),
    ([1, 129], [2, 1, 40], false, 0),
    ([1, 40], [1, 1, 128], true, 0),
    ([1, 260], [1, 1, 4], true, 0),
];

pub(super) fn cases(draw: &mut Draw, dtype: DType, extent: Extent) -> Vec<Case> {
    let mut cases = Vec::new();
    for ([batch, length], [heads, kv_heads, head_dim], is_causal, window) in extent.of(&SHAPES).iter().copied() {
        let s = AttentionShape { batch, length, heads, kv_heads, head_dim, is_causal, window };
        cases.extend(attention(draw, dtype, s));
        cases.push(cached(draw, dtype, AttentionShape { length: 1, ..s }, length, 3));
        cases.push(cached(draw, dtype, AttentionShape { length: 1 + length / 8, ..s }, 7 * length, 0));
    }
    cases
}
