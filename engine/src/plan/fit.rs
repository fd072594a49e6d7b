//! What would fit: the nearest changes, and the best configurations for a budget. Every answer is a dry run.

use crate::{
    bytes::Bytes,
    error::{Error, Result},
    experiment::{Batch, Checkpointing, Experiment, OptimizerKind, Outputs, Precision, TapeUse, UpdateTime},
    plan::{Plan, predict, predict::facts},
};

/// Offers that are worth making even when one of them is best in everything.
const OFFERS: usize = 3;

/// A configuration that fits, and what it costs against the one asked about.
#[derive(Debug, Clone)]
pub struct Advice {
    /// The change in words, such as `micro-batch 32 x 2`.
    pub change: String,
    /// The whole configuration.
    pub experiment: Experiment,
    /// Its predicted peak.
    pub peak: Bytes,
    /// Predicted seconds for one optimizer step.
    pub step_secs: f64,
    /// Predicted time against the configuration asked about: 1.1 is 10% more.
    pub time_ratio: f64,
}

/// Configurations with the plan's effective batch that fit `budget`, fastest first: micro-batch x accumulation x
/// precision x checkpointing. Of each precision and checkpointing the largest micro-batch that fits is kept: a smaller
/// one takes longer for nothing.
///
/// # Errors
/// As [`predict`](predict::predict()).
pub fn fit(plan: &Plan, budget: Bytes) -> Result<Vec<Advice>> {
    let asked = Experiment { budget, ..(*plan.experiment).clone() };
    let mut found = Vec::new();
    for precision in precisions(asked.precision) {
        for checkpointing in checkpointings(&asked) {
            for batch in batches(&asked.batch, asked.batch.effective()) {
                let candidate = Experiment { precision, checkpointing, batch, ..asked.clone() };
                if let Some(advice) = fitting(plan, candidate)? {
                    found.push(advice);
                    break;
                }
            }
        }
    }
    // What saves no memory and costs time is no offer to a plan that fits as it is.
    let is_offer = |a: &Advice| budget < plan.load() || a.peak < plan.load() || a.step_secs < plan.step_secs;
    found.retain(is_offer);
    Ok(without_dominated(ranked(found)))
}

/// The plan with the largest micro-batch that fits the budget; `None` when not even one sample does.
///
/// # Errors
/// As [`predict`](predict::predict()).
pub fn largest_batch(experiment: &Experiment) -> Result<Option<Plan>> {
    let of = |micro| {
        let mut of = experiment.clone();
        of.batch.micro = micro;
        of
    };
    let most = facts(&of(1))?.train / experiment.batch.accumulation;
    let fitting = |micro| -> Result<_> { Ok(Some(predict(&of(micro))?).filter(Plan::fits)) };
    let Some(mut best) = fitting(1)? else { return Ok(None) };
    // In strides that double while they fit, and halve from then on: a plan of far too much is never made.
    let (mut stride, mut grows) = (1, true);
    while stride > 0 {
        let micro = best.experiment.batch.micro + stride;
        match if micro <= most { fitting(micro)? } else { None } {
            Some(plan) => best = plan,
            None => grows = false,
        }
        stride = if grows { stride * 2 } else { stride / 2 };
    }
    Ok(Some(best))
}

/// The plan's configuration at the largest micro-batch that fits its budget, which changes the effective batch: its time is
/// that of a sample. `None` when nothing fits, or the plan is that already.
///
/// # Errors
/// As [`predict`](predict::predict()).
pub fn fill(plan: &Plan) -> Result<Option<Advice>> {
    let asked = &plan.experiment;
    let Some(largest) = largest_batch(asked)?.filter(|l| l.experiment.batch != asked.batch) else { return Ok(None) };
    let per_sample = |plan: &Plan| plan.step_secs / plan.experiment.batch.effective() as f64;
    Ok(Some(Advice {
        change: change(asked, &largest.experiment),
        peak: largest.load(),
        step_secs: largest.step_secs,
        time_ratio: per_sample(&largest) / per_sample(plan).max(f64::MIN_POSITIVE),
        experiment: (*largest.experiment).clone(),
    }))
}

/// Of offers fastest first, those that no faster one undercuts in memory; at least [`OFFERS`], as far as there are so many.
fn without_dominated(found: Vec<Advice>) -> Vec<Advice> {
    let mut least = Bytes(u64::MAX);
    let (good, dominated): (Vec<_>, Vec<_>) = found.into_iter().partition(|offer| {
        let is_good = offer.peak < least;
        least = least.min(offer.peak);
        is_good
    });
    let missing = OFFERS.saturating_sub(good.len());
    ranked(good.into_iter().chain(dominated.into_iter().take(missing)).collect())
}

/// The nearest changes that fit, at most `count`: one choice changed where that is enough, otherwise several as [`fit`]
/// finds them. Fastest first, but other optimizers in a row, the nearest first. On a GPU with room for the plan as it is, a
/// higher budget comes last: what the driver takes for itself no other choice makes less.
///
/// # Errors
/// As [`predict`](predict::predict()).
pub fn advise(plan: &Plan, count: usize) -> Result<Vec<Advice>> {
    let asked = &*plan.experiment;
    let mut found = Vec::new();
    let raised = higher_budget(plan)?;
    if plan.target.profile().is_some_and(|profile| profile.context >= plan.budget) {
        return Ok(raised.into_iter().take(count).collect());
    }
    for batch in batches(&asked.batch, asked.batch.micro - 1) {
        if let Some(advice) = fitting(plan, Experiment { batch, ..asked.clone() })? {
            found.push(advice);
            break;
        }
    }
    for checkpointing in checkpointings(asked) {
        found.extend(fitting(plan, Experiment { checkpointing, ..asked.clone() })?);
    }
    for precision in precisions(asked.precision) {
        found.extend(fitting(plan, Experiment { precision, ..asked.clone() })?);
    }
    found.extend(fitting(plan, Experiment { tape: TapeUse::Frees, ..asked.clone() })?);
    found.extend(fitting(plan, Experiment { outputs: Outputs::MadeAgain, ..asked.clone() })?);
    let mut early = asked.clone();
    early.optimizer.update = UpdateTime::InBackward;
    found.extend(fitting(plan, early)?);
    let mut found = ranked(found);
    // Another rule is another training: the kinds stand together, the nearest first, where that one's time puts it.
    let lighter = lighter_optimizers(plan)?;
    let place = lighter.first().map_or(0, |nearest| found.partition_point(|a| a.step_secs <= nearest.step_secs));
    found.splice(place..place, lighter);
    if found.is_empty() {
        found = fit(plan, plan.budget)?;
    }
    found.truncate(count - usize::from(raised.is_some()).min(count));
    found.extend(raised.into_iter().take(count));
    Ok(found)
}

/// The plan with the least round budget that it fits, where the card has that.
fn higher_budget(plan: &Plan) -> Result<Option<Advice>> {
    const ROUND: u64 = 64 << 20;
    let Some(profile) = plan.target.profile() else { return Ok(None) };
    let least = Bytes(plan.peak.process.0.next_multiple_of(ROUND)).min(profile.room());
    let experiment = Experiment { budget: least, ..(*plan.experiment).clone() };
    if plan.fits() || plan.peak.process > least { Ok(None) } else { fitting(plan, experiment) }
}

/// Rules from the one that keeps most to the one that keeps nothing, in the order of how much each changes the training.
const LIGHTER: [OptimizerKind; 6] = [
    OptimizerKind::Adamw,
    OptimizerKind::Adamw8bit,
    OptimizerKind::Adafactor,
    OptimizerKind::Lion,
    OptimizerKind::Momentum,
    OptimizerKind::Sgd,
];

/// Other rules with which the plan fits: the one that changes the training least first, and after it only those that
/// save more than every one before them.
fn lighter_optimizers(plan: &Plan) -> Result<Vec<Advice>> {
    let asked = &*plan.experiment;
    let place = |kind| LIGHTER.iter().position(|known| *known == kind);
    let from = match asked.optimizer.kind {
        OptimizerKind::Adam => Some(0),
        OptimizerKind::Nesterov => place(OptimizerKind::Momentum),
        kind => place(kind),
    };
    let mut kinds = LIGHTER.to_vec();
    kinds.sort_by_key(|kind| place(*kind).zip(from).map(|(to, from)| to.abs_diff(from)));
    let (mut found, mut least) = (Vec::new(), plan.load());
    for kind in kinds {
        let mut candidate = asked.clone();
        candidate.optimizer.choose(kind);
        if let Some(advice) = fitting(plan, candidate)?.filter(|advice| advice.peak < least) {
            least = advice.peak;
            found.push(advice);
        }
    }
    Ok(found)
}

/// Fastest first. Of configurations that come to the very same memory and time one stands for all.
fn ranked(mut found: Vec<Advice>) -> Vec<Advice> {
    found.sort_by(|a, b| a.step_secs.total_cmp(&b.step_secs).then(a.peak.cmp(&b.peak)));
    found.dedup_by(|b, a| (a.peak, a.step_secs) == (b.peak, b.step_secs));
    found
}

/// The candidate as advice, if it fits its budget and is another configuration than the plan's.
fn fitting(plan: &Plan, candidate: Experiment) -> Result<Option<Advice>> {
    if candidate == *plan.experiment {
        return Ok(None);
    }
    let planned = match predict(&candidate) {
        Ok(planned) => planned,
        // A combination that cannot be is no answer, but no fault either.
        Err(Error::Experiment(_)) => return Ok(None),
        Err(other) => return Err(other),
    };
    Ok(planned.fits().then(|| Advice {
        change: change(&plan.experiment, &candidate),
        peak: planned.load(),
        step_secs: planned.step_secs,
        time_ratio: planned.step_secs / plan.step_secs.max(f64::MIN_POSITIVE),
        experiment: candidate,
    }))
}

/// Ways to make the same effective batch from micro-batches of at most `largest`, largest first.
fn batches(batch: &Batch, largest: usize) -> Vec<Batch> {
    let effective = batch.effective();
    (1..=largest)
        .rev()
        .filter(|micro| effective.is_multiple_of(*micro))
        .map(|micro| Batch { micro, accumulation: effective / micro })
        .collect()
}

/// The precision asked for first, then those that train most models as well.
fn precisions(asked: Precision) -> Vec<Precision> {
    let mut all = vec![asked];
    all.extend([Precision::F32, Precision::Bf16Mixed, Precision::F16Mixed].into_iter().filter(|p| *p != asked));
    all
}

/// The checkpointing asked for first, then every segment length that can matter for the model's depth.
fn checkpointings(asked: &Experiment) -> Vec<Checkpointing> {
    let depth = asked.model.blocks();
    let lengths = (1..=depth).filter(|k| *k <= 4 || depth.is_multiple_of(*k) || k * k <= depth);
    let mut all = vec![asked.checkpointing];
    let segments = lengths.skip(1).take(6).map(Checkpointing::Every);
    let shares = [75, 50, 25].map(Checkpointing::Percent);
    for candidate in [Checkpointing::None, Checkpointing::Blocks].into_iter().chain(segments).chain(shares) {
        if !all.contains(&candidate) {
            all.push(candidate);
        }
    }
    all
}

/// What differs, in words.
fn change(from: &Experiment, to: &Experiment) -> String {
    let mut parts = Vec::new();
    if from.batch != to.batch {
        parts.push(format!("micro-batch {} x {}", to.batch.micro, to.batch.accumulation));
    }
    if from.precision != to.precision {
        parts.push(to.precision.key().to_owned());
    }
    if from.checkpointing != to.checkpointing {
        parts.push(match to.checkpointing {
            Checkpointing::None => "no checkpointing".to_owned(),
            Checkpointing::Blocks => "checkpoint every block".to_owned(),
            Checkpointing::Every(k) => format!("checkpoint every {k} blocks"),
            Checkpointing::Sqrt => "checkpoint about the square root of the blocks".to_owned(),
            Checkpointing::Percent(percent) => format!("keep {percent}% of the activations"),
            Checkpointing::Pick(_) => "checkpoint other blocks".to_owned(),
        });
    }
    if from.tape != to.tape {
        parts.push(match to.tape {
            TapeUse::Frees => "free what is saved once it is used".to_owned(),
            TapeUse::Held => "hold what is saved".to_owned(),
        });
    }
    if from.outputs != to.outputs {
        parts.push(match to.outputs {
            Outputs::Kept => "keep every output".to_owned(),
            Outputs::MadeAgain => "make cheap outputs again".to_owned(),
        });
    }
    if from.optimizer.kind != to.optimizer.kind {
        parts.push(match to.optimizer.kind {
            OptimizerKind::Momentum => "sgd with momentum".to_owned(),
            OptimizerKind::Nesterov => "sgd with nesterov momentum".to_owned(),
            OptimizerKind::Adamw8bit => "adamw with 8-bit moments".to_owned(),
            kind => kind.key().to_owned(),
        });
    }
    if from.optimizer.update != to.optimizer.update {
        parts.push(match to.optimizer.update {
            UpdateTime::AfterBackward => "update after the backward pass".to_owned(),
            UpdateTime::InBackward => "update in the backward pass".to_owned(),
        });
    }
    if from.budget != to.budget {
        parts.push(format!("budget {}", to.budget));
    }
    if parts.is_empty() { "as it is".to_owned() } else { parts.join(", ") }
}
