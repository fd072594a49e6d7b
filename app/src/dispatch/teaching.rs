//! A run whose teacher a preset describes: the teacher is trained first, as a run of its own.

use plimsoll_engine::train::{Command, Start};

use super::Dispatcher;
use crate::state::{Level, Taught};

impl Dispatcher<'_> {
    /// Begins a run whose teacher is there, or that needs none.
    pub(super) fn train_now(&mut self, start: Start) {
        let is_paused = start.paused;
        self.start(start, None);
        if is_paused {
            self.services.trainer.send(Command::Step);
        }
    }

    /// Trains the teacher of `next`, as a run of its own, before that begins.
    pub(super) fn teach(&mut self, teacher: Start, mut next: Start) {
        if self.services.store.is_none() {
            self.toasts.warning(
                "Runs are not kept here, so the teacher's weights would be lost: choose a teacher that is trained",
            );
            return;
        }
        let name = teacher.experiment.title.clone();
        self.start(teacher, None);
        let Some(folder) = self.recorders.files() else { return };
        self.state.log.add(Level::Note, format!("Trains the teacher first: {name}"));
        next.experiment.distil.teacher = Some(folder);
        self.state.taught = Some(Taught { start: next, is_due: false });
    }

    /// Begins the run whose teacher is trained now.
    pub(super) fn begin_taught(&mut self) {
        if let Some(taught) = self.state.taught.take_if(|taught| taught.is_due) {
            self.train_now(taught.start);
        }
    }
}
