//! How far a run has come, and how it ended.

use plimsoll_engine::{
    store::{RunState, StoredRun},
    train::Outcome,
};

/// The status of a run.
#[derive(Debug, Clone)]
pub(crate) enum Status {
    /// The run trains.
    Running,
    /// The run is paused.
    Paused,
    /// The run is over.
    Ended(Outcome),
    /// The run belongs to another session, and came this far.
    Kept(RunState),
    /// The run belongs to another session, and met its budget.
    KeptOverBudget,
}

impl Status {
    /// Whether it still holds the device.
    pub(crate) fn is_active(&self) -> bool {
        matches!(self, Self::Running | Self::Paused)
    }

    /// Whether it was ended because it met its budget.
    pub(crate) fn is_over_budget(&self) -> bool {
        matches!(self, Self::Ended(Outcome::OverBudget(_)) | Self::KeptOverBudget)
    }

    /// The status in a word.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Ended(Outcome::Finished) => "finished",
            Self::Ended(Outcome::Stopped) => "stopped",
            Self::Ended(Outcome::OverBudget(_)) | Self::KeptOverBudget => StoredRun::OVER_BUDGET,
            Self::Ended(Outcome::Failed(_)) => "failed",
            Self::Kept(state) => state.key(),
        }
    }
}
