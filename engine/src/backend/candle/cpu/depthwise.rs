//! Depthwise convolution: every channel has a filter of its own.
//!
//! Channels are innermost, so a tap is a product of two runs of channels, summed in a block of registers. Gradients by
//! the input are gathered, not scattered: every pixel sums the windows that saw it.

use std::ops::Range;

use super::{
    float::Float,
    gemm::Scratch,
    parallel::{self, Shared},
    simd::simd,
};
use crate::backend::Window;

/// Channels summed at a time.
const BLOCK: usize = 64;

/// Parts of the batch whose weight gradients are summed apart: fixed by the geometry, so that the sum is too.
pub(in crate::backend) fn segments(w: &Window) -> usize {
    let bytes = w.size * w.size * w.channels * 8;
    let rows = w.batch * w.out_height();
    if w.out_pixels() * w.taps() < parallel::GRAIN { 1 } else { ((64 << 10) / bytes).clamp(1, 16).min(rows) }
}

/// [`Kernel::Depthwise`](crate::backend::Kernel::Depthwise).
pub(super) fn forward<T: Float>(w: &Window, x: &[T], weights: &[T], y: &mut [T]) {
    let line = w.out_width() * w.channels;
    let y = Shared::new(y);
    parallel::ranges(w.batch * w.out_height(), line * w.size, |rows| {
        // SAFETY: ranges of rows are disjoint.
        let y = unsafe { y.part(rows.start * line..rows.end * line) };
        forward_rows(w, rows, x, weights, y);
    });
}

/// [`Kernel::DepthwiseInputGrad`](crate::backend::Kernel::DepthwiseInputGrad).
pub(super) fn input_gradient<T: Float>(w: &Window, dy: &[T], weights: &[T], dx: &mut [T]) {
    let line = w.width * w.channels;
    let dx = Shared::new(dx);
    parallel::ranges(w.batch * w.height, line * w.size, |rows| {
        // SAFETY: ranges of rows are disjoint.
        let dx = unsafe { dx.part(rows.start * line..rows.end * line) };
        input_rows(w, rows, dy, weights, dx);
    });
}

/// [`Kernel::DepthwiseWeightGrad`](crate::backend::Kernel::DepthwiseWeightGrad).
pub(super) fn weight_gradient<T: Float, W: Float<Acc = T::Acc>>(
    w: &Window,
    accumulate: bool,
    x: &[T],
    dy: &[T],
    dw: &mut [W],
) {
    let (segments, rows, taps) = (segments(w), w.batch * w.out_height(), w.taps());
    let mut sums = Scratch::<T::Acc>::new(segments * taps);
    let all = Shared::new(sums.elements());
    parallel::pieces(segments, segments > 1, |s| {
        // SAFETY: segments lie apart.
        let sums = unsafe { all.part(s * taps..(s + 1) * taps) };
        sums.fill(T::Acc::ZERO);
        weight_rows(w, s * rows / segments..(s + 1) * rows / segments, x, dy, sums);
    });
    let sums = &*sums.elements();
    for (i, to) in dw.iter_mut().enumerate() {
        let before = if accumulate { to.up() } else { T::Acc::ZERO };
        *to = W::down((0..segments).fold(before, |sum, s| sum + sums[s * taps + i]));
    }
}

/// The taps whose window from `at` stays inside `extent`.
#[inline(always)]
fn inside(w: &Window, at: usize, extent: usize) -> Range<usize> {
    let start = at * w.stride;
    w.padding.saturating_sub(start).min(w.size)..(extent + w.padding).saturating_sub(start).min(w.size)
}

/// The taps that reach a pixel of the input, with the output each comes from.
#[inline(always)]
fn reaching(w: &Window, at: usize, outputs: usize) -> impl Iterator<Item = (usize, usize)> + use<> {
    let (place, stride) = (at + w.padding, w.stride);
    (0..w.size.min(place + 1)).filter_map(move |tap| {
        let from = place - tap;
        (from.is_multiple_of(stride) && from / stride < outputs).then_some((tap, from / stride))
    })
}

simd! {
    fn forward_rows [T: Float] (w: &Window, rows: Range<usize>, x: &[T], weights: &[T], y: &mut [T]) {
        let (oh, ow, channels) = (w.out_height(), w.out_width(), w.channels);
        for (row, line) in rows.zip(y.chunks_exact_mut(ow * channels)) {
            let (image, oy) = (row / oh, row % oh);
            for (ox, to) in line.chunks_exact_mut(channels).enumerate() {
                for (block, to) in to.chunks_mut(BLOCK).enumerate() {
                    let mut sums = [T::Acc::ZERO; BLOCK];
                    for ky in inside(w, oy, w.height) {
                        let iy = oy * w.stride + ky - w.padding;
                        for kx in inside(w, ox, w.width) {
                            let ix = ox * w.stride + kx - w.padding;
                            let x = &x[((image * w.height + iy) * w.width + ix) * channels + block * BLOCK..];
                            let weights = &weights[(ky * w.size + kx) * channels + block * BLOCK..];
                            for ((sum, x), weight) in sums[..to.len()].iter_mut().zip(x).zip(weights) {
                                *sum += x.up() * weight.up();
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

    fn input_rows [T: Float] (w: &Window, rows: Range<usize>, dy: &[T], weights: &[T], dx: &mut [T]) {
        let (oh, ow, channels) = (w.out_height(), w.out_width(), w.channels);
        for (row, line) in rows.zip(dx.chunks_exact_mut(w.width * channels)) {
            let (image, iy) = (row / w.height, row % w.height);
            for (ix, to) in line.chunks_exact_mut(channels).enumerate() {
                for (block, to) in to.chunks_mut(BLOCK).enumerate() {
                    let mut sums = [T::Acc::ZERO; BLOCK];
                    for (ky, oy) in reaching(w, iy, oh) {
                        for (kx, ox) in reaching(w, ix, ow) {
                            let dy = &dy[((image * oh + oy) * ow + ox) * channels + block * BLOCK..];
                            let weights = &weights[(ky * w.size + kx) * channels + block * BLOCK..];
                            for ((sum, dy), weight) in sums[..to.len()].iter_mut().zip(dy).zip(weights) {
                                *sum += dy.up() * weight.up();
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

    fn weight_rows [T: Float] (w: &Window, rows: Range<usize>, x: &[T], dy: &[T], sums: &mut [T::Acc]) {
        let (oh, ow, channels) = (w.out_height(), w.out_width(), w.channels);
        for row in rows {
            let (image, oy) = (row / oh, row % oh);
            for ky in inside(w, oy, w.height) {
                let iy = oy * w.stride + ky - w.padding;
                let sums = &mut sums[ky * w.size * channels..(ky + 1) * w.size * channels];
                for ox in 0..ow {
                    let dy = &dy[((image * oh + oy) * ow + ox) * channels..][..channels];
                    let taps = inside(w, ox, w.width);
                    if taps.is_empty() {
                        continue;
                    }
                    let first = ox * w.stride + taps.start - w.padding;
                    let x = &x[((image * w.height + iy) * w.width + first) * channels..];
                    let sums = &mut sums[taps.start * channels..taps.end * channels];
                    for (sums, x) in sums.chunks_exact_mut(channels).zip(x.chunks_exact(channels)) {
                        for ((sum, x), dy) in sums.iter_mut().zip(x).zip(dy) {
                            *sum += x.up() * dy.up();
                        }
                    }
                }
            }
        }
    }
}
