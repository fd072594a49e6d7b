//! The parts of a run, in which memory is used for different things.

use serde::{Deserialize, Serialize};

use crate::error::During;

/// The part of a run that memory is used in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The model is built.
    #[default]
    Start,
    /// Weights are read, or a checkpoint to go on from.
    Loading,
    /// A teacher is asked about every training sample, before the first step.
    Teach,
    /// A micro-batch is brought to the device.
    Batch,
    /// The forward pass.
    Forward,
    /// The second forward pass of a checkpointed segment, inside the backward pass.
    Recompute,
    /// The backward pass.
    Backward,
    /// Clipping and the update of the parameters.
    Optimizer,
    /// Channels are taken out of the model.
    Prune,
    /// A forward pass over test data.
    Evaluate,
    /// A checkpoint is written.
    Saving,
    /// A trained model becomes one of 8-bit integers and is tested.
    Compress,
}

impl Phase {
    /// The part of a run that it belongs to.
    pub fn during(self) -> During {
        match self {
            Self::Start | Self::Batch | Self::Forward | Self::Recompute | Self::Backward | Self::Optimizer => {
                During::Training
            }
            Self::Loading => During::Loading,
            Self::Teach => During::Teaching,
            Self::Prune => During::Pruning,
            Self::Evaluate => During::Test,
            Self::Saving => During::Saving,
            Self::Compress => During::Compression,
        }
    }

    /// Every phase, in the order of a run.
    pub const ALL: [Self; 12] = [
        Self::Start,
        Self::Loading,
        Self::Teach,
        Self::Batch,
        Self::Forward,
        Self::Recompute,
        Self::Backward,
        Self::Optimizer,
        Self::Prune,
        Self::Evaluate,
        Self::Saving,
        Self::Compress,
    ];

    /// The name on screen.
    pub fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Loading => "loading",
            Self::Teach => "teach",
            Self::Batch => "batch",
            Self::Forward => "forward",
            Self::Recompute => "recompute",
            Self::Backward => "backward",
            Self::Optimizer => "optimizer",
            Self::Prune => "prune",
            Self::Evaluate => "evaluate",
            Self::Saving => "saving",
            Self::Compress => "compress",
        }
    }
}
