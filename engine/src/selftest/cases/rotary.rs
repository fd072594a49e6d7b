//! Rotary position embedding, there and back.

use super::{Case, Extent, attention::SHAPES, kernel_names};
use crate::{
    backend::{AttentionShape, DType, ops::Rotary},
    selftest::draw::Draw,
};

kernel_names! {
    Rotary;
    _ => "rotary",
}

/// Rotary positions there or back, from the position `first` on, of heads with an even number of elements.
pub fn rotary(
    draw: &mut Draw,
    dtype: DType,
    shape: AttentionShape,
    base: f64,
    (first, is_inverse): (usize, bool),
) -> Case {
    let qkv = (draw.numbers(shape.rows() * shape.packed()), dtype);
    // In f64, the angle is rounded: it has up to as many radians as there are positions.
    let terms = if dtype == DType::F64 { (first + shape.length).pow(2).max(4096) } else { 4 };
    Case::new(Rotary { shape, first, base, is_inverse }, vec![], vec![qkv], terms)
}

pub(super) fn cases(draw: &mut Draw, dtype: DType, extent: Extent) -> Vec<Case> {
    let mut cases = Vec::new();
    for ([batch, length], [heads, kv_heads, head_dim], is_causal, window) in extent.of(&SHAPES).iter().copied() {
        let head_dim = head_dim.next_multiple_of(2);
        let shape = AttentionShape { batch, length, heads, kv_heads, head_dim, is_causal, window };
        for from in [(0, false), (0, true), (37, false)] {
            cases.push(rotary(draw, dtype, shape, 10_000.0, from));
        }
    }
    cases
}
