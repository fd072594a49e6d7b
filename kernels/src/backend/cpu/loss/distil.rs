//! The loss by labels and by a teacher's answers, and its gradient, row by row.
//!
//! A row is read a few times: for the largest logit, for the sums of exponentials at temperature one and at the lesson's,
//! and for the differences. A row with the label [`IGNORE_INDEX`] counts in neither loss nor accuracy.

use super::{
    super::{
        float::{Accumulator, Float},
        lanes::{LANES, largest, sum},
        parallel,
        simd::simd,
    },
    PARTS,
};
use crate::backend::{IGNORE_INDEX, ops::Lesson};

/// An element's arithmetic in streamed elements.
const WEIGHT: usize = 12;

/// Runs [`Loss::Distil`](crate::backend::ops::Loss::Distil).
pub(super) fn loss<T: Float>(
    classes: usize,
    lesson: Lesson,
    [logits, taught]: [&[T]; 2],
    labels: &[u32],
    stats: &mut [f64],
) {
    let rows = labels.len();
    let [columns, of_taught] = [logits, taught].map(|all| all.len() / rows.max(1));
    let parts = if logits.len() * WEIGHT < parallel::GRAIN { 1 } else { PARTS };
    let mut sums = [[0.0; 2]; PARTS];
    parallel::pieces(parts, parts > 1, parallel::rows(&mut sums, 1), |p, sums| {
        let rows = p * rows / parts..(p + 1) * rows / parts;
        let logits = &logits[rows.start * columns..rows.end * columns];
        let taught = &taught[rows.start * of_taught..rows.end * of_taught];
        sums[0] = loss_rows(columns, of_taught, classes, lesson, logits, taught, &labels[rows]);
    });
    for part in &sums[..parts] {
        stats[0] += part[0];
        stats[1] += part[1];
    }
}

/// Runs [`Loss::DistilGrad`](crate::backend::ops::Loss::DistilGrad).
pub(super) fn gradient<T: Float>(
    classes: usize,
    lesson: Lesson,
    scale: f64,
    taught: &[T],
    labels: &[u32],
    logits: &mut [T],
) {
    let rows = labels.len();
    let [columns, of_taught] = [logits.len(), taught.len()].map(|all| all / rows.max(1));
    parallel::ranges(rows, columns * WEIGHT, parallel::rows(logits, columns), |rows, logits| {
        let taught = &taught[rows.start * of_taught..rows.end * of_taught];
        gradient_rows(columns, of_taught, classes, lesson, scale, taught, &labels[rows], logits);
    });
}

simd! {
    /// The loss summed over the rows, and how many are right.
    fn loss_rows [T: Float] (
        columns: usize,
        of_taught: usize,
        classes: usize,
        lesson: Lesson,
        logits: &[T],
        taught: &[T],
        labels: &[u32],
    ) -> [f64; 2] {
        let Lesson { temperature, weight } = lesson;
        let cooler = T::Acc::from_f64(1.0 / temperature);
        let mut sums = [0.0; 2];
        for ((row, told), label) in logits.chunks_exact(columns).zip(taught.chunks_exact(of_taught)).zip(labels) {
            let (row, told) = (&row[..classes], &told[..classes]);
            if *label == IGNORE_INDEX {
                continue;
            }
            let (max, top, label) = (largest(row), largest(told), *label as usize);
            let total = sum(row, |x| (x - max).exp()).to_f64();
            let soft = sum(row, |x| ((x - max) * cooler).exp()).to_f64();
            let told_soft = sum(told, |x| ((x - top) * cooler).exp()).to_f64();
            // The mean of the logarithms' difference under the teacher's answers, less the logarithms of both sums.
            let mut lanes = [T::Acc::ZERO; LANES];
            for (at, (x, t)) in row.iter().zip(told).enumerate() {
                let (x, t) = ((x.up() - max) * cooler, (t.up() - top) * cooler);
                lanes[at % LANES] += t.exp() * (t - x);
            }
            let expected = lanes.iter().map(|lane| lane.to_f64()).sum::<f64>() / told_soft;
            let divergence = expected + soft.ln() - told_soft.ln();
            let by_label = total.ln() - (row[label].up() - max).to_f64();
            sums[0] += (1.0 - weight) * by_label + weight * temperature * temperature * divergence;
            // The first of equal values; a NaN anywhere shows in the sum.
            let is_right = row[label].up() == max && row[..label].iter().all(|x| x.up() < max) && !total.is_nan();
            sums[1] += f64::from(u8::from(is_right));
        }
        sums
    }

    fn gradient_rows [T: Float] (
        columns: usize,
        of_taught: usize,
        classes: usize,
        lesson: Lesson,
        scale: f64,
        taught: &[T],
        labels: &[u32],
        logits: &mut [T],
    ) {
        let Lesson { temperature, weight } = lesson;
        let cooler = T::Acc::from_f64(1.0 / temperature);
        let (by_label, by_teacher) = (
            T::Acc::from_f64(scale * (1.0 - weight)),
            T::Acc::from_f64(scale * weight * temperature),
        );
        for ((row, told), label) in logits.chunks_exact_mut(columns).zip(taught.chunks_exact(of_taught)).zip(labels) {
            let (row, behind) = row.split_at_mut(classes);
            let told = &told[..classes];
            behind.fill(T::ZERO);
            if *label == IGNORE_INDEX {
                row.fill(T::ZERO);
                continue;
            }
            let (max, top, label) = (largest(row), largest(told), *label as usize);
            let hard = by_label / sum(row, |x| (x - max).exp());
            let soft = by_teacher / sum(row, |x| ((x - max) * cooler).exp());
            let told_soft = by_teacher / sum(told, |x| ((x - top) * cooler).exp());
            // Before the row is written over.
            let of_label = row[label].up();
            let of_label = hard * (of_label - max).exp() - by_label + soft * ((of_label - max) * cooler).exp()
                - told_soft * ((told[label].up() - top) * cooler).exp();
            for (x, t) in row.iter_mut().zip(told) {
                let (own, t) = (x.up() - max, (t.up() - top) * cooler);
                *x = T::down(hard * own.exp() + soft * (own * cooler).exp() - told_soft * t.exp());
            }
            row[label] = T::down(of_label);
        }
    }
}
