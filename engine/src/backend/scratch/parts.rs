//! Into how many parts a card's kernels take a sum, each part by a block of threads: what their scratch follows from.
//!
//! Holds: the number follows from the extents alone, never from the card or from addresses. So does the order of a sum within
//! a part, but for one thing: where an address does not let threads take runs of elements, they lie over them otherwise. Parts
//! are many enough to fill a card and few enough that their sums stay small beside the operands.

use crate::backend::{DType, Kernel, Window, kernel::Rows};

/// Elements that a part has at least: its sum is written and read again.
const GRAIN: usize = 8 << 10;
/// Blocks that keep a card busy.
const BLOCKS: usize = 512;
/// Columns that a block sees at once, at the most.
const TILE: usize = 128;
/// The most sums of the parts of a bias's gradient, whose extents its kernel does not state.
const BIAS_SUMS: usize = 16 << 10;
/// The most parts of a sum of squares.
const SQUARES: usize = 1024;
/// The most sums of the parts of a depthwise weight gradient.
const DEPTHWISE_SUMS: usize = 256 << 10;

/// Of sums over rows.
pub(in crate::backend) fn of_rows(e: &Rows) -> usize {
    let most = (BLOCKS / e.columns.div_ceil(TILE).max(1)).max(1);
    (e.rows * e.columns / GRAIN).clamp(1, most).min(e.rows.max(1))
}

/// Of a bias's gradient.
#[cfg(feature = "cuda")]
pub(in crate::backend) fn of_bias(e: &Rows) -> usize {
    of_rows(e).min((BIAS_SUMS / e.columns.max(1)).max(1))
}

/// Of a sum over `elements`.
#[cfg(feature = "cuda")]
pub(in crate::backend) fn of_elements(elements: usize) -> usize {
    (elements / GRAIN).clamp(1, SQUARES)
}

/// Of a depthwise convolution's gradient by its weights: parts of the pixels.
pub(in crate::backend) fn of_depthwise(w: &Window) -> usize {
    let rows = of_rows(&Rows { rows: w.out_pixels(), columns: w.channels });
    rows.min((DEPTHWISE_SUMS / w.taps().max(1)).max(1))
}

/// Bytes of the sums of all parts of a kernel whose operands are of `dtype`.
pub(super) fn bytes(kernel: &Kernel, dtype: DType) -> usize {
    let sum = if dtype == DType::F64 { 8 } else { 4 };
    match kernel {
        // One part writes its result at once; a row that is longer than these sums is always one part.
        Kernel::BiasGrad { .. } => BIAS_SUMS * size_of::<f64>(),
        Kernel::SumSquares => SQUARES * size_of::<f64>(),
        Kernel::BatchNorm { extents: e, .. }
        | Kernel::BatchNormGrad { extents: e, .. }
        | Kernel::LayerNormGrad { extents: e, .. }
        | Kernel::RmsNormGrad { extents: e, .. } => 2 * of_rows(e) * e.columns * size_of::<f64>(),
        Kernel::DepthwiseWeightGrad { window: w, .. } => of_depthwise(w) * w.taps() * sum,
        _ => 0,
    }
}
