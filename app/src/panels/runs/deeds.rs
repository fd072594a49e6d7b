//! What can be done with kept runs, once for the buttons below the table and for the menus.
//!
//! Owns the words of each deed, and why it cannot be done at the moment.

use eframe::egui::{Button, Ui};
use plimsoll_engine::{
    report::comparison,
    store::{RunKey, RunState},
};

use super::{PanelContext, ask};
use crate::{
    command::RunsAction,
    runs::Row,
    session::RunRecord,
    takeaway::Take,
    widgets::{button, tip::Tip as _},
};

/// Something that can be done.
pub(super) struct Deed {
    /// The name of the action.
    pub(super) words: String,
    hover: &'static str,
    /// Why it cannot be done; empty where it can.
    why_not: &'static str,
    action: RunsAction,
}

impl Deed {
    fn new(words: impl Into<String>, hover: &'static str, why_not: &'static str, action: RunsAction) -> Self {
        Self { words: words.into(), hover, why_not, action }
    }

    /// Draws it as a button, on which a click asks for it; whether it was clicked.
    pub(super) fn button(self, ui: &mut Ui, context: &PanelContext<'_>) -> bool {
        let button = button::enabled(ui, self.why_not.is_empty(), Button::new(self.words));
        let is_clicked = button.tip(self.hover).tip_disabled(self.why_not).clicked();
        if is_clicked {
            ask(context, self.action);
        }
        is_clicked
    }
}

/// Shows a run as it was.
pub(super) fn open(row: &Row) -> Deed {
    let hover = "Open it as it was: its settings, its curves in Live, and in One step what was measured over what was predicted. \
                 Enter, or a double click, does the same.";
    Deed::new("Open", hover, "", RunsAction::Open(row.run.key.clone()))
}

/// Makes its settings the present ones.
pub(super) fn load(context: &PanelContext<'_>, row: &Row) -> Deed {
    let hover = "Make the settings of this run the present ones; undo takes it back.";
    let why_not = if is_present(context, row) { "Its settings are the present ones." } else { "" };
    Deed::new("Load settings", hover, why_not, RunsAction::Load(row.run.key.clone()))
}

/// Whether the settings of a run are the present ones, as far as its record is read: that of a run that was picked is.
fn is_present(context: &PanelContext<'_>, row: &Row) -> bool {
    let present = &context.state.document.experiment;
    let mut records = context.state.session.all();
    let is_of = |run: &RunRecord| *present.decided_as(run.experiment()) == *run.experiment();
    records.any(|run| run.kept.as_ref() == Some(&row.run.key) && is_of(run))
}

/// Goes on with a run that did not do all its steps.
pub(super) fn go_on(context: &PanelContext<'_>, row: &Row) -> Deed {
    let why_not = match row.run.state {
        RunState::Running => "It trains.",
        RunState::Finished => "It did all its steps.",
        RunState::Stopped | RunState::Failed | RunState::Interrupted => {
            if row.checkpoint().is_none() {
                "No checkpoint of it was saved: it cannot go on where it ended."
            } else if context.state.session.active().is_some() || context.state.is_starting {
                "A run is in progress."
            } else {
                ""
            }
        }
    };
    let hover = "Go on from its last checkpoint: the losses are those that it would have had without a stop.";
    Deed::new("Continue", hover, why_not, RunsAction::Continue(row.run.key.clone()))
}

/// Puts several side by side, or one next to the present settings.
pub(super) fn compare(picked: &[RunKey]) -> Deed {
    let hover = "Put what differs, the curves and the memory of a step side by side.";
    match picked {
        [one] => Deed::new("Compare with present settings", hover, "", RunsAction::CompareWithPresent(one.clone())),
        several => {
            let why_not =
                if several.len() > comparison::MOST { "So many runs cannot be shown side by side." } else { "" };
            Deed::new(format!("Compare {}", several.len()), hover, why_not, RunsAction::Compare(several.to_vec()))
        }
    }
}

/// Writes the compressed model of a run, if there is one.
pub(super) fn export(row: &Row) -> Deed {
    let why_not = match (row.run.state, row.run.smaller) {
        (RunState::Running, _) => "It trains.",
        _ if row.run.lacks_smaller() => "It ended before its model was made smaller: Continue finishes it.",
        (_, None) => "Its model stayed as it was: see Pruning, Integers and Low rank in the experiment.",
        (_, Some(_)) if row.saved.is_none() => "No checkpoint of it was saved.",
        (_, Some(_)) => "",
    };
    let take = Take::SaveCompressed;
    Deed::new(take.label(), take.tooltip(), why_not, RunsAction::Export(row.run.key.clone()))
}

/// Gives or takes stars.
pub(super) fn star(row: &Row, picked: &[RunKey]) -> Deed {
    let is_starred = row.run.is_starred;
    let words = if is_starred { "Take the star" } else { "Star" };
    let hover = "Click the heading ★ to find starred runs.";
    Deed::new(words, hover, "", RunsAction::Star(picked.to_vec(), !is_starred))
}

/// Deletes runs.
pub(super) fn delete(context: &PanelContext<'_>, picked: &[RunKey]) -> Deed {
    let mut rows = picked.iter().filter_map(|key| context.state.runs.get(key));
    let is_free = rows.all(|row| row.run.state != RunState::Running);
    let why_not = if is_free { "" } else { "A run that trains cannot be deleted: stop it first." };
    let words = if picked.len() > 1 { format!("Delete {}", picked.len()) } else { "Delete".to_owned() };
    let hover = "Delete what is picked, with its checkpoints; undo brings it back.";
    Deed::new(words, hover, why_not, RunsAction::Delete(picked.to_vec()))
}
