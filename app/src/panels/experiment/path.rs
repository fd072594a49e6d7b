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
        draft::{self, Edited},
        text,
        tip::Tip as _,
    },
};

/// Why there is nothing to choose from.
const NONE_OFFERED: &str = "No kept run has matching weights. Train one and it appears here.";

/// A row for a path.
pub(super) struct PathRow<'a> {
    /// The setting.
    pub(super) spec: Spec,
    /// The hint in an empty field.
    pub(super) hint: &'a str,
    /// The action of the button.
    pub(super) browse: Action,
    /// Paths to choose from, by their names, and the title of their list. The list has its place while it is empty, so that
    /// the field keeps its own when the first path comes.
    pub(super) offered: Option<(&'static str, Vec<(String, PathBuf)>)>,
}

/// Draws the row of the path that `field` finds. The typed path is taken once the field is left, because the folders on the
/// way are not meant. A path that has no room next to its name has a line of its own.
pub(super) fn ui(
    ui: &mut Ui,
    form: &Form<'_>,
    context: &PanelContext<'_>,
    row: PathRow<'_>,
    field: fn(&mut Experiment) -> &mut Option<PathBuf>,
) {
    let PathRow { spec, hint, browse, offered } = row;
    let path = field(&mut form.experiment().clone()).clone().unwrap_or_default();
    let known = path.to_string_lossy().into_owned();
    let (mut taken, mut is_below) = (None, false);
    let hover = form.row(ui, spec, |ui| {
        let button = ui.add(Button::new("…")).accessible_name(format!("Browse for the {}", spec.name.to_lowercase()));
        follow(&button);
        if button.clicked() {
            context.send.send(browse.clone());
        }
        if let Some((list, offered)) = &offered {
            list_of(ui, list, offered, &mut taken);
        }
        is_below = text::width(ui, &known, &TextStyle::Body.resolve(ui.style())) > room(ui);
        if !is_below {
            taken = taken.take().or(edited(ui, spec, hint, &known).taken);
        }
    });
    let title = if known.is_empty() { spec.name.to_owned() } else { format!("{}: {known}", spec.name) };
    form.help_of(&hover, spec, &title, Vec::new);
    if is_below {
        let Edited { response, taken: typed, .. } = ui.horizontal(|ui| edited(ui, spec, hint, &known)).inner;
        taken = taken.or(typed);
        form.help_of(&response, spec, &title, Vec::new);
    }
    if let Some(text) = taken {
        form.edit(spec.key, |experiment| {
            *field(experiment) = Some(text.trim().into()).filter(|_| !text.trim().is_empty())
        });
    }
}

/// The button of the list of paths to choose from; of no use while there is none.
fn list_of(ui: &mut Ui, list: &str, offered: &[(String, PathBuf)], taken: &mut Option<String>) {
    let is_there = !offered.is_empty();
    let menu = ui.add_enabled_ui(is_there, |ui| ui.menu_button("⏷", |ui| offers(ui, offered, taken)).response).inner;
    follow(&menu.tip_disabled(NONE_OFFERED).accessible_name(list));
}

/// How much of a path a field has room for.
fn room(ui: &Ui) -> f32 {
    ui.available_width() - 2.0 * theme::GAP
}

/// The field of a path: while the field is not edited, the file's name with as many of its folders as have room.
fn edited(ui: &mut Ui, spec: Spec, hint: &str, known: &str) -> Edited {
    let (room, font) = (room(ui), TextStyle::Body.resolve(ui.style()));
    let shown = text::file(known, |part| text::width(ui, part, &font) <= room);
    let id = Id::unique((spec.key, "path"));
    let edited = draft::edit(ui, id, (spec.name, hint), (known, &shown), f32::INFINITY);
    follow(&edited.response);
    edited
}

/// The paths to choose from; the chosen one is `taken`.
fn offers(ui: &mut Ui, offered: &[(String, PathBuf)], taken: &mut Option<String>) {
    ui.set_max_width(theme::TOOLTIP_WIDTH);
    for (name, path) in offered {
        let path = path.to_string_lossy();
        if ui.add(Button::new(name).truncate()).tip(format!("{name}\n{path}")).clicked() {
            *taken = Some(path.into_owned());
            ui.close();
        }
    }
}
