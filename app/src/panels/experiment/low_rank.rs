//! Layers as products of smaller ones: by which rank, and what comes of it.

use eframe::egui::Ui;

use super::{PanelContext, controls, fact};
use crate::widgets::control::{Form, Spec};

/// The settings of the group.
pub(super) const PARTS: [Spec; 3] = [controls::LOW_RANK.0, controls::ENERGY.0, controls::SIZE.0];

/// Draws the group: the chosen way to choose ranks, or all three.
pub(super) fn ui(ui: &mut Ui, form: &Form<'_>, context: &PanelContext<'_>) {
    let experiment = form.experiment();
    let low_rank = &experiment.low_rank;
    let chosen = [low_rank.rank > 0, low_rank.energy > 0.0, low_rank.size > 0.0];
    let has_weights = experiment.weights.chosen().is_some();
    // What is found from weights is offered where there are some.
    let offered = [true, has_weights, has_weights];
    let is_any = chosen.contains(&true);
    let ways = [controls::LOW_RANK, controls::ENERGY, controls::SIZE].into_iter().zip(chosen).zip(offered);
    for (((spec, number), is_chosen), is_offered) in ways {
        if is_chosen || (is_offered && !is_any) {
            form.number(ui, spec, number);
        }
    }
    let words = context.state.newest_plan().and_then(|plan| plan.resolved.ranks_in_words());
    words.into_iter().for_each(|words| fact(ui, &words));
}
