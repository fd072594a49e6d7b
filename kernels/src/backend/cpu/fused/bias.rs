//! A bias and the function after it, and their gradients.

use std::ops::Range;

use crate::backend::{
    cpu::{
        activation::{WEIGHT, forward_part, gradient_part},
        float::Float,
        linear::{COLUMNS, PARTS, parts_of},
        parallel,
        simd::simd,
    },
    ops::{ActivationFunction, Rectifier},
};

/// Elements whose sums with the bias are on the stack at a time.
const ROOM: usize = 256;

/// `max(x, 0)`. NaN stays NaN.
#[inline(always)]
pub(super) fn relu<T: Float>(x: T) -> T {
    if x.up() < T::Acc::ZERO { T::ZERO } else { x }
}

/// `min(max(x, 0), 6)`. NaN stays NaN.
#[inline(always)]
pub(super) fn relu6<T: Float>(x: T) -> T {
    let six = T::from_f64(6.0);
    let clipped = if x.up() > six.up() { six } else { x };
    if x.up() < T::Acc::ZERO { T::ZERO } else { clipped }
}

/// The gradient of [`relu`] from its output: `dy`, or zero.
#[inline(always)]
pub(super) fn passes_relu<T: Float>(y: T, dy: T) -> T {
    if y.up() <= T::Acc::ZERO { T::ZERO } else { dy }
}

/// The gradient of [`relu6`] from its output: `dy`, or zero.
#[inline(always)]
pub(super) fn passes_relu6<T: Float>(y: T, dy: T) -> T {
    let (y, six) = (y.up(), T::from_f64(6.0).up());
    if (y <= T::Acc::ZERO) | (y >= six) { T::ZERO } else { dy }
}

/// Runs [`Fused::Bias`](crate::backend::ops::Fused::Bias) of a rectifier.
pub(super) fn rectified<T: Float>(rectifier: Rectifier, bias: &[T], y: &mut [T]) {
    let columns = bias.len();
    parallel::ranges(y.len() / columns, columns, parallel::rows(y, columns), |_, y| match rectifier {
        Rectifier::Relu => rectified_rows(bias, relu, y),
        Rectifier::Relu6 => rectified_rows(bias, relu6, y),
    });
}

/// Runs [`Fused::Bias`](crate::backend::ops::Fused::Bias) of a smooth function.
pub(super) fn smooth<T: Float>(function: ActivationFunction, x: &[T], bias: &[T], y: &mut [T]) {
    let columns = bias.len();
    parallel::ranges(y.len() / columns, WEIGHT * columns, parallel::rows(y, columns), |rows, y| {
        let x = &x[rows.start * columns..rows.end * columns];
        // As many rows as there is room for, or a row part by part.
        let (rows, part) = ((ROOM / columns).max(1), columns.min(ROOM));
        for (x, y) in x.chunks(rows * columns).zip(y.chunks_mut(rows * columns)) {
            for (i, (x, y)) in x.chunks(rows * part).zip(y.chunks_mut(rows * part)).enumerate() {
                let mut sums = [T::ZERO; ROOM];
                add_rows(x, &bias[i * part..columns.min((i + 1) * part)], &mut sums);
                forward_part(function, &sums[..x.len()], y);
            }
        }
    });
}

/// The place where the gradients of a few rows are made, and the sums that they are added to.
pub(super) struct Strip<'a, T: Float> {
    /// The place of the first row's first element.
    start: usize,
    /// Elements of a row.
    columns: usize,
    /// The columns that are summed.
    block: Range<usize>,
    /// The rows, whole.
    dy: &'a mut [T],
    sums: &'a mut [T::Acc; COLUMNS],
}

/// Makes the gradient of a rectifier from its output.
pub(super) fn mask<T: Float>(rectifier: Rectifier, y: &[T], strip: Strip<'_, T>) {
    let Strip { start, columns, block, dy, sums } = strip;
    let y = &y[start..start + dy.len()];
    match rectifier {
        Rectifier::Relu => mask_rows(y, columns, block, passes_relu, dy, sums),
        Rectifier::Relu6 => mask_rows(y, columns, block, passes_relu6, dy, sums),
    }
}

/// Multiplies by the derivative at `x + bias`.
pub(super) fn slope<T: Float>(function: ActivationFunction, x: &[T], bias: &[T], strip: Strip<'_, T>) {
    let Strip { start, columns, block, dy, sums } = strip;
    let (x, bias) = (&x[start..start + dy.len()], &bias[block.clone()]);
    // As many rows as there is room for.
    let rows = ROOM / block.len() * columns;
    for (x, dy) in x.chunks(rows).zip(dy.chunks_mut(rows)) {
        let (mut at, mut gradients) = ([T::ZERO; ROOM], [T::ZERO; ROOM]);
        let count = x.len() / columns * block.len();
        gather(x, columns, block.clone(), &mut at);
        gather(dy, columns, block.clone(), &mut gradients);
        let mut added = [T::ZERO; ROOM];
        add_rows(&at[..count], bias, &mut added);
        gradient_part(function, &added[..count], &mut gradients[..count]);
        scatter(&gradients[..count], columns, block.clone(), dy, sums);
    }
}

/// Runs [`Fused::BiasGrad`](crate::backend::ops::Fused::BiasGrad): `change` makes the gradients of some columns of some rows and
/// adds them up. The sums are those of [`Linear::BiasGrad`](crate::backend::ops::Linear::BiasGrad).
pub(super) fn gradient<T: Float, W: Float<Acc = T::Acc>>(
    accumulate: bool,
    columns: usize,
    dy: &mut [T],
    db: &mut [W],
    change: impl Fn(Strip<'_, T>) + Sync,
) {
    let (rows, parts) = (dy.len() / columns, parts_of(dy.len()));
    for start in (0..columns).step_by(COLUMNS) {
        let count = COLUMNS.min(columns - start);
        let mut sums = [[T::Acc::ZERO; COLUMNS]; PARTS];
        let first = |p: usize| p * rows / parts * columns;
        let of = (parallel::rows(&mut sums, 1), parallel::parts(dy, &first));
        parallel::pieces(parts, parts > 1, of, |p, (sums, dy)| {
            change(Strip { start: first(p), columns, block: start..start + count, dy, sums: &mut sums[0] });
        });
        for (j, db) in db.iter_mut().skip(start).take(count).enumerate() {
            let before = if accumulate { db.up() } else { T::Acc::ZERO };
            *db = W::down(sums[..parts].iter().fold(before, |sum, part| sum + part[j]));
        }
    }
}

/// The columns of a block, row after row.
fn gather<T: Float>(rows: &[T], columns: usize, block: Range<usize>, to: &mut [T]) {
    for (row, to) in rows.chunks_exact(columns).zip(to.chunks_exact_mut(block.len())) {
        to.copy_from_slice(&row[block.clone()]);
    }
}

simd! {
    fn rectified_rows [T: Float] (bias: &[T], rectify: impl Fn(T) -> T + Copy, y: &mut [T]) {
        for row in y.chunks_exact_mut(bias.len()) {
            for (y, b) in row.iter_mut().zip(bias) {
                *y = rectify(T::down(y.up() + b.up()));
            }
        }
    }

    fn add_rows [T: Float] (x: &[T], bias: &[T], sums: &mut [T]) {
        for (x, sums) in x.chunks(bias.len()).zip(sums.chunks_mut(bias.len())) {
            for ((x, b), sum) in x.iter().zip(bias).zip(sums) {
                *sum = T::down(x.up() + b.up());
            }
        }
    }

    fn mask_rows [T: Float] (
        y: &[T], columns: usize, block: Range<usize>, passes: impl Fn(T, T) -> T + Copy, dy: &mut [T],
        sums: &mut [T::Acc; COLUMNS],
    ) {
        let rows = y.chunks_exact(columns).zip(dy.chunks_exact_mut(columns));
        // Blocks have the whole width if possible, so that the sums stay in registers.
        if block.len() == COLUMNS {
            for (y, dy) in rows {
                let (y, dy) = (&y[block.start..block.start + COLUMNS], &mut dy[block.start..block.start + COLUMNS]);
                for ((y, dy), sum) in y.iter().zip(dy).zip(&mut *sums) {
                    *dy = passes(*y, *dy);
                    *sum += dy.up();
                }
            }
        } else {
            for (y, dy) in rows {
                for ((y, dy), sum) in y[block.clone()].iter().zip(&mut dy[block.clone()]).zip(&mut *sums) {
                    *dy = passes(*y, *dy);
                    *sum += dy.up();
                }
            }
        }
    }

    fn scatter [T: Float] (
        from: &[T], columns: usize, block: Range<usize>, rows: &mut [T], sums: &mut [T::Acc; COLUMNS],
    ) {
        for (from, row) in from.chunks_exact(block.len()).zip(rows.chunks_exact_mut(columns)) {
            for ((from, to), sum) in from.iter().zip(&mut row[block.clone()]).zip(&mut *sums) {
                *to = *from;
                *sum += from.up();
            }
        }
    }
}
