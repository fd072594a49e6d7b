//! Dense layers: products of matrices, and the bias.

use super::{Case, Extent, kernel_names, sum_types};
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
}

/// A product into a result of type `sum`.
pub fn matmul(draw: &mut Draw, dtype: DType, product: MatMul, sum: DType) -> Case {
    let MatMul { m, n, k, .. } = product;
    let operands = vec![(draw.numbers(m * k), dtype), (draw.numbers(k * n), dtype)];
    Case::new(Linear::MatMul(product), operands, vec![(draw.numbers(m * n), sum)], k)
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
    for [rows, columns] in extent.of(&ROWS).iter().copied() {
        cases.extend(biases(draw, dtype, Rows { rows, columns }));
    }
    cases
}
