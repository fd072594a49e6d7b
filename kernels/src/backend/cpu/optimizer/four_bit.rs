//! AdamW whose moments are 4-bit codes between updates (Li, Chen & Zhu 2023, "Memory efficient optimizers with 4-bit
//! states"): a block is decoded, updated in the type of arithmetic, and coded again by the nearest value.
//!
//! A first moment has the paper's dynamic code with a sign: three decades below the block's largest magnitude, each with twice
//! as many values as the one below, evenly apart, and 0 and 1. A second moment has sixteen values evenly apart, without zero,
//! because the update divides by its root. In a matrix its scale is the smaller one of the largest of its row and that of its
//! column. Those are known only when all of the matrix has been seen, so its second moments are made twice: once for the
//! scales, once for the step.

use super::{Adam, unit, write_copy};
use crate::backend::{
    cpu::{
        float::{Accumulator, Float},
        lanes::largest_magnitude,
        parallel,
        scratch::Scratch,
        simd::simd,
        sixteen,
    },
    ops::{Moments, Rows, Update, UpdateRule},
    scratch::on_cpu::row_parts,
};

const BLOCK: usize = UpdateRule::BLOCK_OF_4_BITS;

/// The values of first moments, as shares of the block's largest.
const SIGNED: [f32; 16] = [
    -0.8875, -0.6625, -0.4375, -0.2125, -0.0775, -0.0325, -0.0055, 0.0, 0.0055, 0.0325, 0.0775, 0.2125, 0.4375, 0.6625,
    0.8875, 1.0,
];
/// The middle between a value of [`SIGNED`] and the next.
const MIDDLES: [f32; 15] = sixteen::middles(&SIGNED);
/// The values of second moments, as shares of their scale.
const EVEN: [f32; 16] = {
    let (mut values, mut i) = ([0.0; 16], 0);
    while i < 16 {
        values[i] = (i + 1) as f32 / 16.0;
        i += 1;
    }
    values
};

/// Both moments between updates.
pub(super) struct States<'a> {
    /// Codes of the first, and the largest of each block.
    pub(super) first: (&'a mut [u8], &'a mut [f32]),
    /// Codes of the second.
    pub(super) second: &'a mut [u8],
    /// The scales: for a matrix by row and by column; for a vector by block, and no second ones.
    pub(super) scales: (&'a mut [f32], Option<&'a mut [f32]>),
}

/// [`UpdateRule::AdamW4`] of a weight that has `columns` as a matrix.
pub(super) fn adamw<W: Float, G: Float<Acc = W::Acc>, C: Float<Acc = W::Acc>>(
    update: &Update,
    (moments, extents): (&Moments, &Rows),
    grad: &[G],
    weight: &mut [W],
    states: States<'_>,
    copy: Option<&mut [C]>,
) {
    let constants = Adam::<W::Acc>::new(update, moments, true);
    let States { first, second, scales } = states;
    let (by_row, Some(by_column)) = scales else {
        return pass(constants, grad, weight, first, (second, Some(scales.0)), None, copy);
    };
    let mut room = Scratch::<f32>::new(UpdateRule::four_bit_sums(extents));
    let (rows, columns) = room.elements().split_at_mut(extents.rows);
    let old = Largest { rows: &*by_row, columns: &*by_column };
    maxima(constants, extents, grad, &*second, &old, (&mut *rows, &mut *columns));
    let new = Largest { rows: &*rows, columns: &columns[..extents.columns] };
    pass(constants, grad, weight, first, (second, None), Some((&old, &new)), copy);
    by_row.copy_from_slice(new.rows);
    by_column.copy_from_slice(new.columns);
}

/// The largest second moment of each row and of each column.
struct Largest<'a> {
    rows: &'a [f32],
    columns: &'a [f32],
}

impl Largest<'_> {
    /// The scales of the elements from `start` on.
    fn scales(&self, start: usize, to: &mut [f32]) {
        let (mut row, mut column, mut rest) = (start / self.columns.len(), start % self.columns.len(), to);
        while !rest.is_empty() {
            let (part, after) = rest.split_at_mut((self.columns.len() - column).min(rest.len()));
            smaller(self.rows[row], &self.columns[column..], part);
            (row, column, rest) = (row + 1, 0, after);
        }
    }
}

/// The new largest second moments, to `rows` and to the first of the parts of `columns`.
fn maxima<G: Float>(
    constants: Adam<G::Acc>,
    extents: &Rows,
    grad: &[G],
    codes: &[u8],
    old: &Largest<'_>,
    (rows, columns): (&mut [f32], &mut [f32]),
) {
    let (width, parts) = (extents.columns, row_parts(extents));
    let bound = |p: usize| p * extents.rows / parts;
    let of = (parallel::parts(rows, &bound), parallel::rows(columns, width));
    parallel::pieces(parts, parts > 1, of, |p, (tops, columns)| {
        columns.fill(0.0);
        for (row, top) in (bound(p)..).zip(tops) {
            *top = 0.0;
            for start in (0..width).step_by(BLOCK) {
                let (at, end) = (row * width + start, (start + BLOCK).min(width));
                let mut squares = [0.0; BLOCK];
                let squares = &mut squares[..end - start];
                decode(&EVEN, codes, at, squares);
                let scales = (old.rows[row], &old.columns[start..end]);
                let found =
                    largest_of(constants, &grad[at..at + squares.len()], squares, scales, &mut columns[start..end]);
                *top = top.max(found);
            }
        }
    });
    let (first, others) = columns.split_at_mut(width);
    for other in others.chunks_exact(width) {
        for (top, other) in first.iter_mut().zip(other) {
            *top = top.max(*other);
        }
    }
}

/// Steps the weights and codes the moments again. The second moment has its scales by block, or as they were and as they
/// become.
fn pass<W: Float, G: Float<Acc = W::Acc>, C: Float<Acc = W::Acc>>(
    constants: Adam<W::Acc>,
    grad: &[G],
    weight: &mut [W],
    first: (&mut [u8], &mut [f32]),
    second: (&mut [u8], Option<&mut [f32]>),
    ranks: Option<(&Largest<'_>, &Largest<'_>)>,
    copy: Option<&mut [C]>,
) {
    let (length, blocks) = (grad.len(), first.1.len());
    let elements = |block: usize| (block * BLOCK).min(length);
    let bytes = |block: usize| (block * BLOCK / 2).min(length.div_ceil(2));
    let codes = [first.0, second.0].map(|codes| parallel::parts(codes, &bytes));
    let tops = (parallel::rows(first.1, 1), second.1.map(|tops| parallel::rows(tops, 1)));
    let of = ((parallel::parts(weight, &elements), copy.map(|copy| parallel::parts(copy, &elements))), (codes, tops));
    parallel::ranges(blocks, BLOCK, of, |blocks, ((weight, copy), (codes, (tops, mut own)))| {
        let grads = grad[elements(blocks.start)..elements(blocks.end)].chunks(BLOCK);
        let [first, second] = codes.map(|codes| codes.chunks_mut(BLOCK / 2));
        let mut copies = copy.map(|copy| copy.chunks_mut(BLOCK));
        let parts = weight.chunks_mut(BLOCK).zip(grads).zip(first.zip(second)).zip(tops);
        for (i, (((weight, grad), (first, second)), top)) in parts.enumerate() {
            let (mut old, mut new) = ([0.0; BLOCK], [0.0; BLOCK]);
            match (&ranks, own.as_mut()) {
                (Some((before, after)), _) => {
                    let start = (blocks.start + i) * BLOCK;
                    before.scales(start, &mut old[..grad.len()]);
                    after.scales(start, &mut new[..grad.len()]);
                    let _ = block(constants, grad, weight, (first, top), second, &old, Some(&new));
                }
                (None, Some(tops)) => {
                    old.fill(tops[i]);
                    tops[i] = block(constants, grad, weight, (first, top), second, &old, None);
                }
                (None, None) => {}
            }
            if let Some(copy) = copies.as_mut().and_then(Iterator::next) {
                write_copy(weight, copy);
            }
        }
    });
}

/// The code of a first moment.
#[inline(always)]
fn nearest(share: f32) -> u8 {
    sixteen::nearest(&MIDDLES, share)
}

/// The code of a second moment; for NaN, the lowest code.
#[inline(always)]
fn nearest_even(share: f32) -> u8 {
    (share * 16.0 - 0.5).clamp(0.0, 15.0) as u8
}

/// Writes the values of the codes, from the element `start` on.
#[inline(always)]
fn decode(values: &[f32; 16], codes: &[u8], start: usize, to: &mut [f32]) {
    let value = |i: usize| values[usize::from((codes[i / 2] >> if i.is_multiple_of(2) { 4 } else { 0 }) & 15)];
    for (i, to) in (start..).zip(to) {
        *to = value(i);
    }
}

/// A code for each pair of `codes`.
#[inline(always)]
fn encode(codes: &mut [u8], count: usize, code: impl Fn(usize) -> u8) {
    for (i, byte) in codes.iter_mut().enumerate() {
        let low = if 2 * i + 1 < count { code(2 * i + 1) } else { 0 };
        *byte = code(2 * i) << 4 | low;
    }
}

simd! {
    fn smaller [] (row: f32, columns: &[f32], to: &mut [f32]) {
        for (to, column) in to.iter_mut().zip(columns) {
            *to = if *column < row { *column } else { row };
        }
    }

    /// The largest of the next second moments of a part of a row; writes the largest of each of its columns to `tops`.
    /// `squares` are the values that the codes stand for.
    fn largest_of [G: Float] (
        constants: Adam<G::Acc>, grad: &[G], squares: &[f32], scales: (f32, &[f32]), tops: &mut [f32],
    ) -> f32 {
        let Adam { beta2, grad_scale, .. } = constants;
        let mut top = 0.0f32;
        for (((g, square), column), most) in grad.iter().zip(squares).zip(scales.1).zip(tops) {
            let scale = if *column < scales.0 { *column } else { scales.0 };
            let g = grad_scale * g.up();
            let v = (beta2[0] * G::Acc::from_f64(f64::from(scale * *square)) + beta2[1] * (g * g)).to_f64() as f32;
            *most = if v > *most { v } else { *most };
            top = if v > top { v } else { top };
        }
        top
    }

    /// Updates one block, of at most [`BLOCK`] elements, whose second moments have the scales `old`. Codes them by `new`, or
    /// else by their largest, which it returns.
    fn block [W: Float, G: Float<Acc = W::Acc>] (
        constants: Adam<W::Acc>, grad: &[G], weight: &mut [W], first: (&mut [u8], &mut f32), second: &mut [u8],
        old: &[f32; BLOCK], new: Option<&[f32; BLOCK]>,
    ) -> f32 {
        let Adam { rate, decay, beta1, beta2, epsilon, grad_scale, .. } = constants;
        let up = |x: f32| W::Acc::from_f64(f64::from(x));
        let (count, mut means, mut squares) = (grad.len(), [0.0f32; BLOCK], [0.0f32; BLOCK]);
        decode(&SIGNED, first.0, 0, &mut means[..count]);
        decode(&EVEN, second, 0, &mut squares[..count]);
        for ((((w, g), mean), square), old) in weight.iter_mut().zip(grad).zip(&mut means).zip(&mut squares).zip(old) {
            let g = grad_scale * g.up();
            let m = beta1[0] * up(*first.1 * *mean) + beta1[1] * g;
            let v = beta2[0] * up(*old * *square) + beta2[1] * (g * g);
            *mean = m.to_f64() as f32;
            *square = v.to_f64() as f32;
            *w = W::down(decay * w.up() - rate * m / (v.sqrt() + epsilon));
        }
        *first.1 = largest_magnitude(&means);
        let top = unit(*first.1);
        encode(first.0, count, |i| nearest(means[i] / top));
        let most = largest_magnitude(&squares);
        match new {
            Some(new) => encode(second, count, |i| nearest_even(squares[i] / unit(new[i]))),
            None => encode(second, count, |i| nearest_even(squares[i] / unit(most))),
        }
        most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `create_dynamic_map(True, 3, 4)` and `create_pow_map(4, False, 1)` of the paper's program.
    #[test]
    fn the_codes_have_the_values_of_the_paper() {
        let mut wanted = vec![0.0, 1.0];
        for decade in 0..3 {
            let (count, top) = (1 << decade, 10f64.powi(decade - 2));
            for i in 0..count {
                let value = top * (0.1 + 0.9 * (f64::from(i) + 0.5) / f64::from(count));
                wanted.extend([value, -value]);
            }
        }
        wanted.sort_by(f64::total_cmp);
        assert!(
            wanted.iter().zip(SIGNED).all(|(wanted, value)| (wanted - f64::from(value)).abs() < 1e-7),
            "{wanted:?}"
        );
        assert_eq!((EVEN[0], EVEN[7], EVEN[15]), (0.0625, 0.5, 1.0));
    }

    #[test]
    fn the_nearest_value_is_found_from_everywhere() {
        let near = |values: &[f32; 16], code: u8, share: f32| {
            let distance = |value: &f32| (f64::from(*value) - f64::from(share)).abs();
            let least = values.iter().map(distance).fold(f64::INFINITY, f64::min);
            let found = distance(&values[usize::from(code)]);
            assert!(found <= least + 1e-7, "{share}: {found}, not {least}");
        };
        for i in -20_000..=20_000 {
            let share = i as f32 / 20_000.0;
            near(&SIGNED, nearest(share), share);
            near(&EVEN, nearest_even(share.abs()), share.abs());
        }
        assert_eq!((nearest_even(f32::NAN), nearest_even(1.5), nearest(-1.0)), (0, 15, 0));
        assert!(nearest(f32::NAN) < 16);
    }

    #[test]
    fn pairs_are_packed_with_the_first_in_the_higher_half() {
        let mut codes = [0; 3];
        encode(&mut codes, 5, |i| i as u8 + 1);
        assert_eq!(codes, [0x12, 0x34, 0x50]);
        let mut back = [0.0; 3];
        decode(&EVEN, &codes, 1, &mut back);
        assert_eq!(back, [3.0 / 16.0, 4.0 / 16.0, 5.0 / 16.0]);
    }
}
