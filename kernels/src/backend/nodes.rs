//! How many nodes of a graph a kernel is on a GPU, at the most.
//!
//! Owns the bound that a plan allows memory by. Always holds: a run makes no graph that takes more than its plan allows, so a
//! kernel of more nodes costs its graph and no memory.

use crate::{
    backend::{
        Kernel,
        ops::{Linear, Optimizer, UpdateRule},
    },
    device::graphs::LIBRARY_NODES,
};

/// The most nodes that one launch of the executor is expected to be on a GPU.
pub(super) fn nodes_of(kernel: &Kernel) -> u64 {
    match kernel {
        // Where cuBLASLt does not serve it: a product by cuBLAS, and the bias and its function, or the bias's gradient.
        Kernel::Linear(Linear::Biased(_) | Linear::BiasedGelu(_) | Linear::GeluGrad(_)) => LIBRARY_NODES + 1,
        Kernel::Linear(Linear::WeightGrads(product)) => LIBRARY_NODES + 2 + u64::from(product.accumulate),
        Kernel::Linear(Linear::MatMul(_) | Linear::AddBias | Linear::BiasGrad { .. }) => LIBRARY_NODES,
        // The patches of a convolution without cuDNN, or the parts of a weight that is held in codes: as far as one part goes. By
        // cuDNN a gradient of weights may be one node more, which widens it.
        Kernel::Convolution(_) | Kernel::Coded(_) => LIBRARY_NODES + 2,
        // The gradient of a table sorts its rows.
        Kernel::Embedding(_) => 12,
        Kernel::Optimizer(Optimizer::Update(update)) => match update.rule {
            UpdateRule::Adafactor { .. } | UpdateRule::ApolloMini { .. } => 7,
            UpdateRule::AdamW4 { .. } => 4,
            UpdateRule::Sgd
            | UpdateRule::Momentum { .. }
            | UpdateRule::Nesterov { .. }
            | UpdateRule::RmsProp { .. }
            | UpdateRule::Adam(_)
            | UpdateRule::AdamW(_)
            | UpdateRule::AdamW8(_)
            | UpdateRule::FlashAdamW { .. }
            | UpdateRule::Lion { .. } => 1,
        },
        Kernel::Attention(_) | Kernel::Fused(_) | Kernel::Norm(_) => 3,
        Kernel::Activation(_)
        | Kernel::Depthwise(_)
        | Kernel::Dropout(_)
        | Kernel::Elementwise(_)
        | Kernel::Gather(_)
        | Kernel::Int8(_)
        | Kernel::Layout(_)
        | Kernel::Loss(_)
        | Kernel::Optimizer(_)
        | Kernel::Pool(_)
        | Kernel::Prune(_)
        | Kernel::Rotary(_) => 2,
    }
}
