//! Activation functions and their derivatives.

use super::by_type::by_float;
use super::operands::Operands;
use super::{
    float::{Accumulator, Float},
    parallel,
    simd::simd,
};
use crate::backend::ops::{Activation, ActivationFunction};
use crate::error::Result;

/// Runs a kernel of this family.
pub(super) fn launch(kernel: &Activation, o: &Operands<'_>) -> Result<()> {
    by_float!(o.output_type(0), T => typed::<T>(kernel, o), else o.unsupported())
}

fn typed<T: Float>(kernel: &Activation, o: &Operands<'_>) -> Result<()> {
    let mut y = o.output::<T>(0)?;
    match *kernel {
        Activation::Relu => relu(&mut y),
        Activation::ReluGrad => relu_gradient(&o.input::<T>(0)?, &mut y),
        Activation::Relu6 => relu6(&mut y),
        Activation::Relu6Grad => relu6_gradient(&o.input::<T>(0)?, &mut y),
        Activation::Apply(function) => forward(function, &o.input::<T>(0)?, &mut y),
        Activation::ApplyGrad(function) => gradient(function, &o.input::<T>(0)?, &mut y),
        Activation::SwiGlu { extents } => swiglu(extents.columns, &o.input::<T>(0)?, &mut y),
        Activation::SwiGluGrad { extents } => {
            swiglu_gradient(extents.columns, &o.input::<T>(0)?, &o.input::<T>(1)?, &mut y);
        }
    }
    Ok(())
}

/// Runs [`Activation::Relu`](crate::backend::ops::Activation::Relu).
fn relu<T: Float>(y: &mut [T]) {
    parallel::each(y, |_, y| relu_part(y));
}

/// Runs [`Activation::ReluGrad`](crate::backend::ops::Activation::ReluGrad). Where `y` is NaN the gradient passes, so that
/// it is not lost.
fn relu_gradient<T: Float>(y: &[T], dy: &mut [T]) {
    parallel::each(dy, |start, dy| relu_gradient_part(&y[start..start + dy.len()], dy));
}

/// Runs [`Activation::Relu6`](crate::backend::ops::Activation::Relu6).
fn relu6<T: Float>(y: &mut [T]) {
    parallel::each(y, |_, y| relu6_part(y));
}

/// Runs [`Activation::Relu6Grad`](crate::backend::ops::Activation::Relu6Grad). Where `y` is NaN the gradient passes, so that
/// it is not lost.
fn relu6_gradient<T: Float>(y: &[T], dy: &mut [T]) {
    parallel::each(dy, |start, dy| relu6_gradient_part(&y[start..start + dy.len()], dy));
}

/// Runs [`Activation::Apply`](crate::backend::ops::Activation::Apply).
pub(super) fn forward<T: Float>(function: ActivationFunction, x: &[T], y: &mut [T]) {
    parallel::ranges(y.len(), WEIGHT, parallel::rows(y, 1), |range, y| {
        forward_part(function, &x[range], y);
    });
}

/// The function of each of a few elements.
pub(super) fn forward_part<T: Float>(function: ActivationFunction, x: &[T], y: &mut [T]) {
    match function {
        ActivationFunction::GeluTanh => gelu_tanh(x, y),
        ActivationFunction::Gelu => gelu(x, y),
        ActivationFunction::Silu => silu(x, y),
        ActivationFunction::Mish => mish(x, y),
    }
}

/// Runs [`Activation::ApplyGrad`](crate::backend::ops::Activation::ApplyGrad).
pub(super) fn gradient<T: Float>(function: ActivationFunction, x: &[T], dy: &mut [T]) {
    parallel::ranges(dy.len(), WEIGHT, parallel::rows(dy, 1), |range, dy| {
        gradient_part(function, &x[range], dy);
    });
}

/// Multiplies a few elements by the function's derivative.
pub(super) fn gradient_part<T: Float>(function: ActivationFunction, x: &[T], dy: &mut [T]) {
    match function {
        ActivationFunction::GeluTanh => gelu_tanh_gradient(x, dy),
        ActivationFunction::Gelu => gelu_gradient(x, dy),
        ActivationFunction::Silu => silu_gradient(x, dy),
        ActivationFunction::Mish => mish_gradient(x, dy),
    }
}

/// Runs [`Activation::SwiGlu`](crate::backend::ops::Activation::SwiGlu).
fn swiglu<T: Float>(columns: usize, gu: &[T], y: &mut [T]) {
    parallel::ranges(y.len() / columns, WEIGHT * columns, parallel::rows(y, columns), |rows, y| {
        swiglu_rows(columns, &gu[rows.start * 2 * columns..rows.end * 2 * columns], y);
    });
}

/// Runs [`Activation::SwiGluGrad`](crate::backend::ops::Activation::SwiGluGrad).
fn swiglu_gradient<T: Float>(columns: usize, gu: &[T], dy: &[T], dgu: &mut [T]) {
    parallel::ranges(dy.len() / columns, WEIGHT * columns, parallel::rows(dgu, 2 * columns), |rows, dgu| {
        let both = rows.start * 2 * columns..rows.end * 2 * columns;
        swiglu_gradient_rows(columns, &gu[both], &dy[rows.start * columns..rows.end * columns], dgu);
    });
}

/// An element's arithmetic in streamed elements.
pub(super) const WEIGHT: usize = 4;

/// sqrt(2 / pi) and the cubic term of Hendrycks & Gimpel 2016.
const SLOPE: f64 = 0.797_884_560_802_865_4;
const CUBIC: f64 = 0.044_715;

/// tanh of the argument of the approximate GELU, and that argument's slope.
#[inline(always)]
fn inner<A: Accumulator>(x: A) -> (A, A) {
    let (slope, cubic, one) = (A::from_f64(SLOPE), A::from_f64(CUBIC), A::ONE);
    let square = x * x;
    let argument = slope * x * (one + cubic * square);
    let two = one + one;
    // Past 20 the quotient is 1 in any type, and below the exponential is 0.
    let e = (two * argument).exp();
    (one - two / (e + one), slope * (one + A::from_f64(3.0 * CUBIC) * square))
}

#[inline(always)]
fn normal<A: Accumulator>(x: A) -> A {
    A::from_f64(0.5) * (A::ONE + (x * A::from_f64(std::f64::consts::FRAC_1_SQRT_2)).erf())
}

#[inline(always)]
fn sigmoid<A: Accumulator>(x: A) -> A {
    A::ONE / (A::ONE + (A::ZERO - x).exp())
}

/// `e` and `n`, from which Mish follows: with `e = exp(x)` and `n = e (e + 2)`, `tanh(ln(1 + e))` is `n / (n + 2)`.
#[inline(always)]
fn exponentials<A: Accumulator>(x: A) -> (A, A) {
    // Past 20 the quotient is 1 in any type, and the square of an exponential stays finite below.
    let limit = A::from_f64(20.0);
    let e = (if x > limit { limit } else { x }).exp();
    (e, e * (e + A::from_f64(2.0)))
}

simd! {
    fn relu_part [T: Float] (y: &mut [T]) {
        for y in y {
            let value = y.up();
            *y = if value < T::Acc::ZERO { T::ZERO } else { *y };
        }
    }

    fn relu_gradient_part [T: Float] (y: &[T], dy: &mut [T]) {
        for (dy, y) in dy.iter_mut().zip(y) {
            *dy = if y.up() <= T::Acc::ZERO { T::ZERO } else { *dy };
        }
    }

    fn relu6_part [T: Float] (y: &mut [T]) {
        let six = T::from_f64(6.0);
        for y in y {
            let value = y.up();
            let clipped = if value > six.up() { six } else { *y };
            *y = if value < T::Acc::ZERO { T::ZERO } else { clipped };
        }
    }

    fn relu6_gradient_part [T: Float] (y: &[T], dy: &mut [T]) {
        let six = T::from_f64(6.0).up();
        for (dy, y) in dy.iter_mut().zip(y) {
            let y = y.up();
            *dy = if (y <= T::Acc::ZERO) | (y >= six) { T::ZERO } else { *dy };
        }
    }

    fn gelu_tanh [T: Float] (x: &[T], y: &mut [T]) {
        let half = T::Acc::from_f64(0.5);
        for (x, y) in x.iter().zip(y) {
            let x = x.up();
            *y = T::down(half * x * (T::Acc::ONE + inner(x).0));
        }
    }

    fn gelu_tanh_gradient [T: Float] (x: &[T], dy: &mut [T]) {
        let half = T::Acc::from_f64(0.5);
        for (x, dy) in x.iter().zip(dy) {
            let x = x.up();
            let (t, slope) = inner(x);
            let one = T::Acc::ONE;
            *dy = T::down(dy.up() * half * (one + t + x * (one - t * t) * slope));
        }
    }

    fn gelu [T: Float] (x: &[T], y: &mut [T]) {
        for (x, y) in x.iter().zip(y) {
            let x = x.up();
            *y = T::down(x * normal(x));
        }
    }

    fn gelu_gradient [T: Float] (x: &[T], dy: &mut [T]) {
        let (half, density) = (T::Acc::from_f64(-0.5), T::Acc::from_f64(0.398_942_280_401_432_7));
        for (x, dy) in x.iter().zip(dy) {
            let x = x.up();
            *dy = T::down(dy.up() * (normal(x) + x * density * (half * x * x).exp()));
        }
    }

    fn silu [T: Float] (x: &[T], y: &mut [T]) {
        for (x, y) in x.iter().zip(y) {
            let x = x.up();
            *y = T::down(x * sigmoid(x));
        }
    }

    fn silu_gradient [T: Float] (x: &[T], dy: &mut [T]) {
        for (x, dy) in x.iter().zip(dy) {
            let x = x.up();
            let s = sigmoid(x);
            *dy = T::down(dy.up() * s * (T::Acc::ONE + x * (T::Acc::ONE - s)));
        }
    }

    fn mish [T: Float] (x: &[T], y: &mut [T]) {
        let two = T::Acc::from_f64(2.0);
        for (x, y) in x.iter().zip(y) {
            let x = x.up();
            let (_, n) = exponentials(x);
            *y = T::down(x * (n / (n + two)));
        }
    }

    fn mish_gradient [T: Float] (x: &[T], dy: &mut [T]) {
        let (one, two, four) = (T::Acc::ONE, T::Acc::from_f64(2.0), T::Acc::from_f64(4.0));
        for (x, dy) in x.iter().zip(dy) {
            let x = x.up();
            let (e, n) = exponentials(x);
            // tanh, the derivative of its argument, which is the sigmoid, and 1 - tanh².
            let (tanh, sigmoid, rest) = (n / (n + two), e / (one + e), four * (n + one) / ((n + two) * (n + two)));
            *dy = T::down(dy.up() * (tanh + x * sigmoid * rest));
        }
    }

    fn swiglu_rows [T: Float] (columns: usize, gu: &[T], y: &mut [T]) {
        for (gu, y) in gu.chunks_exact(2 * columns).zip(y.chunks_exact_mut(columns)) {
            let (gates, values) = gu.split_at(columns);
            for ((gate, value), y) in gates.iter().zip(values).zip(y) {
                let gate = gate.up();
                *y = T::down(gate * sigmoid(gate) * value.up());
            }
        }
    }

    fn swiglu_gradient_rows [T: Float] (columns: usize, gu: &[T], dy: &[T], dgu: &mut [T]) {
        let rows = gu.chunks_exact(2 * columns).zip(dy.chunks_exact(columns)).zip(dgu.chunks_exact_mut(2 * columns));
        for ((gu, dy), dgu) in rows {
            let ((gates, values), (dgates, dvalues)) = (gu.split_at(columns), dgu.split_at_mut(columns));
            for ((((gate, value), dy), dgate), dvalue) in gates.iter().zip(values).zip(dy).zip(dgates).zip(dvalues) {
                let (gate, dy) = (gate.up(), dy.up());
                let s = sigmoid(gate);
                *dgate = T::down(dy * value.up() * s * (T::Acc::ONE + gate * (T::Acc::ONE - s)));
                *dvalue = T::down(dy * gate * s);
            }
        }
    }
}
