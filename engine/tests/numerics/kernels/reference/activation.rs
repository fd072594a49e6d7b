//! Activation functions, plain and gated, and their slopes.

use plimsoll_engine::backend::ops::{Activation, ActivationFunction};

pub(super) fn run(kernel: &Activation, ins: &[Vec<f64>], outs: &mut [Vec<f64>]) {
    match *kernel {
        Activation::Relu => outs[0].iter_mut().for_each(|y| *y = if *y < 0.0 { 0.0 } else { *y }),
        Activation::ReluGrad => {
            outs[0].iter_mut().zip(&ins[0]).for_each(|(dy, y)| *dy = if *y <= 0.0 { 0.0 } else { *dy })
        }
        Activation::Relu6 => outs[0].iter_mut().for_each(|y| *y = y.clamp(0.0, 6.0)),
        Activation::Relu6Grad => {
            let passes = |y: f64| y > 0.0 && y < 6.0;
            outs[0].iter_mut().zip(&ins[0]).for_each(|(dy, y)| *dy = if passes(*y) { *dy } else { 0.0 });
        }
        Activation::Apply(curve) => outs[0].iter_mut().zip(&ins[0]).for_each(|(y, x)| *y = curved(curve, *x)),
        Activation::ApplyGrad(curve) => {
            outs[0].iter_mut().zip(&ins[0]).for_each(|(dy, x)| *dy *= slope(curve, *x));
        }
        Activation::SwiGlu { extents } => {
            for (i, y) in outs[0].iter_mut().enumerate() {
                let (gate, value) = gated(&ins[0], extents.columns, i);
                *y = gate / (1.0 + (-gate).exp()) * value;
            }
        }
        Activation::SwiGluGrad { extents } => {
            for (i, dy) in ins[1].iter().enumerate() {
                let (gate, value) = gated(&ins[0], extents.columns, i);
                let at = i / extents.columns * 2 * extents.columns + i % extents.columns;
                let sigmoid = 1.0 / (1.0 + (-gate).exp());
                outs[0][at] = dy * value * sigmoid * (1.0 + gate * (1.0 - sigmoid));
                outs[0][at + extents.columns] = dy * gate * sigmoid;
            }
        }
    }
}

fn gated(gu: &[f64], columns: usize, i: usize) -> (f64, f64) {
    let at = i / columns * 2 * columns + i % columns;
    (gu[at], gu[at + columns])
}

fn curved(curve: ActivationFunction, x: f64) -> f64 {
    match curve {
        ActivationFunction::Silu => x / (1.0 + (-x).exp()),
        ActivationFunction::GeluTanh => {
            0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh())
        }
        ActivationFunction::Gelu => x * distribution(x),
        ActivationFunction::Mish => x * x.exp().ln_1p().tanh(),
    }
}

/// The normal distribution function (Marsaglia 2004).
fn distribution(x: f64) -> f64 {
    // A half, and the density times (x + x³/3 + x⁵/15 + ...): terms of one sign.
    let (mut term, mut sum) = (x, x);
    for n in 1..200 {
        term *= x * x / f64::from(2 * n + 1);
        sum += term;
    }
    0.5 + sum * (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt()
}

fn slope(curve: ActivationFunction, x: f64) -> f64 {
    use std::f64::consts::PI;
    match curve {
        ActivationFunction::Silu => {
            let e = (-x).exp();
            (1.0 + e + x * e) / (1.0 + e).powi(2)
        }
        ActivationFunction::GeluTanh => {
            let inner = (2.0 / PI).sqrt() * (x + 0.044715 * x.powi(3));
            let inner_slope = (2.0 / PI).sqrt() * (1.0 + 0.134145 * x * x);
            0.5 * (1.0 + inner.tanh()) + 0.5 * x * inner_slope / inner.cosh().powi(2)
        }
        ActivationFunction::Gelu => distribution(x) + x * (-x * x / 2.0).exp() / (2.0 * PI).sqrt(),
        ActivationFunction::Mish => {
            let softplus = x.exp().ln_1p();
            softplus.tanh() + x / (1.0 + (-x).exp()) / softplus.cosh().powi(2)
        }
    }
}
