//! A row for a path: typed, or chosen in the desktop's dialog.

use std::path::PathBuf;

use eframe::egui::{Button, TextEdit, Ui};
use plimsoll_engine::Experiment;

use super::PanelContext;
use crate::{
    command::Action,
    theme,
    widgets::control::{Form, Spec, follow},
};

/// Draws the row of the path that `field` finds; the button asks for `browse`, and an empty field shows `hint`.
pub(super) fn ui(
    ui: &mut Ui,
    form: &Form<'_>,
    context: &PanelContext<'_>,
    (spec, hint, browse): (Spec, &str, Action),
    field: fn(&mut Experiment) -> &mut Option<PathBuf>,
) {
    let path = field(&mut form.experiment().clone()).clone().unwrap_or_default();
    let mut text = path.to_string_lossy().into_owned();
    let hover = form.row(ui, spec, |ui| {
        let button = ui.add(Button::new("…")).accessible_name(format!("Browse for the {}", spec.name.to_lowercase()));
        follow(&button);
        if button.clicked() {
            context.send.send(browse.clone());
        }
        let edit = TextEdit::singleline(&mut text).hint_text(hint).desired_width(f32::INFINITY);
        follow(&theme::bordered(ui, |ui| ui.add(edit)).accessible_name(spec.name));
    });
    form.help(&hover, spec, Vec::new);
    if text != path.to_string_lossy() {
        form.edit(spec.key, |experiment| *field(experiment) = Some(text.clone().into()).filter(|_| !text.is_empty()));
    }
}
