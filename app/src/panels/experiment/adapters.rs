//! What is trained: which layers are frozen and how they are held, and their adapters.

use eframe::egui::Ui;
use plimsoll_engine::experiment::{Frozen, Projection, Targets};

use super::controls;
use crate::widgets::control::{Form, Spec, follow};

/// The settings of the group.
pub(super) const PARTS: [Spec; 8] = [
    controls::FROZEN.0,
    controls::FROZEN_BLOCKS.0,
    controls::LORA_RANK.0,
    controls::LORA_ALPHA.0,
    TARGETS,
    controls::LORA_DROPOUT.0,
    controls::LORA_RSLORA.0,
    controls::BASE.0,
];

const TARGETS: Spec = Spec {
    key: "lora.targets",
    name: "Targets",
    help: "The dense layers that get adapters: queries, keys, values and output of the attention; gate, up and down of \
            the feed-forward part. Without a target its matrices have no gradients and no moments, and its input need not be \
            saved. A layer without an adapter learns whole, unless it is frozen.",
};

/// Draws the group.
pub(super) fn ui(ui: &mut Ui, form: &Form<'_>) {
    form.choice(ui, controls::FROZEN.0, &controls::FROZEN.1);
    if matches!(form.experiment().frozen, Frozen::Blocks(_)) {
        form.number(ui, controls::FROZEN_BLOCKS.0, controls::FROZEN_BLOCKS.1);
    }
    form.number(ui, controls::LORA_RANK.0, controls::LORA_RANK.1);
    if form.experiment().lora.rank > 0 {
        form.number(ui, controls::LORA_ALPHA.0, controls::LORA_ALPHA.1);
        targets(ui, form);
        form.number(ui, controls::LORA_DROPOUT.0, controls::LORA_DROPOUT.1);
        form.choice(ui, controls::LORA_RSLORA.0, &controls::LORA_RSLORA.1);
    }
    let experiment = form.experiment();
    let is_offered = experiment.lora.rank > 0 && experiment.model.kind.is_decoder();
    if is_offered || !experiment.quantise.base.is_none() {
        form.choice(ui, controls::BASE.0, &controls::BASE.1);
    }
}

/// A box for every projection of the model.
fn targets(ui: &mut Ui, form: &Form<'_>) {
    let experiment = form.experiment();
    let (there, targets) = (experiment.model.kind.projections(), experiment.lora.targets);
    if there.is_empty() && targets.is_all() {
        return;
    }
    let hover = form.row(ui, TARGETS, |ui| {
        ui.horizontal_wrapped(|ui| {
            let named = |projection: &Projection| {
                there.contains(projection) || !targets.is_all() && targets.contains(*projection)
            };
            for projection in Projection::ALL.into_iter().filter(named) {
                let mut is_in = targets.contains(projection);
                let name = format!("Adapt {}", projection.key());
                let check = ui.checkbox(&mut is_in, projection.key()).accessible_name(&name);
                follow(&check);
                if check.changed() {
                    form.edit(TARGETS.key, |experiment| {
                        // Of those that the model has; all of them are every dense layer.
                        let own: Vec<Projection> = there.iter().copied().filter(|own| targets.contains(*own)).collect();
                        let chosen = Targets::of(&own).with(projection, is_in);
                        let is_all = there.iter().all(|own| chosen.contains(*own));
                        experiment.lora.targets = if is_all { Targets::ALL } else { chosen };
                    });
                }
            }
        });
    });
    form.help(&hover, TARGETS, Vec::new);
}
