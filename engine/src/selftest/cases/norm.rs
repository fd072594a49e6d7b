//! Normalisations over columns and over rows, and their gradients.

use super::{Case, Extent, Operand, kernel_names, statistics, sum_types};
use crate::backend::ops::Norm;
use crate::{
    backend::{DType, ops::Rows},
    selftest::draw::Draw,
};

kernel_names! {
    Norm;
    Norm::Batch { .. } => "batch-norm",
    Norm::BatchApply { .. } => "batch-norm-apply",
    Norm::BatchGrad { .. } => "batch-norm-gradient",
    Norm::BatchFixed { .. } => "batch-norm-fixed",
    Norm::Layer { .. } => "layer-norm",
    Norm::LayerGrad { .. } => "layer-norm-gradient",
    Norm::Rms { .. } => "rms-norm",
    Norm::RmsGrad { .. } => "rms-norm-gradient",
}

const EPSILON: f64 = 1e-3;

/// The operands of both kinds of normalisations.
struct Operands {
    x: Operand,
    dy: Operand,
    weight: Operand,
    bias: Operand,
}

impl Operands {
    fn new(draw: &mut Draw, dtype: DType, extents: Rows, parameters: DType) -> Self {
        let count = extents.rows * extents.columns;
        Self {
            // Far from zero, where a sum of squares less the square of a sum loses its digits.
            x: shifted(draw, count, 3.0, dtype),
            dy: (draw.numbers(count), dtype),
            weight: (draw.numbers(extents.columns), parameters),
            bias: (draw.numbers(extents.columns), parameters),
        }
    }
}

fn shifted(draw: &mut Draw, count: usize, by: f64, dtype: DType) -> Operand {
    (draw.numbers(count).iter().map(|x| x + by).collect(), dtype)
}

/// Batch normalisations, with `weight` and `bias` of type `parameters`.
pub fn columns(draw: &mut Draw, dtype: DType, extents: Rows, parameters: DType, accumulate: bool) -> Vec<Case> {
    let Operands { x, dy, weight, bias } = Operands::new(draw, dtype, extents, parameters);
    let sums = statistics(dtype);
    let mean = shifted(draw, extents.columns, 3.0, sums);
    let deviation = shifted(draw, extents.columns, 1.5, sums);
    let (rows, inputs) = (extents.rows, vec![x.clone(), weight.clone(), bias.clone()]);
    let forward = Norm::Batch { extents, epsilon: EPSILON, momentum: 0.125 };
    let outputs = vec![x.clone(), mean.clone(), deviation.clone()];
    let running = [&outputs[..], &[mean.clone(), deviation.clone()]].concat();
    let gradient = Norm::BatchGrad { extents, accumulate };
    let saved = vec![x.clone(), mean.clone(), deviation.clone(), weight.clone()];
    let again = vec![x.clone(), mean.clone(), deviation.clone(), weight.clone(), bias.clone()];
    let fixed = vec![mean, deviation, weight.clone(), bias.clone()];
    // However few rows: where they are nearly equal, the rounding of their mean is divided by a small deviation.
    let terms = (rows * 4).max(256);
    vec![
        Case::new(forward, inputs.clone(), outputs, terms),
        Case::new(forward, inputs, running, terms),
        Case::new(gradient, saved.clone(), vec![dy.clone(), weight, bias], rows * 16),
        // Frozen: no gradients of parameters.
        Case::new(gradient, saved, vec![dy.clone()], rows * 16),
        Case::new(Norm::BatchApply { adds: false }, again[1..].to_vec(), vec![x.clone()], 64),
        Case::new(Norm::BatchApply { adds: false }, again.clone(), vec![dy.clone()], 64),
        Case::new(Norm::BatchApply { adds: true }, again, vec![dy], 64),
        Case::new(Norm::BatchFixed { epsilon: EPSILON }, fixed, vec![x], 64),
    ]
}

/// Layer and RMS normalisations, with `weight` and `bias` of type `parameters`.
pub fn rows(draw: &mut Draw, dtype: DType, extents: Rows, parameters: DType, accumulate: bool) -> Vec<Case> {
    let Operands { x, dy, weight, bias } = Operands::new(draw, dtype, extents, parameters);
    let sums = statistics(dtype);
    let mean = shifted(draw, extents.rows, 3.0, sums);
    let inverse = shifted(draw, extents.rows, 1.5, sums);
    let layer = Norm::Layer { extents, epsilon: EPSILON };
    let rms = Norm::Rms { extents, epsilon: EPSILON };
    let layer_gradient = Norm::LayerGrad { extents, accumulate };
    let rms_gradient = Norm::RmsGrad { extents, accumulate };
    let saved = vec![x.clone(), mean.clone(), inverse.clone(), weight.clone()];
    let saved_of_rms = vec![x.clone(), inverse.clone(), weight.clone()];
    let (few, many) = (extents.columns * 16, (extents.rows + extents.columns) * 64);
    let outputs = vec![dy.clone(), mean, inverse.clone()];
    // With another gradient, which is added.
    let other = (draw.numbers(extents.rows * extents.columns), dy.1);
    let [beside, beside_of_rms] =
        [&saved, &saved_of_rms].map(|saved| [&saved[..], std::slice::from_ref(&other)].concat());
    vec![
        Case::new(layer_gradient, beside, vec![dy.clone(), weight.clone(), bias.clone()], many),
        Case::new(rms_gradient, beside_of_rms, vec![dy.clone(), weight.clone()], many),
        Case::new(layer, vec![x.clone(), weight.clone(), bias.clone()], outputs, few),
        Case::new(layer_gradient, saved.clone(), vec![dy.clone(), weight.clone(), bias], many),
        Case::new(layer_gradient, saved, vec![dy.clone()], many),
        Case::new(rms, vec![x, weight.clone()], vec![dy.clone(), inverse], few),
        Case::new(rms_gradient, saved_of_rms.clone(), vec![dy.clone(), weight], many),
        Case::new(rms_gradient, saved_of_rms, vec![dy], many),
    ]
}

const EXTENTS: [[usize; 2]; 14] = [
    [5, 7],
    [37, 65],
    [9, 2051],
    [21, 2052],
    [300, 2048],
    [2, 1],
    [257, 3],
    [3, 257],
    [1031, 5],
    [7, 1031],
    [300, 33],
    [64, 16],
    // Enough for a device to take sums apart.
    [1500, 20],
    [67, 1156],
];

pub(super) fn cases(draw: &mut Draw, dtype: DType, extent: Extent) -> Vec<Case> {
    let mut cases = Vec::new();
    for (i, [many, few]) in extent.of(&EXTENTS).iter().copied().enumerate() {
        for (j, parameters) in sum_types(dtype).iter().enumerate() {
            let (extents, accumulate) = (Rows { rows: many, columns: few }, (i + j) % 2 == 1);
            cases.extend(columns(draw, dtype, extents, *parameters, accumulate));
            cases.extend(rows(draw, dtype, extents, *parameters, accumulate));
        }
    }
    cases.extend(rows(draw, dtype, Rows { rows: 1, columns: 5 }, dtype, false));
    cases
}
