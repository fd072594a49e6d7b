//! What moves elements, looks them up, or gates them.

use super::{Case, Extent, FLOATS, Operand, sum_types};
use crate::backend::ops::{Activation, CopyColumns, Embedding, Layout};
use crate::{
    backend::{DType, ops::Rows},
    selftest::draw::Draw,
};

/// Columns from one matrix to another, of type `to`: one row to all when `from_stride` is 0.
pub fn copy(draw: &mut Draw, from: DType, to: DType, copy: CopyColumns) -> Case {
    let CopyColumns { rows, columns, from_stride, from_offset, to_stride, to_offset } = copy;
    let reach = |stride: usize, offset: usize| (rows - 1) * stride + offset + columns;
    let x = (draw.numbers(reach(from_stride, from_offset)), from);
    let y = (draw.numbers(reach(to_stride, to_offset)), to);
    Case::new(Layout::CopyColumns(copy), vec![x], vec![y], 1)
}

/// Matrices turned.
pub fn transpose(draw: &mut Draw, dtype: DType, [batch, rows, columns]: [usize; 3]) -> Case {
    let x = (draw.numbers(batch * rows * columns), dtype);
    Case::new(Layout::Transpose { batch, rows, columns }, vec![x.clone()], vec![x], 1)
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

/// `[rows, columns], [from_stride, from_offset], [to_stride, to_offset]`.
const COPIES: [[[usize; 2]; 3]; 7] = [
    [[5, 7], [9, 2], [12, 3]],
    [[37, 65], [65, 0], [131, 66]],
    [[1, 1], [1, 0], [1, 0]],
    // One row to all.
    [[33, 17], [0, 4], [34, 17]],
    [[257, 3], [5, 1], [3, 0]],
    [[3, 1031], [1031, 0], [2062, 1031]],
    [[1030, 1], [2, 1], [3, 2]],
];
const TURNED: [[usize; 3]; 6] = [[2, 5, 7], [1, 37, 65], [1, 1, 1], [3, 33, 32], [1, 257, 3], [2, 1, 1031]];
/// `rows, vocabulary, width`.
const LOOKED_UP: [[usize; 3]; 6] = [[17, 5, 7], [65, 300, 33], [1, 1, 1], [1031, 3, 5], [9, 70, 257], [300, 50, 16]];
const GATED: [[usize; 2]; 6] = [[5, 7], [37, 65], [1, 1], [257, 3], [3, 257], [2, 1031]];

pub(super) fn cases(draw: &mut Draw, dtype: DType, extent: Extent) -> Vec<Case> {
    let mut cases = Vec::new();
    for ([rows, columns], [from_stride, from_offset], [to_stride, to_offset]) in
        extent.of(&COPIES).iter().map(|[extents, from, to]| (*extents, *from, *to))
    {
        for other in FLOATS {
            let columns = CopyColumns { rows, columns, from_stride, from_offset, to_stride, to_offset };
            cases.push(copy(draw, dtype, other, columns));
        }
    }
    for sizes in extent.of(&TURNED) {
        cases.push(transpose(draw, dtype, *sizes));
    }
    for sizes in extent.of(&LOOKED_UP) {
        cases.extend(embedding(draw, dtype, *sizes));
    }
    for [rows, columns] in extent.of(&GATED).iter().copied() {
        cases.extend(gated(draw, dtype, Rows { rows, columns }));
    }
    cases
}
