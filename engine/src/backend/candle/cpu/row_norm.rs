//! Normalisation of rows: layer norm (Ba, Kiros & Hinton 2016) and RMS norm (Zhang & Sennrich 2019), and gradients.
//!
//! Sums along a row are carried in sixteen lanes of the type of arithmetic; sums over rows, of the parameters'
//! gradients, in f64, part by part. Parts follow from the extents alone.

use super::{
    batch_norm::{parts, room},
    float::{Accumulator, Float},
    gemm::Scratch,
    parallel::{self, Shared},
    simd::simd,
};
use crate::backend::kernel::Rows;

/// Lanes of a sum.
const LANES: usize = 16;

/// [`Kernel::LayerNorm`](crate::backend::Kernel::LayerNorm), or, where `bias` and `mean` are empty,
/// [`Kernel::RmsNorm`](crate::backend::Kernel::RmsNorm).
pub(super) fn forward<T: Float, W: Float<Acc = T::Acc>>(
    epsilon: f64,
    x: &[T],
    [weight, bias]: [&[W]; 2],
    y: &mut [T],
    [mean, inverse]: [&mut [T::Acc]; 2],
) {
    let (columns, rows, centered) = (weight.len(), inverse.len(), !mean.is_empty());
    let (y, mean, inverse) = (Shared::new(y), Shared::new(mean), Shared::new(inverse));
    parallel::ranges(rows, columns, |rows| {
        let range = rows.start * columns..rows.end * columns;
        let means = if centered { rows.clone() } else { 0..0 };
        // SAFETY: ranges of rows are disjoint.
        let (y, statistics) = unsafe { (y.part(range.clone()), [mean.part(means), inverse.part(rows)]) };
        forward_rows(T::Acc::from_f64(epsilon), &x[range], [weight, bias], y, statistics);
    });
}

/// [`Kernel::LayerNormGrad`](crate::backend::Kernel::LayerNormGrad), or, where `mean` and `dbias` are empty,
/// [`Kernel::RmsNormGrad`](crate::backend::Kernel::RmsNormGrad).
pub(super) fn gradient<T: Float, W: Float<Acc = T::Acc>>(
    extents: &Rows,
    accumulate: bool,
    x: &[T],
    [mean, inverse]: [&[T::Acc]; 2],
    weight: &[W],
    dy: &mut [T],
    [dweight, dbias]: [&mut [W]; 2],
) {
    let (Rows { rows, columns }, parts) = (*extents, parts(extents));
    let mut room = Scratch::<f64>::new(room(extents));
    let (all, dy) = (Shared::new(room.elements()), Shared::new(dy));
    parallel::pieces(parts, parts > 1, |p| {
        let rows = p * rows / parts..(p + 1) * rows / parts;
        let range = rows.start * columns..rows.end * columns;
        let mean = if mean.is_empty() { mean } else { &mean[rows.clone()] };
        // SAFETY: parts are disjoint.
        let (sums, dy) = unsafe { (all.part(p * 2 * columns..(p + 1) * 2 * columns), dy.part(range.clone())) };
        sums.fill(0.0);
        gradient_rows(&x[range], [mean, &inverse[rows]], weight, dy, sums);
    });
    let sums = &*room.elements();
    for (to, start) in [(dweight, 0), (dbias, columns)] {
        for (j, to) in to.iter_mut().enumerate() {
            let before = if accumulate { to.to_f64() } else { 0.0 };
            let sum = (0..parts).fold(before, |sum, p| sum + sums[p * 2 * columns + start + j]);
            *to = W::from_f64(sum);
        }
    }
}

/// The sum over a row, lane by lane.
#[inline(always)]
fn sum<T: Float>(x: &[T], term: impl Fn(T::Acc) -> T::Acc) -> T::Acc {
    let (blocks, rest) = x.as_chunks::<LANES>();
    let mut lanes = [T::Acc::ZERO; LANES];
    for block in blocks {
        for (lane, x) in lanes.iter_mut().zip(block) {
            *lane += term(x.up());
        }
    }
    let total = lanes.into_iter().fold(T::Acc::ZERO, |a, b| a + b);
    rest.iter().fold(total, |total, x| total + term(x.up()))
}

/// The sums over a row of `dy * weight` and of that times the normalised `x`.
#[inline(always)]
fn sums<T: Float, W: Float<Acc = T::Acc>>(
    x: &[T],
    dy: &[T],
    weight: &[W],
    normal: impl Fn(T::Acc) -> T::Acc,
) -> [T::Acc; 2] {
    let ((x, x_rest), (dy, dy_rest)) = (x.as_chunks::<LANES>(), dy.as_chunks::<LANES>());
    let (weight, weight_rest) = weight.as_chunks::<LANES>();
    let (mut plain, mut product) = ([T::Acc::ZERO; LANES], [T::Acc::ZERO; LANES]);
    for ((x, dy), weight) in x.iter().zip(dy).zip(weight) {
        for j in 0..LANES {
            let g = dy[j].up() * weight[j].up();
            plain[j] += g;
            product[j] += g * normal(x[j].up());
        }
    }
    let [mut first, mut second] = [plain, product].map(|lanes| lanes.into_iter().fold(T::Acc::ZERO, |a, b| a + b));
    for ((x, dy), weight) in x_rest.iter().zip(dy_rest).zip(weight_rest) {
        let g = dy.up() * weight.up();
        first += g;
        second += g * normal(x.up());
    }
    [first, second]
}

simd! {
    fn forward_rows [T: Float, W: Float<Acc = T::Acc>] (
        epsilon: T::Acc, x: &[T], parameters: [&[W]; 2], y: &mut [T], statistics: [&mut [T::Acc]; 2],
    ) {
        let ([weight, bias], [means, inverses]) = (parameters, statistics);
        let columns = weight.len();
        let share = T::Acc::from_f64(1.0 / columns as f64);
        let rows = x.chunks_exact(columns).zip(y.chunks_exact_mut(columns)).zip(inverses).enumerate();
        for (i, ((x, y), inverse)) in rows {
            let first = x[0].up();
            let mean = match means.get_mut(i) {
                Some(mean) => {
                    *mean = first + share * sum::<T>(x, |x| x - first);
                    *mean
                }
                None => T::Acc::ZERO,
            };
            let variance = share * sum::<T>(x, |x| (x - mean) * (x - mean));
            *inverse = T::Acc::ONE / (variance + epsilon).sqrt();
            let scale = *inverse;
            if bias.is_empty() {
                for ((y, x), weight) in y.iter_mut().zip(x).zip(weight) {
                    *y = T::down(x.up() * scale * weight.up());
                }
            } else {
                for (((y, x), weight), bias) in y.iter_mut().zip(x).zip(weight).zip(bias) {
                    *y = T::down((x.up() - mean) * scale * weight.up() + bias.up());
                }
            }
        }
    }

    fn gradient_rows [T: Float, W: Float<Acc = T::Acc>] (
        x: &[T], statistics: [&[T::Acc]; 2], weight: &[W], dy: &mut [T], totals: &mut [f64],
    ) {
        let ([means, inverses], columns) = (statistics, weight.len());
        let share = T::Acc::from_f64(1.0 / columns as f64);
        let (dweight, dbias) = totals.split_at_mut(columns);
        for (i, ((x, dy), inverse)) in x.chunks_exact(columns).zip(dy.chunks_exact_mut(columns)).zip(inverses).enumerate() {
            let (mean, inverse) = (means.get(i).copied().unwrap_or(T::Acc::ZERO), *inverse);
            let normal = |x: T::Acc| (x - mean) * inverse;
            let [plain, product] = sums::<T, W>(x, dy, weight, normal);
            let off = if means.is_empty() { T::Acc::ZERO } else { plain * share };
            let slope = product * share;
            for ((((dy, x), weight), dweight), dbias) in
                dy.iter_mut().zip(x).zip(weight).zip(&mut *dweight).zip(&mut *dbias)
            {
                let (before, x) = (dy.up(), normal(x.up()));
                *dweight += (before * x).to_f64();
                *dbias += before.to_f64();
                *dy = T::down(inverse * (before * weight.up() - off - x * slope));
            }
        }
    }
}
