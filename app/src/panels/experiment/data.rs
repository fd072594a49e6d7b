//! The group of the data: the source, and what that source needs.

use eframe::egui::Ui;
use plimsoll_engine::{
    Bytes,
    experiment::{DataSetting, PathUse},
};

use super::{PanelContext, controls, fact, path};
use crate::{
    command::Action,
    widgets::control::{Form, Spec},
};

const FOLDER: Spec = Spec {
    key: "data.path",
    name: "Folder",
    help: "The folder with the files of the data set; nothing is downloaded. The samples are held in host memory, outside the \
            budget, and reading them takes time only at the start of a run.",
};

const FILE: Spec = Spec {
    key: "data.path",
    name: "File",
    help: "Any file: its bytes are the tokens, 256 of them, and nothing is downloaded. It is held in host memory, outside the \
            budget, and takes time only at the start of a run.",
};

/// Draws the group.
pub(super) fn ui(ui: &mut Ui, form: &Form<'_>, context: &PanelContext<'_>) {
    form.choice(ui, controls::DATA.0, &controls::DATA.1);
    let source = form.experiment().data.kind.traits();
    if let Some(PathUse { is_file, holds, .. }) = source.path {
        let (spec, hint) = if is_file { (FILE, "/path/to/file") } else { (FOLDER, "/path/to/folder") };
        path::ui(ui, form, context, (spec, hint, Action::BrowseData), |experiment| &mut experiment.data.path);
        fact(ui, holds);
    }
    for setting in source.settings {
        let (spec, number) = match setting {
            DataSetting::Side => controls::SIDE,
            DataSetting::Classes => controls::CLASSES,
            DataSetting::Samples => controls::SAMPLES,
            DataSetting::Length => controls::SAMPLE_LENGTH,
            DataSetting::Vocabulary => controls::VOCABULARY,
            DataSetting::Modulus => controls::MODULUS,
            DataSetting::TestFraction => controls::TEST_FRACTION,
        };
        form.number(ui, spec, number);
    }
    if let Some(plan) = context.state.newest_plan().filter(|plan| plan.host_data > Bytes::ZERO) {
        fact(ui, &format!("the data take {} of host memory, outside the budget", plan.host_data));
    }
}

/// Draws what few change: where the data lie, and what is done to training images of any source.
pub(super) fn rest(ui: &mut Ui, form: &Form<'_>) {
    form.choice(ui, controls::PLACEMENT.0, &controls::PLACEMENT.1);
    if !form.experiment().data.kind.traits().has_pictures {
        return;
    }
    form.choice(ui, controls::FLIP.0, &controls::FLIP.1);
    form.number(ui, controls::CROP.0, controls::CROP.1);
    form.number(ui, controls::COLOUR.0, controls::COLOUR.1);
}
