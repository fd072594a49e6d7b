//! Drafts: shipped presets that were touched and left for another experiment.
//!
//! Owns them with their undo. Always holds: the newest comes first; an opened draft is the document and leaves the drafts.
//! Refuses to grow without end: past [`MOST`] the oldest are forgotten.

use plimsoll_engine::Experiment;
use serde::{Deserialize, Serialize};

use crate::{history::History, naming};

/// Drafts that are kept.
const MOST: usize = 24;
/// The most changes that describe a draft.
const TOLD: usize = 3;

/// A touched preset.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Draft {
    /// The short name of the shipped preset.
    pub(crate) name: String,
    /// The experiment as it was left.
    pub(crate) experiment: Experiment,
    /// The draft's undo steps; they last as long as the window.
    #[serde(skip)]
    pub(crate) history: History,
}

impl Draft {
    /// The changes of the preset: `micro-batch 64 → 32, no checkpointing → every block`; a kept run is
    /// called as `called` knows it by its key.
    pub(crate) fn changes(&self, shipped: &Experiment, called: impl Fn(&str) -> Option<String>) -> String {
        let changes = naming::changes(shipped, &self.experiment, called);
        if changes.is_empty() { "its title or description".to_owned() } else { naming::listed(&changes, TOLD) }
    }
}

/// The drafts, newest first.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Drafts(Vec<Draft>);

impl Drafts {
    /// Keeps a draft. One that is the same is not kept twice.
    pub(crate) fn keep(&mut self, draft: Draft) {
        self.0.retain(|known| (&known.name, &known.experiment) != (&draft.name, &draft.experiment));
        self.0.insert(0, draft);
        self.0.truncate(MOST);
    }

    /// Lets go of a draft that is the document again.
    pub(crate) fn forget(&mut self, name: &str, experiment: &Experiment) {
        self.0.retain(|known| (known.name.as_str(), &known.experiment) != (name, experiment));
    }

    /// Takes a draft out, to be opened or to be discarded.
    pub(crate) fn take(&mut self, index: usize) -> Option<Draft> {
        (index < self.0.len()).then(|| self.0.remove(index))
    }

    /// The drafts, newest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Draft> {
        self.0.iter()
    }

    /// The same drafts one by one.
    #[cfg(test)]
    pub(crate) fn into_list(self) -> Vec<Draft> {
        self.0
    }

    /// The drafts as they are kept on disk.
    pub(crate) fn persisted(&self) -> Self {
        let copy = |draft: &Draft| Draft {
            name: draft.name.clone(),
            experiment: draft.experiment.clone(),
            history: History::default(),
        };
        Self(self.0.iter().map(copy).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draft(micro: usize) -> Draft {
        let mut experiment = Experiment::default();
        experiment.batch.micro = micro;
        Draft { name: "mlp-digits".to_owned(), experiment, history: History::default() }
    }

    #[test]
    fn the_newest_comes_first_and_none_is_kept_twice_or_for_ever() {
        let mut drafts = Drafts::default();
        for micro in [1, 2, 1, 3] {
            drafts.keep(draft(micro));
        }
        assert_eq!(drafts.iter().map(|d| d.experiment.batch.micro).collect::<Vec<_>>(), [3, 1, 2]);
        assert_eq!(drafts.take(1).map(|d| d.experiment.batch.micro), Some(1));
        assert!(drafts.take(9).is_none());
        (1..100).for_each(|micro| drafts.keep(draft(micro)));
        assert_eq!(drafts.iter().count(), MOST);
        assert_eq!(drafts.persisted().iter().count(), MOST);
    }

    #[test]
    fn a_draft_is_told_by_what_was_changed() {
        assert_eq!(draft(3).changes(&Experiment::default(), |_| None), "micro-batch 64 → 3");
        let mut taught = draft(64);
        taught.experiment.weights.path = Some("/runs/20261127-011105-pwfw/last.safetensors".into());
        let called = |key: &str| (key == "20261127-011105-pwfw").then(|| "Run 4".to_owned());
        assert_eq!(taught.changes(&Experiment::default(), called), "weights of Run 4");
    }
}
