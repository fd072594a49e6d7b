//! The state that the recorder of a run and its thread share.

use crossbeam_channel::{Receiver, Sender};
use jiff::Timestamp;

use crate::{
    error::Error,
    store::{
        EventKind, KeptEvent, RunState,
        batch::{Batch, End},
    },
    train::{Outcome, StepRecord, Summary},
};

/// The state that the recorder and its thread share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) batch: Batch,
    pub(super) has_plan: bool,
    pub(super) is_refused: bool,
    pub(super) is_kept: bool,
    /// The problem, until it is reported.
    pub(super) warning: Option<String>,
    /// The last step that was taken; before the first, the one that the run goes on after.
    pub(super) step: u64,
    /// Evaluations that were taken.
    pub(super) evaluations: u64,
    /// Wakes the thread; `None` once nothing more comes.
    pub(super) wake: Option<Sender<()>>,
    /// The record that a checkpoint waits for.
    pub(super) wanted: Option<Wanted>,
    /// The thread writes nothing more.
    pub(super) is_over: bool,
}

/// A record up to a step, with this many evaluations. The thread that waits for it goes on when this is dropped.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) step: u64,
    pub(super) evaluations: u64,
    _awaited: Sender<()>,
}

impl Shared {
    pub(super) fn wake(&self) {
        if let Some(wake) = &self.wake {
            // One that is on its way is enough.
            let _ = wake.try_send(());
        }
    }

    /// Asks for the run to be written up to a step. The receiver is disconnected once that was done, or cannot be done.
    pub(super) fn want(&mut self, step: u64, evaluations: u64) -> Receiver<()> {
        let (sender, awaited) = crossbeam_channel::bounded(0);
        if !self.is_over && self.wake.is_some() {
            self.wanted = Some(Wanted { step, evaluations, _awaited: sender });
            if self.has_what_is_wanted() {
                self.wake();
            }
        }
        awaited
    }

    /// Whether something is wanted that came, and has yet to be written.
    pub(super) fn has_what_is_wanted(&self) -> bool {
        let has = |wanted: &Wanted| self.step >= wanted.step && self.evaluations >= wanted.evaluations;
        self.wanted.as_ref().is_some_and(has)
    }

    /// Ends the writing, so that no thread waits for it.
    pub(super) fn close(&mut self) {
        (self.is_over, self.wanted) = (true, None);
    }

    pub(super) fn step(&mut self, record: &StepRecord) {
        self.batch.has_begun = true;
        self.step = record.step;
        if self.batch.is_full() {
            self.batch.lost += 1;
        } else {
            self.batch.steps.push(*record);
        }
    }

    pub(super) fn note(&mut self, kind: EventKind, text: &str) {
        if !self.batch.is_full() {
            let event = KeptEvent { at: Timestamp::now(), step: self.step, kind, text: text.to_owned() };
            self.batch.events.push(event);
        }
    }

    pub(super) fn end(&mut self, outcome: &Outcome, summary: &Summary, is_forced: bool) {
        let (state, message) = match outcome {
            Outcome::Finished => (RunState::Finished, None),
            Outcome::Stopped => (RunState::Stopped, None),
            Outcome::OverBudget(refusal) => (RunState::Failed, Some(refusal.error.to_string())),
            Outcome::Failed(error) => (RunState::Failed, Some(error.to_string())),
        };
        // Integers and taken out channels have events of their own.
        if let Some(stripped) = summary.stripped.filter(|stripped| stripped.are_zeros && stripped.gone > 0) {
            self.note(EventKind::Compressed, &stripped.to_string());
        }
        let is_refusal = match outcome {
            Outcome::OverBudget(_) => !is_forced,
            Outcome::Failed(error) => matches!(error, Error::Experiment(_)),
            Outcome::Finished | Outcome::Stopped => false,
        };
        let was_refused = is_refusal && !self.batch.has_begun;
        self.is_refused = was_refused || !self.has_plan;
        self.batch.has_begun = !self.is_refused;
        self.batch.end = Some(End { at: Timestamp::now(), state, message, summary: Some(*summary) });
    }
}
