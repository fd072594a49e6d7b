//! What the keys ask for, and closing: both act on what is typed in a field, which is taken first.
//!
//! Always holds: a command finds the settings with all that was typed before its key.

use eframe::egui::{self, Id};

use super::App;
use crate::{
    closing::Closing,
    command::UiCommand,
    kept::Keeper,
    state::{Dialog, Then},
    widgets::{control, draft},
};

/// Commands that wait until the text of a field is taken.
#[derive(Debug)]
pub(super) struct Waiting {
    commands: Vec<UiCommand>,
    /// The field, which was left.
    field: Id,
}

/// The text field that has the focus.
fn field(ctx: &egui::Context) -> Option<Id> {
    ctx.memory(|memory| memory.focused()).filter(|_| ctx.text_edit_focused())
}

impl App {
    /// Asks for the commands whose keys were pressed. Those that act on what is typed in a field wait for a frame: the field
    /// is left, and its text taken.
    pub(super) fn take_keys(&mut self, ctx: &egui::Context) {
        let is_covered = self.state.dialog.is_some();
        let (mut commands, left) = match self.waiting.take() {
            Some(Waiting { commands, field }) => (commands, Some(field)),
            None => (Vec::new(), None),
        };
        let field = field(ctx);
        // In a dialog, and in a field that holds no setting, undo and redo are the field's own.
        let is_of_a_text = is_covered || field.is_some_and(|field| !draft::is_setting(ctx, field));
        commands.extend(UiCommand::pressed(ctx, |command| !(is_of_a_text && command.is_a_step())));
        commands.retain(|command| !is_covered || command.works_beside_a_dialog());
        if let Some(undo) = commands.iter().position(|command| *command == UiCommand::Undo)
            && field.is_some_and(|field| draft::take_back(ctx, field))
        {
            commands.remove(undo);
        }
        if let Some(field) = field.filter(|_| commands.iter().any(|command| command.reads_fields())) {
            self.leave(ctx, field, commands);
            return;
        }
        let goes_on = |command: &UiCommand| *command == UiCommand::Save || command.is_a_step();
        let is_refused = control::just_refused(ctx, self.state.document.generation).is_some();
        if let Some(field) = left.filter(|_| !is_refused && commands.iter().all(goes_on)) {
            // There is more to be typed.
            ctx.memory_mut(|memory| memory.request_focus(field));
        }
        for command in commands {
            if command.is_a_step() {
                // A list that is open is of a setting that may be gone.
                egui::Popup::close_all(ctx);
            }
            self.sender.ui(command);
        }
    }

    /// Leaves a field, and has the commands wait until its text is taken.
    fn leave(&mut self, ctx: &egui::Context, field: Id, commands: Vec<UiCommand>) {
        ctx.memory_mut(|memory| memory.surrender_focus(field));
        self.waiting = Some(Waiting { commands, field });
        ctx.request_repaint();
    }

    /// A window that is asked to close during a run asks for confirmation. After a signal there is no user to ask, and
    /// everything is kept in any case.
    pub(super) fn close(&mut self, ctx: &egui::Context) {
        let is_asked = ctx.input(|input| input.viewport().close_requested());
        let has_signal = self.signals.as_ref().is_some_and(Closing::has_come);
        if (is_asked || has_signal)
            && !self.state.closing
            && let Some(field) = field(ctx)
        {
            // What was typed there is taken in this frame, and then the window is asked again.
            if is_asked {
                ctx.send_viewport_cmd(egui::ViewportCommand::CancelClose);
            }
            self.leave(ctx, field, vec![UiCommand::Quit]);
            return;
        }
        if !self.state.closing && has_signal {
            self.state.closing = true;
            self.keep();
            ctx.send_viewport_cmd(egui::ViewportCommand::Close);
        }
        if !is_asked || self.state.closing {
            return;
        }
        self.keep();
        let is_kept = self.keeper.as_ref().is_none_or(Keeper::is_kept);
        let unsaved = self.state.document.is_changed() && (self.state.document.path.is_some() || !is_kept);
        let question = if self.state.session.active().is_some() {
            Some(Dialog::StopAndQuit)
        } else {
            // Without a file nothing is lost where it is kept: the experiment is there again at the next start.
            unsaved.then_some(Dialog::Unsaved(Then::Quit))
        };
        if question.is_some() {
            self.state.dialog = question;
            ctx.send_viewport_cmd(egui::ViewportCommand::CancelClose);
        }
    }
}
