//! Chains of ops in one pass, and their gradients.
//!
//! Numbers are multiples of an eighth, so that a sum on the way is the same in every type, and with it the side of a bend that
//! it is on.

use super::{Case, Extent, Operand, kernel_names, statistics, sum_types};
use crate::{
    backend::{
        DType,
        ops::{ActivationFunction, Dropout, Function, Fused, Over, Rectifier, RowNorm, Rows},
    },
    selftest::draw::Draw,
};

kernel_names! {
    Fused;
    Fused::Bias(Function::Rectifier(Rectifier::Relu)) => "bias-relu",
    Fused::Bias(Function::Rectifier(Rectifier::Relu6)) => "bias-relu6",
    Fused::Bias(Function::Smooth(_)) => "bias-smooth",
    Fused::BiasGrad { function: Function::Rectifier(Rectifier::Relu), .. } => "bias-relu-gradient",
    Fused::BiasGrad { function: Function::Rectifier(Rectifier::Relu6), .. } => "bias-relu6-gradient",
    Fused::BiasGrad { function: Function::Smooth(_), .. } => "bias-smooth-gradient",
    Fused::Sum { norm: None, .. } => "sum",
    Fused::Sum { norm: Some(RowNorm::Layer(_)), .. } => "sum-layer-norm",
    Fused::Sum { norm: Some(RowNorm::Rms(_)), .. } => "sum-rms-norm",
    Fused::BatchNorm { .. } => "batch-norm-then",
    Fused::BatchApply { .. } => "batch-norm-then-apply",
    Fused::BatchGrad { .. } => "batch-norm-then-gradient",
}

const EPSILON: f64 = 1e-3;
const RECTIFIERS: [Rectifier; 2] = [Rectifier::Relu, Rectifier::Relu6];

/// Multiples of an eighth in ±`most` around a number.
fn eighths(draw: &mut Draw, count: usize, around: f64, most: f64) -> Vec<f64> {
    (0..count).map(|_| around + (draw.number() * most * 8.0).round() / 8.0).collect()
}

/// A bias and the function after it, and their gradients.
pub fn biases(draw: &mut Draw, dtype: DType, Rows { rows, columns }: Rows) -> Vec<Case> {
    let count = rows * columns;
    let x: Operand = (eighths(draw, count, 0.0, 7.0), dtype);
    // Further out, a slope of 1e-14 is what is left of numbers near 1.
    let near: Operand = (eighths(draw, count, 0.0, 4.0), dtype);
    let (bias, dy) = ((eighths(draw, columns, 0.0, 1.0), dtype), (eighths(draw, count, 0.0, 1.0), dtype));
    let mut cases = Vec::new();
    for rectifier in RECTIFIERS {
        let function = Function::Rectifier(rectifier);
        cases.push(Case::new(Fused::Bias(function), vec![bias.clone()], vec![x.clone()], 2));
        let y = (x.0.iter().map(|x| x.clamp(0.0, 6.0)).collect(), dtype);
        for (sum, accumulate) in sum_types(dtype).iter().flat_map(|sum| [(sum, false), (sum, true)]) {
            let outputs = vec![dy.clone(), (bias.0.clone(), *sum)];
            cases.push(Case::new(Fused::BiasGrad { function, accumulate }, vec![y.clone()], outputs, rows));
        }
    }
    for function in ActivationFunction::ALL {
        let (function, inputs) = (Function::Smooth(*function), vec![near.clone(), bias.clone()]);
        cases.push(Case::new(Fused::Bias(function), inputs.clone(), vec![dy.clone()], 32));
        let gradient = |accumulate| Fused::BiasGrad { function, accumulate };
        // Frozen: no gradient of the bias.
        cases.push(Case::new(gradient(false), inputs.clone(), vec![dy.clone()], 64));
        for (sum, accumulate) in sum_types(dtype).iter().flat_map(|sum| [(sum, false), (sum, true)]) {
            let outputs = vec![dy.clone(), (bias.0.clone(), *sum)];
            cases.push(Case::new(gradient(accumulate), inputs.clone(), outputs, 64 * rows));
        }
    }
    cases
}

/// Sums, with parameters of their norms of type `parameters`.
pub fn sums(draw: &mut Draw, dtype: DType, extents: Rows, parameters: DType) -> Vec<Case> {
    let Rows { rows, columns } = extents;
    let matrix = |draw: &mut Draw| -> Operand { (eighths(draw, rows * columns, 0.0, 1.0), dtype) };
    let (y, other, normed) = (matrix(draw), matrix(draw), matrix(draw));
    let bias = (eighths(draw, columns, 0.0, 1.0), dtype);
    let (weight, offset) = ((draw.numbers(columns), parameters), (draw.numbers(columns), parameters));
    let vector = (draw.numbers(rows), statistics(dtype));
    // Twice a kept number is exact.
    let dropped = Some(Dropout { probability: 0.5, key: (rows * columns) as u64 });
    let mut cases = Vec::new();
    for (biased, dropout, norm) in [
        (true, None, None),
        (true, dropped, None),
        (false, dropped, None),
        (true, dropped, Some(RowNorm::Layer(EPSILON))),
        (true, None, Some(RowNorm::Layer(EPSILON))),
        (false, None, Some(RowNorm::Rms(EPSILON))),
        (false, dropped, Some(RowNorm::Rms(EPSILON))),
    ] {
        let (mut inputs, mut outputs) = (vec![other.clone()], vec![y.clone()]);
        inputs.extend(biased.then(|| bias.clone()));
        match norm {
            None => {}
            Some(RowNorm::Layer(_)) => {
                inputs.extend([weight.clone(), offset.clone()]);
                outputs.extend([normed.clone(), vector.clone(), vector.clone()]);
            }
            Some(RowNorm::Rms(_)) => {
                inputs.push(weight.clone());
                outputs.extend([normed.clone(), vector.clone()]);
            }
        }
        cases.push(Case::new(Fused::Sum { extents, biased, dropout, norm }, inputs, outputs, columns * 16));
    }
    cases
}

/// Batch norms with the ops after them, with parameters of type `parameters`.
pub fn channels(draw: &mut Draw, dtype: DType, extents: Rows, parameters: DType, accumulate: bool) -> Vec<Case> {
    let Rows { rows, columns } = extents;
    let count = rows * columns;
    let x = (eighths(draw, count, 3.0, 1.0), dtype);
    let (dy, other) = ((eighths(draw, count, 0.0, 1.0), dtype), (eighths(draw, count, 0.0, 1.0), dtype));
    // A 16-bit number just below 6 is rounded to it, and a gradient does not pass there.
    let most = if matches!(dtype, DType::F64 | DType::F32) { 2.0 } else { 0.75 };
    let (weight, bias) =
        ((eighths(draw, columns, 0.0, most), parameters), (eighths(draw, columns, 0.0, 1.0), parameters));
    let sums = statistics(dtype);
    let (mean, inverse) = ((eighths(draw, columns, 3.0, 1.0), sums), (eighths(draw, columns, 1.5, 1.0), sums));
    let terms = (rows * 4).max(256);
    let mut cases = Vec::new();
    for (sums, end) in
        [(false, Some(RECTIFIERS[0])), (true, Some(RECTIFIERS[0])), (true, None), (true, Some(RECTIFIERS[1]))]
    {
        let other = sums.then(|| other.clone());
        let forward = Fused::BatchNorm { extents, epsilon: EPSILON, momentum: 0.125, sums, end };
        let inputs: Vec<Operand> = [x.clone(), weight.clone(), bias.clone()].into_iter().chain(other.clone()).collect();
        let outputs = vec![dy.clone(), mean.clone(), inverse.clone(), mean.clone(), inverse.clone()];
        cases.push(Case::new(forward, inputs.clone(), outputs[..3].to_vec(), terms));
        cases.push(Case::new(forward, inputs, outputs, terms));
        let vectors = [mean.clone(), inverse.clone(), weight.clone(), bias.clone()];
        let apply = |over| Fused::BatchApply { sums, end, over };
        let saved: Vec<Operand> = [x.clone()].into_iter().chain(vectors.clone()).collect();
        if sums {
            cases.push(Case::new(apply(Over::Other), saved.clone(), vec![dy.clone()], 64));
        }
        let own = vectors.into_iter().chain(other.clone()).collect();
        cases.push(Case::new(apply(Over::X), own, vec![x.clone()], 64));
        let inputs = saved.into_iter().chain(other).collect();
        cases.push(Case::new(apply(Over::Nothing), inputs, vec![dy.clone()], 64));
    }
    for end in [None, Some(RECTIFIERS[0]), Some(RECTIFIERS[1])] {
        let gradient = Fused::BatchGrad { extents, accumulate, end };
        let saved = vec![x.clone(), mean.clone(), inverse.clone(), weight.clone(), bias.clone()];
        let apart = [&saved[..], std::slice::from_ref(&dy)].concat();
        let outputs = vec![dy.clone(), weight.clone(), bias.clone()];
        cases.push(Case::new(gradient, apart, vec![x.clone(), weight.clone(), bias.clone()], rows * 64));
        cases.push(Case::new(gradient, saved.clone(), outputs, rows * 64));
        // Frozen: no gradients of parameters.
        cases.push(Case::new(gradient, saved, vec![dy.clone()], rows * 64));
    }
    cases
}

const EXTENTS: [[usize; 2]; 10] = [
    [5, 7],
    [37, 65],
    [2, 2],
    [257, 3],
    [3, 257],
    [1031, 5],
    [7, 1031],
    [64, 16],
    // Enough for a device to take sums apart.
    [1500, 20],
    [67, 1156],
];

pub(super) fn cases(draw: &mut Draw, dtype: DType, extent: Extent) -> Vec<Case> {
    let mut cases = Vec::new();
    for (i, [rows, columns]) in extent.of(&EXTENTS).iter().copied().enumerate() {
        let extents = Rows { rows, columns };
        cases.extend(biases(draw, dtype, extents));
        for (j, parameters) in sum_types(dtype).iter().enumerate() {
            cases.extend(sums(draw, dtype, extents, *parameters));
            cases.extend(channels(draw, dtype, extents, *parameters, (i + j) % 2 == 1));
        }
    }
    cases
}
