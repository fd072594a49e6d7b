//! Every optimizer's rule, with every pair of types of weight and gradient, with and without a narrower copy.

use super::{COUNTS, Case, Extent, Operand};
use crate::{
    backend::{
        DType, Kernel, Shape,
        ops::{self, Rows, StateSpec, StateValues, Update, UpdateRule, WeightForm},
    },
    experiment::{Optimizer, OptimizerKind},
    optim,
    selftest::draw::Draw,
};

/// The names of the kernels, and of every rule of an update.
pub(super) const NAMES: &[&str] = &joined::<{ NORMS.len() + UpdateRule::NAMES.len() }>(NORMS, UpdateRule::NAMES);
const NORMS: &[&str] = &["sum-of-squares", "clip", "normalise"];

/// The kernel's name in [`NAMES`].
pub(super) fn name(kernel: &ops::Optimizer) -> &'static str {
    match kernel {
        ops::Optimizer::SumSquares | ops::Optimizer::SumAllSquares { .. } => "sum-of-squares",
        ops::Optimizer::Clip { .. } => "clip",
        ops::Optimizer::Normalise { .. } => "normalise",
        ops::Optimizer::Update(update) | ops::Optimizer::UpdateAll { update, .. } => update.rule.name(),
    }
}

/// Both lists, one after the other; `N` is how long they are together.
const fn joined<const N: usize>(first: &[&'static str], second: &[&'static str]) -> [&'static str; N] {
    let mut all = [""; N];
    let mut i = 0;
    while i < N {
        all[i] = if i < first.len() { first[i] } else { second[i - first.len()] };
        i += 1;
    }
    all
}

/// The types of weight and gradient, and the type of the weight's narrower copy.
type Types = (DType, DType, Option<DType>);

/// The types that a run's precisions make of `dtype`.
pub fn types(dtype: DType) -> Vec<Types> {
    match dtype {
        DType::Bf16 | DType::F16 => vec![
            (dtype, dtype, None),
            (DType::F32, dtype, Some(dtype)),
            (DType::F32, DType::F32, Some(dtype)),
            (DType::F32, dtype, None),
            (dtype, DType::F32, None),
        ],
        DType::F64 | DType::F32 | DType::U32 | DType::U8 => vec![(dtype, dtype, None)],
    }
}

/// Every rule's update of `count` elements, or of a matrix of `extents`, the `step`th. A rule with codes takes a weight of
/// any size here.
pub fn rules(draw: &mut Draw, types: Types, count: usize, extents: Rows, step: u64) -> Vec<Case> {
    let choice = choice();
    let (vector, matrix) = ([count].into(), [extents.rows, extents.columns].into());
    // A narrow weight with a wider gradient has corrections.
    let is_wide = types.1.size() > types.0.size();
    let kinds = OptimizerKind::ALL.into_iter().filter(|kind| !is_wide || kind.corrects_weights());
    let rule = |kind, shape| optim::of_kind(kind, &choice, (shape, types.0, 7), step);
    let shapes = |kind| match rule(kind, matrix).form() {
        WeightForm::Elements => vec![vector],
        WeightForm::Rows(_) => vec![vector, matrix],
        WeightForm::Matrix(_) => vec![matrix],
    };
    let rules = kinds.flat_map(|kind| shapes(kind).into_iter().map(move |shape| (kind, shape)));
    rules.map(|(kind, shape)| case(draw, types, rule(kind, shape), shape)).collect()
}

/// Constants that every type holds exactly, but for the last.
fn choice() -> Optimizer {
    let (momentum, beta1, beta2, epsilon) = (0.875, 0.875, 0.9375, 1e-3);
    Optimizer { momentum, beta1, beta2, epsilon, ..Optimizer::default() }
}

fn update(rule: UpdateRule) -> Update {
    Update { rule, rate: 0.0625, weight_decay: 0.125, grad_scale: 0.5 }
}

fn case(draw: &mut Draw, (weight, grad, copy): Types, rule: UpdateRule, shape: Shape) -> Case {
    let count = shape.elements();
    let layout = rule.state_layout(shape, weight);
    let state: Vec<Operand> = layout.iter().map(|spec| (values(draw, spec), spec.dtype)).collect();
    let mut outputs: Vec<Operand> = [(draw.numbers(count), weight)].into_iter().chain(state).collect();
    outputs.extend(copy.map(|copy| (vec![7.0; count], copy)));
    let has_sums = matches!(rule, UpdateRule::ApolloMini { .. } | UpdateRule::Adafactor { .. });
    let terms = if has_sums { count } else { 4 };
    // Every other one with a scale from the device.
    let scale = count.is_multiple_of(2).then(|| (vec![0.75], DType::F64));
    let inputs = [(draw.numbers(count), grad)].into_iter().chain(scale).collect();
    Case::new(ops::Optimizer::Update(update(rule)), inputs, outputs, terms)
}

/// The update of parameters of these many elements at once, the `step`th, by every rule that can.
pub fn rules_of_all(draw: &mut Draw, types: Types, counts: &[usize], step: u64) -> Vec<Case> {
    // A narrow weight with a wider gradient has corrections, which none of these rules keeps.
    let kinds = OptimizerKind::ALL.into_iter().filter(|_| types.1.size() <= types.0.size());
    let rules = kinds.map(|kind| optim::of_kind(kind, &choice(), ([1].into(), types.0, 7), step));
    let mut of_all = |rule: UpdateRule| {
        let cases: Vec<Case> = counts.iter().map(|count| case(draw, types, rule, [*count].into())).collect();
        together(&cases, rule)
    };
    rules.filter(UpdateRule::is_by_element).map(&mut of_all).collect()
}

/// One launch in place of one for each of these updates. It has a scale from the device if the first one has.
fn together(cases: &[Case], rule: UpdateRule) -> Case {
    let kernel = ops::Optimizer::UpdateAll { update: update(rule), count: cases.len() };
    let scale = cases[0].inputs.get(1).cloned();
    let inputs = cases.iter().map(|case| case.inputs[0].clone()).chain(scale);
    let outputs = (0..cases[0].outputs.len()).flat_map(|i| cases.iter().map(move |case| case.outputs[i].clone()));
    Case::new(kernel, inputs.collect(), outputs.collect(), cases[0].terms)
}

/// The sum of the squares of tensors of these many elements.
pub fn squares_of_all(draw: &mut Draw, dtype: DType, counts: &[usize], accumulate: bool) -> Case {
    let inputs = counts.iter().map(|count| (draw.numbers(*count), dtype)).collect();
    let kernel = ops::Optimizer::SumAllSquares { parts: ops::Optimizer::parts(counts.iter().copied()), accumulate };
    Case::new(kernel, inputs, vec![(vec![0.5], DType::F64)], counts.iter().sum())
}

/// A state that the rule can have reached.
fn values(draw: &mut Draw, spec: &StateSpec) -> Vec<f64> {
    let count = spec.shape.elements();
    let mut above = |least: f64| draw.numbers(count).iter().map(|v| v.abs() + least).collect();
    match spec.values {
        StateValues::Signed => draw.numbers(count),
        StateValues::NonNegative => above(0.0),
        StateValues::Positive => above(0.125),
        StateValues::Codes | StateValues::Pairs | StateValues::Corrections => draw.integers(count, 255),
        StateValues::Scales => vec![0.5; count],
        StateValues::ScaleRoots => vec![0.75 * f64::from(UpdateRule::ROOT_FACTOR); count],
    }
}

/// The update after this one: from the state it left, with a fresh gradient.
pub(crate) fn next(draw: &mut Draw, case: &Case, after: &[Vec<f64>]) -> Option<Case> {
    let Kernel::Optimizer(ops::Optimizer::Update(mut update)) = case.kernel else { return None };
    update.rule = update.rule.next();
    // A sign is the same in every type on a coarse grid.
    let grid = if update.rule.is_of_signs() { 1024.0 } else { f64::INFINITY };
    let coarse = |x: &f64| if grid.is_finite() { (x * grid).round() / grid } else { *x };
    let outputs = after.iter().zip(&case.outputs).map(|(now, (_, dtype))| (now.iter().map(coarse).collect(), *dtype));
    let fresh = (draw.numbers(case.inputs[0].0.len()), case.inputs[0].1);
    let inputs = [fresh].into_iter().chain(case.inputs[1..].iter().cloned());
    Some(Case::new(ops::Optimizer::Update(update), inputs.collect(), outputs.collect(), case.terms))
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

/// Sizes of parameters of one launch: alone, small among large, and of more than one block.
const TOGETHER: [&[usize]; 3] = [&[6, 5000, 1, 257, 20_001], &[9000], &[4, 4096, 4097, 70_001, 3, 768, 1031]];

/// The norm that gradients are clipped by, and a tensor divided by its own.
pub fn clipping(draw: &mut Draw, dtype: DType, count: usize) -> Vec<Case> {
    let x = (draw.numbers(count), dtype);
    let number = |x: f64| vec![(vec![x], DType::F64)];
    vec![
        Case::new(ops::Optimizer::Normalise { epsilon: 0.25 }, number(9.0), vec![x.clone()], count.max(64)),
        Case::new(ops::Optimizer::SumSquares, vec![x], number(0.5), count),
        Case::new(ops::Optimizer::Clip { limit: 0.5 }, number(9.0), number(0.0), 2),
        Case::new(ops::Optimizer::Clip { limit: 4.0 }, number(9.0), number(0.0), 2),
    ]
}

/// Sums of squares that are NaN.
fn edges(dtype: DType) -> Vec<Case> {
    let sum = || vec![(vec![0.5], DType::F64)];
    vec![
        Case::new(ops::Optimizer::SumSquares, vec![(vec![1.0, f64::NAN, 2.0], dtype)], sum(), 3),
        Case::new(ops::Optimizer::SumSquares, vec![(vec![1.0, f64::INFINITY], dtype)], sum(), 2),
        Case::new(
            ops::Optimizer::SumAllSquares { parts: 2, accumulate: false },
            vec![(vec![1.0], dtype), (vec![f64::NAN, 1.0], dtype)],
            sum(),
            3,
        ),
    ]
}

pub(super) fn cases(draw: &mut Draw, dtype: DType, extent: Extent) -> Vec<Case> {
    let mut cases = edges(dtype);
    for counts in extent.of(&TOGETHER) {
        cases.extend([false, true].map(|accumulate| squares_of_all(draw, dtype, counts, accumulate)));
        for types in types(dtype) {
            cases.extend(rules_of_all(draw, types, counts, 3));
        }
    }
    for count in extent.of(&COUNTS) {
        cases.extend(clipping(draw, dtype, *count));
    }
    for (count, [rows, columns], step) in extent.of(&SIZES).iter().copied() {
        for types in types(dtype) {
            cases.extend(rules(draw, types, count, Rows { rows, columns }, step));
        }
    }
    cases
}
