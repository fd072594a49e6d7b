//! The state that is kept between sessions.

use std::path::PathBuf;

use plimsoll_engine::Experiment;
use serde::{Deserialize, Serialize};

use crate::{
    budgets::Budgets,
    drafts::{Draft, Drafts},
    history::History,
    kept::InHand,
    layout::Layout,
    presets::Shipped,
    state::Document,
    view::View,
};

/// The state that is kept between sessions.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct PersistedState {
    pub(super) view: View,
    pub(super) layout: Option<Layout>,
    /// Files that were opened or saved, under the name they have had since before shipped presets were remembered.
    pub(super) recent: Vec<PathBuf>,
    pub(super) recent_shipped: Vec<String>,
    pub(super) budgets: Budgets,
    pub(super) experiment: Option<Experiment>,
    pub(super) saved: Option<Experiment>,
    pub(super) loaded: Option<Box<Experiment>>,
    pub(super) path: Option<PathBuf>,
    pub(super) shipped: Option<String>,
    pub(super) drafts: Drafts,
    /// The experiment whose plan is pinned.
    pub(super) pin: Option<Experiment>,
    /// Whether it was pinned in another document, so that it may have to be put aside.
    pub(super) pin_is_of_another: bool,
    /// The number of the window that wrote it.
    pub(super) window: u64,
    /// What other windows had in hand when they were written over.
    pub(super) others: Vec<InHand>,
}

impl PersistedState {
    /// The same without a pin: one that could not be read whole is of other settings than those that were pinned.
    pub(crate) fn without_pin(self) -> Self {
        Self { pin: None, ..self }
    }

    /// Makes drafts of what other windows had in hand.
    pub(crate) fn take_in_others(&mut self) {
        self.window = 0;
        let is_here = |name: &str, experiment: &Experiment| {
            self.path.is_none() && (self.shipped.as_deref(), self.experiment.as_ref()) == (Some(name), Some(experiment))
        };
        for InHand { name, experiment, .. } in std::mem::take(&mut self.others) {
            if !is_here(&name, &experiment) {
                self.drafts.keep(Draft { name, experiment, history: History::default() });
            }
        }
    }

    /// Takes out the document that was open, or the first preset at the first start.
    pub(super) fn document(&mut self, shipped: &[Shipped]) -> Document {
        let experiment = match (self.experiment.take(), shipped.first()) {
            (None, Some(first)) => return Document::of_shipped(first),
            (experiment, _) => experiment.unwrap_or_default(),
        };
        let saved = self.saved.take().unwrap_or_else(|| experiment.clone());
        let name = self.shipped.take().filter(|name| shipped.iter().any(|shipped| shipped.name == *name));
        Document { saved, loaded: self.loaded.take(), shipped: name, ..Document::new(experiment, self.path.take()) }
    }
}

#[cfg(test)]
impl PersistedState {
    /// A window with a shipped preset in hand.
    pub(crate) fn of_shipped(name: &str, experiment: Experiment, saved: Experiment) -> Self {
        let (experiment, saved, shipped) = (Some(experiment), Some(saved), Some(name.to_owned()));
        Self { experiment, saved, shipped, ..Self::default() }
    }

    /// The shipped preset in hand and the drafts, each with its micro-batch.
    pub(crate) fn in_hand(self) -> Vec<(String, usize)> {
        let document = self.shipped.zip(self.experiment);
        let drafts = self.drafts.into_list().into_iter().map(|draft| (draft.name, draft.experiment));
        document.into_iter().chain(drafts).map(|(name, experiment)| (name, experiment.batch.micro)).collect()
    }
}
