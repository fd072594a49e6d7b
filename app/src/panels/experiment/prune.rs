//! Weights that become zero: which, how many and when.

use eframe::egui::Ui;
use plimsoll_engine::experiment::{PruneKind, PruneSchedule};

use super::controls;
use crate::widgets::control::{Form, Number, Spec};

/// The settings of the group.
pub(super) const PARTS: [Spec; 10] = [
    controls::PRUNE.0,
    controls::PRUNE_SCOPE.0,
    controls::FINAL_SPARSITY.0,
    controls::PRUNE_SCHEDULE.0,
    controls::INITIAL_SPARSITY.0,
    controls::PRUNE_N.0,
    controls::PRUNE_M.0,
    controls::PRUNE_BEGIN.0,
    controls::PRUNE_END.0,
    controls::PRUNE_EVERY.0,
];

/// Draws the group.
pub(super) fn ui(ui: &mut Ui, form: &Form<'_>) {
    form.choice(ui, controls::PRUNE.0, &controls::PRUNE.1);
    let prune = form.experiment().prune;
    match prune.kind {
        PruneKind::None => return,
        PruneKind::Magnitude => {
            form.choice(ui, controls::PRUNE_SCOPE.0, &controls::PRUNE_SCOPE.1);
            form.number(ui, controls::FINAL_SPARSITY.0, controls::FINAL_SPARSITY.1);
            form.choice(ui, controls::PRUNE_SCHEDULE.0, &controls::PRUNE_SCHEDULE.1);
            if prune.schedule == PruneSchedule::Polynomial {
                form.number(ui, controls::INITIAL_SPARSITY.0, controls::INITIAL_SPARSITY.1);
            }
        }
        PruneKind::Channels => {
            form.number(ui, controls::FINAL_SPARSITY.0, controls::FINAL_SPARSITY.1);
            form.number(
                ui,
                controls::PRUNE_BEGIN.0,
                Number { zero: Some("half of the run"), ..controls::PRUNE_BEGIN.1 },
            );
            super::hint(ui, form, controls::PRUNE_BEGIN.0.key);
            return;
        }
        PruneKind::Groups => {
            for (spec, number) in [controls::PRUNE_N, controls::PRUNE_M] {
                form.number(ui, spec, number);
            }
        }
    }
    for (spec, number) in [controls::PRUNE_BEGIN, controls::PRUNE_END, controls::PRUNE_EVERY] {
        form.number(ui, spec, number);
    }
    super::hint(ui, form, controls::PRUNE_BEGIN.0.key);
}
