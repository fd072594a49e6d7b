//! Rows of a table, and their gradient.

use super::{Case, Extent, Operand, kernel_names, sum_types};
use crate::{
    backend::{DType, ops::Embedding},
    selftest::draw::Draw,
};

kernel_names! {
    Embedding;
    Embedding::Forward => "embedding",
    Embedding::Grad { .. } => "embedding-gradient",
}

/// Rows of a table, and their gradient.
pub fn embedding(draw: &mut Draw, dtype: DType, [rows, vocabulary, width]: [usize; 3]) -> Vec<Case> {
    let tokens: Operand = (draw.integers(rows, vocabulary - 1), DType::U32);
    let (table, y) = ((draw.numbers(vocabulary * width), dtype), (draw.numbers(rows * width), dtype));
    let mut cases = vec![Case::new(Embedding::Forward, vec![tokens.clone(), table.clone()], vec![y.clone()], 1)];
    for sum in sum_types(dtype) {
        for accumulate in [false, true] {
            let dtable = (table.0.clone(), *sum);
            let kernel = Embedding::Grad { rows, accumulate };
            cases.push(Case::new(kernel, vec![tokens.clone(), y.clone()], vec![dtable], rows));
        }
    }
    cases
}

/// `rows, vocabulary, width`.
const LOOKED_UP: [[usize; 3]; 8] =
    [[17, 5, 7], [65, 300, 33], [1, 1, 1], [1031, 3, 5], [9, 70, 257], [300, 50, 16], [4100, 700, 3], [9001, 40, 2]];

pub(super) fn cases(draw: &mut Draw, dtype: DType, extent: Extent) -> Vec<Case> {
    extent.of(&LOOKED_UP).iter().flat_map(|sizes| embedding(draw, dtype, *sizes)).collect()
}
