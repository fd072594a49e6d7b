//! Kernels that stream through memory, element by element or column by column.

use super::{Case, Extent, FLOATS, sum_types};
use crate::backend::ops::{Activation, ActivationFunction, Dropout, Elementwise, Layout, Linear, Optimizer};
use crate::{
    backend::{DType, ops::Rows},
    selftest::draw::Draw,
};

/// What writes numbers without reading any.
pub fn makers(draw: &mut Draw, dtype: DType, count: usize) -> Vec<Case> {
    let y = (draw.numbers(count), dtype);
    let key = count as u64;
    vec![
        Case::new(Elementwise::Fill(0.25), vec![], vec![y.clone()], 1),
        Case::new(Elementwise::Fill(9.0), vec![], vec![(vec![1.0; count], DType::U32)], 1),
        Case::new(Elementwise::Fill(255.0), vec![], vec![(vec![1.0; count], DType::U8)], 1),
        Case::new(Elementwise::Uniform { bound: 0.7, key }, vec![], vec![y.clone()], 1),
        Case::new(Elementwise::Normal { std: 0.5, key }, vec![], vec![y.clone()], 1),
        Case::new(Dropout { probability: 0.25, key }, vec![], vec![y], 2),
    ]
}

/// What changes numbers one by one.
pub fn elements(draw: &mut Draw, dtype: DType, count: usize) -> Vec<Case> {
    let (x, y) = ((draw.numbers(count), dtype), (draw.numbers(count), dtype));
    let times = |of: &[f64], factor: f64| -> Vec<f64> { of.iter().map(|x| factor * x).collect() };
    let wide = (times(&x.0, 5.0), dtype);
    let clipped = times(&x.0, 9.0).iter().map(|x| x.clamp(0.0, 6.0)).collect();
    let mut cases = vec![
        Case::new(Activation::Relu, vec![], vec![y.clone()], 1),
        Case::new(Activation::ReluGrad, vec![x.clone()], vec![y.clone()], 1),
        Case::new(Activation::Relu6, vec![], vec![(times(&y.0, 9.0), dtype)], 1),
        Case::new(Activation::Relu6Grad, vec![(clipped, dtype)], vec![y.clone()], 1),
        Case::new(Elementwise::Add, vec![x.clone()], vec![y.clone()], 2),
        Case::new(Elementwise::Scale(-0.375), vec![], vec![y.clone()], 1),
        Case::new(Optimizer::SumSquares, vec![x.clone()], vec![(vec![0.5], DType::F64)], count),
        Case::new(Optimizer::Clip { limit: 0.5 }, vec![(vec![9.0], DType::F64)], vec![(vec![0.0], DType::F64)], 2),
        Case::new(Optimizer::Clip { limit: 4.0 }, vec![(vec![9.0], DType::F64)], vec![(vec![0.0], DType::F64)], 2),
    ];
    for other in FLOATS {
        cases.push(Case::new(Layout::Cast, vec![x.clone()], vec![(y.0.clone(), other)], 1));
    }
    for curve in [ActivationFunction::Gelu, ActivationFunction::GeluTanh, ActivationFunction::Silu] {
        cases.push(Case::new(Activation::Apply(curve), vec![wide.clone()], vec![y.clone()], 32));
        cases.push(Case::new(Activation::ApplyGrad(curve), vec![wide.clone()], vec![y.clone()], 64));
    }
    cases
}

/// A bias and its gradient.
pub fn biases(draw: &mut Draw, dtype: DType, Rows { rows, columns }: Rows) -> Vec<Case> {
    let (row, y) = ((draw.numbers(columns), dtype), (draw.numbers(rows * columns), dtype));
    let mut cases = vec![Case::new(Linear::AddBias, vec![row.clone()], vec![y.clone()], 2)];
    for sum in sum_types(dtype) {
        for accumulate in [false, true] {
            let db = (row.0.clone(), *sum);
            cases.push(Case::new(Linear::BiasGrad { accumulate }, vec![y.clone()], vec![db], rows));
        }
    }
    cases
}

/// Numbers that are none, and those at the bends, where the vocabulary says what becomes of them.
fn edges(dtype: DType) -> Vec<Case> {
    let y = || (vec![f64::NAN, -1.0, 0.0, 6.0, 7.0, f64::INFINITY, f64::NEG_INFINITY], dtype);
    let dy = || (vec![3.0; 7], dtype);
    let sum = || vec![(vec![0.5], DType::F64)];
    vec![
        Case::new(Activation::Relu, vec![], vec![y()], 1),
        Case::new(Activation::ReluGrad, vec![y()], vec![dy()], 1),
        Case::new(Activation::Relu6, vec![], vec![y()], 1),
        Case::new(Optimizer::SumSquares, vec![(vec![1.0, f64::NAN, 2.0], dtype)], sum(), 3),
        Case::new(Optimizer::SumSquares, vec![(vec![1.0, f64::INFINITY], dtype)], sum(), 2),
    ]
}

const COUNTS: [usize; 7] = [7, 257, 1, 255, 1025, 2053, 70_001];
const ROWS: [[usize; 2]; 9] =
    [[5, 7], [37, 65], [1, 1], [1, 1031], [1031, 1], [257, 3], [3, 257], [129, 33], [2100, 17]];

pub(super) fn cases(draw: &mut Draw, dtype: DType, extent: Extent) -> Vec<Case> {
    let mut cases = edges(dtype);
    for count in extent.of(&COUNTS) {
        cases.extend(makers(draw, dtype, *count));
        cases.extend(elements(draw, dtype, *count));
    }
    for [rows, columns] in extent.of(&ROWS).iter().copied() {
        cases.extend(biases(draw, dtype, Rows { rows, columns }));
    }
    cases
}
