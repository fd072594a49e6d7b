//! How long a run is, in steps.

use eframe::egui::Ui;

use super::{PanelContext, fact};
use crate::format;

/// Draws the row. It is always there, and shows the last plan until the next one is made: no row below moves while a number is
/// edited.
pub(super) fn steps(ui: &mut Ui, context: &PanelContext<'_>) {
    let plan = context.state.newest_plan().filter(|_| context.state.prediction.obstacle.is_none());
    let [steps, an_epoch] = plan.map_or(["– steps".to_owned(), "–".to_owned()], |plan| {
        [format::counted(plan.total_steps, "step"), format::count(plan.steps_per_epoch)]
    });
    fact(ui, &format!("{steps}, {an_epoch} an epoch"));
}
