//! The effect of the chosen ranks, in words.

use eframe::egui::Ui;

use super::{PanelContext, fact};

/// Draws the words.
pub(super) fn words(ui: &mut Ui, context: &PanelContext<'_>) {
    let words = context.state.newest_plan().and_then(|plan| plan.resolved.ranks_in_words());
    words.into_iter().for_each(|words| fact(ui, &words));
}
