//! Changes that would fit although they change the training itself, for a plan that no batch, mixed precision or
//! checkpointing makes fit.

use crate::{
    device::{Target, profile},
    error::Result,
    experiment::{
        BaseWeights, Batch, Checkpointing, EvaluationBatch, Experiment, Frozen, OptimizerKind, Precision, Recompute,
    },
    plan::{
        Limit, Plan,
        fit::batches,
        search::{Advice, Search, evaluation},
    },
};

/// Rows of logits that the loss is offered at a time.
const CHUNKS: [usize; 2] = [256, 64];
/// The rank of offered adapters, as Hu et al. 2021 use it.
const RANK: usize = 8;
/// No shorter sequence is offered.
const SHORTEST: usize = 16;

/// A setting's candidates, from the one that changes the training least.
type Candidates = fn(&Plan) -> Vec<Experiment>;

/// The settings, from the one that changes the training least.
const SETTINGS: [Candidates; 7] = [loss_chunks, optimizers, adapters, frozen, narrow_weights, lengths, cards];

/// Changes of the training with which the plan fits, at most `count`, each with the batch and the checkpointing that it
/// needs: chunks of the loss, another optimizer, adapters, frozen layers, bf16 alone, shorter sequences, a larger card. If none of them
/// is enough alone, all of them together.
///
/// # Errors
/// Fails if [`predict`](crate::plan::predict()) does.
pub fn further(plan: &Plan, count: usize, limit: Limit<'_>) -> Result<Vec<Advice>> {
    let search = Search::new(plan, limit);
    let mut found = Vec::new();
    for candidates in SETTINGS {
        for candidate in candidates(plan) {
            if let Some(advice) = at_any_batch(&search, candidate)? {
                found.push(advice);
                break;
            }
        }
        if found.len() == count {
            break;
        }
    }
    if found.is_empty() {
        found.extend(together(&search)?);
    }
    Ok(found)
}

/// The candidate as it is, or else at the largest micro-batch that fits when nothing is kept that can be computed again.
fn at_any_batch(search: &Search<'_>, candidate: Experiment) -> Result<Option<Advice>> {
    if let Some(advice) = search.fitting(candidate.clone())? {
        return Ok(Some(advice));
    }
    let lean = lean(search, &candidate);
    search.largest(&lean, &batches(&lean.batch, lean.batch.effective()))
}

/// The least activations of the same training. If only the evaluation crosses the line, it takes as many samples as training.
fn lean(search: &Search<'_>, experiment: &Experiment) -> Experiment {
    let (checkpointing, recompute, retain_graph) = (Checkpointing::Blocks, Recompute::Cheap, false);
    let execution = experiment.execution.without_copies();
    let mut lean = Experiment { checkpointing, recompute, retain_graph, execution, ..experiment.clone() };
    if evaluation(search.plan()) > search.line(search.plan().budget) {
        lean.batch.evaluation = EvaluationBatch::Micro;
    }
    lean
}

/// Every change at once, with ever shorter sequences.
fn together(search: &Search<'_>) -> Result<Option<Advice>> {
    let mut all = lean(search, &search.plan().experiment);
    all.batch = Batch { micro: 1, accumulation: all.batch.effective(), ..all.batch };
    all.optimizer.choose(OptimizerKind::Sgd);
    let is_factored = all.low_rank.is_chosen();
    match is_factored {
        // Adapters and codes are of whole layers.
        true => all.frozen = Frozen::AllButHead,
        false => (all.lora.rank, all.frozen) = (RANK, Frozen::All),
    }
    if all.model.kind.is_decoder() {
        all.loss_chunk = CHUNKS[1];
        if !is_factored {
            all.quantise.base = BaseWeights::Nf4Double;
        }
    }
    if let Some(advice) = search.fitting(all.clone())? {
        return Ok(Some(advice));
    }
    for length in shorter(&all) {
        all.data.length = length;
        if let Some(advice) = search.fitting(all.clone())? {
            return Ok(Some(advice));
        }
    }
    Ok(None)
}

fn loss_chunks(plan: &Plan) -> Vec<Experiment> {
    let asked = &*plan.experiment;
    let smaller = |chunk: &usize| asked.loss_chunk == 0 || *chunk < asked.loss_chunk;
    let chunks = CHUNKS.into_iter().filter(smaller).filter(|_| asked.model.kind.is_decoder());
    chunks.map(|loss_chunk| Experiment { loss_chunk, ..asked.clone() }).collect()
}

/// Rules that keep less than the plan's.
fn optimizers(plan: &Plan) -> Vec<Experiment> {
    let asked = &*plan.experiment;
    let with = |kind: OptimizerKind| {
        let mut experiment = asked.clone();
        experiment.optimizer.choose(kind);
        experiment
    };
    let is_lighter = |kind: &OptimizerKind| kind.lightness() > asked.optimizer.kind.lightness();
    OptimizerKind::from_heavy_to_light().into_iter().filter(is_lighter).map(with).collect()
}

/// Weights, gradients and optimizer state of 16 bits.
fn narrow_weights(plan: &Plan) -> Vec<Experiment> {
    let asked = &*plan.experiment;
    let narrow =
        (asked.precision != Precision::Bf16).then(|| Experiment { precision: Precision::Bf16, ..asked.clone() });
    narrow.into_iter().collect()
}

fn adapters(plan: &Plan) -> Vec<Experiment> {
    let mut experiment = (*plan.experiment).clone();
    if experiment.lora.rank > 0 {
        let is_frozen = matches!(experiment.frozen, Frozen::All | Frozen::AllButHead);
        let can_be_coded = is_frozen && experiment.model.kind.is_decoder() && experiment.quantise.base.is_none();
        experiment.quantise.base = BaseWeights::Nf4Double;
        return can_be_coded.then_some(experiment).into_iter().collect();
    }
    experiment.lora.rank = RANK;
    let alone = Experiment { frozen: Frozen::All, ..experiment.clone() };
    let mut coded = alone.clone();
    coded.quantise.base = BaseWeights::Nf4Double;
    let is_decoder = coded.model.kind.is_decoder();
    [experiment, alone].into_iter().chain(is_decoder.then_some(coded)).collect()
}

/// The first half of the blocks, then all but the head.
fn frozen(plan: &Plan) -> Vec<Experiment> {
    let asked = &*plan.experiment;
    if asked.frozen != Frozen::None {
        return Vec::new();
    }
    let half = asked.model.blocks() / 2;
    let choices = [Frozen::Blocks(half), Frozen::AllButHead].into_iter().skip(usize::from(half == 0));
    choices.map(|frozen| Experiment { frozen, ..asked.clone() }).collect()
}

fn lengths(plan: &Plan) -> Vec<Experiment> {
    let with = |length: usize| {
        let mut experiment = (*plan.experiment).clone();
        experiment.data.length = length;
        experiment
    };
    shorter(&plan.experiment).into_iter().map(with).collect()
}

/// Halves of the sequence's length; none if the model reads no sequence.
fn shorter(experiment: &Experiment) -> Vec<usize> {
    let halves = std::iter::successors(Some(experiment.data.length / 2), |length| Some(length / 2));
    halves.take_while(|length| *length >= SHORTEST && experiment.model.kind.is_decoder()).collect()
}

/// The smallest shipped card on which the plan has room as it is.
fn cards(plan: &Plan) -> Vec<Experiment> {
    let Target::Gpu(present) = &plan.target else { return Vec::new() };
    let larger = profile::shipped()
        .iter()
        .filter(|card| card.usable_memory() > present.usable_memory() && card.usable_memory() >= plan.load());
    let card = larger.min_by_key(|card| card.usable_memory());
    let on = |card: &std::sync::Arc<profile::Profile>| Experiment {
        device: card.slug.clone(),
        budget: card.usable_memory(),
        ..(*plan.experiment).clone()
    };
    card.map(on).into_iter().collect()
}
