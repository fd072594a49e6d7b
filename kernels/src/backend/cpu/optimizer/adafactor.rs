//! Adafactor's update of a matrix by factored second moments, and of a vector (Shazeer & Stern 2018, "Adafactor: Adaptive
//! learning rates with sublinear memory cost", algorithms 4 and 5, with decay 1 - t^-0.8 and clipping at 1).
//!
//! It reads the gradient three times: for the means over rows and columns, for the size of the update, which the rule
//! clips, and for the step. Sums over columns are in f64, part by part. The extents alone decide the parts.

use super::write_copy;
use crate::backend::{
    cpu::{
        float::{Accumulator, Float},
        parallel::{self, Cut},
        scratch::Scratch,
        simd::simd,
    },
    ops::{Rows, Update, UpdateRule},
    scratch::on_cpu::row_parts,
};

/// Added to every square.
const EPSILON: f64 = UpdateRule::ADAFACTOR_EPSILON;
/// The largest root mean square of an update.
const CLIP: f64 = 1.0;
/// The most parts that a sum is cut into.
const PARTS: usize = 8;
/// Lanes of a sum.
const LANES: usize = 16;

/// One update.
pub(super) struct Adafactor<'a> {
    /// The weight as a matrix.
    pub(super) extents: Rows,
    /// Updates, this one included.
    pub(super) step: u64,
    /// Rate, decay and scale.
    pub(super) update: &'a Update,
}

impl Adafactor<'_> {
    /// Updates a matrix with its means of squares over rows and over columns.
    pub(super) fn matrix<W: Float, G: Float<Acc = W::Acc>, C: Float<Acc = W::Acc>>(
        &self,
        grad: &[G],
        weight: &mut [W],
        [row_means, column_means]: [&mut [W::Acc]; 2],
        copy: Option<&mut [C]>,
    ) {
        let Rows { rows, columns } = self.extents;
        self.means(grad, row_means, column_means);
        let mut scales = Scratch::<W::Acc>::new(columns);
        for (scale, mean) in scales.elements().iter_mut().zip(&*column_means) {
            *scale = W::Acc::from_f64(1.0 / mean.to_f64().sqrt());
        }
        let (scales, row_means) = (&*scales.elements(), &*row_means);
        let mean = row_means.iter().map(|r| r.to_f64()).sum::<f64>() / rows as f64;
        // The squares of `grad / sqrt(v)`, but for the scale of the gradient.
        let parts = row_parts(&self.extents);
        let squares = by_parts(parts, (), |p, ()| {
            let part = p * rows / parts..(p + 1) * rows / parts;
            let grad = &grad[part.start * columns..part.end * columns];
            let rows = grad.chunks_exact(columns).zip(&row_means[part]);
            rows.map(|(grad, row)| mean / row.to_f64() * scaled_squares::<G>(grad, scales)).sum()
        });
        let factor = self.factor(squares) * mean.sqrt();
        let decay = self.decay::<W::Acc>();
        let of = (parallel::rows(weight, columns), copy.map(|copy| parallel::rows(copy, columns)));
        parallel::ranges(rows, columns, of, |rows, (weight, copy)| {
            let grads = grad[rows.start * columns..rows.end * columns].chunks_exact(columns);
            for ((weight, grad), row) in weight.chunks_exact_mut(columns).zip(grads).zip(&row_means[rows]) {
                step_row(W::Acc::from_f64(factor / row.to_f64().sqrt()), decay, grad, scales, weight);
            }
            if let Some(copy) = copy {
                write_copy(weight, copy);
            }
        });
    }

    /// Updates a vector with its second moment.
    pub(super) fn vector<W: Float, G: Float<Acc = W::Acc>, C: Float<Acc = W::Acc>>(
        &self,
        grad: &[G],
        weight: &mut [W],
        second: &mut [W::Acc],
        copy: Option<&mut [C]>,
    ) {
        let length = grad.len();
        let parts = if length < 2 * parallel::GRAIN { 1 } else { PARTS };
        let (keep, take) = self.shares();
        let scale = self.update.grad_scale * self.update.grad_scale;
        let constants = [keep, take * scale, take * EPSILON].map(W::Acc::from_f64);
        let bound = |p: usize| p * length / parts;
        let squares = by_parts(parts, parallel::parts(second, &bound), |p, second| {
            moments(constants, &grad[bound(p)..bound(p + 1)], second)
        });
        let second = &*second;
        let (factor, decay) = (W::Acc::from_f64(self.factor(squares)), self.decay::<W::Acc>());
        let of = (parallel::rows(weight, 1), copy.map(|copy| parallel::rows(copy, 1)));
        parallel::ranges(length, 1, of, |range, (weight, copy)| {
            step_vector(factor, decay, &grad[range.clone()], &second[range], weight);
            if let Some(copy) = copy {
                write_copy(weight, copy);
            }
        });
    }

    /// Moves the means of squares.
    fn means<G: Float>(&self, grad: &[G], row_means: &mut [G::Acc], column_means: &mut [G::Acc]) {
        let Rows { rows, columns } = self.extents;
        let parts = row_parts(&self.extents);
        let mut room = Scratch::<f64>::new(UpdateRule::adafactor_sums(&self.extents));
        let (keep, take) = self.shares();
        let scale = self.update.grad_scale * self.update.grad_scale;
        let moved = |before: G::Acc, sum: f64, count: usize| {
            G::Acc::from_f64(keep * before.to_f64() + take * (sum * scale / count as f64 + EPSILON))
        };
        let bound = |p: usize| p * rows / parts;
        let of = (parallel::rows(room.elements(), columns), parallel::parts(row_means, &bound));
        parallel::pieces(parts, parts > 1, of, |p, (sums, means)| {
            sums.fill(0.0);
            let grad = &grad[bound(p) * columns..bound(p + 1) * columns];
            for (grad, mean) in grad.chunks_exact(columns).zip(means) {
                *mean = moved(*mean, squares(grad, sums), columns);
            }
        });
        let sums = &*room.elements();
        for (j, mean) in column_means.iter_mut().enumerate() {
            let sum = (0..parts).map(|p| sums[p * columns + j]).sum();
            *mean = moved(*mean, sum, rows);
        }
    }

    /// The share of a mean that stays, and the share of a new square.
    fn shares(&self) -> (f64, f64) {
        let take = UpdateRule::adafactor_take(self.step);
        (1.0 - take, take)
    }

    /// The factor of `grad / sqrt(v)`, given its sum of squares.
    fn factor(&self, squares: f64) -> f64 {
        let Update { rate, grad_scale, .. } = *self.update;
        let count = (self.extents.rows * self.extents.columns) as f64;
        rate * grad_scale / ((squares / count).sqrt() * grad_scale.abs() / CLIP).max(1.0)
    }

    /// The factor of a weight by decoupled decay.
    fn decay<A: Accumulator>(&self) -> A {
        A::from_f64(1.0 - self.update.rate * self.update.weight_decay)
    }
}

/// The sum of `of` over at most [`PARTS`] parts, in their order.
fn by_parts<C: Cut>(parts: usize, of: C, sum: impl Fn(usize, C::Part) -> f64 + Sync) -> f64 {
    let mut sums = [0.0; PARTS];
    parallel::pieces(parts, parts > 1, (parallel::rows(&mut sums, 1), of), |p, (to, part)| to[0] = sum(p, part));
    sums.iter().sum()
}

simd! {
    /// Adds the squares of a row to `sums`, column by column, and gives their sum.
    fn squares [G: Float] (grad: &[G], sums: &mut [f64]) -> f64 {
        let ((grad, grad_rest), (sums, sums_rest)) = (grad.as_chunks::<LANES>(), sums.as_chunks_mut::<LANES>());
        let mut lanes = [0.0; LANES];
        for (grad, sums) in grad.iter().zip(sums) {
            for j in 0..LANES {
                let g = grad[j].to_f64();
                sums[j] += g * g;
                lanes[j] += g * g;
            }
        }
        let mut total = lanes.iter().sum();
        for (g, sum) in grad_rest.iter().zip(sums_rest) {
            let g = g.to_f64();
            *sum += g * g;
            total += g * g;
        }
        total
    }

    /// The sum of squares of a row times its columns' scales.
    fn scaled_squares [G: Float] (grad: &[G], scales: &[G::Acc]) -> f64 {
        let ((grad, grad_rest), (scales, scales_rest)) = (grad.as_chunks::<LANES>(), scales.as_chunks::<LANES>());
        let mut lanes = [0.0; LANES];
        for (grad, scales) in grad.iter().zip(scales) {
            for j in 0..LANES {
                let u = (grad[j].up() * scales[j]).to_f64();
                lanes[j] += u * u;
            }
        }
        let rest = grad_rest.iter().zip(scales_rest).map(|(g, scale)| (g.up() * *scale).to_f64()).map(|u| u * u);
        lanes.iter().sum::<f64>() + rest.sum::<f64>()
    }

    fn step_row [W: Float, G: Float<Acc = W::Acc>] (
        factor: W::Acc, decay: W::Acc, grad: &[G], scales: &[W::Acc], weight: &mut [W],
    ) {
        for ((w, g), scale) in weight.iter_mut().zip(grad).zip(scales) {
            *w = W::down(decay * w.up() - factor * (*scale * g.up()));
        }
    }

    /// Moves a vector's second moment, and gives the sum of squares of the gradient by its root.
    fn moments [G: Float] (constants: [G::Acc; 3], grad: &[G], second: &mut [G::Acc]) -> f64 {
        let [keep, take, epsilon] = constants;
        let mut sum = 0.0;
        for (v, g) in second.iter_mut().zip(grad) {
            let g = g.up();
            *v = keep * *v + (take * (g * g) + epsilon);
            sum += g.to_f64() * g.to_f64() / v.to_f64();
        }
        sum
    }

    fn step_vector [W: Float, G: Float<Acc = W::Acc>] (
        factor: W::Acc, decay: W::Acc, grad: &[G], second: &[W::Acc], weight: &mut [W],
    ) {
        for ((w, g), v) in weight.iter_mut().zip(grad).zip(second) {
            *w = W::down(decay * w.up() - factor * g.up() / v.sqrt());
        }
    }
}
