//! Trying the model of the shown run, or of weights: the pane's requests, and the findings.

use std::path::PathBuf;

use plimsoll_engine::{Experiment, data::Alphabet, store};

use super::Dispatcher;
use crate::{
    command::Action,
    panels::pane::Pane,
    trials::{Left, Model, Subject, TryWith},
    view::TryPart,
    widgets::control,
};

/// The extensions of image files.
const IMAGES: [&str; 4] = ["png", "jpg", "jpeg", "webp"];

impl Dispatcher<'_> {
    /// Tries the model that is chosen.
    pub(super) fn try_with(&mut self, with: TryWith) {
        let Some(model) = self.model() else { return };
        if matches!(with, TryWith::Prompt(..)) && self.was_just_refused() {
            return;
        }
        let trial = &mut self.state.trial;
        match &with {
            TryWith::TestSet => (trial.is_testing, trial.tested, trial.trouble) = (true, None, None),
            TryWith::Samples(indices) => trial.asked.extend(indices),
            TryWith::Prompt(prompt, _) => {
                self.toasts.refused_is_over();
                if control::refused_setting(self.ctx, self.state.document.generation).is_none() {
                    control::forget_refused(self.ctx);
                }
                (trial.is_writing, trial.trouble, trial.wrote) = (true, None, None);
                trial.written.clone_from(prompt);
                trial.prompt_bytes = prompt.len();
            }
            TryWith::File(_) | TryWith::Drawing(_) => {}
        }
        self.services.trials.ask(trial.number, model, with);
    }

    /// Whose model it is, as a model to be tried; `None` of a run that is not kept, and of an experiment that cannot be.
    fn model(&self) -> Option<Model> {
        let subject = Subject::now(self.state)?;
        let run = match subject {
            Subject::Run(run) => {
                let (kept, folder) = (run.kept.as_ref()?, self.services.store.as_ref()?);
                Some(Left { folder: store::files(folder, kept), trains: run.status.is_active() })
            }
            Subject::Weights { .. } if self.state.prediction.obstacle.is_some() => return None,
            Subject::Weights { .. } => None,
        };
        let experiment = Experiment { data: subject.data().clone(), ..subject.experiment().clone() };
        Some(Model { experiment, run })
    }

    /// Tries the weights of the present experiment from here on, or the model of the run that is shown.
    pub(super) fn prefer_weights(&mut self, weights: bool) {
        self.state.trial.prefers_weights = weights;
    }

    /// Takes in what was found, and lets go of it when another model is chosen. A run that begins, or is looked at, is chosen.
    pub(super) fn follow_the_tried(&mut self) {
        let shown = self.state.shown_run().map(|run| run.key);
        if self.state.trial.shown != shown {
            (self.state.trial.shown, self.state.trial.prefers_weights) = (shown, false);
        }
        let of = Subject::now(self.state).and_then(|subject| subject.of());
        if self.state.trial.of != of {
            self.services.trials.stop();
            // Here and not where it is drawn, because it looks whether a tokenizer is there.
            let asked = Subject::now(self.state).map(|subject| subject.experiment().prompt_data());
            let alphabet = asked.and_then(|data| Alphabet::of(&data).ok());
            self.state.trial.turn_to(of, alphabet, &mut self.view.try_out);
        }
        for found in self.services.trials.found() {
            self.state.trial.take(self.ctx, found);
        }
    }

    /// An image that is dropped on the window is shown to the model; everything else is opened.
    pub(super) fn dropped(&mut self, path: PathBuf) {
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
        let is_image = ending.is_some_and(|ending| IMAGES.contains(&ending.as_str()));
        let looks = |model: Model| model.experiment.data.kind.traits().has_pictures;
        if is_image && self.model().is_some_and(looks) {
            self.view.try_out.part = TryPart::Picture;
            self.layout.set_shown(Pane::TryOut, true);
            self.try_with(TryWith::File(path));
        } else {
            self.act(Action::OpenFile(path));
        }
    }
}
