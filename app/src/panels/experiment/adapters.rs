//! The layers that adapters are for.

use eframe::egui::Ui;
use plimsoll_engine::experiment::{Projection, Targets};

use crate::widgets::control::{Form, Spec, follow};

/// The layers that adapters are for.
pub(super) const TARGETS: Spec = Spec {
    key: "lora.targets",
    name: "Targets",
    help: "The dense layers that get adapters: queries, keys, values and output of the attention; gate, up and down of \
            the feed-forward part. Without a target its matrices have no gradients and no moments, and its input need not be \
            saved. A layer without an adapter learns whole, unless it is frozen.",
};

/// A box for every projection of the model.
pub(super) fn targets(ui: &mut Ui, form: &Form<'_>) {
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
