//! Tiles of products of bf16, by the instruction that multiplies pairs (AVX-512 BF16).
//!
//! Two neighbouring terms of a sum are one word, which the instruction multiplies by another and adds to an f32. The left
//! operand is read where it lies, if its rows lie together; the right one is laid out in panels of 32 columns. Products are
//! exact and sums are those of f32, in another order than for converted operands. Subnormal numbers count as zero.

use std::ops::Range;

use bytemuck::{cast_slice, cast_slice_mut};
use half::{
    bf16,
    slice::{HalfBitsSliceExt, HalfFloatSliceExt},
};

use super::{
    Operand, Target, Tile, store,
    tiling::{GemmTiling, Layout, PAIRED_COLUMNS, PAIRED_ROWS},
};
use crate::backend::cpu::{
    float::{Accumulator, Float},
    scratch::Scratch,
    simd::simd,
};

/// Tiles whose operands are multiplied in pairs.
pub(super) struct Paired<'a, L, R> {
    pub(super) a: &'a L,
    pub(super) b: &'a R,
}

impl<A: Accumulator, L: Operand<bf16>, R: Operand<bf16>> Tile<A> for Paired<'_, L, R> {
    fn layouts(&self) -> [Layout; 2] {
        [self.a.layout(), self.b.layout()]
    }

    fn compute<W: Float<Acc = A>>(
        &self,
        plan: &GemmTiling,
        [row, column]: [usize; 2],
        depth: Range<usize>,
        target: Target<'_, W>,
    ) {
        let [rows, columns] = target.matrix.extents();
        let wide = columns.next_multiple_of(PAIRED_COLUMNS);
        let [room_a, room_b, room_c] = plan.block_elements();
        let mut scratch = Scratch::<A>::new(room_a + room_b + room_c);
        let (operands, sums) = scratch.elements().split_at_mut(room_a + room_b);
        let sums = &mut sums[..rows * wide];
        let Some((operands, singles)) = A::singles(operands).zip(A::singles(sums)) else {
            unreachable!("pairs are added up in f32")
        };
        let (in_a, in_b) = operands.split_at_mut(room_a);
        let mut from = depth.start;
        loop {
            let step = from..(from + plan.depth).min(depth.end);
            let panels = panels(self.b, step.clone(), column..column + columns, cast_slice_mut(in_b));
            let left = Left::of(self.a, row..row + rows, step.clone(), cast_slice_mut(in_a));
            multiply(&left, panels, from > depth.start, singles);
            from = step.end;
            if from >= depth.end {
                break;
            }
        }
        store(sums, wide, target);
    }
}

/// How many pairs a row of terms has; an odd row ends with half a pair, which counts.
fn pairs_of(terms: usize) -> usize {
    terms.div_ceil(2)
}

/// Two terms as a word, the first one low.
#[inline(always)]
fn word(low: u16, high: u16) -> u32 {
    u32::from(low) | u32::from(high) << 16
}

/// Lays a block of the right operand out: for each 32 columns a panel, and in it for each pair of terms the words of all
/// columns, zeros where there are no more.
fn panels<'r>(b: &impl Operand<bf16>, terms: Range<usize>, columns: Range<usize>, room: &'r mut [u32]) -> &'r [u32] {
    let pairs = pairs_of(terms.len());
    let length = columns.len().next_multiple_of(PAIRED_COLUMNS) * pairs;
    let (to, aside) = room.split_at_mut(length);
    if b.layout().by_rows() {
        let aside: &mut [bf16] = cast_slice_mut::<u32, u16>(aside).reinterpret_cast_mut();
        for pair in 0..pairs {
            let first = terms.start + 2 * pair;
            let view = b.block(first..(first + 2).min(terms.end), columns.clone(), aside);
            let (elements, [stride, _]) = view.parts();
            let elements = elements.reinterpret_cast();
            let low = &elements[..columns.len()];
            let high = if first + 1 < terms.end { &elements[stride..][..columns.len()] } else { &[] };
            interleave(low, high, pair, pairs, to);
        }
    } else {
        let (elements, [_, stride]) = b.block(terms.clone(), columns.clone(), &mut []).parts();
        turn(elements.reinterpret_cast(), stride, [columns.len(), terms.len()], to);
    }
    to
}

simd! {
    /// Writes the words of a pair of rows to all panels of `pairs` pairs. A row that is not there is empty.
    fn interleave [] (low: &[u16], high: &[u16], pair: usize, pairs: usize, to: &mut [u32]) {
        let of = |i: usize| if high.is_empty() { word(low[i], 0) } else { word(low[i], high[i]) };
        for (panel, start) in to.chunks_exact_mut(PAIRED_COLUMNS * pairs).zip((0..low.len()).step_by(PAIRED_COLUMNS)) {
            let to = &mut panel[pair * PAIRED_COLUMNS..][..PAIRED_COLUMNS];
            let low = &low[start..];
            if low.len() >= PAIRED_COLUMNS && !high.is_empty() {
                for ((to, low), high) in to.iter_mut().zip(&low[..PAIRED_COLUMNS]).zip(&high[start..][..PAIRED_COLUMNS]) {
                    *to = word(*low, *high);
                }
            } else {
                for (i, to) in to.iter_mut().enumerate() {
                    *to = if i < low.len() { of(start + i) } else { 0 };
                }
            }
        }
    }

    /// Writes the words of a block whose columns lie in lines, `stride` apart, to all panels.
    fn turn [] (lines: &[u16], stride: usize, extents: [usize; 2], to: &mut [u32]) {
        let [columns, terms] = extents;
        let pairs = pairs_of(terms);
        const SIDE: usize = 16;
        for column in (0..columns.next_multiple_of(PAIRED_COLUMNS)).step_by(SIDE) {
            let (panel, within) = (column / PAIRED_COLUMNS, column % PAIRED_COLUMNS);
            let panel = &mut to[panel * PAIRED_COLUMNS * pairs..][..PAIRED_COLUMNS * pairs];
            let count = SIDE.min(columns.saturating_sub(column));
            for pair in (0..pairs).step_by(SIDE) {
                let mut tile = [[0_u32; SIDE]; SIDE];
                for (i, tile) in tile[..count].iter_mut().enumerate() {
                    let line = &lines[(column + i) * stride..][2 * pair..terms.min(2 * pair + 2 * SIDE)];
                    let whole = cast_slice::<u16, [u8; 2]>(line).as_chunks::<2>();
                    for (tile, [low, high]) in tile.iter_mut().zip(whole.0) {
                        *tile = word(u16::from_ne_bytes(*low), u16::from_ne_bytes(*high));
                    }
                    if let [last] = whole.1 {
                        tile[line.len() / 2] = word(u16::from_ne_bytes(*last), 0);
                    }
                }
                for (i, to) in panel[pair * PAIRED_COLUMNS..].chunks_exact_mut(PAIRED_COLUMNS).take(SIDE).enumerate() {
                    let to = &mut to[within..within + SIDE];
                    for (to, tile) in to.iter_mut().zip(&tile) {
                        *to = tile[i];
                    }
                }
            }
        }
    }
}

/// A block of the left operand.
struct Left<'a> {
    elements: &'a [u16],
    rows: usize,
    /// Whole pairs of each row.
    pairs: usize,
    /// Whether half a pair follows them.
    is_odd: bool,
    /// From a row of a group to the next, from a pair to the next, and from a group of rows to the next.
    strides: [usize; 3],
}

impl<'a> Left<'a> {
    /// Takes a block in place, or lays it out in `room`: for each group of rows and each pair, the words of all rows.
    fn of(a: &'a impl Operand<bf16>, rows: Range<usize>, terms: Range<usize>, room: &'a mut [u32]) -> Self {
        let (count, length) = (rows.len(), terms.len());
        if a.layout().by_rows() {
            let room = cast_slice_mut::<u32, u16>(room).reinterpret_cast_mut();
            let (elements, [stride, _]) = a.block(rows, terms, room).parts();
            let strides = [stride, 2, PAIRED_ROWS * stride];
            let elements = elements.reinterpret_cast();
            return Self { elements, rows: count, pairs: length / 2, is_odd: length % 2 == 1, strides };
        }
        let pairs = pairs_of(length);
        let (elements, [_, stride]) = a.block(rows, terms, &mut []).parts();
        let used = &mut room[..count.next_multiple_of(PAIRED_ROWS) * pairs];
        gather(elements.reinterpret_cast(), stride, [count, length], used);
        let strides = [2, 2 * PAIRED_ROWS, 2 * PAIRED_ROWS * pairs];
        Self { elements: cast_slice(used), rows: count, pairs, is_odd: false, strides }
    }
}

simd! {
    /// Lays out groups of columns of a block whose terms lie in lines, `stride` apart.
    fn gather [] (lines: &[u16], stride: usize, extents: [usize; 2], to: &mut [u32]) {
        let [rows, terms] = extents;
        let pairs = pairs_of(terms);
        for pair in 0..pairs {
            let low = &lines[2 * pair * stride..][..rows];
            let high = if 2 * pair + 1 < terms { &lines[(2 * pair + 1) * stride..][..rows] } else { &[] };
            for (group, start) in to.chunks_exact_mut(PAIRED_ROWS * pairs).zip((0..rows).step_by(PAIRED_ROWS)) {
                let to = &mut group[pair * PAIRED_ROWS..][..PAIRED_ROWS];
                if start + PAIRED_ROWS <= rows && !high.is_empty() {
                    let (low, high) = (&low[start..][..PAIRED_ROWS], &high[start..][..PAIRED_ROWS]);
                    for ((to, low), high) in to.iter_mut().zip(low).zip(high) {
                        *to = word(*low, *high);
                    }
                } else {
                    for (i, to) in to.iter_mut().enumerate() {
                        let of = |row: &[u16]| row.get(start + i).copied().unwrap_or(0);
                        *to = word(of(low), of(high));
                    }
                }
            }
        }
    }
}

/// `sums (+)= left * panels`. The rows of `sums` fill panels.
fn multiply(left: &Left<'_>, panels: &[u32], add: bool, sums: &mut [f32]) {
    let length = (left.pairs + usize::from(left.is_odd)) * PAIRED_COLUMNS;
    let wide = sums.len() / left.rows.max(1);
    for column in (0..wide).step_by(PAIRED_COLUMNS) {
        let panel = &panels[column / PAIRED_COLUMNS * length..][..length];
        let mut row = 0;
        while row < left.rows {
            let sums = &mut sums[row * wide + column..];
            row += match left.rows - row {
                PAIRED_ROWS.. => rows::<PAIRED_ROWS>(left, row, panel, add, sums, wide),
                8.. => rows::<8>(left, row, panel, add, sums, wide),
                4.. => rows::<4>(left, row, panel, add, sums, wide),
                2.. => rows::<2>(left, row, panel, add, sums, wide),
                _ => rows::<1>(left, row, panel, add, sums, wide),
            };
        }
    }
}

/// Computes the sums of `ROWS` rows with one panel, and returns `ROWS`.
fn rows<const ROWS: usize>(
    left: &Left<'_>,
    row: usize,
    panel: &[u32],
    add: bool,
    sums: &mut [f32],
    stride: usize,
) -> usize {
    let [down, along, group] = left.strides;
    let elements = &left.elements[row / PAIRED_ROWS * group + row % PAIRED_ROWS * down..];
    let (pairs, is_odd) = (left.pairs, left.is_odd);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: `run_paired` asserts that the processor has the instruction.
    unsafe {
        kernel::<ROWS>(elements, [down, along], pairs, is_odd, panel, add, sums, stride);
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = add;
        unreachable!("a product is planned so only where there is the instruction");
    }
    #[cfg(target_arch = "x86_64")]
    ROWS
}

/// [`rows`], where there is the instruction. Every row has its pairs inside `elements`, the panel has 32 words for each of them
/// and for the half pair, and `sums` has 32 numbers for each row.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bf16")]
#[allow(clippy::too_many_arguments, reason = "a kernel's operands")]
fn kernel<const ROWS: usize>(
    elements: &[u16],
    [down, along]: [usize; 2],
    pairs: usize,
    is_odd: bool,
    panel: &[u32],
    add: bool,
    sums: &mut [f32],
    stride: usize,
) {
    use bytemuck::cast;
    use std::arch::x86_64::{__m512, __m512bh, _mm512_add_ps, _mm512_dpbf16_ps, _mm512_set1_epi32, _mm512_setzero_ps};

    // One past the last element that is read.
    let end = (ROWS - 1) * down + if is_odd { pairs * along + 1 } else { pairs.saturating_sub(1) * along + 2 };
    assert!(pairs + usize::from(is_odd) == 0 || end <= elements.len(), "rows of the operand");
    let mut found: [[__m512; 2]; ROWS] = std::array::from_fn(|_| [_mm512_setzero_ps(); 2]);
    let halves = |[low, high]: &[[u32; 16]; 2]| -> [__m512bh; 2] { [cast(*low), cast(*high)] };
    let panel = panel.as_chunks::<16>().0.as_chunks::<2>().0;
    for (pair, b) in panel[..pairs].iter().enumerate() {
        let b = halves(b);
        for (i, found) in found.iter_mut().enumerate() {
            // SAFETY: this row's pair lies before the end, which is inside the elements. A check for each word takes more time
            // than the products.
            let word = unsafe { elements.as_ptr().add(i * down + pair * along).cast::<i32>().read_unaligned() };
            let a = cast(_mm512_set1_epi32(word));
            *found = [_mm512_dpbf16_ps(found[0], a, b[0]), _mm512_dpbf16_ps(found[1], a, b[1])];
        }
    }
    if is_odd {
        let b = halves(&panel[pairs]);
        for (i, found) in found.iter_mut().enumerate() {
            let a = cast(_mm512_set1_epi32(i32::from(elements[i * down + pairs * along])));
            *found = [_mm512_dpbf16_ps(found[0], a, b[0]), _mm512_dpbf16_ps(found[1], a, b[1])];
        }
    }
    for (i, found) in found.iter().enumerate() {
        let to = &mut sums[i * stride..][..PAIRED_COLUMNS];
        for (to, found) in to.as_chunks_mut::<16>().0.iter_mut().zip(found) {
            *to = cast(if add { _mm512_add_ps(cast(*to), *found) } else { *found });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        backend::{
            cpu::{float::Float, gemm::matmul},
            ops::MatMul,
        },
        rng::Rng,
    };

    #[test]
    fn products_of_any_layout_and_extent_are_the_sums_of_products() {
        let rng = Rng::from_key(11);
        for case in 0..300 {
            let draw = |i: u64, below: usize| rng.below(case * 100 + i, below);
            let deep = if case % 7 == 0 { 700 } else { 40 };
            let (m, n, k) = (2 + draw(0, 210), 1 + draw(1, 290), 1 + draw(2, deep));
            let (transpose_a, transpose_b, accumulate) = (draw(3, 2) == 0, draw(4, 2) == 0, draw(5, 2) == 0);
            let p = MatMul { m, n, k, transpose_a, transpose_b, accumulate };
            // Small whole numbers, whose sums are exact in any order.
            let filled = |key: u64, count: usize| -> Vec<bf16> {
                (0..count).map(|i| bf16::from_f32(rng.below(case ^ key << 32 ^ i as u64, 17) as f32 - 8.0)).collect()
            };
            let (a, b) = (filled(1, m * k), filled(2, n * k));
            let mut c = vec![3.0_f32; m * n];
            matmul(&p, &a, &b, &mut c);
            for (at, c) in c.iter().enumerate() {
                let (i, j) = (at / n, at % n);
                let term = |t: usize| {
                    let left = if transpose_a { a[t * m + i] } else { a[i * k + t] };
                    left.up() * if transpose_b { b[j * k + t] } else { b[t * n + j] }.up()
                };
                let wanted = (0..k).map(term).sum::<f32>() + if accumulate { 3.0 } else { 0.0 };
                assert_eq!(*c, wanted, "{p:?} at {i}, {j}");
            }
        }
    }
}
