//! Normalisation of rows: layer norm (Ba, Kiros & Hinton 2016) and RMS norm (Zhang & Sennrich 2019), and gradients.
//!
//! Sums along a row have sixteen lanes of the type of arithmetic. Sums over rows, for the gradients of parameters, are in
//! f64, part by part. The extents alone decide the parts.

use crate::backend::cpu::{
    float::{Accumulator, Float},
    lanes::{LANES, dot, sum},
    parallel,
    scratch::Scratch,
    simd::simd,
};
use crate::backend::ops::Rows;
use crate::backend::scratch::on_cpu::{row_parts, row_sums};

/// Rows whose gradients by the parameters are summed in the type of arithmetic.
const CHUNK: usize = 16;
/// Columns of such a sum.
const BLOCK: usize = 64;

/// Runs [`Norm::Layer`](crate::backend::ops::Norm::Layer), or, where `bias` and `mean` are empty,
/// Runs [`Norm::Rms`](crate::backend::ops::Norm::Rms).
pub(super) fn forward<T: Float, W: Float<Acc = T::Acc>>(
    epsilon: f64,
    x: &[T],
    [weight, bias]: [&[W]; 2],
    y: &mut [T],
    [mean, inverse]: [&mut [T::Acc]; 2],
) {
    let (columns, rows, centered) = (weight.len(), inverse.len(), !mean.is_empty());
    let statistics = [parallel::rows(mean, usize::from(centered)), parallel::rows(inverse, 1)];
    parallel::ranges(rows, columns, (parallel::rows(y, columns), statistics), |rows, (y, statistics)| {
        let x = &x[rows.start * columns..rows.end * columns];
        forward_rows(T::Acc::from_f64(epsilon), x, [weight, bias], y, statistics);
    });
}

/// The same on the caller's thread.
pub(in crate::backend::cpu) fn forward_part<T: Float, W: Float<Acc = T::Acc>>(
    epsilon: f64,
    x: &[T],
    parameters: [&[W]; 2],
    y: &mut [T],
    statistics: [&mut [T::Acc]; 2],
) {
    forward_rows(T::Acc::from_f64(epsilon), x, parameters, y, statistics);
}

/// Runs [`Norm::LayerGrad`](crate::backend::ops::Norm::LayerGrad), or, where `mean` and `dbias` are empty,
/// Runs [`Norm::RmsGrad`](crate::backend::ops::Norm::RmsGrad).
pub(super) fn gradient<T: Float, W: Float<Acc = T::Acc>>(
    extents: &Rows,
    accumulate: bool,
    x: &[T],
    [mean, inverse]: [&[T::Acc]; 2],
    weight: &[W],
    dy: &mut [T],
    [dweight, dbias]: [&mut [W]; 2],
) {
    let (Rows { rows, columns }, parts) = (*extents, row_parts(extents));
    let mut room = Scratch::<f64>::new(row_sums(extents));
    let first = |p| p * rows / parts * columns;
    let of = (parallel::rows(room.elements(), 2 * columns), parallel::parts(dy, &first));
    parallel::pieces(parts, parts > 1, of, |p, (sums, dy)| {
        let rows = p * rows / parts..(p + 1) * rows / parts;
        let mean = if mean.is_empty() { mean } else { &mean[rows.clone()] };
        sums.fill(0.0);
        gradient_rows(&x[rows.start * columns..rows.end * columns], [mean, &inverse[rows]], weight, dy, sums);
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

/// The sum over a row of `dy * weight` times the normalised `x`. One sum a loop, because a loop with two is not vectorised.
#[inline(always)]
fn product<T: Float, W: Float<Acc = T::Acc>>(
    x: &[T],
    dy: &[T],
    weight: &[W],
    normal: impl Fn(T::Acc) -> T::Acc,
) -> T::Acc {
    let ((x, x_rest), (dy, dy_rest)) = (x.as_chunks::<LANES>(), dy.as_chunks::<LANES>());
    let (weight, weight_rest) = weight.as_chunks::<LANES>();
    let mut lanes = [T::Acc::ZERO; LANES];
    for ((x, dy), weight) in x.iter().zip(dy).zip(weight) {
        for (((lane, x), dy), weight) in lanes.iter_mut().zip(x).zip(dy).zip(weight) {
            *lane += dy.up() * weight.up() * normal(x.up());
        }
    }
    let total = lanes.into_iter().fold(T::Acc::ZERO, |a, b| a + b);
    let rest = x_rest.iter().zip(dy_rest).zip(weight_rest);
    rest.fold(total, |sum, ((x, dy), weight)| sum + dy.up() * weight.up() * normal(x.up()))
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
        for (chunk, (x, dy)) in x.chunks(CHUNK * columns).zip(dy.chunks_mut(CHUNK * columns)).enumerate() {
            let mean = |row: usize| means.get(chunk * CHUNK + row).copied().unwrap_or(T::Acc::ZERO);
            let inverse = |row: usize| inverses[chunk * CHUNK + row];
            add_columns(columns, x, dy, mean, inverse, [&mut *dweight, &mut *dbias]);
            for (row, (x, dy)) in x.chunks_exact(columns).zip(dy.chunks_exact_mut(columns)).enumerate() {
                let (mean, inverse) = (mean(row), inverse(row));
                let normal = |x: T::Acc| (x - mean) * inverse;
                let off = if means.is_empty() { T::Acc::ZERO } else { dot(dy, weight) * share };
                let slope = product(x, dy, weight, normal) * share;
                for ((dy, x), weight) in dy.iter_mut().zip(x).zip(weight) {
                    *dy = T::down(inverse * (dy.up() * weight.up() - off - normal(x.up()) * slope));
                }
            }
        }
    }
}

/// Adds the share of a few rows, summed in the type of arithmetic, to the parameters' gradients.
#[inline(always)]
fn add_columns<T: Float>(
    columns: usize,
    x: &[T],
    dy: &[T],
    mean: impl Fn(usize) -> T::Acc,
    inverse: impl Fn(usize) -> T::Acc,
    [dweight, dbias]: [&mut [f64]; 2],
) {
    for start in (0..columns).step_by(BLOCK) {
        let end = (start + BLOCK).min(columns);
        let (mut products, mut plain) = ([T::Acc::ZERO; BLOCK], [T::Acc::ZERO; BLOCK]);
        for (row, (x, dy)) in x.chunks_exact(columns).zip(dy.chunks_exact(columns)).enumerate() {
            let (mean, inverse) = (mean(row), inverse(row));
            let (x, dy) = (&x[start..end], &dy[start..end]);
            for (((product, plain), x), dy) in products.iter_mut().zip(&mut plain).zip(x).zip(dy) {
                *product += dy.up() * ((x.up() - mean) * inverse);
                *plain += dy.up();
            }
        }
        for (j, at) in (start..end).enumerate() {
            dweight[at] += products[j].to_f64();
            dbias[at] += plain[j].to_f64();
        }
    }
}
