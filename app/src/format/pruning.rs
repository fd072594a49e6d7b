//! Pruning in words.

use plimsoll_engine::{
    experiment::{Prune, PruneKind},
    plan::Plan,
};

/// That training gets no smaller by weights that become zero; `None` where none do.
pub(crate) fn of_zeros(plan: &Plan) -> Option<String> {
    plan.experiment.prune.kind.sets_to_zero().then(|| {
        format!(
            "Pruning saves no memory while the run trains: zeros are stored and multiplied like other numbers, and masks and \
             counts of {} are added",
            plan.pruning
        )
    })
}

/// Why more of the weights go than of the channels; `None` where no channels are taken out.
pub(crate) fn of_channels(prune: &Prune) -> Option<String> {
    let percent = |share: f64| format!("{:.0}%", share * 100.0);
    let (gone, stays) = (prune.final_sparsity, 1.0 - prune.final_sparsity);
    (prune.kind == PruneKind::Channels).then(|| {
        format!(
            "A layer loses {} of its channels, and the next one the inputs that came from them: one that loses both keeps {} of \
             its weights",
            percent(gone),
            percent(stays * stays)
        )
    })
}
