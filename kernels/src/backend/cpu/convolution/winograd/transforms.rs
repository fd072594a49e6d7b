//! The transforms of F(2 x 2, 3 x 3), over the places of a tile, for sixteen channels side by side.
//!
//! With the matrices of Lavin & Gray: inputs `B^T d B`, weights `G g G^T`, outputs `A^T m A`; and, for the gradient by the
//! weights, `A dy A^T` and `G^T s G`.

use std::ops::Range;

use bytemuck::cast;

use super::APART;
use crate::backend::cpu::{
    gemm::{tiling::WORD_COLUMNS, turn},
    matrix::MatMut,
    simd::simd,
};

/// Channels side by side.
pub(super) const LANES: usize = 16;
/// One number of each of some channels.
pub(super) type Lanes = [f32; LANES];
/// Places of a transformed tile.
pub(super) const POSITIONS: usize = 16;

/// Positions of a line of them.
pub(super) const SIDE: usize = 4;

const ZEROS: Lanes = [0.0; LANES];

/// Where a tile is: the first line of its image, counted over all images, and its first output in that image.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) line: usize,
    pub(super) top: usize,
    pub(super) left: usize,
    /// Extents of the image.
    pub(super) height: usize,
    pub(super) width: usize,
}

impl Place {
    /// Whether the image has all of the places that the tile's outputs see.
    #[inline(always)]
    fn is_inside(&self) -> bool {
        self.top > 0 && self.left > 0 && self.top + 2 < self.height && self.left + 2 < self.width
    }

    /// The pixel at a place of the 4 x 4 inputs, counted over all images, or none outside.
    #[inline(always)]
    fn input(&self, down: usize, right: usize) -> Option<usize> {
        let (y, x) = ((self.top + down).wrapping_sub(1), (self.left + right).wrapping_sub(1));
        (y < self.height && x < self.width).then(|| (self.line + y) * self.width + x)
    }
}

#[inline(always)]
fn add(a: &Lanes, b: &Lanes) -> Lanes {
    let mut sum = *a;
    sum.iter_mut().zip(b).for_each(|(a, b)| *a += b);
    sum
}

#[inline(always)]
fn less(a: &Lanes, b: &Lanes) -> Lanes {
    let mut rest = *a;
    rest.iter_mut().zip(b).for_each(|(a, b)| *a -= b);
    rest
}

#[inline(always)]
fn half(a: &Lanes) -> Lanes {
    let mut half = *a;
    half.iter_mut().for_each(|a| *a *= 0.5);
    half
}

/// `B^T` times a column of four.
#[inline(always)]
fn input_column(d: [&Lanes; 4]) -> [Lanes; 4] {
    [less(d[0], d[2]), add(d[1], d[2]), less(d[2], d[1]), less(d[1], d[3])]
}

/// `G` times a column of three.
#[inline(always)]
fn weight_column([first, second, third]: [&Lanes; 3]) -> [Lanes; 4] {
    let outer = half(&add(first, third));
    let second = half(second);
    [*first, add(&outer, &second), less(&outer, &second), *third]
}

/// `A` times a column of two.
#[inline(always)]
fn gradient_column([first, second]: [&Lanes; 2]) -> [Lanes; 4] {
    [*first, add(first, second), less(first, second), less(&ZEROS, second)]
}

/// `G^T` times a column of four.
#[inline(always)]
fn tap_column(s: [&Lanes; 4]) -> [Lanes; 3] {
    let (sum, rest) = (half(&add(s[1], s[2])), half(&less(s[1], s[2])));
    [add(s[0], &sum), rest, add(s[3], &sum)]
}

/// A row of `B^T` times a column.
#[inline(always)]
fn of_input(line: usize, of: impl Fn(usize) -> Lanes) -> Lanes {
    match line {
        0 => less(&of(0), &of(2)),
        1 => add(&of(1), &of(2)),
        2 => less(&of(2), &of(1)),
        _ => less(&of(1), &of(3)),
    }
}

/// A row of `G` times a column.
#[inline(always)]
fn of_weight(line: usize, of: impl Fn(usize) -> Lanes) -> Lanes {
    match line {
        0 => of(0),
        1 => add(&half(&add(&of(0), &of(2))), &half(&of(1))),
        2 => less(&half(&add(&of(0), &of(2))), &half(&of(1))),
        _ => of(2),
    }
}

/// A row of `A` times a column.
#[inline(always)]
fn of_gradient(line: usize, of: impl Fn(usize) -> Lanes) -> Lanes {
    match line {
        0 => of(0),
        1 => add(&of(0), &of(1)),
        2 => less(&of(0), &of(1)),
        _ => less(&ZEROS, &of(1)),
    }
}

/// Writes what is found at the positions of a line.
#[inline(always)]
fn put(found: [Lanes; SIDE], to: &mut [Lanes], apart: usize, at: usize) {
    for (position, found) in found.into_iter().enumerate() {
        to[position * apart + at] = found;
    }
}

/// Lanes from a position's matrix to the next one's.
pub(super) fn apart([rows, columns]: [usize; 2]) -> usize {
    (rows * columns + APART) / LANES
}

simd! {
    /// Transforms some channels of tiles of images with so many channels: at each position of a line `[tiles, channels]`.
    pub(super) fn inputs [I: ExactSizeIterator<Item = Place>] (
        image: &[Lanes], channels: usize, line: usize, places: &mut I, some: Range<usize>, to: &mut [Lanes],
    ) {
        let (pixel, first, count) = (channels / LANES, some.start / LANES, some.len() / LANES);
        let apart = apart([places.len(), some.len()]);
        let mut row = 0;
        for place in places {
            let across = place.width * pixel;
            if place.is_inside() {
                let start = ((place.line + place.top - 1) * place.width + place.left - 1) * pixel + first;
                let seen = &image[start..start + 3 * across + 3 * pixel + count];
                for i in 0..count {
                    let of = |x: usize| of_input(line, |y| seen[y * across + x * pixel + i]);
                    put(input_column([&of(0), &of(1), &of(2), &of(3)]), to, apart, row + i);
                }
            } else {
                for i in 0..count {
                    let of = |x: usize| of_input(line, |y| match place.input(y, x) {
                        Some(at) => image[at * pixel + first + i],
                        None => ZEROS,
                    });
                    put(input_column([&of(0), &of(1), &of(2), &of(3)]), to, apart, row + i);
                }
            }
            row += count;
        }
    }

    /// Transforms some filters of the gradients of tiles of outputs: at each position of a line `[tiles, filters]`.
    pub(super) fn gradients [I: ExactSizeIterator<Item = Place>] (
        dy: &[Lanes], filters: usize, line: usize, places: &mut I, some: Range<usize>, to: &mut [Lanes],
    ) {
        let (pixel, first, count) = (filters / LANES, some.start / LANES, some.len() / LANES);
        let apart = apart([places.len(), some.len()]);
        let mut row = 0;
        for place in places {
            let starts = [[1, 1], [1, 2], [2, 1], [2, 2]].map(|[y, x]| place.input(y, x).map(|at| at * pixel + first));
            for i in 0..count {
                let of = |x: usize| of_gradient(line, |y| match starts[2 * y + x] {
                    Some(start) => dy[start + i],
                    None => ZEROS,
                });
                put(gradient_column([&of(0), &of(1)]), to, apart, row + i);
            }
            row += count;
        }
    }

    /// Transforms weights `[filters, 3, 3, channels]`, of which a filter has `taps`: at each position of a line
    /// `[channels, filters]`.
    pub(super) fn weights [] (
        weights: &[f32], taps: usize, line: usize, channels: Range<usize>, filters: Range<usize>, to: &mut [Lanes],
    ) {
        let (pixel, apart) = (filters.len() / LANES, apart([channels.len(), filters.len()]));
        let lines = [0..3, 0..9, 0..9, 6..9][line].clone();
        let mut turned = [[0_u32; WORD_COLUMNS * LANES]; 9];
        for channel in channels.clone().step_by(LANES) {
            for (panel, filter) in filters.clone().step_by(WORD_COLUMNS).enumerate() {
                for tap in lines.clone() {
                    let start = filter * taps + tap * (taps / 9) + channel;
                    turn(&weights[start..], taps, [WORD_COLUMNS, LANES], LANES, &mut turned[tap]);
                }
                for i in 0..2 * LANES {
                    let at = (channel - channels.start + i / 2) * pixel + 2 * panel + i % 2;
                    let of = |x: usize| of_weight(line, |y| cast(turned[3 * y + x].as_chunks::<LANES>().0[i]));
                    put(weight_column([&of(0), &of(1), &of(2)]), to, apart, at);
                }
            }
        }
    }

    /// Transforms the same weights, turned by half a turn: at each position of a line `[filters, channels]`.
    pub(super) fn flipped [] (
        weights: &[f32], taps: usize, line: usize, filters: Range<usize>, channels: Range<usize>, to: &mut [Lanes],
    ) {
        let (weights, count, tap) = (weights.as_chunks::<LANES>().0, channels.len() / LANES, taps / 9 / LANES);
        let apart = apart([filters.len(), channels.len()]);
        for (row, filter) in filters.enumerate() {
            let start = (filter * taps + channels.start) / LANES;
            for i in 0..count {
                let of = |x: usize| of_weight(line, |y| weights[start + (8 - 3 * y - x) * tap + i]);
                put(weight_column([&of(0), &of(1), &of(2)]), to, apart, row * count + i);
            }
        }
    }

    /// Adds to the outputs of tiles what the products at each position of a line, `[tiles, columns]`, are in them. The first line of
    /// the result is `first`.
    pub(super) fn outputs [I: ExactSizeIterator<Item = Place>] (
        sums: &[Lanes], line: usize, places: &mut I, first: usize, to: &mut MatMut<'_, f32>,
    ) {
        let count = to.extents()[1] / LANES;
        let apart = apart([places.len(), to.extents()[1]]);
        let mut row = 0;
        for place in places {
            for down in [0..1, 0..2, 0..2, 1..2][line].clone() {
                if place.top + down >= place.height {
                    continue;
                }
                let pixel = (place.line + place.top + down - first) * place.width + place.left;
                let of = |x: usize, i: usize| &sums[x * apart + row + i];
                let add_up = |to: &mut Lanes, found: Lanes| *to = match [line, down] {
                    [0, _] | [1, 1] => found,
                    [_, 0] => add(to, &found),
                    _ => less(to, &found),
                };
                let left = |i: usize| add(&add(of(0, i), of(1, i)), of(2, i));
                if place.left + 1 < place.width {
                    let [first, second] = to.some_rows::<2>(pixel);
                    let both = first.as_chunks_mut::<LANES>().0.iter_mut().zip(second.as_chunks_mut::<LANES>().0);
                    for (i, (first, second)) in both.enumerate() {
                        add_up(first, left(i));
                        add_up(second, less(&less(of(1, i), of(2, i)), of(3, i)));
                    }
                } else {
                    for (i, first) in to.row(pixel).as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
                        add_up(first, left(i));
                    }
                }
            }
            row += count;
        }
    }

    /// Writes the gradients of taps, `[filters * 9, channels]`, or adds them, from the sums of each position,
    /// `[filters, channels]`.
    pub(super) fn taps [] (sums: &[Lanes], apart: usize, accumulate: bool, to: &mut MatMut<'_, f32>) {
        let [rows, channels] = to.extents();
        let count = channels / LANES;
        for filter in 0..rows / 9 {
            let mut rows = to.some_rows::<9>(9 * filter);
            for i in 0..count {
                let mut columns = [[ZEROS; 4]; 3];
                for x in 0..4 {
                    let of = |y: usize| &sums[(4 * y + x) * apart + filter * count + i];
                    let found = tap_column([of(0), of(1), of(2), of(3)]);
                    columns.iter_mut().zip(found).for_each(|(to, found)| to[x] = found);
                }
                let found = columns.each_ref().map(|column| tap_column(column.each_ref()));
                for (row, found) in rows.iter_mut().zip(found.as_flattened()) {
                    let to = &mut row.as_chunks_mut::<LANES>().0[i];
                    *to = if accumulate { add(to, found) } else { *found };
                }
            }
        }
    }
}
