//! The document: the experiment in hand, its file, its undo, and the documents that it took the place of.
//!
//! Always holds: undo takes back every change of the present settings, the opening of a document included; the draft that is
//! open as the document is not among the drafts.

use std::{path::PathBuf, time::Instant};

use plimsoll_engine::Experiment;

use crate::{drafts::Draft, history::History, planner::Generation, presets::Shipped};

/// Documents that were left and can be gone back to.
const LEFT: usize = 12;

/// The experiment in hand.
#[derive(Debug)]
pub(crate) struct Document {
    /// The chosen experiment.
    pub(crate) experiment: Experiment,
    /// The file it came from.
    pub(crate) path: Option<PathBuf>,
    /// The experiment as it was when it was last opened or saved.
    pub(crate) saved: Experiment,
    /// The settings of a kept run that were last loaded into it.
    pub(crate) loaded: Option<Box<Experiment>>,
    /// The user's own version, from before those were loaded over it.
    pub(crate) own: Option<Box<Experiment>>,
    /// Undo and redo.
    pub(crate) history: History,
    /// Rises with every change.
    pub(crate) generation: Generation,
    /// The short name of the shipped preset that it is or was.
    pub(crate) shipped: Option<String>,
    /// The card that was planned for before this document was opened. The document offers to plan for it too.
    pub(crate) offered: Option<String>,
    /// The document that this one replaced: opening is a step that can be undone.
    pub(crate) before: Option<Box<Document>>,
    /// The document that replaced this one, and was undone.
    pub(crate) after: Option<Box<Document>>,
}

impl Document {
    /// A document that is as saved.
    pub(crate) fn new(experiment: Experiment, path: Option<PathBuf>) -> Self {
        Self {
            saved: experiment.clone(),
            experiment,
            path,
            loaded: None,
            own: None,
            history: History::default(),
            generation: 1,
            shipped: None,
            offered: None,
            before: None,
            after: None,
        }
    }

    /// A shipped preset, as it was written.
    pub(crate) fn of_shipped(shipped: &Shipped) -> Self {
        Self { shipped: Some(shipped.name.clone()), ..Self::new(shipped.experiment.clone(), None) }
    }

    /// The settings of a kept run: a version of the shipped preset of their title, if there is one, else a document of their own.
    pub(crate) fn of_kept(experiment: Experiment, shipped: &[Shipped]) -> Self {
        let preset = shipped.iter().find(|shipped| shipped.experiment.title == experiment.title);
        let mut document = preset.map_or_else(|| Self::new(experiment.clone(), None), Self::of_shipped);
        document.loads(&experiment);
        document.experiment = experiment;
        document
    }

    /// Makes it what it was when it was last opened or saved.
    pub(crate) fn discard_changes(&mut self) {
        self.experiment.clone_from(&self.saved);
        (self.loaded, self.own) = (None, None);
    }

    /// Whether there is a step to undo: a change, or that this was opened.
    pub(crate) fn can_undo(&self) -> bool {
        self.history.can_undo() || self.before.is_some()
    }

    /// How many steps can be undone: documents that were left, and changes of this one.
    pub(crate) fn depth(&self) -> (usize, usize) {
        let before = std::iter::successors(self.before.as_deref(), |document| document.before.as_deref());
        (before.count(), self.history.past().count())
    }

    /// Whether there is an undone step.
    pub(crate) fn can_redo(&self) -> bool {
        self.history.can_redo() || self.after.is_some()
    }

    /// Notes that a control is about to change it: steps that were undone before are forgotten.
    pub(crate) fn changes(&mut self, control: &'static str, press: Option<u64>, at: Instant) {
        self.after = None;
        self.history.changed(&self.experiment, control, press, at);
    }

    /// Opens `next` in its place. The last [`LEFT`] that were left are found again by undo.
    pub(crate) fn open(&mut self, next: Self) {
        let (generation, offered) = (self.generation, self.planned_for());
        let mut left = std::mem::replace(self, Self { generation, offered, ..next });
        left.after = None;
        left.history.left();
        self.before = Some(Box::new(left));
        let mut last = self;
        for _ in 0..LEFT {
            let Some(before) = &mut last.before else { return };
            last = before;
        }
        last.before = None;
    }

    /// Goes back to the document that this one replaced.
    pub(crate) fn go_back(&mut self) {
        if let Some(before) = self.before.take() {
            self.after = Some(Box::new(self.replaced_by(*before)));
        }
    }

    /// Goes to the document that replaced this one, and was undone.
    pub(crate) fn go_forth(&mut self) {
        if let Some(after) = self.after.take() {
            self.before = Some(Box::new(self.replaced_by(*after)));
        }
    }

    fn replaced_by(&mut self, other: Self) -> Self {
        let generation = self.generation;
        std::mem::replace(self, Self { generation, ..other })
    }

    /// Notes that the settings of a kept run take the place of those in hand. They are in the store, so the user's own
    /// version is the one that they replace, as long as they are not changed.
    pub(crate) fn loads(&mut self, settings: &Experiment) {
        self.own = self.own().cloned().map(Box::new);
        self.loaded = Some(Box::new(settings.clone()));
    }

    /// The user's own version, if it is in no file and no kept run.
    pub(crate) fn own(&self) -> Option<&Experiment> {
        if self.loaded.as_deref() == Some(&self.experiment) {
            self.own.as_deref()
        } else {
            Some(&self.experiment).filter(|_| self.is_changed())
        }
    }

    /// The draft that is kept when the document is left: for a shipped preset, the user's version of it.
    pub(crate) fn draft(&self) -> Option<Draft> {
        let name = self.shipped.clone().filter(|_| self.path.is_none())?;
        let experiment = self.own()?.clone();
        let mut history = self.history.clone();
        if experiment != self.experiment {
            history.back_to(&experiment);
        }
        Some(Draft { name, experiment, history })
    }

    /// Whether it is or was a shipped preset, whose changes are kept without a question.
    pub(crate) fn is_of_shipped(&self) -> bool {
        self.shipped.is_some() && self.path.is_none()
    }

    /// Whether there is something to save.
    pub(crate) fn is_changed(&self) -> bool {
        self.experiment != self.saved
    }

    /// Whether the settings in hand are saved nowhere: not in its file and, where it has no file, in no kept run.
    pub(crate) fn is_unkept(&self) -> bool {
        self.is_changed() && (self.path.is_some() || self.loaded.as_deref() != Some(&self.experiment))
    }

    /// The card that an experiment opened after this one is offered.
    pub(crate) fn planned_for(&self) -> Option<String> {
        if self.experiment.is_on_cpu() { self.offered.clone() } else { Some(self.experiment.device.clone()) }
    }

    /// The name for the title: the preset's own, else the file's.
    pub(crate) fn name(&self) -> String {
        let file = || Some(self.path.as_ref()?.file_stem()?.to_string_lossy().into_owned());
        match self.experiment.title.trim() {
            "" => file().unwrap_or_else(|| "Untitled".to_owned()),
            title => title.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_a_kept_run_are_not_marked_as_those_of_no_file() {
        let mut document = Document::new(Experiment::default(), None);
        let mut run = Experiment::default();
        run.batch.micro += 1;
        document.loads(&run);
        document.experiment = run;
        assert!(document.is_changed() && !document.is_unkept());
        document.path = Some("a.toml".into());
        assert!(document.is_unkept(), "a save would write them over the file");
        document.path = None;
        document.experiment.batch.micro += 1;
        assert!(document.is_unkept());
    }

    #[test]
    fn a_kept_run_is_a_version_of_the_preset_of_its_title() {
        let shipped = crate::presets::shipped();
        let preset = &shipped[1];
        let mut run = preset.experiment.clone();
        run.batch.micro += 1;
        let document = Document::of_kept(run.clone(), &shipped);
        assert_eq!((document.shipped.as_ref(), &document.saved), (Some(&preset.name), &preset.experiment));
        assert!(document.experiment == run && !document.is_unkept() && document.draft().is_none());
        run.title = "Of no preset".to_owned();
        let document = Document::of_kept(run.clone(), &shipped);
        assert_eq!((document.shipped, document.saved), (None, run));
    }
}
