//! Scratch of the kernels on an NVIDIA GPU: what a launch takes from the pool and gives back when it is over.
//!
//! Products and convolutions have none: cuBLAS and cuDNN work in the one buffer that a run allocates when it starts
//! (`gpu.workspace`). Kernels that sum in registers and in a block's shared memory have none either; those whose sums
//! are taken apart have the sums of their parts. An arm for a family stands here as soon as its kernels take room.

use super::parts;
use crate::{
    backend::{
        DType, Kernel,
        kernel::{Rows, UpdateRule},
    },
    device::Profile,
};

/// The most parts whose losses are summed apart.
pub(in crate::backend) const LOSS_PARTS: usize = 512;
/// Parts of a sum over a whole parameter in the factored update: as many as a block has threads.
pub(in crate::backend) const UPDATE_PARTS: usize = 256;
/// Columns and rows that a block of the factored update takes at once.
pub(in crate::backend) const UPDATE_TILE: [usize; 2] = [32, 8];
/// Blocks that fill a large device.
const BLOCKS: usize = 1024;

/// Parts that the factored update cuts rows into for sums over columns.
pub(in crate::backend) fn row_parts(extents: &Rows) -> usize {
    let [columns, rows] = UPDATE_TILE;
    let strips = extents.columns.div_ceil(columns).max(1);
    (BLOCKS / strips).clamp(1, 64).min(extents.rows.div_ceil(rows).max(1))
}

/// Of the factored update: the parts of two sums, then of a matrix those of the sums over its columns.
fn adafactor(extents: &Rows) -> usize {
    let columns = if extents.rows == 1 { 0 } else { row_parts(extents) * extents.columns };
    (2 * UPDATE_PARTS + columns) * size_of::<f64>()
}

/// Bytes that a launch of `kernel` takes on a card.
pub(super) fn bytes(kernel: &Kernel, dtype: DType, _profile: &Profile) -> u64 {
    match kernel {
        // Elements one by one.
        Kernel::Fill(_)
        | Kernel::Uniform { .. }
        | Kernel::Normal { .. }
        | Kernel::Cast
        | Kernel::CopyColumns { .. }
        | Kernel::Transpose { .. }
        | Kernel::AddBias
        | Kernel::Relu
        | Kernel::ReluGrad
        | Kernel::Relu6
        | Kernel::Relu6Grad
        | Kernel::Add
        | Kernel::Scale(_)
        | Kernel::Curve(_)
        | Kernel::CurveGrad(_)
        | Kernel::Dropout { .. }
        | Kernel::SwiGlu { .. }
        | Kernel::SwiGluGrad { .. }
        | Kernel::Rotary { .. } => 0,
        // Within the run's workspace.
        Kernel::MatMul(_) | Kernel::Conv2d(_) | Kernel::Conv2dInputGrad(_) | Kernel::Conv2dWeightGrad { .. } => 0,
        // A number of each row of each head: the softmax's denominators, or the means of gradients.
        Kernel::AttentionPlain(s) | Kernel::AttentionGrad(s) | Kernel::AttentionPlainGrad(s) => {
            let width = if dtype == DType::F64 { size_of::<f64>() } else { size_of::<f32>() };
            (s.rows() * s.heads * width) as u64
        }
        // A loss and a count a part.
        Kernel::CrossEntropy => (2 * LOSS_PARTS * size_of::<f64>()) as u64,
        // A token and its place.
        Kernel::EmbeddingGrad { rows, .. } => (rows * size_of::<u64>()) as u64,
        Kernel::Update(update) => match &update.rule {
            UpdateRule::Adafactor { extents, .. } => adafactor(extents) as u64,
            _ => 0,
        },
        // The sums of parts.
        _ => parts::bytes(kernel, dtype) as u64,
    }
}
