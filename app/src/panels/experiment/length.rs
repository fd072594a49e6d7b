//! How long a run is, in steps.

use eframe::egui::Ui;

use super::{PanelContext, fact};
use crate::format;

/// Draws the row. It is always there, and shows the last plan until the next one is made: no row below moves while a number is
/// edited.
pub(super) fn steps(ui: &mut Ui, context: &PanelContext<'_>) {
    let plan = context.state.newest_plan().filter(|_| context.state.prediction.obstacle.is_none());
    let [steps, an_epoch] = plan.map_or(["–".to_owned(), "–".to_owned()], |plan| {
        [plan.total_steps, plan.steps_per_epoch].map(format::count)
    });
    fact(ui, &format!("{steps} steps, {an_epoch} an epoch"));
}
