//! APOLLO-Mini's update of a matrix (Zhu et al. 2024, "APOLLO: SGD-like memory, AdamW-level performance"): along the
//! gradient, as far as AdamW would go in a random direction of it.
//!
//! It reads the gradient twice: for its part in the direction and its norm, and for the step. The direction is drawn again
//! at every update from a key, so no state holds it. Sums are in f64, part by part. The extents alone decide the parts.

use super::write_copy;
use crate::{
    backend::{
        cpu::{
            float::{Accumulator, Float},
            parallel,
            scratch::Scratch,
            simd::simd,
        },
        ops::{Moments, Rows, Update, UpdateRule},
        scratch::on_cpu::row_parts,
    },
    rng::Rng,
};

/// The most parts that a sum is cut into.
const PARTS: usize = 8;
/// Lanes of a sum.
const LANES: usize = 16;

/// One update.
pub(super) struct ApolloMini<'a> {
    /// The weight as a matrix.
    pub(super) extents: Rows,
    /// The constants of the two moments.
    pub(super) moments: Moments,
    /// The key from which the direction is drawn.
    pub(super) key: u64,
    /// Rate, decay and scale.
    pub(super) update: &'a Update,
}

impl ApolloMini<'_> {
    /// Makes the update. `states`: both moments of the gradient's part in the direction, and the norm of the last step, without
    /// the rate.
    pub(super) fn step<W: Float, G: Float<Acc = W::Acc>, C: Float<Acc = W::Acc>>(
        &self,
        grad: &[G],
        weight: &mut [W],
        [first, second, norm]: [&mut [W::Acc]; 3],
        copy: Option<&mut [C]>,
    ) {
        let Rows { rows, columns } = self.extents;
        let mut room = Scratch::<f64>::new(UpdateRule::apollo_sums(&self.extents));
        let (direction, sums) = room.elements().split_at_mut(rows.min(columns));
        let rng = Rng::from_key(self.key);
        (0..).zip(&mut *direction).for_each(|(i, p)| *p = rng.normal(i));
        let squares =
            if rows > columns { self.by_row(grad, direction, sums) } else { self.by_column(grad, direction, sums) };
        let share = self.adapted(&sums[..rows.max(columns)], first, second);
        let update = self.update;
        let size = share * squares.sqrt() * update.grad_scale.abs();
        let limited = UpdateRule::limited_norm(size, norm[0].to_f64());
        norm[0] = W::Acc::from_f64(limited);
        let scale = share * if size > 0.0 { limited / size } else { 1.0 };
        let factor = update.rate * UpdateRule::APOLLO_SCALE * update.grad_scale * scale;
        let [factor, decay] = [factor, 1.0 - update.rate * update.weight_decay].map(W::Acc::from_f64);
        let of = (parallel::rows(weight, 1), copy.map(|copy| parallel::rows(copy, 1)));
        parallel::ranges(rows * columns, 1, of, |range, (weight, copy)| {
            along(factor, decay, &grad[range], weight);
            if let Some(copy) = copy {
                write_copy(weight, copy);
            }
        });
    }

    /// For a matrix with few columns: writes the sum of each row times `direction` to `sums`. Returns the sum of squares.
    fn by_row<G: Float>(&self, grad: &[G], direction: &[f64], sums: &mut [f64]) -> f64 {
        let Rows { rows, columns } = self.extents;
        let parts = if rows * columns < 2 * parallel::GRAIN { 1 } else { PARTS.min(rows) };
        let bound = |p: usize| p * rows / parts;
        let mut squares = [0.0; PARTS];
        let of = (parallel::rows(&mut squares, 1), parallel::parts(sums, &bound));
        parallel::pieces(parts, parts > 1, of, |p, (square, sums)| {
            let grads = grad[bound(p) * columns..bound(p + 1) * columns].chunks_exact(columns);
            for (grad, sum) in grads.zip(sums) {
                let (of_row, squares) = products(grad, direction);
                *sum = of_row;
                square[0] += squares;
            }
        });
        squares.iter().sum()
    }

    /// For a matrix with few rows: writes the sum of each column times `direction` to the first of `sums`. Returns the sum of
    /// squares.
    fn by_column<G: Float>(&self, grad: &[G], direction: &[f64], sums: &mut [f64]) -> f64 {
        let Rows { rows, columns } = self.extents;
        let parts = row_parts(&self.extents);
        let bound = |p: usize| p * rows / parts;
        let mut squares = [0.0; PARTS];
        let of = (parallel::rows(&mut squares, 1), parallel::rows(sums, columns));
        parallel::pieces(parts, parts > 1, of, |p, (square, sums)| {
            sums.fill(0.0);
            let grads = grad[bound(p) * columns..bound(p + 1) * columns].chunks_exact(columns);
            for (grad, along) in grads.zip(&direction[bound(p)..]) {
                square[0] += add_row(*along, grad, sums);
            }
        });
        let (first, others) = sums.split_at_mut(columns);
        for other in others.chunks_exact(columns) {
            first.iter_mut().zip(other).for_each(|(sum, part)| *sum += part);
        }
        squares.iter().sum()
    }

    /// Moves the moments. Returns the norm of AdamW's step in the direction over the norm of the gradient there.
    fn adapted<A: Accumulator>(&self, sums: &[f64], first: &mut [A], second: &mut [A]) -> f64 {
        let Moments { beta1, beta2, .. } = self.moments;
        // With a rate of one, for the correction of the moments' bias.
        let constants = Update { rate: 1.0, ..*self.update }.adam(&self.moments, true);
        let (mut steps, mut parts) = (0.0, 0.0);
        for ((sum, m), v) in sums.iter().zip(first).zip(second) {
            let r = self.update.grad_scale * sum;
            *m = A::from_f64(beta1 * m.to_f64() + (1.0 - beta1) * r);
            *v = A::from_f64(beta2 * v.to_f64() + (1.0 - beta2) * (r * r));
            let step = constants.rate * m.to_f64() / (v.to_f64().sqrt() + constants.epsilon);
            steps += step * step;
            parts += r * r;
        }
        steps.sqrt() / (parts.sqrt() + UpdateRule::APOLLO_EPSILON)
    }
}

simd! {
    /// The sum of a row times `direction`, and of its squares.
    fn products [G: Float] (grad: &[G], direction: &[f64]) -> (f64, f64) {
        let ((grad, grad_rest), (along, along_rest)) = (grad.as_chunks::<LANES>(), direction.as_chunks::<LANES>());
        let (mut sums, mut squares) = ([0.0; LANES], [0.0; LANES]);
        for (grad, along) in grad.iter().zip(along) {
            for j in 0..LANES {
                let g = grad[j].to_f64();
                sums[j] += g * along[j];
                squares[j] += g * g;
            }
        }
        let (mut sum, mut square) = (sums.iter().sum::<f64>(), squares.iter().sum::<f64>());
        for (g, along) in grad_rest.iter().zip(along_rest) {
            let g = g.to_f64();
            sum += g * along;
            square += g * g;
        }
        (sum, square)
    }

    /// Adds a row times `along` to `sums`, and gives the sum of its squares.
    fn add_row [G: Float] (along: f64, grad: &[G], sums: &mut [f64]) -> f64 {
        let ((grad, grad_rest), (sums, sums_rest)) = (grad.as_chunks::<LANES>(), sums.as_chunks_mut::<LANES>());
        let mut squares = [0.0; LANES];
        for (grad, sums) in grad.iter().zip(sums) {
            for j in 0..LANES {
                let g = grad[j].to_f64();
                sums[j] += g * along;
                squares[j] += g * g;
            }
        }
        let mut square = squares.iter().sum::<f64>();
        for (g, sum) in grad_rest.iter().zip(sums_rest) {
            let g = g.to_f64();
            *sum += g * along;
            square += g * g;
        }
        square
    }

    fn along [W: Float, G: Float<Acc = W::Acc>] (factor: W::Acc, decay: W::Acc, grad: &[G], weight: &mut [W]) {
        for (w, g) in weight.iter_mut().zip(grad) {
            *w = W::down(decay * w.up() - factor * g.up());
        }
    }
}
