//! What slides a window over images: convolutions and pooling.

use plimsoll_engine::backend::{
    Window,
    ops::{Convolution, Depthwise, Pool},
};

use super::start;

pub(super) fn convolution(kernel: &Convolution, ins: &[Vec<f64>], outs: &mut [Vec<f64>]) {
    match kernel {
        Convolution::Forward(w) => {
            outs[0].fill(0.0);
            taps(w, |x, weight, y| outs[0][y] += ins[0][x] * ins[1][weight]);
        }
        Convolution::InputGrad(w) => {
            outs[0].fill(0.0);
            taps(w, |x, weight, y| outs[0][x] += ins[0][y] * ins[1][weight]);
        }
        Convolution::WeightGrad { window, accumulate } => {
            start(&mut outs[0], *accumulate);
            taps(window, |x, weight, y| outs[0][weight] += ins[0][x] * ins[1][y]);
        }
    }
}

pub(super) fn depthwise(kernel: &Depthwise, ins: &[Vec<f64>], outs: &mut [Vec<f64>]) {
    match kernel {
        Depthwise::Forward(w) => {
            outs[0].fill(0.0);
            own_taps(w, |x, weight, y| outs[0][y] += ins[0][x] * ins[1][weight]);
        }
        Depthwise::InputGrad(w) => {
            outs[0].fill(0.0);
            own_taps(w, |x, weight, y| outs[0][x] += ins[0][y] * ins[1][weight]);
        }
        Depthwise::WeightGrad { window, accumulate } => {
            start(&mut outs[0], *accumulate);
            own_taps(window, |x, weight, y| outs[0][weight] += ins[0][x] * ins[1][y]);
        }
    }
}

pub(super) fn pool(kernel: &Pool, ins: &[Vec<f64>], outs: &mut [Vec<f64>]) {
    match kernel {
        Pool::Max(w) => max_pool(w, &ins[0], outs),
        Pool::MaxGrad(w) => {
            outs[0].fill(0.0);
            own_taps(w, |x, weight, y| {
                if ins[1][y] == (weight / w.channels) as f64 {
                    outs[0][x] += ins[0][y];
                }
            });
        }
        Pool::Average(w) => {
            outs[0].fill(0.0);
            own_taps(w, |x, _, y| outs[0][y] += ins[0][x] / (w.size * w.size) as f64);
        }
        Pool::AverageGrad(w) => {
            outs[0].fill(0.0);
            own_taps(w, |x, _, y| outs[0][x] += ins[0][y] / (w.size * w.size) as f64);
        }
        Pool::Global { pixels, channels } => {
            outs[0].fill(0.0);
            for (i, x) in ins[0].iter().enumerate() {
                outs[0][i / (pixels * channels) * channels + i % channels] += x / *pixels as f64;
            }
        }
        Pool::GlobalGrad { pixels, channels } => {
            let mean = |i: usize| ins[0][i / (pixels * channels) * channels + i % channels] / *pixels as f64;
            outs[0].iter_mut().enumerate().for_each(|(i, dx)| *dx = mean(i));
        }
    }
}

/// Calls `f` with the places of input, weight and output of every product of a convolution.
fn taps(w: &Window, mut f: impl FnMut(usize, usize, usize)) {
    pixels(w, |image, [oy, ox], [ky, kx], [iy, ix]| {
        for filter in 0..w.filters {
            for c in 0..w.channels {
                f(
                    ((image * w.height + iy) * w.width + ix) * w.channels + c,
                    ((filter * w.size + ky) * w.size + kx) * w.channels + c,
                    ((image * w.out_height() + oy) * w.out_width() + ox) * w.filters + filter,
                );
            }
        }
    });
}

/// The same of a depthwise convolution or a pooling.
fn own_taps(w: &Window, mut f: impl FnMut(usize, usize, usize)) {
    pixels(w, |image, [oy, ox], [ky, kx], [iy, ix]| {
        for c in 0..w.channels {
            f(
                ((image * w.height + iy) * w.width + ix) * w.channels + c,
                (ky * w.size + kx) * w.channels + c,
                ((image * w.out_height() + oy) * w.out_width() + ox) * w.channels + c,
            );
        }
    });
}

fn pixels(w: &Window, mut f: impl FnMut(usize, [usize; 2], [usize; 2], [usize; 2])) {
    for image in 0..w.batch {
        for oy in 0..w.out_height() {
            for ox in 0..w.out_width() {
                for ky in 0..w.size {
                    for kx in 0..w.size {
                        let (y, x) = (oy * w.stride + ky, ox * w.stride + kx);
                        let inside = |at: usize, extent: usize| at >= w.padding && at < extent + w.padding;
                        if inside(y, w.height) && inside(x, w.width) {
                            f(image, [oy, ox], [ky, kx], [y - w.padding, x - w.padding]);
                        }
                    }
                }
            }
        }
    }
}

fn max_pool(w: &Window, x: &[f64], outs: &mut [Vec<f64>]) {
    let mut best: Vec<Option<(f64, usize)>> = vec![None; outs[0].len()];
    own_taps(w, |from, weight, to| {
        let (value, tap) = (x[from], weight / w.channels);
        best[to] = match best[to] {
            Some((so_far, place)) if so_far.is_nan() || value <= so_far => Some((so_far, place)),
            _ => Some((value, tap)),
        };
    });
    for (i, best) in best.into_iter().enumerate() {
        let (value, tap) = best.expect("every window sees a pixel");
        outs[0][i] = value;
        if let Some(index) = outs.get_mut(1) {
            index[i] = tap as f64;
        }
    }
}
