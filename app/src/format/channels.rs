//! Channels that are taken out of a model, in words.

use plimsoll_engine::experiment::{Prune, PruneKind};

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
