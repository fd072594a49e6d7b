//! A row for a path: typed, or chosen in the desktop's dialog.

use std::path::PathBuf;

use eframe::egui::{Button, Id, TextStyle, Ui};
use plimsoll_engine::Experiment;

use super::PanelContext;
use crate::{
    command::Action,
    theme,
    widgets::{
        control::{Form, Spec, follow},
        draft, text,
    },
};

/// Draws the row of the path that `field` finds; the button asks for `browse`, and an empty field shows `hint`. What is typed
/// is taken once the field is left: folders on the way are not what is meant.
pub(super) fn ui(
    ui: &mut Ui,
    form: &Form<'_>,
    context: &PanelContext<'_>,
    (spec, hint, browse): (Spec, &str, Action),
    field: fn(&mut Experiment) -> &mut Option<PathBuf>,
) {
    let path = field(&mut form.experiment().clone()).clone().unwrap_or_default();
    let known = path.to_string_lossy().into_owned();
    let mut taken = None;
    let hover = form.row(ui, spec, |ui| {
        let button = ui.add(Button::new("…")).accessible_name(format!("Browse for the {}", spec.name.to_lowercase()));
        follow(&button);
        if button.clicked() {
            context.send.send(browse.clone());
        }
        let room = ui.available_width() - 2.0 * theme::GAP;
        let font = TextStyle::Body.resolve(ui.style());
        let shown = text::shortened(&known, |part| text::width(ui, part, &font) <= room);
        let id = Id::unique((spec.key, "path"));
        let edited = draft::edit(ui, id, (spec.name, hint), (&known, &shown), f32::INFINITY);
        follow(&edited.response);
        taken = edited.taken;
    });
    let title = if known.is_empty() { spec.name.to_owned() } else { format!("{}: {known}", spec.name) };
    form.help_of(&hover, spec, &title, Vec::new);
    if let Some(text) = taken {
        form.edit(spec.key, |experiment| {
            *field(experiment) = Some(text.trim().into()).filter(|_| !text.trim().is_empty())
        });
    }
}
