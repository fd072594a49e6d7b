//! Every optimizer's rule, with every pair of types of weight and gradient, with and without a narrower copy.

use super::{Case, Extent, Operand, statistics};
use crate::{
    backend::{
        DType, Kernel,
        kernel::{Moments, Rows, Rule, Update},
    },
    selftest::draw::Draw,
};

/// Types of weight and gradient, and that of the weight's narrower copy.
type Types = (DType, DType, Option<DType>);

/// The types that a run's precisions make of `dtype`.
pub fn types(dtype: DType) -> Vec<Types> {
    match dtype {
        DType::Bf16 | DType::F16 => vec![
            (dtype, dtype, None),
            (DType::F32, dtype, Some(dtype)),
            (DType::F32, DType::F32, Some(dtype)),
            (DType::F32, dtype, None),
        ],
        _ => vec![(dtype, dtype, None)],
    }
}

/// Every rule's update of `count` elements, or of a matrix of `extents`, the `step`th.
pub fn rules(draw: &mut Draw, types: Types, count: usize, extents: Rows, step: u64) -> Vec<Case> {
    let moments = Moments { beta1: 0.875, beta2: 0.9375, epsilon: 1e-3, step };
    let momentum = 0.875;
    let rules = [
        Rule::Sgd,
        Rule::Momentum { momentum },
        Rule::Nesterov { momentum },
        Rule::Lion { beta1: 0.875, beta2: 0.9375 },
        Rule::Adam(moments),
        Rule::AdamW(moments),
        Rule::AdamW8(moments),
        Rule::Adafactor { extents: Rows { rows: 1, columns: count }, step },
        Rule::Adafactor { extents, step },
    ];
    rules.into_iter().map(|rule| case(draw, types, rule, count)).collect()
}

fn case(draw: &mut Draw, (weight, grad, copy): Types, rule: Rule, count: usize) -> Case {
    let count = match rule {
        Rule::Adafactor { extents: Rows { rows, columns }, .. } => rows * columns,
        _ => count,
    };
    let positive = |draw: &mut Draw, count: usize, least: f64| -> Vec<f64> {
        draw.numbers(count).iter().map(|v| v.abs() + least).collect()
    };
    let means = |draw: &mut Draw, count: usize| (positive(draw, count, 0.125), statistics(weight));
    let kept: Vec<Operand> = match rule {
        Rule::Sgd => vec![],
        Rule::Momentum { .. } | Rule::Nesterov { .. } | Rule::Lion { .. } => vec![(draw.numbers(count), weight)],
        Rule::Adam(_) | Rule::AdamW(_) => vec![(draw.numbers(count), weight), (positive(draw, count, 0.0), weight)],
        Rule::AdamW8(_) => {
            let scales: Operand = (vec![0.5; count.div_ceil(Rule::BLOCK)], DType::F32);
            let codes = |draw: &mut Draw| (draw.integers(count, 255), DType::U8);
            vec![codes(draw), scales.clone(), codes(draw), scales]
        }
        Rule::Adafactor { extents: Rows { rows: 1, columns }, .. } => vec![means(draw, columns)],
        Rule::Adafactor { extents: Rows { rows, columns }, .. } => vec![means(draw, rows), means(draw, columns)],
    };
    let mut outputs: Vec<Operand> = [(draw.numbers(count), weight)].into_iter().chain(kept).collect();
    outputs.extend(copy.map(|copy| (vec![7.0; count], copy)));
    let terms = if matches!(rule, Rule::Adafactor { .. }) { count } else { 4 };
    let update = Update { rule, rate: 0.0625, weight_decay: 0.125, grad_scale: 0.5 };
    // Every other one with a scale from the device.
    let scale = count.is_multiple_of(2).then(|| (vec![0.75], DType::F64));
    let inputs = [(draw.numbers(count), grad)].into_iter().chain(scale).collect();
    Case::new(Kernel::Update(update), inputs, outputs, terms)
}

/// The update after this one: from the state it left, with a fresh gradient.
pub(crate) fn next(draw: &mut Draw, case: &Case, after: &[Vec<f64>]) -> Option<Case> {
    let Kernel::Update(mut update) = case.kernel else { return None };
    match &mut update.rule {
        Rule::Adam(moments) | Rule::AdamW(moments) | Rule::AdamW8(moments) => moments.step += 1,
        Rule::Adafactor { step, .. } => *step += 1,
        Rule::Sgd | Rule::Momentum { .. } | Rule::Nesterov { .. } | Rule::Lion { .. } => {}
    }
    // Lion's step is a sign: on a coarse grid it is the same in every type.
    let grid = if matches!(update.rule, Rule::Lion { .. }) { 1024.0 } else { f64::INFINITY };
    let coarse = |x: &f64| if grid.is_finite() { (x * grid).round() / grid } else { *x };
    let outputs = after.iter().zip(&case.outputs).map(|(now, (_, dtype))| (now.iter().map(coarse).collect(), *dtype));
    let fresh = (draw.numbers(case.inputs[0].0.len()), case.inputs[0].1);
    let inputs = [fresh].into_iter().chain(case.inputs[1..].iter().cloned());
    Some(Case::new(Kernel::Update(update), inputs.collect(), outputs.collect(), case.terms))
}

/// `count, [rows, columns], step`.
const SIZES: [(usize, [usize; 2], u64); 6] = [
    (7, [5, 7], 1),
    (300, [37, 65], 3),
    (1, [2, 2], 1),
    (257, [3, 257], 50),
    (1031, [1031, 2], 2),
    (5000, [129, 70], 900),
];

pub(super) fn cases(draw: &mut Draw, dtype: DType, extent: Extent) -> Vec<Case> {
    let mut cases = Vec::new();
    for (count, [rows, columns], step) in extent.of(&SIZES).iter().copied() {
        for types in types(dtype) {
            cases.extend(rules(draw, types, count, Rows { rows, columns }, step));
        }
    }
    cases
}
