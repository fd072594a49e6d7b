//! The number of parts of a sum on a card, each summed by a block of threads. The scratch follows from it.
//!
//! Always holds: the number follows from the extents alone, never from the card or from addresses. So does the order of a sum
//! within a part, with one exception: threads that cannot take runs of elements, because of an address, take them in another
//! order. Parts are many enough to fill a card and few enough that their sums stay small compared to the operands.

use crate::backend::{
    DType,
    ops::{Rows, Window},
};

/// Elements that a part has at least: its sum is written and read again.
const GRAIN: usize = 8 << 10;
/// Blocks that keep a card busy.
const BLOCKS: usize = 512;
/// Columns that a block sees at once, at most.
const TILE: usize = 128;
/// The most sums of the parts of a bias's gradient, whose extents its kernel does not state.
pub(in crate::backend) const BIAS_SUMS: usize = 16 << 10;
/// The most parts of a sum of squares.
pub(in crate::backend) const ELEMENT_SUMS: usize = 1024;
/// The most sums of the parts of a depthwise weight gradient.
const DEPTHWISE_SUMS: usize = 256 << 10;

/// Parts of sums over rows.
pub(in crate::backend) fn row_splits(e: &Rows) -> usize {
    let most = (BLOCKS / e.columns.div_ceil(TILE).max(1)).max(1);
    (e.rows * e.columns / GRAIN).clamp(1, most).min(e.rows.max(1))
}

/// Elements of f64 that two sums over rows take.
pub(in crate::backend) fn row_sums(e: &Rows) -> usize {
    2 * row_splits(e) * e.columns
}

/// The most columns of a norm of rows whose sums a block keeps: the gradients by input and parameters are one kernel then.
pub(in crate::backend) const ROW_NORM_COLUMNS: usize = 2048;
/// The most parts of the rows in that kernel: a block each.
pub(in crate::backend) const ROW_NORM_PARTS: usize = 192;
/// Rows that such a part has at least.
const ROW_NORM_ROWS: usize = 16;

/// Parts of the rows in the gradient of a norm of rows, where one kernel makes all of it.
pub(in crate::backend) fn row_norm_splits(e: &Rows) -> Option<usize> {
    (e.columns <= ROW_NORM_COLUMNS).then(|| (e.rows / ROW_NORM_ROWS).clamp(1, ROW_NORM_PARTS))
}

/// Bytes of the sums of parts in the gradient of a norm of rows.
pub(in crate::backend) fn row_norm_bytes(e: &Rows, dtype: DType) -> usize {
    match row_norm_splits(e) {
        Some(parts) => 2 * parts * e.columns * dtype.accumulator().size(),
        None => row_sums(e) * size_of::<f64>(),
    }
}

/// Parts of a bias's gradient.
#[cfg(feature = "cuda")]
pub(in crate::backend) fn bias_splits(e: &Rows) -> usize {
    row_splits(e).min((BIAS_SUMS / e.columns.max(1)).max(1))
}

/// Parts of a sum over `elements`.
pub(in crate::backend) fn element_splits(elements: usize) -> usize {
    (elements / GRAIN).clamp(1, ELEMENT_SUMS)
}

/// Parts of the pixels in a depthwise convolution's gradient by its weights.
pub(in crate::backend) fn pixel_splits(w: &Window) -> usize {
    let rows = row_splits(&Rows { rows: w.out_pixels(), columns: w.channels });
    rows.min((DEPTHWISE_SUMS / w.taps().max(1)).max(1))
}

/// Parts of a sum over a whole parameter in the factored update on a GPU: as many as a block has threads.
pub(in crate::backend) const UPDATE_SPLITS: usize = 256;
/// Columns and rows that a block of the factored update takes at once.
pub(in crate::backend) const UPDATE_TILE: [usize; 2] = [32, 8];
/// Blocks that fill a large device.
const UPDATE_BLOCKS: usize = 1024;

/// Parts of the rows in the factored update's sums over columns.
pub(in crate::backend) fn update_row_splits(e: &Rows) -> usize {
    let [columns, rows] = UPDATE_TILE;
    let strips = e.columns.div_ceil(columns).max(1);
    (UPDATE_BLOCKS / strips).clamp(1, 64).min(e.rows.div_ceil(rows).max(1))
}

/// Parts of the sum of squares in APOLLO-Mini's update on a GPU, one for each block that reads the gradient.
pub(in crate::backend) fn apollo_squares(e: &Rows) -> usize {
    let [columns, rows] = UPDATE_TILE;
    if e.rows > e.columns {
        e.rows.div_ceil(rows).clamp(1, UPDATE_SPLITS)
    } else {
        e.columns.div_ceil(columns) * update_row_splits(e)
    }
}
