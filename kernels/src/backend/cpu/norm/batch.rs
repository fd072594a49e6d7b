//! Batch normalisation over rows of channels (Ioffe & Szegedy 2015), its gradient, and its form with fixed estimates.
//!
//! Sums are of differences to the first row, so a mean far from zero costs no precision. A few rows at a time are summed in
//! the type of arithmetic, and their sums in f64, part by part. The extents alone decide the parts.

use crate::backend::cpu::{
    float::{Accumulator, Float},
    parallel,
    scratch::Scratch,
    simd::simd,
};
use crate::backend::ops::Rows;
use crate::backend::scratch::on_cpu::{row_parts, row_sums};

/// Rows summed in the type of arithmetic.
pub(in crate::backend::cpu) const CHUNK: usize = 64;
/// Channels normalised at a time.
pub(in crate::backend::cpu) const BLOCK: usize = 64;

/// The forward pass by the batch's own statistics.
#[derive(Debug, Clone, Copy)]
pub(in crate::backend::cpu) struct Norm {
    /// Rows and channels.
    pub(in crate::backend::cpu) extents: Rows,
    /// Added to the variance.
    pub(in crate::backend::cpu) epsilon: f64,
    /// How far running estimates move.
    pub(in crate::backend::cpu) momentum: f64,
}

impl Norm {
    /// Runs [`Norm::Batch`](crate::backend::ops::Norm::Batch). `parameters`: weight, bias; `statistics`: mean,
    /// inverse; `running`: mean, variance, or empty.
    pub(super) fn forward<T: Float, W: Float<Acc = T::Acc>>(
        &self,
        x: &[T],
        parameters: [&[W]; 2],
        y: &mut [T],
        [mean, inverse]: [&mut [T::Acc]; 2],
        running: [&mut [T::Acc]; 2],
    ) {
        self.measure(x, [&mut *mean, &mut *inverse], running);
        apply(Some(x), false, [mean, inverse], parameters, y);
    }

    /// The statistics of the batch, towards which the running ones move.
    pub(in crate::backend::cpu) fn measure<T: Float>(
        &self,
        x: &[T],
        [mean, inverse]: [&mut [T::Acc]; 2],
        [running_mean, running_variance]: [&mut [T::Acc]; 2],
    ) {
        let Rows { rows, columns } = self.extents;
        let shift = &x[..columns];
        let mut room = Scratch::<f64>::new(row_sums(&self.extents));
        let sums = sum(&self.extents, x, shift, &[], |x| x.up(), &mut room);
        let n = rows as f64;
        for j in 0..columns {
            let offset = sums[j] / n;
            let variance = (sums[columns + j] / n - offset * offset).max(0.0);
            let center = shift[j].to_f64() + offset;
            mean[j] = T::Acc::from_f64(center);
            inverse[j] = T::Acc::from_f64(1.0 / (variance + self.epsilon).sqrt());
            if let (Some(m), Some(v)) = (running_mean.get_mut(j), running_variance.get_mut(j)) {
                let unbiased = variance * n / (n - 1.0).max(1.0);
                *m = T::Acc::from_f64(m.to_f64() + self.momentum * (center - m.to_f64()));
                *v = T::Acc::from_f64(v.to_f64() + self.momentum * (unbiased - v.to_f64()));
            }
        }
    }
}

/// Runs [`Norm::BatchApply`](crate::backend::ops::Norm::BatchApply), of `y` itself if there is no `x`. `statistics`:
/// mean, inverse; `parameters`: weight, bias.
pub(super) fn apply<T: Float, W: Float<Acc = T::Acc>>(
    x: Option<&[T]>,
    adds: bool,
    [mean, inverse]: [&[T::Acc]; 2],
    parameters: [&[W]; 2],
    y: &mut [T],
) {
    let columns = mean.len();
    parallel::ranges(y.len() / columns, columns, parallel::rows(y, columns), |rows, y| {
        normalise(x.map(|x| &x[rows.start * columns..rows.end * columns]), adds, mean, inverse, parameters, y);
    });
}

/// Runs [`Norm::BatchGrad`](crate::backend::ops::Norm::BatchGrad). `statistics`: mean, inverse; `gradients`: of
/// weight, of bias.
pub(super) fn gradient<T: Float, W: Float<Acc = T::Acc>>(
    extents: &Rows,
    accumulate: bool,
    x: &[T],
    statistics: [&[T::Acc]; 2],
    weight: &[W],
    dy: &mut [T],
    gradients: [&mut [W]; 2],
) {
    let Rows { rows, columns } = *extents;
    let [mean, inverse] = statistics;
    let mut room = Scratch::<f64>::new(row_sums(extents));
    let sums = sum(extents, x, mean, dy, |mean| mean, &mut room);
    give(extents, accumulate, inverse, sums, gradients);
    let sums = &*sums;
    parallel::ranges(rows, columns, parallel::rows(dy, columns), |rows, dy| {
        gradient_rows(&x[rows.start * columns..rows.end * columns], mean, inverse, weight, sums, dy);
    });
}

/// The gradients of the parameters from the sums over rows, which become the terms that are subtracted from every gradient:
/// a constant, and a share of the distance from the mean.
pub(in crate::backend::cpu) fn give<A: Accumulator, W: Float<Acc = A>>(
    extents: &Rows,
    accumulate: bool,
    inverse: &[A],
    sums: &mut [f64],
    [dweight, dbias]: [&mut [W]; 2],
) {
    let Rows { rows, columns } = *extents;
    let add = |to: &mut W, value: f64| {
        let before = if accumulate { to.up() } else { A::ZERO };
        *to = W::down(before + A::from_f64(value));
    };
    for j in 0..columns {
        if let (Some(dweight), Some(dbias)) = (dweight.get_mut(j), dbias.get_mut(j)) {
            add(dbias, sums[j]);
            add(dweight, sums[columns + j] * inverse[j].to_f64());
        }
        sums[j] /= rows as f64;
        sums[columns + j] *= inverse[j].to_f64() * inverse[j].to_f64() / rows as f64;
    }
}

/// Runs [`Norm::BatchFixed`](crate::backend::ops::Norm::BatchFixed). `estimates`: mean, variance; `parameters`: weight,
/// bias.
pub(super) fn fixed<T: Float, W: Float<Acc = T::Acc>>(
    epsilon: f64,
    estimates: [&[T::Acc]; 2],
    parameters: [&[W]; 2],
    y: &mut [T],
) {
    let columns = estimates[0].len();
    parallel::ranges(y.len() / columns, columns, parallel::rows(y, columns), |_, y| {
        fixed_rows(T::Acc::from_f64(epsilon), estimates, parameters, y);
    });
}

/// Sums over rows: of `dy` and of `dy * (x - shift)`, or, when `dy` is empty, of `x - shift` and of its square. The result is
/// the front of `room`.
fn sum<'r, T: Float, S: Copy + Send + Sync>(
    extents: &Rows,
    x: &[T],
    shift: &[S],
    dy: &[T],
    up: impl Fn(S) -> T::Acc + Copy + Send + Sync,
    room: &'r mut Scratch<f64>,
) -> &'r mut [f64] {
    let (Rows { rows, columns }, parts) = (*extents, row_parts(extents));
    parallel::pieces(parts, parts > 1, parallel::rows(room.elements(), 2 * columns), |p, sums| {
        let range = p * rows / parts * columns..(p + 1) * rows / parts * columns;
        let dy = if dy.is_empty() { dy } else { &dy[range.clone()] };
        sum_part(&x[range], dy, shift, up, sums);
    });
    total(columns, room)
}

/// The sums of all parts, in the front of `room`.
pub(in crate::backend::cpu) fn total(columns: usize, room: &mut Scratch<f64>) -> &mut [f64] {
    let (total, rest) = room.elements().split_at_mut(2 * columns);
    for part in rest.chunks_exact(2 * columns) {
        for (total, sum) in total.iter_mut().zip(part) {
            *total += sum;
        }
    }
    total
}

/// The sums of one part for `N` channels from `start`, a chunk of rows at a time.
#[inline(always)]
fn sum_channels<const N: usize, T: Float, S: Copy>(
    start: usize,
    x: &[T],
    dy: &[T],
    shift: &[S],
    up: impl Fn(S) -> T::Acc,
    sums: &mut [f64],
) {
    let columns = shift.len();
    let mut from = [T::Acc::ZERO; N];
    for (from, shift) in from.iter_mut().zip(&shift[start..start + N]) {
        *from = up(*shift);
    }
    let (mut plain, mut product) = ([T::Acc::ZERO; N], [T::Acc::ZERO; N]);
    if dy.is_empty() {
        for x in x.chunks_exact(columns) {
            let x = &x[start..start + N];
            for j in 0..N {
                let distance = x[j].up() - from[j];
                plain[j] += distance;
                product[j] += distance * distance;
            }
        }
    } else {
        for (x, dy) in x.chunks_exact(columns).zip(dy.chunks_exact(columns)) {
            let (x, dy) = (&x[start..start + N], &dy[start..start + N]);
            for j in 0..N {
                let dy = dy[j].up();
                plain[j] += dy;
                product[j] += dy * (x[j].up() - from[j]);
            }
        }
    }
    for j in 0..N {
        sums[start + j] += plain[j].to_f64();
        sums[columns + start + j] += product[j].to_f64();
    }
}

simd! {
    fn sum_part [T: Float, S: Copy] (
        x: &[T], dy: &[T], shift: &[S], up: impl Fn(S) -> T::Acc + Copy, sums: &mut [f64],
    ) {
        let columns = shift.len();
        sums.fill(0.0);
        for (i, x) in x.chunks(CHUNK * columns).enumerate() {
            let dy = if dy.is_empty() { dy } else { &dy[i * CHUNK * columns..][..x.len()] };
            let mut start = 0;
            while start < columns {
                // A fixed width, so that the sums stay in registers.
                match columns - start {
                    32.. => {
                        sum_channels::<32, T, S>(start, x, dy, shift, up, sums);
                        start += 32;
                    }
                    8.. => {
                        sum_channels::<8, T, S>(start, x, dy, shift, up, sums);
                        start += 8;
                    }
                    _ => {
                        sum_channels::<1, T, S>(start, x, dy, shift, up, sums);
                        start += 1;
                    }
                }
            }
        }
    }

    fn normalise [T: Float, W: Float<Acc = T::Acc>] (
        x: Option<&[T]>, adds: bool, mean: &[T::Acc], inverse: &[T::Acc], parameters: [&[W]; 2], y: &mut [T],
    ) {
        let (columns, [weight, bias]) = (mean.len(), parameters);
        for start in (0..columns).step_by(BLOCK) {
            let count = BLOCK.min(columns - start);
            let mut constants = [[T::Acc::ZERO; BLOCK]; 3];
            for j in 0..count {
                constants[0][j] = mean[start + j];
                constants[1][j] = inverse[start + j] * weight[start + j].up();
                constants[2][j] = bias[start + j].up();
            }
            let [center, scale, offset] = &constants;
            let normal =
                |x: T, center: &T::Acc, scale: &T::Acc, offset: &T::Acc| T::down((x.up() - *center) * *scale + *offset);
            // Not by the index of a channel, whose check would leave the last of each block to be computed one by one.
            match x {
                None => for y in y.chunks_exact_mut(columns) {
                    let y = &mut y[start..start + count];
                    for (((y, center), scale), offset) in y.iter_mut().zip(center).zip(scale).zip(offset) {
                        *y = normal(*y, center, scale, offset);
                    }
                }
                Some(x) => for (x, y) in x.chunks_exact(columns).zip(y.chunks_exact_mut(columns)) {
                    let (x, y) = (&x[start..start + count], &mut y[start..start + count]);
                    let each = x.iter().zip(y).zip(center).zip(scale).zip(offset);
                    if adds {
                        for ((((x, y), center), scale), offset) in each {
                            *y = T::down(y.up() + normal(*x, center, scale, offset).up());
                        }
                    } else {
                        for ((((x, y), center), scale), offset) in each {
                            *y = normal(*x, center, scale, offset);
                        }
                    }
                }
            }
        }
    }

    fn gradient_rows [T: Float, W: Float<Acc = T::Acc>] (
        x: &[T], mean: &[T::Acc], inverse: &[T::Acc], weight: &[W], sums: &[f64], dy: &mut [T],
    ) {
        let columns = mean.len();
        for start in (0..columns).step_by(BLOCK) {
            let count = BLOCK.min(columns - start);
            let mut constants = [[T::Acc::ZERO; BLOCK]; 4];
            for j in 0..count {
                constants[0][j] = mean[start + j];
                constants[1][j] = inverse[start + j] * weight[start + j].up();
                constants[2][j] = T::Acc::from_f64(sums[start + j]);
                constants[3][j] = T::Acc::from_f64(sums[columns + start + j]);
            }
            let [center, scale, off, slope] = &constants;
            for (x, dy) in x.chunks_exact(columns).zip(dy.chunks_exact_mut(columns)) {
                let (x, dy) = (&x[start..start + count], &mut dy[start..start + count]);
                for (((((x, dy), center), scale), off), slope) in
                    x.iter().zip(dy).zip(center).zip(scale).zip(off).zip(slope)
                {
                    *dy = T::down(*scale * (dy.up() - *off - (x.up() - *center) * *slope));
                }
            }
        }
    }

    fn fixed_rows [T: Float, W: Float<Acc = T::Acc>] (
        epsilon: T::Acc, estimates: [&[T::Acc]; 2], parameters: [&[W]; 2], y: &mut [T],
    ) {
        let ([mean, variance], [weight, bias]) = (estimates, parameters);
        let columns = mean.len();
        for start in (0..columns).step_by(BLOCK) {
            let count = BLOCK.min(columns - start);
            let mut scale = [T::Acc::ZERO; BLOCK];
            for (j, scale) in scale[..count].iter_mut().enumerate() {
                *scale = weight[start + j].up() / (variance[start + j] + epsilon).sqrt();
            }
            for y in y.chunks_exact_mut(columns) {
                let y = &mut y[start..start + count];
                for (((y, mean), scale), bias) in y.iter_mut().zip(&mean[start..]).zip(&scale).zip(&bias[start..]) {
                    *y = T::down((y.up() - *mean) * *scale + bias.up());
                }
            }
        }
    }
}
