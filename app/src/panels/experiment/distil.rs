//! The settings of a trained model that teaches this one: its file, and its share of the loss.

use eframe::egui::Ui;
use plimsoll_engine::experiment::ModelKind;

use super::{
    PanelContext,
    path::{self, PathRow},
    runs_that,
};
use crate::{
    command::Action,
    runs::{self, Row},
    widgets::control::{Form, Spec},
};

pub(super) const TEACHER: Spec = Spec {
    key: "distil.teacher",
    name: "Teacher",
    help: "A trained model whose answers teach in addition to the labels: it gives a probability for every class of each \
            sample, and a small model learns more from them than from the one right label (Hinton et al. 2015). Choose the \
            folder of a kept run, a .safetensors file of one, or a folder with config.json and model.safetensors; the \
            teacher must have the same classes. A preset (its .toml file, or the name of a shipped one such as \
            cnn-digits-teacher) is trained first, as a run of its own under this budget. A teacher costs its weights and \
            forward passes, in every step or once, without gradients and without optimizer state. Only the model that \
            learns is saved and tested.",
};

/// Draws its row, with the runs that may teach.
pub(super) fn chosen(ui: &mut Ui, form: &Form<'_>, context: &PanelContext<'_>) {
    let task = form.experiment().model.kind.task();
    let settings = runs::settings(form.experiment());
    let answers = |row: &Row| ModelKind::ALL.into_iter().any(|kind| kind.task() == task && row.is_of(kind));
    let teaches = |row: &Row| answers(row) && row.can_teach(&settings);
    let row = PathRow {
        spec: TEACHER,
        hint: "none",
        browse: Action::BrowseTeacher,
        offered: Some(("Runs that may teach", runs_that(context, teaches))),
    };
    path::ui(ui, form, context, row, |experiment| &mut experiment.distil.teacher);
}
