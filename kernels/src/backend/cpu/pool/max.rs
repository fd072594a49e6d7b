//! Max pooling and its gradient, a run of channels at a time.
//!
//! The first of equal values wins, padding never wins, and a NaN wins over everything. A value replaces the winner so far
//! when it is not less than or equal to it and the winner is not NaN: two comparisons without a branch.

use std::ops::Range;

use crate::backend::Window;
use crate::backend::cpu::{
    float::{Accumulator, Float},
    parallel,
    simd::simd,
};

/// Channels at a time.
const BLOCK: usize = 64;

/// Runs [`Pool::Max`](crate::backend::ops::Pool::Max).
pub(super) fn forward<T: Float>(w: &Window, x: &[T], y: &mut [T], index: Option<&mut [u8]>) {
    let line = w.out_width() * w.channels;
    let parts = (parallel::rows(y, line), index.map(|index| parallel::rows(index, line)));
    parallel::ranges(w.batch * w.out_height(), line * w.size, parts, |rows, (y, index)| {
        forward_rows(w, rows, x, y, index.unwrap_or_default());
    });
}

/// Runs [`Pool::MaxGrad`](crate::backend::ops::Pool::MaxGrad).
pub(super) fn gradient<T: Float>(w: &Window, dy: &[T], index: &[u8], dx: &mut [T]) {
    let line = w.width * w.channels;
    parallel::ranges(w.batch * w.height, line, parallel::rows(dx, line), |rows, dx| {
        gradient_rows(w, rows, dy, index, dx);
    });
}

/// The taps of the window at `at` that are inside the image.
#[inline(always)]
pub(super) fn inside(w: &Window, at: usize, extent: usize) -> Range<usize> {
    let start = at * w.stride;
    w.padding.saturating_sub(start).min(w.size)..(extent + w.padding).saturating_sub(start).min(w.size)
}

/// The outputs whose windows cover a pixel.
#[inline(always)]
pub(super) fn covering(w: &Window, at: usize, outputs: usize) -> Range<usize> {
    let place = at + w.padding;
    (place + 1).saturating_sub(w.size).div_ceil(w.stride)..(place / w.stride + 1).min(outputs)
}

/// Whether `value` takes the place of `best`.
#[inline(always)]
fn wins<A: Accumulator>(value: A, best: A) -> bool {
    // A NaN is not equal to itself.
    #[expect(clippy::eq_op, reason = "the test for NaN")]
    let best_is_number = best == best;
    !matches!(value.partial_cmp(&best), Some(std::cmp::Ordering::Less | std::cmp::Ordering::Equal)) & best_is_number
}

simd! {
    fn forward_rows [T: Float] (w: &Window, rows: Range<usize>, x: &[T], y: &mut [T], index: &mut [u8]) {
        let (oh, ow, channels) = (w.out_height(), w.out_width(), w.channels);
        for (i, row) in rows.enumerate() {
            let (image, oy) = (row / oh, row % oh);
            for ox in 0..ow {
                let (taps_y, taps_x) = (inside(w, oy, w.height), inside(w, ox, w.width));
                for start in (0..channels).step_by(BLOCK) {
                    let length = BLOCK.min(channels - start);
                    let (mut best, mut place) = ([T::Acc::ZERO; BLOCK], [0_u8; BLOCK]);
                    let mut first = true;
                    for ky in taps_y.clone() {
                        let iy = oy * w.stride + ky - w.padding;
                        for kx in taps_x.clone() {
                            let ix = ox * w.stride + kx - w.padding;
                            let x = &x[((image * w.height + iy) * w.width + ix) * channels + start..][..length];
                            let tap = (ky * w.size + kx) as u8;
                            for ((best, place), x) in best.iter_mut().zip(&mut place).zip(x) {
                                let value = x.up();
                                let take = first | wins(value, *best);
                                *best = if take { value } else { *best };
                                *place = if take { tap } else { *place };
                            }
                            first = false;
                        }
                    }
                    let at = (i * ow + ox) * channels + start;
                    for (to, best) in y[at..at + length].iter_mut().zip(&best) {
                        *to = T::down(*best);
                    }
                    if !index.is_empty() {
                        index[at..at + length].copy_from_slice(&place[..length]);
                    }
                }
            }
        }
    }

    fn gradient_rows [T: Float] (w: &Window, rows: Range<usize>, dy: &[T], index: &[u8], dx: &mut [T]) {
        let (oh, ow, channels) = (w.out_height(), w.out_width(), w.channels);
        for (row, line) in rows.zip(dx.chunks_exact_mut(w.width * channels)) {
            let (image, iy) = (row / w.height, row % w.height);
            for (ix, to) in line.chunks_exact_mut(channels).enumerate() {
                for (block, to) in to.chunks_mut(BLOCK).enumerate() {
                    let mut sums = [T::Acc::ZERO; BLOCK];
                    for oy in covering(w, iy, oh) {
                        for ox in covering(w, ix, ow) {
                            let tap = (iy + w.padding - oy * w.stride) * w.size + ix + w.padding - ox * w.stride;
                            let at = ((image * oh + oy) * ow + ox) * channels + block * BLOCK;
                            let (dy, index) = (&dy[at..at + to.len()], &index[at..at + to.len()]);
                            for ((sum, dy), index) in sums.iter_mut().zip(dy).zip(index) {
                                *sum += if *index == tap as u8 { dy.up() } else { T::Acc::ZERO };
                            }
                        }
                    }
                    for (to, sum) in to.iter_mut().zip(&sums) {
                        *to = T::down(*sum);
                    }
                }
            }
        }
    }
}
