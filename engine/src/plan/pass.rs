//! The passes of a run that have a timeline.

use serde::{Deserialize, Serialize};

/// A pass of the run that has a timeline of its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pass {
    /// A teacher is asked about every training sample, before the model is made.
    Teach,
    /// The first optimizer step, in which optimizer state is allocated; in a run that goes on, the checkpoint is read before
    /// it.
    #[default]
    First,
    /// Every later step.
    Steady,
    /// The taking out of channels.
    Prune,
    /// Every step after that.
    Pruned,
    /// Evaluation on test data.
    Evaluate,
    /// The writing of a checkpoint.
    Save,
    /// A trained model becomes one of 8-bit integers and is tested.
    Compress,
}

impl Pass {
    /// Every pass, in the order of a run.
    pub const ALL: [Self; 8] =
        [Self::Teach, Self::First, Self::Steady, Self::Prune, Self::Pruned, Self::Evaluate, Self::Save, Self::Compress];

    /// The passes whose timelines are kept with a run that peaks in `peak`: a step after the first, and that one.
    pub(crate) fn kept(peak: Self) -> impl Iterator<Item = Self> {
        [Self::Steady].into_iter().chain((peak != Self::Steady).then_some(peak))
    }

    /// The phase of the run that it is.
    pub fn name(self) -> &'static str {
        match self {
            Self::Teach => "teaching",
            Self::First => "first step",
            Self::Steady => "training",
            Self::Prune => "pruning channels",
            Self::Pruned => "pruned training",
            Self::Evaluate => "evaluating",
            Self::Save => "saving",
            Self::Compress => "compressing",
        }
    }
}
