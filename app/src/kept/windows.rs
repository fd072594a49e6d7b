//! A session that several windows write: what another window has in hand stays in the file that this one writes over it.
//!
//! Owns what was found of other windows. Always holds: each window is there once, with what it last had in hand, and this one
//! is not among them; a draft that another window left is kept as one.

use plimsoll_engine::Experiment;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A touched preset that another window had in hand when its session was written over.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct InHand {
    /// The number of the window.
    pub(crate) window: u64,
    /// The short name of the shipped preset.
    pub(crate) name: String,
    /// The experiment.
    pub(crate) experiment: Experiment,
}

/// What other windows wrote that this one wrote over.
#[derive(Debug)]
pub(super) struct Others {
    /// The number of this window.
    window: u64,
    in_hand: Vec<Value>,
    drafts: Vec<Value>,
}

impl Others {
    /// None yet.
    pub(super) fn new() -> Self {
        // Another number than that of any window that writes the same file.
        let now = jiff::Timestamp::now().as_nanosecond() as u64;
        Self { window: now ^ u64::from(std::process::id()), in_hand: Vec::new(), drafts: Vec::new() }
    }

    /// Notes what stands in a file that this window is about to write over: `before` is what it last saw there, and `own` its
    /// own state.
    pub(super) fn note(&mut self, theirs: &Value, before: &Value, own: &Value) {
        let window = theirs["window"].as_u64().unwrap_or_default();
        // Each window that wrote it took over what stood there, so the file knows the last of all.
        let others = list(theirs, "others").iter().filter(|other| other["window"] != window);
        self.in_hand = others.filter(|other| other["window"] != self.window).cloned().collect();
        if window != self.window && theirs["path"].is_null() && theirs["experiment"] != theirs["saved"] {
            let (name, experiment) = (&theirs["shipped"], &theirs["experiment"]);
            let touched = json!({ "window": window, "name": name, "experiment": experiment });
            self.in_hand.extend(name.is_string().then_some(touched));
        }
        for draft in list(theirs, "drafts") {
            if [list(before, "drafts"), list(own, "drafts"), &self.drafts[..]]
                .iter()
                .all(|known| !known.contains(draft))
            {
                self.drafts.push(draft.clone());
            }
        }
    }

    /// The state that this window writes: its own, with what others have.
    pub(super) fn with(&self, own: &Value) -> Value {
        let mut content = own.clone();
        content["window"] = self.window.into();
        content["others"] = self.in_hand.clone().into();
        content["drafts"] = [list(own, "drafts"), &self.drafts[..]].concat().into();
        content
    }
}

/// The items of a list in a state.
fn list<'a>(state: &'a Value, name: &str) -> &'a [Value] {
    state[name].as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{app::PersistedState, kept::Keeper};

    /// A window with a touched preset in hand, or with an untouched one.
    fn state((name, micro): (&str, usize)) -> PersistedState {
        let (mut experiment, saved) = (Experiment::default(), Experiment::default());
        experiment.batch.micro = micro;
        PersistedState::of_shipped(name, experiment, saved)
    }

    /// The document and then the drafts of the next start.
    fn next(folder: &Path) -> Vec<(String, usize)> {
        Keeper::open(Some(folder)).1.expect("kept").in_hand()
    }

    fn named(all: &[(&str, usize)]) -> Vec<(String, usize)> {
        all.iter().map(|(name, micro)| ((*name).to_owned(), *micro)).collect()
    }

    const CNN: (&str, usize) = ("cnn-digits", 40);
    const MLP: (&str, usize) = ("mlp-digits", 50);

    #[test]
    fn what_two_windows_have_in_hand_is_kept_whichever_closes_last_and_if_none_closes() {
        for (closing, document, other) in [(&[CNN, MLP][..], MLP, CNN), (&[MLP, CNN], CNN, MLP), (&[], CNN, MLP)] {
            let folder = tempfile::tempdir().expect("a folder");
            let [mut cnn, mut mlp] = [(); 2].map(|()| Keeper::open(Some(folder.path())).0);
            mlp.keep(&state(MLP));
            // Its changes before the last are in no draft.
            for micro in [38, 39, CNN.1] {
                cnn.keep(&state((CNN.0, micro)));
            }
            for one in closing {
                if *one == CNN { &mut cnn } else { &mut mlp }.close(&state(*one));
            }
            assert_eq!(next(folder.path()), named(&[document, other]), "{closing:?}");
        }
    }

    #[test]
    fn windows_that_write_in_turns_have_one_draft_each_and_an_untouched_preset_is_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let [mut cnn, mut mlp, mut idle] = [(); 3].map(|()| Keeper::open(Some(folder.path())).0);
        for micro in 1..5 {
            cnn.keep(&state((CNN.0, micro)));
            mlp.keep(&state((MLP.0, 10 * micro)));
        }
        idle.keep(&state(("vit-digits", Experiment::default().batch.micro)));
        let vit = ("vit-digits", Experiment::default().batch.micro);
        let mut kept = next(folder.path());
        kept[1..].sort();
        assert_eq!(kept, named(&[vit, (CNN.0, 4), (MLP.0, 40)]));
        cnn.keep(&state((CNN.0, 5)));
        let mut kept = next(folder.path());
        kept[1..].sort();
        assert_eq!(kept, named(&[(CNN.0, 5), (MLP.0, 40)]), "an untouched preset is no draft");
    }
}
