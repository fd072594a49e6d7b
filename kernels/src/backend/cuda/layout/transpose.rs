//! Transposes.

use crate::backend::cuda::{DType, Operands, Source, Types, args, launch::Grid};
use crate::error::Result;

/// The kernels.
pub(in crate::backend::cuda) const SOURCE: Source =
    Source { name: "transpose", text: include_str!("transpose.cu"), types: Types::Element };

/// Side of a square that a block turns, and rows of threads, as `SIDE` and `STEP` of `transpose.cu`.
const SIDE: usize = 32;
const STEP: u32 = 8;
/// The most squares: each is a block, and a grid has at most this many along x.
const MOST: usize = i32::MAX as usize;

/// Launches [`Layout::Transpose`](crate::backend::ops::Layout::Transpose).
pub(super) fn launch([batch, rows, columns]: [usize; 3], o: &Operands<'_>) -> Result<()> {
    let dtype: DType = o.output_type(0);
    let squares = batch * rows.div_ceil(SIDE) * columns.div_ceil(SIDE);
    if o.input_type(0) != dtype || squares > MOST {
        return o.unsupported();
    }
    let args = args![o.input(0), o.output(0), rows, columns];
    o.launch_for(&SOURCE, dtype, c"transpose", Grid::plane([squares, 1], [SIDE as u32, STEP]), args)
}
