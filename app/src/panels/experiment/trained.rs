//! The size of the trained model, if it gets smaller, and that of training, which zeros leave as it is.

use eframe::egui::Ui;

use super::{PanelContext, fact};
use crate::{format, widgets::control::Form};

/// What stands there until the plan is made, so that nothing below moves then.
const NO_PLAN: &str = "The size of the trained model comes with the plan.";
const NOTHING_SAVED: &str = "Pruning saves no memory while the run trains. What it adds comes with the plan.";

/// Says that zeros save nothing while the run trains.
pub(super) fn saves_nothing(ui: &mut Ui, _: &Form<'_>, context: &PanelContext<'_>) {
    let told = context.state.newest_plan().and_then(|plan| format::of_zeros(plan));
    fact(ui, &told.map_or_else(|| NOTHING_SAVED.to_owned(), |words| format!("{words}.")));
}

/// Draws the size in words.
pub(super) fn smaller(ui: &mut Ui, _: &Form<'_>, context: &PanelContext<'_>) {
    let words = match context.state.newest_plan().map(|plan| plan.smaller) {
        None => NO_PLAN.to_owned(),
        Some(None) => "The trained model stays as it is.".to_owned(),
        Some(Some(smaller)) => format!("The trained model: {smaller}."),
    };
    fact(ui, &words);
}
