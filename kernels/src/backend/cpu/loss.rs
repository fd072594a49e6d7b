//! Softmax cross entropy and its gradient, row by row; squared errors and theirs.
//!
//! Refuses a label outside the classes before it writes anything. A row with the label [`IGNORE_INDEX`] counts in neither
//! loss nor accuracy.

mod distil;

use super::by_type::by_float;
use super::operands::Operands;
use super::{
    float::{Accumulator, Float},
    lanes::{largest, sum},
    parallel,
    simd::simd,
};
use crate::backend::ops::Loss;
use crate::backend::{DType, IGNORE_INDEX};
use crate::error::Result;

/// Runs a kernel of this family.
pub(super) fn launch(kernel: &Loss, o: &Operands<'_>) -> Result<()> {
    match kernel {
        Loss::CrossEntropy { classes } => by_float!(o.input_type(0), T => {
            cross_entropy::<T>(*classes, &o.input(0)?, &o.labels(1, *classes)?, &mut o.output(0)?);
            Ok(())
        }, else o.unsupported()),
        Loss::CrossEntropyGrad { classes, scale } => by_float!(o.output_type(0), T => {
            cross_entropy_gradient::<T>(*classes, *scale, &o.labels(0, *classes)?, &mut o.output(0)?);
            Ok(())
        }, else o.unsupported()),
        Loss::Distil { classes, lesson } => by_float!(o.input_type(0), T => {
            let labels = o.labels(2, *classes)?;
            distil::loss::<T>(*classes, *lesson, [&o.input(0)?, &o.input(1)?], &labels, &mut o.output(0)?);
            Ok(())
        }, else o.unsupported()),
        Loss::DistilGrad { classes, lesson, scale } => by_float!(o.output_type(0), T => {
            let labels = o.labels(1, *classes)?;
            distil::gradient::<T>(*classes, *lesson, *scale, &o.input(0)?, &labels, &mut o.output(0)?);
            Ok(())
        }, else o.unsupported()),
        Loss::SquaredError => by_float!(o.input_type(0), T => {
            match o.input_type(1) {
                DType::F64 => squared_error::<T, f64>(&o.input(0)?, &o.input(1)?, &mut o.output(0)?),
                DType::F32 => squared_error::<T, f32>(&o.input(0)?, &o.input(1)?, &mut o.output(0)?),
                DType::Bf16 | DType::F16 | DType::U32 | DType::U8 => return o.unsupported(),
            }
            Ok(())
        }, else o.unsupported()),
        Loss::SquaredErrorGrad { scale } => by_float!(o.output_type(0), T => {
            match o.input_type(0) {
                DType::F64 => squared_error_gradient::<T, f64>(*scale, &o.input(0)?, &mut o.output(0)?),
                DType::F32 => squared_error_gradient::<T, f32>(*scale, &o.input(0)?, &mut o.output(0)?),
                DType::Bf16 | DType::F16 | DType::U32 | DType::U8 => return o.unsupported(),
            }
            Ok(())
        }, else o.unsupported()),
    }
}

/// Runs [`Loss::SquaredError`](crate::backend::ops::Loss::SquaredError). A value a row is little work: one thread does it.
fn squared_error<T: Float, L: Copy + Into<f64>>(values: &[T], labels: &[L], stats: &mut [f64]) {
    for (value, label) in values.iter().zip(labels) {
        let error = value.up().to_f64() - (*label).into();
        stats[0] += error * error;
        stats[1] += error.abs();
    }
}

/// Runs [`Loss::SquaredErrorGrad`](crate::backend::ops::Loss::SquaredErrorGrad).
fn squared_error_gradient<T: Float, L: Copy + Into<f64>>(scale: f64, labels: &[L], values: &mut [T]) {
    for (value, label) in values.iter_mut().zip(labels) {
        let error = value.up().to_f64() - (*label).into();
        *value = T::down(T::Acc::from_f64(2.0 * scale * error));
    }
}

/// Parts of the rows whose statistics are summed apart.
const PARTS: usize = 32;
/// An element's arithmetic in streamed elements.
const WEIGHT: usize = 4;

/// Runs [`Loss::CrossEntropy`](crate::backend::ops::Loss::CrossEntropy).
fn cross_entropy<T: Float>(classes: usize, logits: &[T], labels: &[u32], stats: &mut [f64]) {
    let rows = labels.len();
    let columns = logits.len() / rows.max(1);
    let parts = if logits.len() * WEIGHT < parallel::GRAIN { 1 } else { PARTS };
    let mut sums = [[0.0; 2]; PARTS];
    parallel::pieces(parts, parts > 1, parallel::rows(&mut sums, 1), |p, sums| {
        let rows = p * rows / parts..(p + 1) * rows / parts;
        let logits = &logits[rows.start * columns..rows.end * columns];
        sums[0] = loss_rows(columns, classes, logits, &labels[rows]);
    });
    for part in &sums[..parts] {
        stats[0] += part[0];
        stats[1] += part[1];
    }
}

/// Runs [`Loss::CrossEntropyGrad`](crate::backend::ops::Loss::CrossEntropyGrad).
fn cross_entropy_gradient<T: Float>(classes: usize, scale: f64, labels: &[u32], logits: &mut [T]) {
    let rows = labels.len();
    let columns = logits.len() / rows.max(1);
    parallel::ranges(rows, columns * WEIGHT, parallel::rows(logits, columns), |rows, logits| {
        gradient_rows(T::Acc::from_f64(scale), columns, classes, &labels[rows], logits);
    });
}

simd! {
    /// The loss summed over the rows, and how many are right.
    fn loss_rows [T: Float] (columns: usize, classes: usize, logits: &[T], labels: &[u32]) -> [f64; 2] {
        let mut sums = [0.0; 2];
        for (row, label) in logits.chunks_exact(columns).zip(labels) {
            let row = &row[..classes];
            if *label == IGNORE_INDEX {
                continue;
            }
            let (max, label) = (largest(row), *label as usize);
            let total = sum(row, |x| (x - max).exp()).to_f64();
            sums[0] += total.ln() - (row[label].up() - max).to_f64();
            // The first of equal values; a NaN anywhere shows in the sum.
            let is_right = row[label].up() == max && row[..label].iter().all(|x| x.up() < max) && !total.is_nan();
            sums[1] += f64::from(u8::from(is_right));
        }
        sums
    }

    fn gradient_rows [T: Float] (
        scale: T::Acc,
        columns: usize,
        classes: usize,
        labels: &[u32],
        logits: &mut [T],
    ) {
        for (row, label) in logits.chunks_exact_mut(columns).zip(labels) {
            let (row, behind) = row.split_at_mut(classes);
            behind.fill(T::ZERO);
            if *label == IGNORE_INDEX {
                row.fill(T::ZERO);
                continue;
            }
            let (max, label) = (largest(row), *label as usize);
            let total = sum(row, |x| (x - max).exp());
            let (factor, of_label) = (scale / total, (row[label].up() - max).exp() / total - T::Acc::ONE);
            for x in &mut *row {
                *x = T::down(factor * (x.up() - max).exp());
            }
            row[label] = T::down(scale * of_label);
        }
    }
}
