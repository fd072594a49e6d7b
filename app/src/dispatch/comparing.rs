//! Runs and plans side by side.
//!
//! Always holds: the column of the present settings follows them while the pane is in front.

use plimsoll_engine::Experiment;

use super::Dispatcher;
use crate::{
    librarian::{Compare, Compared, Comparing},
    panels::pane::Pane,
};

/// What the present settings are called there.
const PRESENT: &str = "The present settings";

impl Dispatcher<'_> {
    /// Puts these side by side, and next to them the present settings if they are asked for.
    pub(super) fn compare(&mut self, what: Vec<Compare>, with_present: bool) {
        self.ask_for(what, with_present.then(|| self.state.document.experiment.clone()));
        self.layout.set_shown(Pane::Compare, true);
    }

    fn ask_for(&mut self, what: Vec<Compare>, present: Option<Experiment>) {
        let plan = present.clone().map(|present| Compare::Plan(PRESENT.to_owned(), Box::new(present)));
        self.services.librarian.compare(what.iter().cloned().chain(plan).collect(), self.view.smoothing);
        self.state.comparing = Some(Comparing { what, present, is_asked: true });
    }

    /// Takes in a comparison.
    pub(super) fn has_compared(&mut self, compared: Compared) {
        self.state.compared = Some(compared);
        self.state.comparing.iter_mut().for_each(|comparing| comparing.is_asked = false);
    }

    /// Compares the present settings as they are by now, once they are planned: what is typed or dragged is not planned twice.
    pub(super) fn follow_the_present(&mut self) {
        let now = &self.state.document.experiment;
        let is_old = |comparing: &mut Comparing| {
            !comparing.is_asked && comparing.present.as_ref().is_some_and(|present| present != now)
        };
        if self.state.is_planning() || !self.layout.is_in_front(Pane::Compare) {
            return;
        }
        if let Some(comparing) = self.state.comparing.take_if(is_old) {
            self.ask_for(comparing.what, Some(self.state.document.experiment.clone()));
        }
    }
}
