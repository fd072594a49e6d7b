//! Dense layers: products of matrices, and the bias.

use super::{Case, Extent, Operand, kernel_names, sum_types};
use crate::{
    backend::{
        DType,
        ops::{Linear, MatMul, Rows},
    },
    selftest::draw::Draw,
};

kernel_names! {
    Linear;
    Linear::MatMul(_) => "matmul",
    Linear::AddBias => "add-bias",
    Linear::BiasGrad { .. } => "bias-gradient",
    Linear::Biased(_) => "matmul-bias",
    Linear::BiasedGelu(_) => "matmul-bias-gelu",
    Linear::GeluGrad(_) => "matmul-gelu-gradient",
    Linear::WeightGrads(_) => "matmul-bias-gradient",
}

/// A product into a result of type `sum`.
pub fn matmul(draw: &mut Draw, dtype: DType, product: MatMul, sum: DType) -> Case {
    let MatMul { m, n, k, .. } = product;
    let operands = vec![(draw.numbers(m * k), dtype), (draw.numbers(k * n), dtype)];
    Case::new(Linear::MatMul(product), operands, vec![(draw.numbers(m * n), sum)], k)
}

/// The products of a dense layer with `rows` rows, `[m, k]` by `[n, k]`, that a library may do more with: with a bias, with GELU
/// after it, the gradient by GELU before it, and the gradient by the weight, of type `sum`, with that by the bias.
pub fn joined(draw: &mut Draw, dtype: DType, [m, n, k]: [usize; 3], sum: DType) -> Vec<Case> {
    let matrix = |draw: &mut Draw, rows: usize, columns: usize| -> Operand { (draw.numbers(rows * columns), dtype) };
    let (x, w, bias) = (matrix(draw, m, k), matrix(draw, n, k), matrix(draw, 1, n));
    let (y, other) = (matrix(draw, m, n), matrix(draw, m, n));
    let forward = MatMul { m, n, k, transpose_a: false, transpose_b: true, accumulate: false };
    let backward = MatMul { m: n, n: k, k: m, transpose_a: true, transpose_b: false, accumulate: false };
    let weight_grads = |accumulate| {
        let (dw, db) = ((w.0.clone(), sum), (bias.0.clone(), sum));
        let product = Linear::WeightGrads(MatMul { accumulate, ..backward });
        Case::new(product, vec![y.clone(), x.clone()], vec![dw, db], m)
    };
    let mut cases = [false, true].map(weight_grads).to_vec();
    if sum == dtype {
        let passed = MatMul { m, n: k, k: n, transpose_a: false, transpose_b: false, accumulate: false };
        let inputs = vec![y.clone(), w.clone(), x.clone()];
        cases.push(Case::new(Linear::GeluGrad(passed), inputs, vec![(draw.numbers(m * k), dtype)], 4 * (n + 1)));
        let inputs = vec![x, w, bias];
        cases.push(Case::new(Linear::Biased(forward), inputs.clone(), vec![y.clone()], k + 1));
        cases.push(Case::new(Linear::BiasedGelu(forward), inputs, vec![y, other], 16 * (k + 1)));
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

/// `m`, `n`, `k`.
const PRODUCTS: [[usize; 3]; 9] = [
    [7, 5, 3],
    [33, 65, 17],
    [1, 1, 1],
    [64, 64, 64],
    [1, 257, 31],
    [129, 1, 70],
    [5, 9, 1031],
    [131, 67, 129],
    [1, 1, 300],
];
/// `m`, `n`, `k`. A library takes rows of eight elements, or of four, and refuses others.
const JOINED: [[usize; 3]; 6] = [[37, 64, 24], [7, 5, 3], [129, 136, 72], [1, 8, 1], [2100, 16, 8], [33, 65, 300]];
/// `rows, columns`.
const ROWS: [[usize; 2]; 9] =
    [[5, 7], [37, 65], [1, 1], [1, 1031], [1031, 1], [257, 3], [3, 257], [129, 33], [2100, 17]];

pub(super) fn cases(draw: &mut Draw, dtype: DType, extent: Extent) -> Vec<Case> {
    let mut cases = Vec::new();
    for [m, n, k] in extent.of(&PRODUCTS).iter().copied() {
        for turn in 0..4 {
            let (transpose_a, transpose_b) = (turn % 2 == 1, turn / 2 == 1);
            for (i, sum) in sum_types(dtype).iter().enumerate() {
                let product = MatMul { m, n, k, transpose_a, transpose_b, accumulate: (turn + i) % 2 == 1 };
                cases.push(matmul(draw, dtype, product, *sum));
            }
        }
    }
    for extents in extent.of(&JOINED).iter().copied() {
        cases.extend(sum_types(dtype).iter().flat_map(|sum| joined(draw, dtype, extents, *sum)));
    }
    for [rows, columns] in extent.of(&ROWS).iter().copied() {
        cases.extend(biases(draw, dtype, Rows { rows, columns }));
    }
    cases
}
