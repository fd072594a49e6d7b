//! A trained model as one of integers.

use eframe::egui::Ui;
use plimsoll_engine::experiment::QuantiseKind;

use super::controls;
use crate::widgets::control::{Form, Spec};

/// The settings of the group.
pub(super) const PARTS: [Spec; 3] = [controls::QUANTISE.0, controls::CODED_WEIGHTS.0, controls::CALIBRATION.0];

/// Draws the group.
pub(super) fn ui(ui: &mut Ui, form: &Form<'_>) {
    form.choice(ui, controls::QUANTISE.0, &controls::QUANTISE.1);
    let experiment = form.experiment();
    let (is_after, weights) = (experiment.quantise.kind == QuantiseKind::After, experiment.quantise.weights);
    if is_after && (experiment.model.kind.is_decoder() || !weights.has_inputs()) {
        form.choice(ui, controls::CODED_WEIGHTS.0, &controls::CODED_WEIGHTS.1);
    }
    if is_after && weights.has_inputs() {
        form.number(ui, controls::CALIBRATION.0, controls::CALIBRATION.1);
    }
}
