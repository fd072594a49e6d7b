//! The field for a typed path, if no desktop dialog answers.
//!
//! Always holds: a path that is pasted behind the suggestion takes its place.

use eframe::egui::{
    self, Id, Key, Label, RichText, Ui,
    text::{CCursor, CCursorRange},
};

use super::{heading, primary};
use crate::{
    command::Action,
    files::{self, Purpose},
    panels::PanelContext,
    theme,
    widgets::draft,
};

/// The words of the dialog.
struct Words {
    title: &'static str,
    about: &'static str,
    /// The hint in the empty field.
    hint: &'static str,
    button: &'static str,
}

/// Draws the dialog's contents; each `number` has a text of its own, which begins as the suggestion. `trouble` is why the
/// text was not taken.
pub(super) fn ui(
    ui: &mut Ui,
    context: &PanelContext<'_>,
    purpose: Purpose,
    (suggestion, trouble): (&str, Option<&str>),
    number: u64,
) {
    let words = Words::of(purpose);
    heading(ui, words.title);
    ui.label(RichText::new(words.about).weak());
    let (text, entered) = field(ui, suggestion, number, words.hint);
    if let Some(trouble) = trouble {
        ui.add(Label::new(RichText::new(trouble).color(theme::palette(ui).bad)).wrap());
    }
    ui.add_space(theme::GAP);
    ui.horizontal(|ui| {
        let is_path = !text.trim().is_empty();
        if (primary(ui, words.button, is_path) || entered) && is_path {
            // Where it is not taken, one types on.
            draft::ask_for_focus(ui.ctx(), id(number));
            context.send.send(Action::UsePath(purpose, files::typed(&text)));
        }
        if ui.button("Cancel").clicked() {
            context.send.send(Action::CloseDialog);
        }
    });
}

fn id(number: u64) -> Id {
    Id::unique(("typed path", number))
}

/// The field: its text, and whether Enter was pressed in it.
fn field(ui: &mut Ui, suggestion: &str, number: u64, hint: &str) -> (String, bool) {
    let id = id(number);
    let known: Option<String> = ui.data(|data| data.get_temp(id));
    let mut text = known.clone().unwrap_or_else(|| suggestion.to_owned());
    let edit = egui::TextEdit::singleline(&mut text).hint_text(hint).desired_width(f32::INFINITY).id(id);
    let field = theme::bordered(ui, |ui| edit.show(ui));
    let response = field.response.response.accessible_name("Path");
    if draft::is_focus_asked(ui, id) {
        response.request_focus();
    }
    if known.is_none() {
        response.request_focus();
        // Type on where the suggestion ends.
        let end = CCursor::new(text.chars().count());
        let mut state = field.state;
        state.cursor.set_char_range(Some(CCursorRange::one(end)));
        state.store(ui.ctx(), id);
    }
    let whole = files::without_prefix(&text).to_owned();
    ui.data_mut(|data| data.insert_temp(id, whole.clone()));
    (whole, response.lost_focus() && ui.input(|input| input.key_pressed(Key::Enter)))
}

impl Words {
    fn of(purpose: Purpose) -> Self {
        const TO_WRITE: &str = "Type or paste the path of the file to write.";
        const PRESET: &str = "/path/to/preset.toml";
        const FILE: &str = "/path/to/file";
        const FOLDER: &str = "/path/to/folder";
        let (title, about, hint, button) = match purpose {
            Purpose::Open => (
                "Open a preset",
                "Type or paste the path of a preset, or of a model's config.json. Both can also be dropped on the window.",
                PRESET,
                "Open",
            ),
            Purpose::Save => ("Save the preset", TO_WRITE, PRESET, "Save"),
            Purpose::Take(take) => (take.label().trim_end_matches('…'), TO_WRITE, FILE, "Save"),
            Purpose::DataFile => {
                ("A file to learn", "Type or paste its path; for JSON lines it may be a folder.", FILE, "Use")
            }
            Purpose::DataFolder => ("The folder of the data", "Type or paste its path.", FOLDER, "Use"),
            Purpose::Tokenizer => (
                "The tokenizer",
                "Type or paste the path of a folder with tokenizer.json, or of that file.",
                FOLDER,
                "Use",
            ),
            Purpose::Cache => (
                "A folder to keep samples in",
                "Type or paste the path of a folder on a disk with room for a temporary file. The run deletes it at its end.",
                FOLDER,
                "Use",
            ),
            Purpose::Teacher => (
                "A model that teaches",
                "Type or paste the path of a kept run's folder, of a folder with model.safetensors, or of a .safetensors file.",
                FOLDER,
                "Use",
            ),
            Purpose::Weights => (
                "Weights to begin with",
                "Type or paste the path of a folder with model.safetensors, or of a .safetensors file.",
                FOLDER,
                "Use",
            ),
        };
        Self { title, about, hint, button }
    }
}
