//! Batch normalisation with a sum and a rectifier after it, and the gradient of both.
//!
//! Statistics, and the parts and order of all sums, are those of the normalisation alone.

use std::ops::Range;

use super::bias::{relu, relu6};
use crate::backend::{
    cpu::{
        float::{Accumulator, Float},
        norm::batch::{BLOCK, CHUNK, give, total},
        parallel,
        scratch::Scratch,
        simd::simd,
    },
    ops::{Rectifier, Rows},
    scratch::on_cpu::{row_parts, row_sums},
};

/// The term that is added to the normalised input.
#[derive(Clone, Copy)]
pub(super) enum Added<'a, T> {
    Nothing,
    Other(&'a [T]),
    /// The values that are already in the output's place.
    Standing,
}

impl<T> Added<'_, T> {
    fn part(&self, place: Range<usize>) -> Self {
        match self {
            Self::Other(other) => Self::Other(&other[place]),
            Self::Nothing => Self::Nothing,
            Self::Standing => Self::Standing,
        }
    }
}

/// Writes the normalised `x`, or the values that stand there, plus `added`, rectified. `statistics`: mean, inverse;
/// `parameters`: weight, bias.
pub(super) fn apply<T: Float, W: Float<Acc = T::Acc>>(
    x: Option<&[T]>,
    added: Added<'_, T>,
    end: Option<Rectifier>,
    [mean, inverse]: [&[T::Acc]; 2],
    parameters: [&[W]; 2],
    y: &mut [T],
) {
    let columns = mean.len();
    parallel::ranges(y.len() / columns, columns, parallel::rows(y, columns), |rows, y| {
        let place = rows.start * columns..rows.end * columns;
        let (x, added) = (x.map(|x| &x[place.clone()]), added.part(place));
        match end {
            None => normalise(x, added, mean, inverse, parameters, |y| y, y),
            Some(Rectifier::Relu) => normalise(x, added, mean, inverse, parameters, relu, y),
            Some(Rectifier::Relu6) => normalise(x, added, mean, inverse, parameters, relu6, y),
        }
    });
}

/// The operands of the gradient of a rectified batch norm.
pub(super) struct Masked<'a, T: Float, W: Float<Acc = T::Acc>> {
    /// Rows and channels.
    pub(super) extents: Rows,
    /// Add to the gradients of parameters.
    pub(super) accumulate: bool,
    /// The input of the norm.
    pub(super) x: &'a [T],
    /// Mean, inverse.
    pub(super) statistics: [&'a [T::Acc]; 2],
    /// Weight, bias.
    pub(super) parameters: [&'a [W]; 2],
}

impl<T: Float, W: Float<Acc = T::Acc>> Masked<'_, T, W> {
    /// Runs [`Fused::BatchGrad`](crate::backend::ops::Fused::BatchGrad); `passes` gives the part of a gradient that passes
    /// the rectifier, by its output. The gradient of the output is `from`, or where that of the input is written.
    pub(super) fn gradient(
        &self,
        from: Option<&[T]>,
        dx: &mut [T],
        gradients: [&mut [W]; 2],
        passes: impl Fn(T, T) -> T + Copy + Send + Sync,
    ) {
        let Self { extents, accumulate, x, statistics, parameters } = *self;
        let (Rows { rows, columns }, parts) = (extents, row_parts(&extents));
        let mut room = Scratch::<f64>::new(row_sums(&extents));
        let dy = from.unwrap_or(&*dx);
        parallel::pieces(parts, parts > 1, parallel::rows(room.elements(), 2 * columns), |p, sums| {
            let range = p * rows / parts * columns..(p + 1) * rows / parts * columns;
            sum_part(&x[range.clone()], &dy[range], statistics, parameters, passes, sums);
        });
        let sums = total(columns, &mut room);
        give(&extents, accumulate, statistics[1], sums, gradients);
        let sums = &*sums;
        parallel::ranges(rows, columns, parallel::rows(dx, columns), |rows, dx| {
            let place = rows.start * columns..rows.end * columns;
            let (x, from) = (&x[place.clone()], from.map(|from| &from[place]));
            gradient_rows(x, from, statistics, parameters, sums, passes, dx);
        });
    }
}

/// The constants of each channel's output: the mean, the factor, the offset.
#[inline(always)]
fn constants<const N: usize, A: Accumulator, W: Float<Acc = A>>(
    start: usize,
    count: usize,
    [mean, inverse]: [&[A]; 2],
    [weight, bias]: [&[W]; 2],
) -> [[A; N]; 3] {
    let mut constants = [[A::ZERO; N]; 3];
    for j in 0..count {
        constants[0][j] = mean[start + j];
        constants[1][j] = inverse[start + j] * weight[start + j].up();
        constants[2][j] = bias[start + j].up();
    }
    constants
}

/// The sums of one part for `N` channels from `start`, for some rows.
#[inline(always)]
fn sum_channels<const N: usize, T: Float, W: Float<Acc = T::Acc>>(
    start: usize,
    x: &[T],
    dy: &[T],
    statistics: [&[T::Acc]; 2],
    parameters: [&[W]; 2],
    passes: impl Fn(T, T) -> T,
    sums: &mut [f64],
) {
    let columns = statistics[0].len();
    let [center, scale, offset] = constants::<N, T::Acc, W>(start, N, statistics, parameters);
    let (mut plain, mut product) = ([T::Acc::ZERO; N], [T::Acc::ZERO; N]);
    for (x, dy) in x.chunks_exact(columns).zip(dy.chunks_exact(columns)) {
        let (x, dy) = (&x[start..start + N], &dy[start..start + N]);
        for j in 0..N {
            let distance = x[j].up() - center[j];
            let dy = passes(T::down(distance * scale[j] + offset[j]), dy[j]).up();
            plain[j] += dy;
            product[j] += dy * distance;
        }
    }
    for j in 0..N {
        sums[start + j] += plain[j].to_f64();
        sums[columns + start + j] += product[j].to_f64();
    }
}

simd! {
    fn normalise [T: Float, W: Float<Acc = T::Acc>] (
        x: Option<&[T]>, added: Added<'_, T>, mean: &[T::Acc], inverse: &[T::Acc], parameters: [&[W]; 2],
        end: impl Fn(T) -> T + Copy, y: &mut [T],
    ) {
        let columns = mean.len();
        for start in (0..columns).step_by(BLOCK) {
            let count = BLOCK.min(columns - start);
            let [center, scale, offset] =
                &constants::<BLOCK, T::Acc, W>(start, count, [mean, inverse], parameters);
            let of_channels = || center.iter().zip(scale).zip(offset);
            let normal = |x: T, ((center, scale), offset): ((&T::Acc, &T::Acc), &T::Acc)| {
                T::down((x.up() - *center) * *scale + *offset)
            };
            let summed = |x: T, other: T| end(T::down(x.up() + other.up()));
            for (row, y) in y.chunks_exact_mut(columns).enumerate() {
                let (y, place) = (&mut y[start..start + count], row * columns + start..row * columns + start + count);
                match (x, added) {
                    (Some(x), Added::Nothing) => {
                        for ((x, y), channel) in x[place].iter().zip(y).zip(of_channels()) {
                            *y = end(normal(*x, channel));
                        }
                    }
                    (Some(x), Added::Standing) => {
                        for ((x, y), channel) in x[place].iter().zip(y).zip(of_channels()) {
                            *y = summed(normal(*x, channel), *y);
                        }
                    }
                    (Some(x), Added::Other(other)) => {
                        let each = x[place.clone()].iter().zip(&other[place]).zip(y);
                        for (((x, other), y), channel) in each.zip(of_channels()) {
                            *y = summed(normal(*x, channel), *other);
                        }
                    }
                    (None, Added::Other(other)) => {
                        for ((y, other), channel) in y.iter_mut().zip(&other[place]).zip(of_channels()) {
                            *y = summed(normal(*y, channel), *other);
                        }
                    }
                    // Only one of the two stands there.
                    (None, Added::Nothing | Added::Standing) => {
                        for (y, channel) in y.iter_mut().zip(of_channels()) {
                            *y = end(normal(*y, channel));
                        }
                    }
                }
            }
        }
    }

    fn sum_part [T: Float, W: Float<Acc = T::Acc>] (
        x: &[T], dy: &[T], statistics: [&[T::Acc]; 2], parameters: [&[W]; 2], passes: impl Fn(T, T) -> T + Copy,
        sums: &mut [f64],
    ) {
        let columns = statistics[0].len();
        sums.fill(0.0);
        for (x, dy) in x.chunks(CHUNK * columns).zip(dy.chunks(CHUNK * columns)) {
            let mut start = 0;
            while start < columns {
                // A fixed width, so that the sums stay in registers.
                match columns - start {
                    16.. => {
                        sum_channels::<16, T, W>(start, x, dy, statistics, parameters, passes, sums);
                        start += 16;
                    }
                    8.. => {
                        sum_channels::<8, T, W>(start, x, dy, statistics, parameters, passes, sums);
                        start += 8;
                    }
                    _ => {
                        sum_channels::<1, T, W>(start, x, dy, statistics, parameters, passes, sums);
                        start += 1;
                    }
                }
            }
        }
    }

    fn gradient_rows [T: Float, W: Float<Acc = T::Acc>] (
        x: &[T], from: Option<&[T]>, statistics: [&[T::Acc]; 2], parameters: [&[W]; 2], sums: &[f64],
        passes: impl Fn(T, T) -> T + Copy, dx: &mut [T],
    ) {
        let columns = statistics[0].len();
        for start in (0..columns).step_by(BLOCK) {
            let count = BLOCK.min(columns - start);
            let [center, scale, offset] = &constants::<BLOCK, T::Acc, W>(start, count, statistics, parameters);
            let mut rest = [[T::Acc::ZERO; BLOCK]; 2];
            for j in 0..count {
                rest[0][j] = T::Acc::from_f64(sums[start + j]);
                rest[1][j] = T::Acc::from_f64(sums[columns + start + j]);
            }
            let of_channels = || center.iter().zip(scale).zip(offset).zip(rest[0].iter().zip(&rest[1]));
            type Channel<'a, A> = (((&'a A, &'a A), &'a A), (&'a A, &'a A));
            let one = |x: T, dy: T, (((center, scale), offset), (off, slope)): Channel<'_, T::Acc>| {
                let distance = x.up() - *center;
                let passed = passes(T::down(distance * *scale + *offset), dy);
                T::down(*scale * (passed.up() - *off - distance * *slope))
            };
            let rows = x.chunks_exact(columns).zip(dx.chunks_exact_mut(columns));
            match from {
                None => for (x, dx) in rows {
                    for ((x, dx), channel) in x[start..].iter().zip(&mut dx[start..start + count]).zip(of_channels()) {
                        *dx = one(*x, *dx, channel);
                    }
                }
                Some(from) => for ((x, dx), dy) in rows.zip(from.chunks_exact(columns)) {
                    let each = x[start..].iter().zip(&dy[start..]).zip(&mut dx[start..start + count]);
                    for (((x, dy), dx), channel) in each.zip(of_channels()) {
                        *dx = one(*x, *dy, channel);
                    }
                }
            }
        }
    }
}
