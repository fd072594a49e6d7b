//! Chains of ops in one pass over memory: a bias and its function, a batch norm and what follows it, and sums of rows.

pub(super) mod bias;
pub(super) mod channels;
pub(super) mod sum;

use super::Operands;
use crate::{backend::ops::Fused, error::Result};

/// Launches a kernel of this family.
pub(super) fn launch(kernel: &Fused, o: &Operands<'_>) -> Result<()> {
    match *kernel {
        Fused::Bias(function) => bias::forward(o, function),
        Fused::BiasGrad { function, accumulate } => bias::gradient(o, function, accumulate),
        Fused::Sum { extents, biased, dropout, norm } => sum::launch(o, extents, biased, dropout, norm),
        Fused::BatchNorm { extents, epsilon, momentum, end, .. } => {
            channels::forward(o, extents, [epsilon, momentum], end)
        }
        Fused::BatchApply { sums, end, over } => channels::again(o, sums, end, over),
        Fused::BatchGrad { extents, accumulate, end } => channels::gradient(o, extents, accumulate, end),
    }
}
