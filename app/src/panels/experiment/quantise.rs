//! A trained model as one of 8-bit integers.

use eframe::egui::Ui;
use plimsoll_engine::experiment::QuantiseKind;

use super::controls;
use crate::widgets::control::{Form, Spec};

/// The settings of the group.
pub(super) const PARTS: [Spec; 2] = [controls::QUANTISE.0, controls::CALIBRATION.0];

/// Draws the group.
pub(super) fn ui(ui: &mut Ui, form: &Form<'_>) {
    form.choice(ui, controls::QUANTISE.0, &controls::QUANTISE.1);
    if form.experiment().quantise.kind == QuantiseKind::After {
        form.number(ui, controls::CALIBRATION.0, controls::CALIBRATION.1);
    }
}
