//! A trained model that teaches this one: which, and how much it counts.

use std::path::PathBuf;

use eframe::egui::Ui;

use super::{
    PanelContext, controls, data,
    path::{self, PathRow},
};
use crate::{
    command::Action,
    widgets::control::{Form, Spec},
};

const TEACHER: Spec = Spec {
    key: "distil.teacher",
    name: "Teacher",
    help: "A trained model whose answers teach beside the labels: it says of each sample how likely it finds every class, which \
            tells a small model more than the one right label does (Hinton et al. 2015). The folder of a kept run, a \
            .safetensors file of one, or a folder with config.json and model.safetensors; it must answer with the same classes. \
            A preset, by its file (.toml) or the name of one that ships, such as cnn-digits-teacher, is trained first, as a run \
            of its own under this budget. \
            It takes its weights and forward passes, in every step or once, without gradients and without optimizer state. What is \
            saved and tested is this model alone.",
};

/// The settings of the group.
pub(super) const PARTS: [Spec; 4] = [TEACHER, controls::TEMPERATURE.0, controls::TEACHER_SHARE.0, controls::ANSWERS.0];

/// Draws the group; `offered` are runs that may teach.
pub(super) fn ui(ui: &mut Ui, form: &Form<'_>, context: &PanelContext<'_>, offered: Vec<(String, PathBuf)>) {
    let row = PathRow {
        spec: TEACHER,
        hint: "none: labels alone",
        browse: Action::BrowseTeacher,
        offered: ("Runs that may teach", offered),
    };
    path::ui(ui, form, context, row, |experiment| &mut experiment.distil.teacher);
    if form.experiment().distil.chosen().is_some() {
        form.number(ui, controls::TEMPERATURE.0, controls::TEMPERATURE.1);
        form.number(ui, controls::TEACHER_SHARE.0, controls::TEACHER_SHARE.1);
        form.choice(ui, controls::ANSWERS.0, &controls::ANSWERS.1);
        data::answers_place(ui, form, context);
    }
}
