//! What lies over the window: questions before something is lost, the path field, the list of keys, the drop hint.

use eframe::egui::{self, Align2, Grid, Id, Key, KeyboardShortcut, Modal, Modifiers, RichText, ScrollArea, Ui};

use super::{PanelContext, gallery};
use crate::{
    command::{Action, UiCommand},
    files::{self, Purpose},
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
            Dialog::Path { purpose, suggestion, number } => path(ui, context, *purpose, suggestion, *number),
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

/// A typed path, if no desktop dialog answers.
fn path(ui: &mut Ui, context: &PanelContext<'_>, purpose: Purpose, suggestion: &str, number: u64) {
    let (title, about, hint, button) = match purpose {
        Purpose::Open => (
            "Open a preset",
            "Type or paste the path of a preset, or of a model's config.json. Both can also be dropped on the window.",
            "/path/to/preset.toml",
            "Open",
        ),
        Purpose::Save => {
            ("Save the preset", "Type or paste the path of the file to write.", "/path/to/preset.toml", "Save")
        }
        Purpose::Take(take) => (
            take.label().trim_end_matches('…'),
            "Type or paste the path of the file to write.",
            "/path/to/file",
            "Save",
        ),
        Purpose::DataFile => {
            ("A file to learn", "Type or paste its path; for JSON lines it may be a folder.", "/path/to/file", "Use")
        }
        Purpose::DataFolder => ("The folder of the data", "Type or paste its path.", "/path/to/folder", "Use"),
        Purpose::Tokenizer => (
            "The tokenizer",
            "Type or paste the path of a folder with tokenizer.json, or of that file.",
            "/path/to/folder",
            "Use",
        ),
        Purpose::Cache => (
            "A folder to keep samples in",
            "Type or paste the path of a folder on a disk with room; the file in it has no name and is gone with the run's data.",
            "/path/to/folder",
            "Use",
        ),
        Purpose::Teacher => (
            "A model that teaches",
            "Type or paste the path of a kept run's folder, of a folder with model.safetensors, or of a .safetensors file.",
            "/path/to/folder",
            "Use",
        ),
        Purpose::Weights => (
            "Weights to begin with",
            "Type or paste the path of a folder with model.safetensors, or of a .safetensors file.",
            "/path/to/folder",
            "Use",
        ),
    };
    heading(ui, title);
    ui.label(RichText::new(about).weak());
    let id = Id::unique(("typed path", number));
    let known: Option<String> = ui.data(|data| data.get_temp(id));
    let mut text = known.clone().unwrap_or_else(|| suggestion.to_owned());
    let edit = egui::TextEdit::singleline(&mut text).hint_text(hint).desired_width(f32::INFINITY).id(id);
    let field = theme::bordered(ui, |ui| edit.show(ui));
    let response = field.response.response.accessible_name("Path");
    if known.is_none() {
        response.request_focus();
        // Type on where the suggestion ends.
        let end = egui::text::CCursor::new(text.chars().count());
        let mut state = field.state;
        state.cursor.set_char_range(Some(egui::text::CCursorRange::one(end)));
        state.store(ui.ctx(), id);
    }
    // What is pasted behind the suggested folder and is a whole path takes its place.
    let whole = files::without_prefix(&text).to_owned();
    ui.data_mut(|data| data.insert_temp(id, whole.clone()));
    let text = whole;
    let entered = response.lost_focus() && ui.input(|input| input.key_pressed(Key::Enter));
    ui.add_space(theme::GAP);
    ui.horizontal(|ui| {
        let is_path = !text.trim().is_empty();
        if (primary(ui, button, is_path) || entered) && is_path {
            context.send.send(Action::UsePath(purpose, files::typed(&text)));
        }
        if ui.button("Cancel").clicked() {
            context.send.send(Action::CloseDialog);
        }
    });
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
    ScrollArea::vertical().max_height(room).min_scrolled_height(room).show(ui, list_of_keys);
    ui.add_space(theme::GAP);
    if ui.button("Close").clicked() {
        context.send.send(Action::CloseDialog);
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
            ("Table of runs: menu of what is picked", &menu),
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
