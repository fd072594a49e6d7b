//! Panes over the window: questions before something is lost, the path field, the list of keys, the drop hint.

mod keys;
mod path;

use eframe::egui::{self, Align2, Id, Key, Modal, RichText, Ui};

use super::{PanelContext, gallery};
use crate::{
    command::Action,
    state::{Dialog, Then},
    theme,
};

/// The width of a dialog.
const WIDTH: f32 = 460.0;

/// Draws the open dialog, if there is one.
pub(crate) fn ui(ui: &mut Ui, context: &PanelContext<'_>) {
    drop_hint(ui);
    let Some(dialog) = &context.state.dialog else { return };
    if *dialog == Dialog::Presets {
        return gallery::ui(ui, context);
    }
    if *dialog == Dialog::Shortcuts {
        return keys::ui(ui, context);
    }
    let modal = Modal::new(Id::unique("dialog")).show(ui.ctx(), |ui| {
        ui.set_width(WIDTH);
        match dialog {
            Dialog::Path { purpose, suggestion, number, trouble } => {
                path::ui(ui, context, *purpose, (suggestion, trouble.as_deref()), *number);
            }
            Dialog::Replace(path) => replace(ui, context, &format!("{} exists.", path.display()), "this preset"),
            Dialog::ReplaceTaken(path) => {
                replace(ui, context, &format!("{} exists.", path.display()), "what the pane shows");
            }
            Dialog::ReplaceChanged(path) => {
                let what = format!("Another program changed {} since it was opened or saved here.", path.display());
                replace(ui, context, &what, "this preset");
            }
            Dialog::Unsaved(then) => unsaved(ui, context, then),
            Dialog::StopAndQuit => stop_and_quit(ui, context),
            Dialog::Shortcuts | Dialog::Presets => {}
        }
    });
    if modal.should_close() {
        context.send.send(Action::CloseDialog);
    }
}

fn heading(ui: &mut Ui, text: &str) {
    ui.heading(text);
    ui.add_space(theme::GAP);
}

/// The primary button of a dialog. It has the focus where nothing else has, so Enter presses it.
fn primary(ui: &mut Ui, text: &str, enabled: bool) -> bool {
    let palette = theme::palette(ui);
    let button = egui::Button::new(RichText::new(text).color(palette.on_accent)).fill(palette.accent);
    let is_free = ui.memory(|memory| memory.focused().is_none());
    let entered = enabled && is_free && ui.input(|input| input.key_pressed(Key::Enter));
    let button = ui.add_enabled(enabled, button);
    if enabled && is_free {
        button.request_focus();
    }
    button.clicked() || entered
}

fn replace(ui: &mut Ui, context: &PanelContext<'_>, what: &str, by: &str) {
    heading(ui, "Replace the file?");
    ui.add(egui::Label::new(format!("{what} Saving writes {by} in its place.")).wrap());
    ui.add_space(theme::WIDE_GAP);
    ui.horizontal(|ui| {
        if primary(ui, "Replace", true) {
            context.send.send(Action::Proceed { save: true });
        }
        if ui.button("Cancel").clicked() {
            context.send.send(Action::CloseDialog);
        }
    });
}

fn unsaved(ui: &mut Ui, context: &PanelContext<'_>, then: &Then) {
    heading(ui, "Save the changes?");
    let name = context.state.document.name();
    let what = if *then == Then::Quit { "before the window closes" } else { "before another is opened" };
    ui.label(format!("“{name}” has changes that are not in a file. Save them {what}?"));
    ui.add_space(theme::WIDE_GAP);
    ui.horizontal(|ui| {
        if primary(ui, "Save", true) {
            context.send.send(Action::Proceed { save: true });
        }
        if ui.button("Don't save").clicked() {
            context.send.send(Action::Proceed { save: false });
        }
        if ui.button("Cancel").clicked() {
            context.send.send(Action::CloseDialog);
        }
    });
}

fn stop_and_quit(ui: &mut Ui, context: &PanelContext<'_>) {
    heading(ui, "A run is in progress");
    ui.label("Closing the window stops it. Its curves are kept in Runs, with a checkpoint from which it can go on.");
    ui.add_space(theme::WIDE_GAP);
    ui.horizontal(|ui| {
        if primary(ui, "Stop and close", true) {
            context.send.send(Action::Proceed { save: false });
        }
        if ui.button("Keep training").clicked() {
            context.send.send(Action::CloseDialog);
        }
    });
}

/// A hint while a file hovers over the window.
fn drop_hint(ui: &mut Ui) {
    if ui.input(|input| input.raw.hovered_files.is_empty()) {
        return;
    }
    let layer = egui::LayerId::new(egui::Order::Foreground, Id::unique("drop hint"));
    let painter = ui.ctx().layer_painter(layer);
    let rect = ui.ctx().content_rect();
    let palette = theme::palette(ui);
    painter.rect_filled(rect, 0.0, palette.ground.gamma_multiply(0.85));
    let font = egui::FontId::proportional(theme::VERDICT_TEXT);
    painter.text(
        rect.center(),
        Align2::CENTER_CENTER,
        "Drop to open the preset or the config.json",
        font,
        palette.strong(),
    );
}
