//! The recorders of the runs of this window.

use std::path::PathBuf;

use plimsoll_engine::{
    store::{Recorder, RunKey},
    train::{Event, Trainer},
};

/// The recorder of the run under way, and those that still write.
#[derive(Debug, Default)]
pub(crate) struct Recorders {
    present: Option<Recorder>,
    ending: Vec<Recorder>,
}

impl Recorders {
    pub(super) fn begin(&mut self, recorder: Recorder) {
        self.ending.extend(self.present.replace(recorder));
    }

    /// Where the files of the present run go, if it is kept.
    pub(super) fn files(&self) -> Option<PathBuf> {
        self.present.as_ref().map(Recorder::files)
    }

    pub(super) fn key(&self) -> Option<RunKey> {
        self.present.as_ref().map(|recorder| recorder.key().clone())
    }

    /// Records an event of the run under way.
    pub(crate) fn take(&mut self, event: &Event, trainer: &Trainer) {
        let Some(recorder) = &self.present else { return };
        let is_end = matches!(event, Event::Ended { .. });
        if is_end {
            recorder.take_latest(&trainer.latest());
        }
        recorder.take(event);
        if is_end {
            self.ending.extend(self.present.take());
        }
    }

    /// The problems of keeping the runs, since they were last asked for.
    pub(super) fn warnings(&mut self) -> Vec<String> {
        // Looked at first: what one says at its end is there once it is done.
        let (done, ending) = std::mem::take(&mut self.ending).into_iter().partition(Recorder::is_done);
        self.ending = ending;
        self.present.iter().chain(&self.ending).chain::<&Vec<_>>(&done).filter_map(Recorder::warning).collect()
    }

    /// Whether one still writes the records of a run that is over.
    pub(super) fn are_ending(&self) -> bool {
        !self.ending.is_empty()
    }

    /// Whether a run is being recorded that has not ended.
    pub(crate) fn is_recording(&self) -> bool {
        self.present.is_some()
    }

    /// Writes the remaining records.
    pub(crate) fn finish(&mut self) {
        self.ending.extend(self.present.take());
        self.ending.drain(..).for_each(|recorder| drop(recorder.finish()));
    }
}
