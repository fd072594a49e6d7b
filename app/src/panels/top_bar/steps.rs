//! Undo and redo as signs in the bar, with the step that undo would take back.

use eframe::egui::{Button, Ui};

use crate::{command::UiCommand, format, naming, panels::PanelContext, state::State, widgets::tip::Tip as _};

/// Changes of settings that are listed of a step.
const LISTED: usize = 4;

/// Draws both.
pub(super) fn ui(ui: &mut Ui, context: &PanelContext<'_>) {
    let state = context.state;
    for (command, sign, is_possible) in
        [(UiCommand::Undo, "↶", state.can_undo()), (UiCommand::Redo, "↷", state.document.can_redo())]
    {
        let mut hover = command.tooltip_with_key(ui.ctx());
        let button = ui.add_enabled(is_possible, Button::new(sign).frame_when_inactive(false));
        // To compare two experiments takes a while, in every frame.
        if command == UiCommand::Undo && button.contains_pointer() {
            would_undo(state).into_iter().for_each(|step| hover.push_str(&format!("\n\nNow: {step}.")));
        }
        if button.accessible_name(command.label()).tip(&hover).tip_disabled(&hover).clicked() {
            context.send.ui(command);
        }
    }
}

/// The step that undo would take back, in words.
fn would_undo(state: &State) -> Option<String> {
    if state.deleted_last() {
        let deleted = state.runs.deletions.last().map_or(0, |deletion| deletion.keys.len()) as u64;
        return Some(format!("the deletion of {}", format::counted(deleted, "run")));
    }
    let Some(before) = state.document.history.past().next() else {
        return state.document.can_undo().then(|| format!("the opening of {}", state.document.name()));
    };
    let changes = naming::changes(before, &state.document.experiment, |key| state.runs.called_with_key(key));
    (!changes.is_empty()).then(|| naming::listed(&changes, LISTED))
}
