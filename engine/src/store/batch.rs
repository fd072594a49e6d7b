//! The records of a run that have yet to be written.
//!
//! Always holds: records without room are counted, and no others are lost.

use std::sync::Arc;

use jiff::Timestamp;

use crate::{
    plan::Plan,
    store::{Evaluation, KeptEvent, RunState, measured::Measured},
    train::{StepRecord, Summary},
};

/// Steps that are held back at most while the store cannot be written; of evaluations and events, a tenth.
const MOST_HELD: usize = 1 << 17;

/// The records of a run since they were last taken.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// The prediction, until it is written.
    pub(super) plan: Option<Arc<Plan>>,
    /// Whether the run has begun to train.
    pub(super) has_begun: bool,
    pub(super) steps: Vec<StepRecord>,
    pub(super) evaluations: Vec<Evaluation>,
    pub(super) events: Vec<KeptEvent>,
    /// The newest step that was measured op by op.
    pub(super) measured: Option<Measured>,
    pub(super) end: Option<End>,
    /// Steps that had no room.
    pub(super) lost: u64,
}

/// How a run ended.
#[derive(Debug, Clone)]
pub(super) struct End {
    pub(super) at: Timestamp,
    pub(super) state: RunState,
    pub(super) message: Option<String>,
    /// `None` if its program ended first.
    pub(super) summary: Option<Summary>,
}

impl Batch {
    /// Adds later records.
    pub(super) fn append(&mut self, later: Self) {
        self.plan = later.plan.or(self.plan.take());
        self.has_begun |= later.has_begun;
        self.steps.extend(later.steps);
        self.evaluations.extend(later.evaluations);
        self.events.extend(later.events);
        self.measured = later.measured.or(self.measured.take());
        self.end = later.end.or(self.end.take());
        self.lost += later.lost;
    }

    /// Whether there is nothing to write.
    pub(super) fn is_empty(&self) -> bool {
        self.plan.is_none()
            && self.steps.is_empty()
            && self.evaluations.is_empty()
            && self.events.is_empty()
            && self.measured.is_none()
            && self.end.is_none()
    }

    /// Whether no more should be held back.
    pub(super) fn is_full(&self) -> bool {
        self.steps.len() >= MOST_HELD || self.evaluations.len() + self.events.len() >= MOST_HELD / 10
    }
}
