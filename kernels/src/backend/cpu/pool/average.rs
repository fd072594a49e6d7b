//! Average pooling, of windows and of whole images, and the gradients.
//!
//! A window's places outside the image count as zeros. Gradients are gathered: every pixel sums over the windows that
//! contain it.

use std::ops::Range;

use super::max::{covering, inside};
use crate::backend::Window;
use crate::backend::cpu::{float::Float, parallel, simd::simd};

/// Channels at a time.
const BLOCK: usize = 64;

/// Runs [`Pool::Average`](crate::backend::ops::Pool::Average).
pub(super) fn forward<T: Float>(w: &Window, x: &[T], y: &mut [T]) {
    let line = w.out_width() * w.channels;
    parallel::ranges(w.batch * w.out_height(), line * w.size, parallel::rows(y, line), |rows, y| {
        forward_rows(w, rows, x, y);
    });
}

/// Runs [`Pool::AverageGrad`](crate::backend::ops::Pool::AverageGrad).
pub(super) fn gradient<T: Float>(w: &Window, dy: &[T], dx: &mut [T]) {
    let line = w.width * w.channels;
    parallel::ranges(w.batch * w.height, line, parallel::rows(dx, line), |rows, dx| gradient_rows(w, rows, dy, dx));
}

/// Runs [`Pool::Global`](crate::backend::ops::Pool::Global).
pub(super) fn global<T: Float>(pixels: usize, channels: usize, x: &[T], y: &mut [T]) {
    parallel::ranges(y.len() / channels, pixels * channels, parallel::rows(y, channels), |images, y| {
        global_images(pixels, channels, &x[images.start * pixels * channels..images.end * pixels * channels], y);
    });
}

/// Runs [`Pool::GlobalGrad`](crate::backend::ops::Pool::GlobalGrad).
pub(super) fn global_gradient<T: Float>(pixels: usize, channels: usize, dy: &[T], dx: &mut [T]) {
    let image = pixels * channels;
    parallel::ranges(dy.len() / channels, image, parallel::rows(dx, image), |images, dx| {
        global_gradient_images(pixels, channels, &dy[images.start * channels..images.end * channels], dx);
    });
}

simd! {
    fn forward_rows [T: Float] (w: &Window, rows: Range<usize>, x: &[T], y: &mut [T]) {
        let (oh, ow, channels) = (w.out_height(), w.out_width(), w.channels);
        let share = T::Acc::from_f64(1.0 / (w.size * w.size) as f64);
        for (row, line) in rows.zip(y.chunks_exact_mut(ow * channels)) {
            let (image, oy) = (row / oh, row % oh);
            for (ox, to) in line.chunks_exact_mut(channels).enumerate() {
                for (block, to) in to.chunks_mut(BLOCK).enumerate() {
                    let mut sums = [T::Acc::ZERO; BLOCK];
                    for ky in inside(w, oy, w.height) {
                        let iy = oy * w.stride + ky - w.padding;
                        for kx in inside(w, ox, w.width) {
                            let ix = ox * w.stride + kx - w.padding;
                            let at = ((image * w.height + iy) * w.width + ix) * channels + block * BLOCK;
                            for (sum, x) in sums.iter_mut().zip(&x[at..at + to.len()]) {
                                *sum += x.up();
                            }
                        }
                    }
                    for (to, sum) in to.iter_mut().zip(&sums) {
                        *to = T::down(*sum * share);
                    }
                }
            }
        }
    }

    fn gradient_rows [T: Float] (w: &Window, rows: Range<usize>, dy: &[T], dx: &mut [T]) {
        let (oh, ow, channels) = (w.out_height(), w.out_width(), w.channels);
        let share = T::Acc::from_f64(1.0 / (w.size * w.size) as f64);
        for (row, line) in rows.zip(dx.chunks_exact_mut(w.width * channels)) {
            let (image, iy) = (row / w.height, row % w.height);
            for (ix, to) in line.chunks_exact_mut(channels).enumerate() {
                for (block, to) in to.chunks_mut(BLOCK).enumerate() {
                    let mut sums = [T::Acc::ZERO; BLOCK];
                    for oy in covering(w, iy, oh) {
                        for ox in covering(w, ix, ow) {
                            let at = ((image * oh + oy) * ow + ox) * channels + block * BLOCK;
                            for (sum, dy) in sums.iter_mut().zip(&dy[at..at + to.len()]) {
                                *sum += dy.up();
                            }
                        }
                    }
                    for (to, sum) in to.iter_mut().zip(&sums) {
                        *to = T::down(*sum * share);
                    }
                }
            }
        }
    }

    fn global_images [T: Float] (pixels: usize, channels: usize, x: &[T], y: &mut [T]) {
        let share = T::Acc::from_f64(1.0 / pixels as f64);
        for (x, y) in x.chunks_exact(pixels * channels).zip(y.chunks_exact_mut(channels)) {
            for (block, y) in y.chunks_mut(BLOCK).enumerate() {
                let mut sums = [T::Acc::ZERO; BLOCK];
                for x in x.chunks_exact(channels) {
                    for (sum, x) in sums[..y.len()].iter_mut().zip(&x[block * BLOCK..]) {
                        *sum += x.up();
                    }
                }
                for (y, sum) in y.iter_mut().zip(&sums) {
                    *y = T::down(*sum * share);
                }
            }
        }
    }

    fn global_gradient_images [T: Float] (pixels: usize, channels: usize, dy: &[T], dx: &mut [T]) {
        let share = T::Acc::from_f64(1.0 / pixels as f64);
        for (dx, dy) in dx.chunks_exact_mut(pixels * channels).zip(dy.chunks_exact(channels)) {
            for dx in dx.chunks_exact_mut(channels) {
                for (dx, dy) in dx.iter_mut().zip(dy) {
                    *dx = T::down(dy.up() * share);
                }
            }
        }
    }
}
