//! Scratch of the kernels on an NVIDIA GPU: what a launch takes from the pool and gives back when it is over.
//!
//! Products and convolutions have none: cuBLAS and cuDNN work in the one buffer that a run allocates when it starts
//! (`gpu.workspace`). Kernels that sum in registers and in a block's shared memory have none either. An arm for a family
//! stands here as soon as its kernels take room.

use crate::{
    backend::{DType, Kernel},
    device::Profile,
};

/// Bytes that a launch of `kernel` takes on a card.
pub(super) fn bytes(kernel: &Kernel, _dtype: DType, _profile: &Profile) -> u64 {
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
        _ => 0,
    }
}
