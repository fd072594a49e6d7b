//! Depthwise convolution of few channels with a stride of one: a row of pixels is one run of numbers.
//!
//! With a stride of one, an output row is a sum of input rows, each shifted by a tap's offset and multiplied by that tap's
//! repeated weights. So vector registers are full even where a pixel has three channels.

use std::ops::Range;

use super::{
    super::{
        convert::up,
        float::{Accumulator, Float},
        simd::simd,
    },
    inside,
};
use crate::backend::Window;

/// Numbers of a row summed at a time: a multiple of the channels.
const RUN: usize = 48;
/// The largest window.
const SIZE: usize = 7;
/// Numbers that the taps of a run reach.
const REACH: usize = RUN + (SIZE - 1) * RUN;

/// Whether a convolution is of this kind.
pub(super) fn applies(w: &Window) -> bool {
    w.stride == 1 && w.size <= SIZE && w.channels <= RUN && RUN.is_multiple_of(w.channels)
}

/// The convolution that computes the input gradient of this one, with reversed weights.
pub(super) fn backwards(w: &Window) -> Window {
    Window { height: w.out_height(), width: w.out_width(), padding: w.size - 1 - w.padding, ..*w }
}

/// A row of the input, from which runs are taken.
struct Line<'a, T> {
    elements: &'a [T],
    /// Numbers before the row's first that a run may ask for.
    margin: usize,
}

impl<T: Float> Line<'_, T> {
    /// `count` numbers from `start - margin` on, zero outside the row; in place, or in `room`.
    #[inline(always)]
    fn run<'s>(&'s self, start: usize, count: usize, room: &'s mut [T::Acc; REACH]) -> &'s [T::Acc] {
        if start >= self.margin && start - self.margin + count <= self.elements.len() {
            let part = &self.elements[start - self.margin..start - self.margin + count];
            if let Some(part) = T::direct(part) {
                return part;
            }
        }
        let room = &mut room[..count];
        let before = self.margin.saturating_sub(start).min(count);
        let from = (start + before - self.margin).min(self.elements.len());
        let inside = (self.elements.len() - from).min(count - before);
        room[..before].fill(T::Acc::ZERO);
        up(&self.elements[from..from + inside], &mut room[before..before + inside]);
        room[before + inside..].fill(T::Acc::ZERO);
        room
    }
}

/// Row `iy` of an image.
#[inline(always)]
fn line<'a, T>(w: &Window, x: &'a [T], image: usize, iy: usize) -> Line<'a, T> {
    let width = w.width * w.channels;
    let start = (image * w.height + iy) * width;
    Line { elements: &x[start..start + width], margin: w.padding * w.channels }
}

/// A run's part of a longer slice.
#[inline(always)]
fn part<A>(of: &[A], start: usize) -> &[A; RUN] {
    of[start..start + RUN].try_into().expect("of this length")
}

#[inline(always)]
fn add_products<A: Accumulator>(sums: &mut [A; RUN], a: &[A; RUN], b: &[A; RUN]) {
    for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
        *sum += *a * *b;
    }
}

simd! {
    /// Some output rows. With `is_turned`, the weights are read from the last to the first.
    pub(super) fn rows [T: Float] (
        w: &Window, rows: Range<usize>, x: &[T], weights: &[T], is_turned: bool, y: &mut [T],
    ) {
        let (oh, channels, taps) = (w.out_height(), w.channels, w.size * w.size);
        let mut repeated = [[T::Acc::ZERO; RUN]; SIZE * SIZE];
        for (tap, repeated) in repeated[..taps].iter_mut().enumerate() {
            let from = if is_turned { taps - 1 - tap } else { tap } * channels;
            for (j, to) in repeated.iter_mut().enumerate() {
                *to = weights[from + j % channels].up();
            }
        }
        let mut room = [T::Acc::ZERO; REACH];
        for (row, y) in rows.zip(y.chunks_exact_mut(w.out_width() * channels)) {
            let (image, oy) = (row / oh, row % oh);
            for (i, y) in y.chunks_mut(RUN).enumerate() {
                let mut sums = [T::Acc::ZERO; RUN];
                for ky in inside(w, oy, w.height) {
                    let line = line(w, x, image, oy + ky - w.padding);
                    let run = line.run(i * RUN, RUN + (w.size - 1) * channels, &mut room);
                    for (kx, weights) in repeated[ky * w.size..(ky + 1) * w.size].iter().enumerate() {
                        add_products(&mut sums, part(run, kx * channels), weights);
                    }
                }
                for (y, sum) in y.iter_mut().zip(&sums) {
                    *y = T::down(*sum);
                }
            }
        }
    }

    /// Adds to `sums` the gradient by the weights over some output rows.
    pub(super) fn weight_rows [T: Float] (w: &Window, rows: Range<usize>, x: &[T], dy: &[T], sums: &mut [T::Acc]) {
        let (oh, channels, width) = (w.out_height(), w.channels, w.out_width() * w.channels);
        let mut repeated = [[T::Acc::ZERO; RUN]; SIZE * SIZE];
        let (mut room, mut gradients) = ([T::Acc::ZERO; REACH], [T::Acc::ZERO; REACH]);
        for row in rows {
            let (image, oy) = (row / oh, row % oh);
            let dy = Line { elements: &dy[row * width..(row + 1) * width], margin: 0 };
            for start in (0..width).step_by(RUN) {
                let dy = part(dy.run(start, RUN, &mut gradients), 0);
                for ky in inside(w, oy, w.height) {
                    let line = line(w, x, image, oy + ky - w.padding);
                    let run = line.run(start, RUN + (w.size - 1) * channels, &mut room);
                    for (kx, sums) in repeated[ky * w.size..(ky + 1) * w.size].iter_mut().enumerate() {
                        add_products(sums, part(run, kx * channels), dy);
                    }
                }
            }
        }
        for (repeated, sums) in repeated.iter().zip(sums.chunks_exact_mut(channels)) {
            for (j, sum) in repeated.iter().enumerate() {
                sums[j % channels] += *sum;
            }
        }
    }
}
