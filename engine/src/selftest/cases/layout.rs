//! Casts, columns of matrices, and transposes.

use super::{COUNTS, Case, Extent, FLOATS, kernel_names};
use crate::{
    backend::{
        DType,
        ops::{CopyColumns, Layout},
    },
    selftest::draw::Draw,
};

kernel_names! {
    Layout;
    Layout::Cast => "cast",
    Layout::CopyColumns(_) => "copy-columns",
    Layout::Transpose { .. } => "transpose",
}

/// Casts to every type.
pub fn casts(draw: &mut Draw, dtype: DType, count: usize) -> Vec<Case> {
    let (x, y) = ((draw.numbers(count), dtype), draw.numbers(count));
    FLOATS.iter().map(|to| Case::new(Layout::Cast, vec![x.clone()], vec![(y.clone(), *to)], 1)).collect()
}

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

pub(super) fn cases(draw: &mut Draw, dtype: DType, extent: Extent) -> Vec<Case> {
    let mut cases = Vec::new();
    for count in extent.of(&COUNTS) {
        cases.extend(casts(draw, dtype, *count));
    }
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
    cases
}
