//! Panes over the window: questions before something is lost, the path field, the list of keys, the drop hint.

mod path;

use eframe::egui::{self, Align2, Grid, Id, Key, KeyboardShortcut, Modal, Modifiers, RichText, ScrollArea, Ui, vec2};

use super::{PanelContext, gallery};
use crate::{
    command::{Action, UiCommand},
    state::{Dialog, Then},
    theme,
};

/// Draws the open dialog, if there is one.
pub(crate) fn ui(ui: &mut Ui, context: &PanelContext<'_>) {
    drop_hint(ui);
    let Some(dialog) = &context.state.dialog else { return };
    if *dialog == Dialog::Presets {
        return gallery::ui(ui, context);
    }
    let modal = Modal::new(Id::unique("dialog")).show(ui.ctx(), |ui| {
        ui.set_width(460.0);
        match dialog {
            Dialog::Path { purpose, suggestion, number } => path::ui(ui, context, *purpose, suggestion, *number),
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
            Dialog::Shortcuts => shortcuts(ui, context),
            Dialog::Presets => {}
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

/// The primary button of a dialog, which Enter presses too while nothing else has the focus.
fn primary(ui: &mut Ui, text: &str, enabled: bool) -> bool {
    let palette = theme::palette(ui);
    let button = egui::Button::new(RichText::new(text).color(palette.on_accent)).fill(palette.accent);
    let is_free = ui.memory(|memory| memory.focused().is_none());
    let entered = enabled && is_free && ui.input(|input| input.key_pressed(Key::Enter));
    ui.add_enabled(enabled, button).clicked() || entered
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

fn shortcuts(ui: &mut Ui, context: &PanelContext<'_>) {
    heading(ui, "Keys");
    let room = ui.ctx().content_rect().height() - theme::DIALOG_MARGIN;
    ScrollArea::vertical().max_height(room).min_scrolled_height(room).show(ui, |ui| {
        scroll_by_keys(ui, room);
        list_of_keys(ui);
    });
    ui.add_space(theme::GAP);
    if ui.button("Close").clicked() {
        context.send.send(Action::CloseDialog);
    }
}

/// Scrolls a list of which no row takes the focus.
fn scroll_by_keys(ui: &Ui, page: f32) {
    let row = ui.spacing().interact_size.y;
    let all = f32::from(u16::MAX);
    let steps = [
        (Key::ArrowDown, row),
        (Key::ArrowUp, -row),
        (Key::PageDown, page),
        (Key::PageUp, -page),
        (Key::End, all),
        (Key::Home, -all),
    ];
    let down: f32 = ui.input(|input| steps.iter().filter(|(key, _)| input.key_pressed(*key)).map(|(_, by)| by).sum());
    if down != 0.0 {
        ui.scroll_with_delta(vec2(0.0, -down));
    }
}

fn list_of_keys(ui: &mut Ui) {
    ui.set_min_width(ui.available_width());
    Grid::new("shortcuts").num_columns(2).spacing([theme::WIDE_GAP * 2.0, theme::GAP]).show(ui, |ui| {
        for command in UiCommand::ALL.iter().copied() {
            let Some(shortcut) = command.shortcut() else { continue };
            ui.label(command.label()).on_hover_text(command.tooltip());
            ui.label(RichText::new(ui.ctx().format_shortcut(&shortcut)).monospace().strong());
            ui.end_row();
        }
        let key = |modifiers, key| ui.ctx().format_shortcut(&KeyboardShortcut::new(modifiers, key));
        let [all, menu] = [key(Modifiers::COMMAND, Key::A), key(Modifiers::SHIFT, Key::F10)];
        let zoom = [Key::Plus, Key::Minus, Key::Num0].map(|sign| key(Modifiers::COMMAND, sign)).join(", ");
        for (what, keys) in [
            ("Next or previous tab of a pane", "Ctrl+Tab, Ctrl+Shift+Tab"),
            ("Table of runs: pick one, several, all", &format!("arrows, Shift+arrows, {all}")),
            ("Table of runs: open, star, delete", "Enter, S, Delete"),
            ("Table of runs: menu of the picked runs", &menu),
            ("Move a plot, zoom, show all again", "drag, Ctrl+wheel, double-click"),
            ("Zoom the window in, out, back", &zoom),
        ] {
            ui.label(what);
            ui.label(RichText::new(keys).monospace().strong());
            ui.end_row();
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
