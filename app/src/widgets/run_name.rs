//! The field for the name of a run. A name that another kept run has is accepted, as on the command line, and a warning next
//! to the field says so.

use eframe::egui::{Id, RichText, Role, TextStyle, Ui, WidgetInfo};
use plimsoll_engine::store::RunKey;

use super::{draft, text};
use crate::{runs::Runs, theme, widgets::tip::Tip as _};

/// The warning, and a shorter one for less room.
const TAKEN: [&str; 2] = ["⚠ another run has this name", "⚠"];
/// The words take no more of the line than this.
const SHARE: f32 = 0.5;

/// Draws it over the name that is `known` of the run kept as `of`; returns the typed text, as [`draft::field`] does.
pub(crate) fn field(
    ui: &mut Ui,
    (runs, of): (&Runs, Option<&RunKey>),
    (id, name, hint): (Id, &str, &str),
    known: &str,
    width: f32,
    about: impl FnOnce(&str) -> String,
) -> Option<String> {
    let typed = draft::typed(ui, id);
    if !runs.has_another(typed.as_deref().unwrap_or(known), of) {
        return draft::field(ui, id, (name, hint), known, width, about);
    }
    let font = TextStyle::Small.resolve(ui.style());
    let room = |words: &str| text::width(ui, words, &font) + 2.0 * ui.spacing().item_spacing.x;
    let words = if room(TAKEN[0]) <= width * SHARE { TAKEN[0] } else { TAKEN[1] };
    let answer = draft::field(ui, id, (name, hint), known, width - room(words), about);
    let color = theme::palette(ui).warn;
    let said = ui.label(RichText::new(words).small().color(color));
    said.widget_info(|| WidgetInfo::labeled(Role::Label, true, TAKEN[0]));
    said.tip("Another kept run has the same name: on the command line, name each of them by its key.");
    answer
}
