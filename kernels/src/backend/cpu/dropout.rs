//! Dropout.

use super::{by_type::by_float, float::Float, operands::Operands, parallel, simd::simd};
use crate::{backend::ops::Dropout, error::Result, rng::Rng};

/// Runs the kernel.
pub(super) fn launch(kernel: &Dropout, o: &Operands<'_>) -> Result<()> {
    by_float!(o.output_type(0), T => {
        dropout::<T>(kernel.probability, kernel.key, &mut o.output(0)?);
        Ok(())
    }, else o.unsupported())
}

/// An element's arithmetic in streamed elements.
const WEIGHT: usize = 4;

/// Runs [`Dropout`](crate::backend::ops::Dropout).
fn dropout<T: Float>(probability: f64, key: u64, y: &mut [T]) {
    // The probability as a bound of 64 random bits.
    let bound = (probability * 2f64.powi(64)) as u64;
    let scale = T::Acc::from_f64(1.0 / (1.0 - probability));
    parallel::ranges(y.len(), WEIGHT, parallel::rows(y, 1), |range, y| {
        drop_part(Rng::from_key(key), bound, scale, range.start as u64, y);
    });
}

simd! {
    fn drop_part [T: Float] (rng: Rng, bound: u64, scale: T::Acc, start: u64, y: &mut [T]) {
        for (i, y) in (start..).zip(y) {
            let kept = T::down(y.up() * scale);
            *y = if rng.bits(i) < bound { T::ZERO } else { kept };
        }
    }
}
