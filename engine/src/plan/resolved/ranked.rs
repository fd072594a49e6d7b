//! The ranks of an experiment whose layers are factored by the singular values of their weights.
//!
//! Always holds: weights are read only where the experiment does not have the ranks already, and once for all shares that are
//! tried of the same files.

use std::sync::Arc;

use crate::{
    bytes::{are, count, counted},
    error::{Error, Problem},
    experiment::{DatasetInfo, Experiment},
    interop::Spectra,
    nn::Factorable,
};

/// The experiment with its ranks, and the spectra from which they were found; `known` are the spectra of another
/// experiment's weights.
///
/// # Errors
/// The problem of weights that cannot be read, and of a share that no ranks reach.
pub(super) fn found(
    experiment: Experiment,
    info: &DatasetInfo,
    known: Option<&Arc<Spectra>>,
) -> Result<(Experiment, Option<Arc<Spectra>>), Problem> {
    let Some(path) = experiment.weights.chosen().filter(|_| experiment.lacks_ranks()) else {
        return Ok((experiment, known.cloned()));
    };
    let read = || Spectra::read(path, &experiment, info).map(Arc::new).map_err(unread);
    let spectra =
        known.filter(|known| known.are_of(&experiment, info)).map_or_else(read, |known| Ok(Arc::clone(known)))?;
    let table = spectra.ranks(&experiment.low_rank)?;
    Ok((experiment.ranked(&table), Some(spectra)))
}

fn unread(error: Error) -> Problem {
    match error {
        Error::Experiment(problem) => problem,
        error => Problem::new("weights.path", error.to_string(), "choose other weights, or none"),
    }
}

/// How the layers are factored, in words; `None` if none should be.
pub(super) fn in_words(experiment: &Experiment, factored: &[Factorable]) -> Option<String> {
    if !experiment.low_rank.is_chosen() {
        return None;
    }
    let ranks = factored.iter().filter_map(|layer| layer.ranks);
    let ranks: Vec<usize> = ranks.flat_map(|ranks| [ranks.inner, ranks.out]).collect();
    let Some((low, high)) = ranks.iter().min().zip(ranks.iter().max()) else {
        return Some(
            "no layer is factored: with these ranks no factors are smaller than their layer; \
                     write a smaller rank, share or size"
                .to_owned(),
        );
    };
    let of = |weights: fn(&Factorable) -> usize| factored.iter().map(weights).sum::<usize>();
    let (whole, own) = (of(|layer| layer.whole.weights()), of(Factorable::weights));
    let range = if low == high { format!("rank {low}") } else { format!("ranks from {low} to {high}") };
    let layers = factored.len() as u64;
    let layers = format!("{} {}", counted(layers, "layer"), are(layers));
    let share = own as f64 / whole.max(1) as f64 * 100.0;
    let [own, whole] = [own, whole].map(|weights| count(weights as u64));
    Some(format!("{layers} factored, of {range}: {own} weights in place of {whole} ({share:.0}%)"))
}
