//! Launches of every kernel, of random sizes.

use plimsoll_engine::backend::ops::CopyColumns;
use plimsoll_engine::{
    backend::{
        AttentionShape, DType,
        ops::{Lesson, Rows},
    },
    selftest::{
        cases::{
            Case, FLOATS, activation, attention, coded, convolution, depthwise, dropout, elementwise, embedding, fused,
            gather, int8, layout, linear, loss, norm, optimizer, pool, prune, rotary, sum_types,
        },
        draw::Draw,
    },
};

use super::bench::Shapes;

pub(crate) fn trials(draw: &mut Draw, dtype: DType, largest: usize) -> Vec<Case> {
    let mut trials = slides(draw, dtype, largest);
    trials.extend(matrices(draw, dtype, largest));
    trials.extend(sequences(draw, dtype, largest));
    trials
}

/// Products, and what slides over images.
fn slides(draw: &mut Draw, dtype: DType, largest: usize) -> Vec<Case> {
    let (product, sum) = (draw.matmul(largest * 16), draw.pick(sum_types(dtype)));
    let mut trials = vec![linear::matmul(draw, dtype, product, sum)];
    let extents = [8, 4, 4].map(|most| draw.between(1, largest * most));
    trials.extend(linear::joined(draw, dtype, extents, sum));
    let [rows, out, inner] = [4, 8, 8].map(|most| draw.between(1, largest * most));
    trials.extend(coded::products(draw, dtype, [rows, out, inner]));
    let elements = draw.between(1, largest * largest * 16);
    trials.extend(coded::codes(draw, dtype, elements));
    let sizes = [1, 2].map(|most| draw.between(1, largest * most * 8));
    trials.extend(int8::codes(draw, dtype, sizes));
    let window = draw.window(largest, false);
    trials.extend(int8::products(draw, dtype, window));
    let (window, accumulate) = (draw.window(largest, false), draw.coin());
    trials.extend(convolution::convolution(draw, dtype, window, accumulate, sum));
    let window = draw.window(largest, true);
    trials.extend(depthwise::depthwise(draw, dtype, window, accumulate, sum));
    let window = draw.window(largest, true);
    let numbers = draw.numbers(window.batch * window.height * window.width * window.channels);
    trials.extend(pool::windows(draw, dtype, window, numbers));
    let sizes = [draw.between(1, 3), draw.between(1, largest * 8), draw.between(1, largest * 8)];
    trials.extend(pool::global(draw, dtype, sizes));
    trials
}

/// Streams, normalisations, the loss and updates.
fn matrices(draw: &mut Draw, dtype: DType, largest: usize) -> Vec<Case> {
    let mut extents = |rows: usize, columns: usize, least: usize| Rows {
        rows: draw.between(least, largest * rows),
        columns: draw.between(least, largest * columns),
    };
    let (few, many, factors) = (extents(8, 8, 1), extents(50, 12, 2), extents(50, 12, 2));
    let count = few.rows * few.columns;
    let mut trials = elementwise::elements(draw, dtype, count);
    trials.push(dropout::dropout(draw, dtype, count));
    trials.extend(activation::functions(draw, dtype, count));
    trials.extend(layout::casts(draw, dtype, count));
    trials.extend(optimizer::clipping(draw, dtype, count));
    let (of, groups) = (draw.between(2, 32), [few.rows, few.columns]);
    let kept = draw.between(1, of - 1);
    trials.extend(prune::pruning(draw, dtype, groups, [kept, of]));
    trials.extend(linear::biases(draw, dtype, few));
    let behind = draw.between(0, few.columns - 1);
    trials.extend(loss::loss(draw, dtype, few, behind, 0.5));
    let lesson = Lesson { temperature: draw.between(2, 32) as f64 / 4.0, weight: draw.between(0, 8) as f64 / 8.0 };
    trials.extend(loss::distillation(draw, dtype, few, behind, lesson, 0.5));
    let (parameters, accumulate) = (draw.pick(sum_types(dtype)), draw.coin());
    trials.extend(norm::columns(draw, dtype, many, parameters, accumulate));
    trials.extend(norm::rows(draw, dtype, many, parameters, accumulate));
    trials.extend(fused::biases(draw, dtype, few));
    trials.extend(fused::sums(draw, dtype, many, parameters));
    trials.extend(fused::channels(draw, dtype, many, parameters, accumulate));
    let (types, step) = (optimizer::types(dtype), draw.between(1, 50) as u64);
    let (types, count) = (draw.pick(&types), draw.between(1, largest * largest * 64));
    trials.extend(optimizer::rules(draw, types, count, factors, step));
    let counts: Vec<usize> = (0..draw.between(1, 5)).map(|_| draw.between(1, largest * largest * 16)).collect();
    trials.extend([false, true].map(|accumulate| optimizer::squares_of_all(draw, dtype, &counts, accumulate)));
    trials.extend(optimizer::rules_of_all(draw, types, &counts, step));
    trials
}

/// What sequence models do, and batches gathered from a set.
fn sequences(draw: &mut Draw, dtype: DType, largest: usize) -> Vec<Case> {
    let (rows, columns) = (draw.between(1, largest * 8), draw.between(1, largest * 8));
    let (from_offset, to_offset) = (draw.between(0, 5), draw.between(0, 5));
    let from_stride = if draw.coin() { 0 } else { columns + draw.between(0, 20) };
    let to_stride = columns + draw.between(0, 20);
    let copy = CopyColumns { rows, columns, from_stride, from_offset, to_stride, to_offset };
    let (other, batch, vocabulary) = (draw.pick(&FLOATS), draw.between(1, 3), draw.between(1, largest * 4));
    let mut trials = vec![layout::copy(draw, dtype, other, copy)];
    trials.push(layout::transpose(draw, dtype, [batch, rows, columns]));
    trials.extend(embedding::embedding(draw, dtype, [rows, vocabulary, columns]));
    trials.extend(activation::gated(draw, dtype, Rows { rows, columns }));
    let s = shape(draw, largest);
    trials.extend(attention::attention(draw, dtype, s));
    let (seen, more) = (draw.between(0, largest * 12), draw.between(0, 5));
    trials.push(attention::cached(draw, dtype, s, seen, more));
    let turned = AttentionShape { head_dim: 2 * s.head_dim, ..s };
    let (base, is_inverse) = (draw.between(2, 10_000) as f64, draw.coin());
    let first = if draw.coin() { 0 } else { draw.between(0, largest * 40) };
    trials.push(rotary::rotary(draw, dtype, turned, base, (first, is_inverse)));
    let length = draw.between(1, largest * 4);
    let set = gather::Set {
        samples: draw.between(1, largest * 4),
        batch: draw.between(1, largest * 4),
        rows: draw.between(1, largest),
        row: draw.between(1, largest * 3),
        targets: draw.between(1, largest * 4),
        length,
        scored: draw.between(1, length),
    };
    let is_wide = draw.coin();
    trials.extend(gather::set(draw, dtype, set, is_wide));
    trials
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
