//! Norms: the sum of squares, the factor that clips all gradients by it, and a tensor brought to a norm of one.

use crate::backend::cpu::{float::Float, parallel, simd::simd};

/// Runs [`Optimizer::SumSquares`](crate::backend::ops::Optimizer::SumSquares).
pub(super) fn sum_squares<T: Float>(x: &[T], sum: &mut [f64]) {
    const PARTS: usize = 32;
    let parts = if x.len() < parallel::GRAIN { 1 } else { PARTS };
    let mut sums = [0.0; PARTS];
    parallel::pieces(parts, parts > 1, parallel::rows(&mut sums, 1), |p, sum| {
        sum[0] = sum_squares_part(&x[p * x.len() / parts..(p + 1) * x.len() / parts]);
    });
    sum[0] += sums[..parts].iter().sum::<f64>();
}

/// Runs [`Optimizer::Clip`](crate::backend::ops::Optimizer::Clip).
pub(super) fn factor(limit: f64, squares: f64) -> f64 {
    let norm = squares.sqrt();
    if norm > limit { limit / norm } else { 1.0 }
}

/// `x *= factor`: [`Optimizer::Normalise`](crate::backend::ops::Optimizer::Normalise).
pub(super) fn scale<T: Float>(factor: f64, x: &mut [T]) {
    parallel::each(x, |_, x| scale_part(T::Acc::from_f64(factor), x));
}

simd! {
    fn scale_part [T: Float] (factor: T::Acc, x: &mut [T]) {
        for x in x {
            *x = T::down(x.up() * factor);
        }
    }

    fn sum_squares_part [T: Float] (x: &[T]) -> f64 {
        // Sixteen sums side by side, in f64: the square of any f32 is finite there, so the sum is not finite only if an
        // element is not.
        let mut sums = [0.0; 16];
        let blocks = x.chunks_exact(16);
        let rest = blocks.remainder();
        for block in blocks {
            for (sum, x) in sums.iter_mut().zip(block) {
                let x = x.to_f64();
                *sum += x * x;
            }
        }
        let rest: f64 = rest.iter().map(|x| x.to_f64() * x.to_f64()).sum();
        sums.iter().sum::<f64>() + rest
    }
}
