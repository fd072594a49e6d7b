//! Depthwise convolution: every channel has a filter of its own.
//!
//! Channels are innermost, so a tap is a product of two runs of channels, summed in a block of registers. Input gradients
//! are gathered, not scattered: every pixel sums over the windows that contain it.

mod flat;

use super::by_type::by_sum;
use super::operands::Operands;
use crate::backend::ops::Depthwise;
use crate::error::Result;
use std::ops::Range;

use super::{float::Float, parallel, scratch::Scratch, simd::simd};
use crate::backend::{Window, scratch::on_cpu};

/// Runs a kernel of this family.
pub(super) fn launch(kernel: &Depthwise, o: &Operands<'_>) -> Result<()> {
    by_sum!(o.input_type(0), o.output_type(0), T, W => {
        let (a, b) = (&*o.input::<T>(0)?, &*o.input::<T>(1)?);
        match kernel {
            Depthwise::Forward(w) => forward::<T>(w, a, b, &mut o.output(0)?),
            Depthwise::InputGrad(w) => input_gradient::<T>(w, a, b, &mut o.output(0)?),
            Depthwise::WeightGrad { window, accumulate } => {
                weight_gradient::<T, W>(window, *accumulate, a, b, &mut o.output(0)?);
            }
        }
        Ok(())
    }, else o.unsupported())
}

/// [`Depthwise::Forward`](crate::backend::ops::Depthwise::Forward).
fn forward<T: Float>(w: &Window, x: &[T], weights: &[T], y: &mut [T]) {
    let line = w.out_width() * w.channels;
    parallel::ranges(w.batch * w.out_height(), line * w.size, parallel::rows(y, line), |rows, y| {
        if flat::applies(w) {
            flat::rows(w, rows, x, weights, false, y);
        } else {
            forward_rows(w, rows, x, weights, y);
        }
    });
}

/// Runs [`Depthwise::InputGrad`](crate::backend::ops::Depthwise::InputGrad).
fn input_gradient<T: Float>(w: &Window, dy: &[T], weights: &[T], dx: &mut [T]) {
    let line = w.width * w.channels;
    parallel::ranges(w.batch * w.height, line * w.size, parallel::rows(dx, line), |rows, dx| {
        if flat::applies(w) {
            flat::rows(&flat::backwards(w), rows, dy, weights, true, dx);
        } else {
            input_rows(w, rows, dy, weights, dx);
        }
    });
}

/// Runs [`Depthwise::WeightGrad`](crate::backend::ops::Depthwise::WeightGrad).
fn weight_gradient<T: Float, W: Float<Acc = T::Acc>>(w: &Window, accumulate: bool, x: &[T], dy: &[T], dw: &mut [W]) {
    let (segments, rows, taps) = (on_cpu::depthwise_parts(w), w.batch * w.out_height(), w.taps());
    let mut sums = Scratch::<T::Acc>::new(segments * taps);
    parallel::pieces(segments, segments > 1, parallel::rows(sums.elements(), taps), |s, sums| {
        sums.fill(T::Acc::ZERO);
        let rows = s * rows / segments..(s + 1) * rows / segments;
        if flat::applies(w) {
            flat::weight_rows(w, rows, x, dy, sums);
        } else {
            weight_rows(w, rows, x, dy, sums);
        }
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

/// The outputs of a row for which column `kx` of the window lies inside the image.
#[inline(always)]
fn outputs(w: &Window, kx: usize) -> Range<usize> {
    let first = w.padding.saturating_sub(kx).div_ceil(w.stride);
    let end = (w.width + w.padding).saturating_sub(kx).div_ceil(w.stride).min(w.out_width());
    first.min(end)..end
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

/// Calls `$call` with `$start` and `$n`, a constant, for runs of channels that cover them all.
macro_rules! by_width {
    ($channels:expr, $start:ident, $n:ident => $call:expr) => {
        let (channels, mut $start) = ($channels, 0);
        while $start < channels {
            $start += match channels - $start {
                64.. => {
                    const $n: usize = 64;
                    $call;
                    $n
                }
                32.. => {
                    const $n: usize = 32;
                    $call;
                    $n
                }
                16.. => {
                    const $n: usize = 16;
                    $call;
                    $n
                }
                4.. => {
                    const $n: usize = 4;
                    $call;
                    $n
                }
                _ => {
                    const $n: usize = 1;
                    $call;
                    $n
                }
            };
        }
    };
}

/// `sums += a * b`, element by element.
#[inline(always)]
fn add_products<const N: usize, T: Float>(sums: &mut [T::Acc; N], a: &[T], b: &[T]) {
    for ((sum, a), b) in sums.iter_mut().zip(&a[..N]).zip(&b[..N]) {
        *sum += a.up() * b.up();
    }
}

#[inline(always)]
fn store<const N: usize, T: Float>(sums: &[T::Acc; N], to: &mut [T]) {
    for (to, sum) in to[..N].iter_mut().zip(sums) {
        *to = T::down(*sum);
    }
}

simd! {
    fn forward_rows [T: Float] (w: &Window, rows: Range<usize>, x: &[T], weights: &[T], y: &mut [T]) {
        let (oh, ow, channels) = (w.out_height(), w.out_width(), w.channels);
        for (row, line) in rows.zip(y.chunks_exact_mut(ow * channels)) {
            let (image, oy) = (row / oh, row % oh);
            for (ox, to) in line.chunks_exact_mut(channels).enumerate() {
                by_width!(channels, start, N => {
                    let mut sums = [T::Acc::ZERO; N];
                    for ky in inside(w, oy, w.height) {
                        let iy = oy * w.stride + ky - w.padding;
                        for kx in inside(w, ox, w.width) {
                            let ix = ox * w.stride + kx - w.padding;
                            let x = &x[((image * w.height + iy) * w.width + ix) * channels + start..];
                            add_products(&mut sums, x, &weights[(ky * w.size + kx) * channels + start..]);
                        }
                    }
                    store(&sums, &mut to[start..]);
                });
            }
        }
    }

    fn input_rows [T: Float] (w: &Window, rows: Range<usize>, dy: &[T], weights: &[T], dx: &mut [T]) {
        let (oh, ow, channels) = (w.out_height(), w.out_width(), w.channels);
        for (row, line) in rows.zip(dx.chunks_exact_mut(w.width * channels)) {
            let (image, iy) = (row / w.height, row % w.height);
            for (ix, to) in line.chunks_exact_mut(channels).enumerate() {
                by_width!(channels, start, N => {
                    let mut sums = [T::Acc::ZERO; N];
                    for (ky, oy) in reaching(w, iy, oh) {
                        for (kx, ox) in reaching(w, ix, ow) {
                            let dy = &dy[((image * oh + oy) * ow + ox) * channels + start..];
                            add_products(&mut sums, dy, &weights[(ky * w.size + kx) * channels + start..]);
                        }
                    }
                    store(&sums, &mut to[start..]);
                });
            }
        }
    }

    fn weight_rows [T: Float] (w: &Window, rows: Range<usize>, x: &[T], dy: &[T], sums: &mut [T::Acc]) {
        let (oh, ow, channels) = (w.out_height(), w.out_width(), w.channels);
        for row in rows {
            let (image, oy) = (row / oh, row % oh);
            for ky in inside(w, oy, w.height) {
                let iy = oy * w.stride + ky - w.padding;
                let (x, dy) = (&x[(image * w.height + iy) * w.width * channels..], &dy[row * ow * channels..]);
                for kx in 0..w.size {
                    let sums = &mut sums[(ky * w.size + kx) * channels..];
                    let seen = outputs(w, kx);
                    by_width!(channels, start, N => {
                        let mut here = [T::Acc::ZERO; N];
                        for ox in seen.clone() {
                            let ix = ox * w.stride + kx - w.padding;
                            add_products(&mut here, &x[ix * channels + start..], &dy[ox * channels + start..]);
                        }
                        for (sum, here) in sums[start..start + N].iter_mut().zip(&here) {
                            *sum += *here;
                        }
                    });
                }
            }
        }
    }
}
