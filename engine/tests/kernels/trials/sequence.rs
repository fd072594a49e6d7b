//! Launches of the kernels of sequence models.

use plimsoll_engine::backend::{AttentionShape, DType, Kernel, kernel::Rows};

use super::{Trial, sum_type};
use crate::bench::{Draw, Operand};

/// What moves elements, looks them up, or gates them.
pub(super) fn moves(draw: &mut Draw, dtype: DType, largest: usize) -> Vec<Trial> {
    let (rows, columns) = (draw.between(1, largest * 8), draw.between(1, largest * 8));
    let numbers = |draw: &mut Draw, count: usize, dtype: DType| (draw.numbers(count), dtype);
    let (batch, other, sum) = (draw.between(1, 3), super::other_type(draw), sum_type(draw, dtype));
    let (from_offset, to_offset) = (draw.between(0, 5), draw.between(0, 5));
    let from_stride = if draw.coin() { 0 } else { columns + draw.between(0, 20) };
    let to_stride = columns + draw.between(0, 20);
    let copy = Kernel::CopyColumns { rows, columns, from_stride, from_offset, to_stride, to_offset };
    let reach = |stride: usize, offset: usize| (rows - 1) * stride + offset + columns;
    let vocabulary = draw.between(1, largest * 4);
    let tokens: Operand = ((0..rows).map(|_| draw.between(0, vocabulary - 1) as f64).collect(), DType::U32);
    let extents = Rows { rows, columns };
    let (x, y) = (numbers(draw, batch * rows * columns, dtype), numbers(draw, rows * columns, dtype));
    let table = numbers(draw, vocabulary * columns, dtype);
    let gradient = Kernel::EmbeddingGrad { rows, accumulate: draw.coin() };
    let both: Operand = (draw.numbers(2 * rows * columns).iter().map(|x| 5.0 * x).collect(), dtype);
    vec![
        Trial::new(Kernel::Normal { std: 0.5, key: rows as u64 }, vec![], vec![y.clone()], 1),
        Trial::new(
            copy,
            vec![numbers(draw, reach(from_stride, from_offset), dtype)],
            vec![numbers(draw, reach(to_stride, to_offset), other)],
            1,
        ),
        Trial::new(Kernel::Transpose { batch, rows, columns }, vec![x.clone()], vec![x], 1),
        Trial::new(Kernel::Embedding, vec![tokens.clone(), table.clone()], vec![y.clone()], 1),
        Trial::new(gradient, vec![tokens, y.clone()], vec![(table.0, sum)], rows),
        Trial::new(Kernel::SwiGlu { extents }, vec![both.clone()], vec![y.clone()], 64),
        Trial::new(Kernel::SwiGluGrad { extents }, vec![both.clone(), y], vec![both], 256),
    ]
}

/// Heads that share keys or not, masks and windows, blocks that fill and blocks that do not.
pub(crate) fn shape(draw: &mut Draw, largest: usize) -> AttentionShape {
    let (kv_heads, length) = (draw.between(1, 3), draw.between(1, largest * 12));
    AttentionShape {
        batch: draw.between(1, 2),
        length,
        heads: kv_heads * draw.between(1, 2),
        kv_heads,
        head_dim: draw.pick(&[1, 3, 8, 16, 20, 32]),
        is_causal: draw.coin(),
        window: if draw.coin() { 0 } else { draw.between(1, length + 2) },
    }
}

pub(super) fn attention(draw: &mut Draw, dtype: DType, largest: usize) -> Vec<Trial> {
    let s = shape(draw, largest);
    let sums = if dtype == DType::F64 { dtype } else { DType::F32 };
    let qkv: Operand = (draw.numbers(s.rows() * s.packed()), dtype);
    let (y, dy) = ((draw.numbers(s.rows() * s.width()), dtype), (draw.numbers(s.rows() * s.width()), dtype));
    let scores = s.batch * s.heads * s.length;
    let lse: Operand = (draw.numbers(scores).iter().map(|x| x + 2.0).collect(), sums);
    let seen = |(i, p): (usize, &f64)| if s.sees(i / s.length % s.length, i % s.length) { p.abs() } else { 0.0 };
    let p: Operand = (draw.numbers(scores * s.length).iter().enumerate().map(seen).collect(), dtype);
    let turned = AttentionShape { head_dim: 2 * s.head_dim, ..s };
    let (base, is_inverse) = (draw.between(2, 10_000) as f64, draw.coin());
    let terms = 64 * (s.length + s.head_dim);
    vec![
        Trial::new(
            Kernel::Rotary { shape: turned, base, is_inverse },
            vec![],
            vec![(draw.numbers(s.rows() * turned.packed()), dtype)],
            if dtype == DType::F64 { 4096 } else { 4 },
        ),
        Trial::new(Kernel::Attention(s), vec![qkv.clone()], vec![y.clone(), lse.clone()], terms),
        Trial::new(Kernel::AttentionPlain(s), vec![qkv.clone()], vec![y.clone(), p.clone()], terms),
        Trial::new(Kernel::AttentionGrad(s), vec![qkv.clone(), y, lse, dy.clone()], vec![qkv.clone()], 16 * terms),
        Trial::new(Kernel::AttentionPlainGrad(s), vec![qkv.clone(), p, dy], vec![qkv], 16 * terms),
    ]
}
