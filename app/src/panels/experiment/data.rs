//! The group of the data: the source, and what that source needs.

use eframe::egui::{Button, TextEdit, Ui};
use plimsoll_engine::{
    Bytes,
    experiment::{DataKind, Task},
};

use super::{PanelContext, controls, fact};
use crate::{
    command::Action,
    widgets::control::{Form, Spec},
};

const FOLDER: Spec = Spec {
    key: "data.path",
    name: "Folder",
    help: "The folder with the files of the data set; nothing is downloaded. The samples wait in ordinary memory, outside the \
            budget, and reading them takes time only at the start of a run.",
};

const FILE: Spec = Spec {
    key: "data.path",
    name: "File",
    help: "Any file: its bytes are the tokens, 256 of them, and nothing is downloaded. It waits in ordinary memory, outside the \
            budget, and takes time only at the start of a run.",
};

/// Draws the group.
pub(super) fn ui(ui: &mut Ui, form: &Form<'_>, context: &PanelContext<'_>) {
    form.choice(ui, controls::DATA.0, &controls::DATA.1);
    match form.experiment().data.kind {
        DataKind::Digits => form.number(ui, controls::TEST_FRACTION.0, controls::TEST_FRACTION.1),
        DataKind::Shapes | DataKind::Masks => {
            for (spec, number) in [controls::SIDE, controls::CLASSES, controls::SAMPLES, controls::TEST_FRACTION] {
                form.number(ui, spec, number);
            }
        }
        DataKind::Idx => {
            path(ui, form, context, FOLDER, "/path/to/folder");
            fact(ui, "train-images-idx3-ubyte and the other three, plain or .gz");
        }
        DataKind::Cifar100 => {
            path(ui, form, context, FOLDER, "/path/to/folder");
            fact(ui, "train.bin and test.bin; the class is the fine label");
        }
        DataKind::Images => {
            path(ui, form, context, FOLDER, "/path/to/folder");
            fact(ui, "a sub-folder of JPEG and PNG files for each class");
            form.number(ui, controls::SIDE.0, controls::SIDE.1);
            form.number(ui, controls::TEST_FRACTION.0, controls::TEST_FRACTION.1);
        }
        DataKind::Cifar10 => {
            path(ui, form, context, FOLDER, "/path/to/folder");
            fact(ui, "data_batch_1.bin to data_batch_5.bin and test_batch.bin");
        }
        kind => sequences(ui, form, context, kind),
    }
    form.choice(ui, controls::PLACEMENT.0, &controls::PLACEMENT.1);
    if form.experiment().data.kind.task() != Task::Next {
        augmentation(ui, form);
    }
    if let Some(plan) = context.state.newest_plan().filter(|plan| plan.host_data > Bytes::ZERO) {
        fact(ui, &format!("the data take {} of ordinary memory, outside the budget", plan.host_data));
    }
}

/// Sources of sequences.
fn sequences(ui: &mut Ui, form: &Form<'_>, context: &PanelContext<'_>, kind: DataKind) {
    if kind == DataKind::Text {
        path(ui, form, context, FILE, "/path/to/file");
    }
    for (is_used, (spec, number)) in [
        (kind == DataKind::Modular, controls::MODULUS),
        (kind.has_length(), controls::SAMPLE_LENGTH),
        (kind.has_vocabulary(), controls::VOCABULARY),
        (kind.has_samples(), controls::SAMPLES),
        (kind.is_split(), controls::TEST_FRACTION),
    ] {
        if is_used {
            form.number(ui, spec, number);
        }
    }
}

/// What is done to training images of any source.
fn augmentation(ui: &mut Ui, form: &Form<'_>) {
    form.choice(ui, controls::FLIP.0, &controls::FLIP.1);
    form.number(ui, controls::CROP.0, controls::CROP.1);
    form.number(ui, controls::COLOUR.0, controls::COLOUR.1);
}

/// A typed path, and a button for the desktop's dialog.
fn path(ui: &mut Ui, form: &Form<'_>, context: &PanelContext<'_>, spec: Spec, hint: &str) {
    let path = form.experiment().data.path.clone().unwrap_or_default();
    let mut text = path.to_string_lossy().into_owned();
    let hover = form.row(ui, spec, |ui| {
        let browse = ui.add(Button::new("…")).accessible_name(format!("Browse for the {}", spec.name.to_lowercase()));
        if browse.clicked() {
            context.send.send(Action::BrowseData);
        }
        let edit = TextEdit::singleline(&mut text).hint_text(hint).desired_width(f32::INFINITY);
        ui.add(edit).accessible_name(spec.name) | browse
    });
    form.help(&hover, spec, Vec::new);
    if text != path.to_string_lossy() {
        form.edit(spec.key, |experiment| {
            experiment.data.path = Some(text.clone().into()).filter(|_| !text.is_empty());
        });
    }
}
