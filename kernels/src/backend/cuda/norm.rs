//! Normalisations: by the statistics of a batch and by those of each row.

pub(super) mod batch;
pub(super) mod row;

use super::Operands;
use crate::{backend::ops::Norm, error::Result};

/// Launches a kernel of this family.
pub(super) fn launch(kernel: &Norm, o: &Operands<'_>) -> Result<()> {
    match *kernel {
        Norm::Batch { extents, epsilon, momentum } => batch::forward(o, extents, epsilon, momentum),
        Norm::BatchApply { adds } => batch::apply(o, adds),
        Norm::BatchGrad { extents, accumulate } => batch::gradient(o, extents, accumulate),
        Norm::BatchFixed { epsilon } => batch::fixed(o, epsilon),
        Norm::Layer { extents, epsilon } => row::forward(o, extents, epsilon, true),
        Norm::LayerGrad { extents, accumulate } => row::gradient(o, extents, accumulate, true),
        Norm::Rms { extents, epsilon } => row::forward(o, extents, epsilon, false),
        Norm::RmsGrad { extents, accumulate } => row::gradient(o, extents, accumulate, false),
    }
}
