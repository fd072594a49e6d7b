//! Trying the model of the run that is shown: what the pane asks for, and what was found.

use std::path::PathBuf;

use plimsoll_engine::store;

use super::Dispatcher;
use crate::{
    command::Action,
    panels::pane::Pane,
    trials::{Model, TryWith},
    view::{TryOut, TryPart},
};

/// What images end with.
const IMAGES: [&str; 4] = ["png", "jpg", "jpeg", "webp"];

impl Dispatcher<'_> {
    /// Tries the model of the run that is shown.
    pub(super) fn try_with(&mut self, with: TryWith) {
        let Some(model) = self.model() else { return };
        let trial = &mut self.state.trial;
        match &with {
            TryWith::TestSet => (trial.is_testing, trial.trouble) = (true, None),
            TryWith::Samples(indices) => trial.asked.extend(indices),
            TryWith::Prompt(prompt, _) => {
                (trial.is_writing, trial.trouble, trial.wrote) = (true, None, None);
                trial.written.clone_from(prompt);
                trial.prompt_bytes = prompt.len();
            }
            TryWith::File(_) | TryWith::Drawing(_) => {}
        }
        self.services.trials.ask(trial.number, model, with);
    }

    /// The run that is shown, as a model to be tried; `None` where it is not kept.
    fn model(&self) -> Option<Model> {
        let run = self.state.shown_run()?;
        let (kept, folder) = (run.kept.clone()?, self.services.store.as_ref()?);
        let folder = store::files(folder, &kept);
        let experiment = run.experiment().clone();
        Some(Model { kept, experiment, folder, trains: run.status.is_active() })
    }

    /// Takes in what was found, and lets go of it when another run is shown.
    pub(super) fn follow_the_shown_run(&mut self) {
        let shown = self.state.shown_run().and_then(|run| run.kept.clone());
        if self.state.trial.of != shown {
            self.services.trials.stop();
            self.state.trial.turn_to(shown);
            let TryOut { sampling, .. } = self.view.try_out;
            self.view.try_out = TryOut { sampling, ..TryOut::default() };
        }
        for found in self.services.trials.found() {
            self.state.trial.take(self.ctx, found);
        }
    }

    /// An image that is dropped on the window is shown to the model; everything else is opened.
    pub(super) fn dropped(&mut self, path: PathBuf) {
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
        let is_image = ending.is_some_and(|ending| IMAGES.contains(&ending.as_str()));
        let looks = |dispatcher: &Self| {
            let run = dispatcher.state.shown_run().filter(|run| run.kept.is_some());
            run.is_some_and(|run| run.experiment().data.kind.traits().has_pictures)
        };
        if is_image && looks(self) {
            self.view.try_out.part = TryPart::Picture;
            self.layout.set_shown(Pane::TryOut, true);
            self.try_with(TryWith::File(path));
        } else {
            self.act(Action::OpenFile(path));
        }
    }
}
