//! The size of the trained model, if it gets smaller.

use eframe::egui::Ui;

use super::{PanelContext, fact};
use crate::widgets::control::Form;

/// What stands there until the plan is made, so that nothing below moves then.
const NO_PLAN: &str = "The size of the trained model comes with the plan.";

/// Draws it in words.
pub(super) fn smaller(ui: &mut Ui, _: &Form<'_>, context: &PanelContext<'_>) {
    let words = match context.state.newest_plan().map(|plan| plan.smaller) {
        None => NO_PLAN.to_owned(),
        Some(None) => "The trained model stays as it is.".to_owned(),
        Some(Some(smaller)) => format!("The trained model: {smaller}."),
    };
    fact(ui, &words);
}
