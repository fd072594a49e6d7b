//! Rotary embedding of queries and keys (Su et al. 2021), with the pairs of Llama.

use super::{by_type::by_float, operands::Operands};
use super::{float::Float, matrix::MatMut, parallel, scratch::Scratch, simd::simd};
use crate::backend::AttentionShape;
use crate::backend::ops::Rotary;
use crate::backend::scratch::on_cpu;
use crate::error::Result;

/// Runs the kernel.
pub(super) fn launch(kernel: &Rotary, o: &Operands<'_>) -> Result<()> {
    by_float!(o.output_type(0), T => {
        rotate::<T>(kernel, &mut o.output(0)?);
        Ok(())
    }, else o.unsupported())
}

/// Positions from one exact angle to the next. In between, each angle is the one before, rotated by a step.
const EXACT: usize = 32;

/// A position's angles: the sine and cosine of every pair, and of its step.
struct Angles {
    room: Scratch<f64>,
    half: usize,
    base: f64,
    sign: f64,
}

impl Angles {
    fn new(s: &AttentionShape, base: f64, is_inverse: bool) -> Self {
        let half = s.head_dim / 2;
        Self { room: Scratch::new(on_cpu::rotary_angles(s)), half, base, sign: if is_inverse { -1.0 } else { 1.0 } }
    }

    /// The rotation of pair `i` from one position to the next.
    fn step(&self, i: usize) -> f64 {
        self.sign * self.base.powf(-(i as f64) / self.half as f64)
    }

    /// Sets sines and cosines to those of `position`.
    fn set(&mut self, position: usize) {
        for i in 0..self.half {
            let step = self.step(i);
            let ((sin, cos), (step_sin, step_cos)) = ((position as f64 * step).sin_cos(), step.sin_cos());
            for (j, value) in [sin, cos, step_sin, step_cos].into_iter().enumerate() {
                self.room.elements()[j * self.half + i] = value;
            }
        }
    }

    /// Moves to `position`, from the one before.
    fn advance(&mut self, position: usize) {
        if position.is_multiple_of(EXACT) {
            return self.set(position);
        }
        let (now, steps) = self.room.elements().split_at_mut(2 * self.half);
        let (sines, cosines) = now.split_at_mut(self.half);
        let (step_sines, step_cosines) = steps.split_at(self.half);
        for (((sin, cos), step_sin), step_cos) in sines.iter_mut().zip(cosines).zip(step_sines).zip(step_cosines) {
            (*sin, *cos) = (*sin * step_cos + *cos * step_sin, *cos * step_cos - *sin * step_sin);
        }
    }
}

/// [`Rotary`](crate::backend::ops::Rotary).
fn rotate<T: Float>(kernel: &Rotary, qkv: &mut [T]) {
    let Rotary { shape: s, first: offset, base, is_inverse } = kernel;
    let packed = s.packed();
    let turned = (s.heads + s.kv_heads) * s.head_dim;
    // A row of this is a sequence, a part of it some positions of every sequence.
    let qkv = MatMut::new(qkv, [s.batch, s.length * packed], s.length * packed);
    parallel::ranges(s.length, on_cpu::rotated(s), qkv.by_columns(packed), |positions, mut qkv| {
        let mut angles = Angles::new(s, *base, *is_inverse);
        // From the last exact angle on, so that an angle does not depend on the division of the work.
        let [start, end] = [positions.start, positions.end].map(|row| offset + row);
        for position in start / EXACT * EXACT..end {
            angles.advance(position);
            for sequence in 0..if position < start { 0 } else { s.batch } {
                let row = &mut qkv.row(sequence)[(position - start) * packed..][..turned];
                turn_row(&angles.room.elements()[..2 * angles.half], row);
            }
        }
    });
}

simd! {
    /// Rotates the heads of a row by the `angles`, sines first.
    fn turn_row [T: Float] (angles: &[f64], row: &mut [T]) {
        let (sines, cosines) = angles.split_at(angles.len() / 2);
        for head in row.chunks_exact_mut(angles.len()) {
            let (first, second) = head.split_at_mut(sines.len());
            for (((a, b), sin), cos) in first.iter_mut().zip(second).zip(sines).zip(cosines) {
                let (x, y) = (a.up(), b.up());
                let (sin, cos) = (T::Acc::from_f64(*sin), T::Acc::from_f64(*cos));
                *a = T::down(x * cos - y * sin);
                *b = T::down(x * sin + y * cos);
            }
        }
    }
}
