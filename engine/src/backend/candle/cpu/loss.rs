//! Softmax cross entropy and its gradient, row by row.
//!
//! A label outside the classes is refused before anything is written.

use super::{
    float::{Accumulator, Float},
    parallel::{self, Shared},
};

/// Parts of the rows whose statistics are summed apart.
const PARTS: usize = 32;

/// The largest of a row, and the first place it is at; a NaN is larger than everything.
fn largest<T: Float>(row: &[T]) -> (usize, T::Acc) {
    let mut best = (0, row[0].up());
    for (i, x) in row.iter().enumerate().skip(1) {
        let x = x.up();
        if x > best.1 || (x.to_f64().is_nan() && !best.1.to_f64().is_nan()) {
            best = (i, x);
        }
    }
    best
}

/// [`Kernel::CrossEntropy`](crate::backend::Kernel::CrossEntropy).
pub(super) fn cross_entropy<T: Float>(logits: &[T], labels: &[u32], stats: &mut [f64]) {
    let rows = labels.len();
    let classes = logits.len() / rows.max(1);
    let parts = if logits.len() < parallel::GRAIN { 1 } else { PARTS };
    let mut sums = [[0.0; 2]; PARTS];
    let shared = Shared::new(&mut sums);
    parallel::pieces(parts, parts > 1, |p| {
        // SAFETY: every piece has its own.
        let sums = unsafe { &mut shared.part(p..p + 1)[0] };
        for row in p * rows / parts..(p + 1) * rows / parts {
            let (logits, label) = (&logits[row * classes..(row + 1) * classes], labels[row] as usize);
            let (place, max) = largest(logits);
            let total = logits.iter().fold(T::Acc::ZERO, |sum, x| sum + (x.up() - max).exp());
            sums[0] += total.to_f64().ln() - (logits[label].up() - max).to_f64();
            sums[1] += f64::from(u8::from(place == label && !max.to_f64().is_nan()));
        }
    });
    for part in &sums[..parts] {
        stats[0] += part[0];
        stats[1] += part[1];
    }
}

/// [`Kernel::CrossEntropyGrad`](crate::backend::Kernel::CrossEntropyGrad).
pub(super) fn cross_entropy_gradient<T: Float>(scale: f64, labels: &[u32], logits: &mut [T]) {
    let rows = labels.len();
    let classes = logits.len() / rows.max(1);
    let scale = T::Acc::from_f64(scale);
    let shared = Shared::new(logits);
    parallel::ranges(rows, classes, |rows| {
        // SAFETY: ranges of rows are disjoint.
        let logits = unsafe { shared.part(rows.start * classes..rows.end * classes) };
        for (row, label) in logits.chunks_exact_mut(classes).zip(&labels[rows]) {
            let (_, max) = largest(row);
            let total = row.iter().fold(T::Acc::ZERO, |sum, x| sum + (x.up() - max).exp());
            for (class, x) in row.iter_mut().enumerate() {
                let probability = (x.up() - max).exp() / total;
                let target = if class == *label as usize { T::Acc::ONE } else { T::Acc::ZERO };
                *x = T::down(scale * (probability - target));
            }
        }
    });
}
