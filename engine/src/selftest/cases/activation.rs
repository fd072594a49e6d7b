//! Activation functions and their gradients.

use super::{COUNTS, Case, Extent, Operand, kernel_names};
use crate::{
    backend::{
        DType,
        ops::{Activation, ActivationFunction, Rows},
    },
    selftest::draw::Draw,
};

kernel_names! {
    Activation;
    Activation::Relu => "relu",
    Activation::ReluGrad => "relu-gradient",
    Activation::Relu6 => "relu6",
    Activation::Relu6Grad => "relu6-gradient",
    Activation::Apply(ActivationFunction::Gelu) => "gelu",
    Activation::Apply(ActivationFunction::GeluTanh) => "gelu-tanh",
    Activation::Apply(ActivationFunction::Silu) => "silu",
    Activation::Apply(ActivationFunction::Mish) => "mish",
    Activation::ApplyGrad(ActivationFunction::Gelu) => "gelu-gradient",
    Activation::ApplyGrad(ActivationFunction::GeluTanh) => "gelu-tanh-gradient",
    Activation::ApplyGrad(ActivationFunction::Silu) => "silu-gradient",
    Activation::ApplyGrad(ActivationFunction::Mish) => "mish-gradient",
    Activation::SwiGlu { .. } => "swiglu",
    Activation::SwiGluGrad { .. } => "swiglu-gradient",
}

/// Functions of one number.
pub fn functions(draw: &mut Draw, dtype: DType, count: usize) -> Vec<Case> {
    let (x, y) = ((draw.numbers(count), dtype), (draw.numbers(count), dtype));
    let times = |of: &[f64], factor: f64| -> Vec<f64> { of.iter().map(|x| factor * x).collect() };
    let wide = (times(&x.0, 5.0), dtype);
    let clipped = times(&x.0, 9.0).iter().map(|x| x.clamp(0.0, 6.0)).collect();
    let mut cases = vec![
        Case::new(Activation::Relu, vec![], vec![y.clone()], 1),
        Case::new(Activation::ReluGrad, vec![x], vec![y.clone()], 1),
        Case::new(Activation::Relu6, vec![], vec![(times(&y.0, 9.0), dtype)], 1),
        Case::new(Activation::Relu6Grad, vec![(clipped, dtype)], vec![y.clone()], 1),
    ];
    for function in ActivationFunction::ALL.iter().copied() {
        cases.push(Case::new(Activation::Apply(function), vec![wide.clone()], vec![y.clone()], 32));
        cases.push(Case::new(Activation::ApplyGrad(function), vec![wide.clone()], vec![y.clone()], 64));
    }
    cases
}

/// Gated units, and their gradient.
pub fn gated(draw: &mut Draw, dtype: DType, extents: Rows) -> Vec<Case> {
    let count = extents.rows * extents.columns;
    let both: Operand = (draw.numbers(2 * count).iter().map(|x| 5.0 * x).collect(), dtype);
    let y = (draw.numbers(count), dtype);
    vec![
        Case::new(Activation::SwiGlu { extents }, vec![both.clone()], vec![y.clone()], 64),
        Case::new(Activation::SwiGluGrad { extents }, vec![both.clone(), y], vec![both], 256),
    ]
}

/// NaN, and numbers at the bends, for which the vocabulary states the results.
fn edges(dtype: DType) -> Vec<Case> {
    let y = || (vec![f64::NAN, -1.0, 0.0, 6.0, 7.0, f64::INFINITY, f64::NEG_INFINITY], dtype);
    let dy = || (vec![3.0; 7], dtype);
    vec![
        Case::new(Activation::Relu, vec![], vec![y()], 1),
        Case::new(Activation::ReluGrad, vec![y()], vec![dy()], 1),
        Case::new(Activation::Relu6, vec![], vec![y()], 1),
    ]
}

const GATED: [[usize; 2]; 6] = [[5, 7], [37, 65], [1, 1], [257, 3], [3, 257], [2, 1031]];

pub(super) fn cases(draw: &mut Draw, dtype: DType, extent: Extent) -> Vec<Case> {
    let mut cases = edges(dtype);
    for count in extent.of(&COUNTS) {
        cases.extend(functions(draw, dtype, *count));
    }
    for [rows, columns] in extent.of(&GATED).iter().copied() {
        cases.extend(gated(draw, dtype, Rows { rows, columns }));
    }
    cases
}
