//! Changes that would fit: the nearest ones, and the best configurations for a budget. Every answer is a dry run.
//!
//! Always holds: an offer was planned and fits; a search that meets its [`Limit`] keeps what it found. The bytes that
//! weights and optimizer state hold for the whole run ([`Plan::held`]) are asked first: if they alone cross the budget, no
//! batch and no checkpointing is tried.

use crate::{
    bytes::Bytes,
    error::Result,
    experiment::{
        Answers, Batch, Checkpointing, Experiment, OptimizerKind, Placement, Precision, Recompute, UpdateTime,
    },
    hardware::Machine,
    plan::{
        Limit, Pass, Plan, Resolved,
        change::between,
        first, predict,
        search::{Advice, Search, ranked},
    },
};

/// Offers that are worth making even when one of them is best in everything.
const OFFERS: usize = 3;
/// The most blocks of which a segment as long as the square root of their number is among the lengths that are tried.
const DEEP: usize = 49;
/// Offers that all take longer than this many times as long come with combinations of changes.
const SLOW: f64 = 2.0;
/// A change is worth making if it saves this part of the memory or of the time: one in this many.
const WORTH: u64 = 100;

/// The result of a search for configurations.
#[derive(Debug, Clone)]
pub struct Found {
    /// Configurations that fit, fastest first.
    pub offers: Vec<Advice>,
    /// The least that weights and optimizer state hold for the whole run, of the precisions that were tried. No batch and
    /// no checkpointing goes below it.
    pub held: Bytes,
    /// The lowest peak of all configurations that were planned.
    pub least: Bytes,
    /// How many were planned.
    pub tried: usize,
    /// Whether everything was tried; false when the search met its limit.
    pub is_whole: bool,
}

/// Configurations with the plan's effective batch that fit `budget`, fastest first: micro-batch x accumulation x precision x
/// what is computed again (checkpointing of every kind, or cheap layers alone). If the machine can give less than the budget,
/// they fit that too. For each precision and each kind the largest micro-batch that fits is kept: a smaller one takes longer for
/// nothing. Where evaluation alone crosses the budget, all have the largest evaluation batch that does not.
///
/// # Examples
///
/// ```
/// use plimsoll_engine::{Bytes, hardware::Machine, experiment::shipped, plan::{Limit, Plan, fit}};
///
/// let asked = shipped::open("cnn-shapes")?.experiment;
/// let plan = Plan::of(&asked, &Machine::nominal())?;
/// let budget = Bytes(plan.peak.live.0 / 2);
/// let found = fit(&plan, budget, Limit::NONE)?;
/// assert!(!found.offers.is_empty());
/// for offer in &found.offers {
///     assert!(offer.peak <= budget);
///     assert_eq!(offer.experiment.batch.effective(), asked.batch.effective());
/// }
/// # Ok::<(), plimsoll_engine::Error>(())
/// ```
///
/// # Errors
/// Fails if [`predict`](predict::predict()) does.
pub fn fit(plan: &Plan, budget: Bytes, limit: Limit<'_>) -> Result<Found> {
    searched(&Search::new(plan, limit), budget)
}

fn searched(search: &Search<'_>, budget: Bytes) -> Result<Found> {
    let (plan, line) = (search.plan(), search.line(budget));
    let asked = Experiment { budget, ..search.evaluable(line)? };
    let (mut offers, mut held) = (Vec::new(), Bytes(u64::MAX));
    for precision in precisions(asked.precision) {
        let asked = Experiment { precision, ..asked.clone() };
        let held_here = search.held(&asked)?;
        held = held_here.map_or(held, |here| held.min(here));
        if held_here.is_some_and(|held| held > line) {
            continue;
        }
        let kept = checkpointings(&asked, search.is_brief()).into_iter();
        let kept = kept.map(|checkpointing| Experiment { checkpointing, ..asked.clone() });
        for asked in kept.chain(cheap(&asked)) {
            offers.extend(search.largest(&asked, &batches(&asked.batch, asked.batch.effective()))?);
        }
    }
    // A plan that fits gets no offer that hardly saves anything.
    let (enough, quick) = (plan.load() - Bytes(plan.load().0 / WORTH), plan.step_secs * (1.0 - 1.0 / WORTH as f64));
    offers.retain(|offer| line < plan.load() || offer.peak < enough || offer.step_secs < quick);
    let mut offers = without_dominated(ranked(offers));
    if asked.batch.evaluation != plan.experiment.batch.evaluation {
        // Another test alone may be all that is needed, however much more other changes save.
        let known = |offer: &Advice| offers.iter().any(|other| other.experiment == offer.experiment);
        let tested = search.fitting(asked)?.filter(|offer| !known(offer));
        offers.extend(tested);
        offers = ranked(offers);
    }
    let (held, least) = (held.min(plan.held()), search.least());
    Ok(Found { offers, held, least, tried: search.tried(), is_whole: search.is_whole() })
}

/// The plan with the largest micro-batch that fits the budget; `None` when not even one sample does.
///
/// # Errors
/// Fails if [`predict`](predict::predict()) does.
pub fn largest_batch(experiment: &Experiment, machine: &Machine, limit: Limit<'_>) -> Result<Option<Plan>> {
    let of = |micro| {
        let mut of = experiment.clone();
        of.batch.micro = micro;
        of
    };
    let smallest = Resolved::new(&of(1), machine).map_err(first)?;
    let most = smallest.info().train / experiment.batch.accumulation;
    let fitting = |micro| -> Result<_> {
        // Larger batches make a run of epochs shorter, for which another choice may come too late.
        let Ok(resolved) = smallest.revised(&of(micro), machine) else { return Ok(None) };
        Ok(Some(predict(&resolved, machine)?).filter(|plan| plan.verdict().fits()))
    };
    let Some(mut best) = fitting(1)? else { return Ok(None) };
    // In strides that double while they fit, and halve from then on: a plan of far too much is never made.
    let (mut stride, mut grows) = (1, true);
    while stride > 0 && !limit.is_over() {
        let micro = best.experiment.batch.micro + stride;
        match if micro <= most { fitting(micro)? } else { None } {
            Some(plan) => best = plan,
            None => grows = false,
        }
        stride = if grows { stride * 2 } else { stride / 2 };
    }
    Ok(Some(best))
}

/// The plan's configuration at the largest micro-batch that fits its budget, which changes the effective batch: its time is per
/// sample. `None` when nothing fits, or the plan is that already.
///
/// # Errors
/// Fails if [`predict`](predict::predict()) does.
pub fn fill(plan: &Plan, limit: Limit<'_>) -> Result<Option<Advice>> {
    let asked = &plan.experiment;
    // Where weights and state do not fit, no sample does.
    if plan.held() > plan.line().bytes {
        return Ok(None);
    }
    let Some(largest) = largest_batch(asked, &plan.machine, limit)?.filter(|l| l.experiment.batch != asked.batch)
    else {
        return Ok(None);
    };
    let per_sample = |plan: &Plan| plan.step_secs / plan.experiment.batch.effective() as f64;
    Ok(Some(Advice {
        changes: between(asked, &largest.experiment),
        peak: largest.load(),
        host: largest.host.total(),
        step_secs: largest.step_secs,
        time_ratio: per_sample(&largest) / per_sample(plan).max(f64::MIN_POSITIVE),
        experiment: (*largest.experiment).clone(),
    }))
}

/// Out of offers sorted fastest first, the offers that take clearly less memory than every faster one; at least [`OFFERS`], if
/// there are enough that are not only further changes on top of a better offer.
fn without_dominated(found: Vec<Advice>) -> Vec<Advice> {
    let mut least = Bytes(u64::MAX);
    let (mut good, dominated): (Vec<_>, Vec<_>) = found.into_iter().partition(|offer| {
        let is_good = offer.peak < least - Bytes(least.0 / WORTH);
        least = if is_good { offer.peak } else { least };
        is_good
    });
    for offer in dominated {
        let is_less = |better: &Advice| {
            better.peak.0 <= offer.peak.0 + offer.peak.0 / WORTH
                && better.step_secs <= offer.step_secs
                && better.changes.iter().all(|change| offer.changes.contains(change))
        };
        if good.len() < OFFERS && !good.iter().any(is_less) {
            good.push(offer);
        }
    }
    ranked(good)
}

/// The nearest changes that fit, at most `count`: one choice changed if that is enough, otherwise, or where that takes more
/// than twice the time, several as [`fit`] finds them. Another place for data on the device comes first; then fastest first, but other optimizers in a row, the
/// nearest first. On a GPU with room for the plan as it is, a higher budget comes last, because no other choice reduces the
/// driver's own memory.
///
/// # Errors
/// Fails if [`predict`](predict::predict()) does.
pub fn advise(plan: &Plan, count: usize, limit: Limit<'_>) -> Result<Vec<Advice>> {
    Ok(advise_or_tell(plan, count, limit)?.offers)
}

/// The nearest changes that fit, and what is to be said of the search.
#[derive(Debug, Clone)]
pub struct Nearest {
    /// The changes, as [`advise`] gives them.
    pub offers: Vec<Advice>,
    /// The result of the search that found nothing, which tells why; `None` where there are offers.
    pub why: Option<Found>,
    /// Whether everything was tried; false when the search met its limit.
    pub is_whole: bool,
}

/// The same changes; where there are none, with the result of the search that found nothing.
///
/// # Errors
/// Fails if [`predict`](predict::predict()) does.
pub fn advise_or_tell(plan: &Plan, count: usize, limit: Limit<'_>) -> Result<Nearest> {
    let search = Search::new(plan, limit);
    let raised = higher_budget(&search)?;
    if plan.target.profile().is_some_and(|profile| profile.context >= plan.budget) {
        let offers = raised.into_iter().take(count).collect();
        return Ok(Nearest { offers, why: None, is_whole: search.is_whole() });
    }
    let (mut found, mut why) = (nearest(&search)?, None);
    if found.iter().all(|offer| offer.time_ratio > SLOW) {
        let mut searched = searched(&search, plan.budget)?;
        found.append(&mut searched.offers);
        found = ranked(found);
        why = Some(searched);
    }
    found.truncate(count - usize::from(raised.is_some()).min(count));
    found.extend(raised.into_iter().take(count));
    let why = why.filter(|_| found.is_empty());
    Ok(Nearest { offers: found, why, is_whole: search.is_whole() })
}

/// One choice changed, if that is enough: data elsewhere, then fastest first, but other optimizers in a row.
fn nearest(search: &Search<'_>) -> Result<Vec<Advice>> {
    let (plan, asked) = (search.plan(), &*search.plan().experiment);
    let lighter = lighter_optimizers(search)?;
    let mut found = Vec::new();
    // A change that only makes activations smaller does not help if weights and optimizer state alone are too large.
    if plan.held() <= plan.line().bytes {
        found.extend(smaller_evaluation(search)?);
        for checkpointing in checkpointings(asked, search.is_brief()) {
            found.extend(search.fitting(Experiment { checkpointing, ..asked.clone() })?);
        }
        found.extend(search.largest(asked, &batches(&asked.batch, asked.batch.micro - 1))?);
        found.extend(search.fitting(Experiment { retain_graph: false, ..asked.clone() })?);
        let execution = asked.execution.without_copies();
        found.extend(search.fitting(Experiment { execution, ..asked.clone() })?);
        if let Some(cheap) = cheap(asked) {
            found.extend(search.fitting(cheap)?);
        }
        let mut early = asked.clone();
        early.optimizer.update = UpdateTime::InBackward;
        found.extend(search.fitting(early)?);
    }
    found.extend(asked_before(search)?);
    for precision in precisions(asked.precision) {
        found.extend(search.fitting(Experiment { precision, ..asked.clone() })?);
    }
    let mut found = ranked(found);
    // Another rule is another training, so these offers stand together, the nearest first, at the place of that one's time.
    let place = lighter.first().map_or(0, |nearest| found.partition_point(|a| a.step_secs <= nearest.step_secs));
    found.splice(place..place, lighter);
    // Where the data alone are too much, this changes nothing else.
    found.splice(0..0, data_elsewhere(search)?);
    Ok(found)
}

/// The plan with the training samples in host memory, or else read as they are needed, where they are on the device.
fn data_elsewhere(search: &Search<'_>) -> Result<Option<Advice>> {
    let asked = &*search.plan().experiment;
    if asked.data.placement != Placement::Device || search.plan().held() > search.plan().line().bytes {
        return Ok(None);
    }
    for placement in [Placement::Host, Placement::Streamed] {
        let mut candidate = asked.clone();
        candidate.data.placement = placement;
        if let Some(advice) = search.fitting(candidate)? {
            return Ok(Some(advice));
        }
    }
    Ok(None)
}

/// The largest smaller evaluation batch with which the plan fits, if evaluation crosses the line.
fn smaller_evaluation(search: &Search<'_>) -> Result<Option<Advice>> {
    let plan = search.plan();
    if plan.verdict().fits() || !matches!(plan.peak_pass, Pass::Evaluate | Pass::Compress) {
        return Ok(None);
    }
    for candidate in search.smaller_evaluations() {
        if let Some(advice) = search.fitting(candidate)? {
            return Ok(Some(advice));
        }
    }
    Ok(None)
}

/// The plan with a teacher that is asked once, for a run that asks it in every step. The run learns the same and does not hold
/// the teacher's weights meanwhile.
fn asked_before(search: &Search<'_>) -> Result<Option<Advice>> {
    let plan = search.plan();
    if plan.experiment.distil.chosen().is_none() {
        return Ok(None);
    }
    let mut experiment = (*plan.experiment).clone();
    experiment.distil.answers = Answers::Cached;
    Ok(search.fitting(experiment)?.filter(|advice| advice.peak < plan.load()))
}

/// The plan with the least round budget that it fits, where the card has that.
fn higher_budget(search: &Search<'_>) -> Result<Option<Advice>> {
    const ROUND: u64 = 64 << 20;
    let plan = search.plan();
    let Some(profile) = plan.target.profile() else { return Ok(None) };
    let least = Bytes(plan.peak.process.0.next_multiple_of(ROUND)).min(profile.usable_memory());
    let experiment = Experiment { budget: least, ..(*plan.experiment).clone() };
    if plan.fits() || plan.peak.process > least { Ok(None) } else { search.fitting(experiment) }
}

/// Other rules with which the plan fits: first the one that changes the training least, then only rules that save more than
/// every one before them.
fn lighter_optimizers(search: &Search<'_>) -> Result<Vec<Advice>> {
    let plan = search.plan();
    let asked = &*plan.experiment;
    let from = asked.optimizer.kind.lightness();
    let mut kinds = OptimizerKind::from_heavy_to_light();
    kinds.sort_by_key(|kind| kind.lightness().abs_diff(from));
    if search.is_brief() {
        // The nearest and the lightest.
        kinds.retain(|kind| kind.lightness() > from);
        let last = kinds.split_off(1.min(kinds.len())).pop();
        kinds.extend(last);
    }
    let (mut found, mut least) = (Vec::new(), plan.load());
    for kind in kinds {
        let mut candidate = asked.clone();
        candidate.optimizer.choose(kind);
        if let Some(advice) = search.fitting(candidate)?.filter(|advice| advice.peak < least) {
            least = advice.peak;
            found.push(advice);
        }
    }
    Ok(found)
}

/// Ways to make the same effective batch from micro-batches of at most `largest`, largest first.
pub(super) fn batches(batch: &Batch, largest: usize) -> Vec<Batch> {
    let effective = batch.effective();
    (1..=largest)
        .rev()
        .filter(|micro| effective.is_multiple_of(*micro))
        .map(|micro| Batch { micro, accumulation: effective / micro, ..batch.clone() })
        .collect()
}

/// The precision asked for first, then those that train most models as well.
fn precisions(asked: Precision) -> Vec<Precision> {
    let mut all = vec![asked];
    all.extend([Precision::F32, Precision::Bf16Mixed, Precision::F16Mixed].into_iter().filter(|p| *p != asked));
    all
}

/// The experiment with cheap layers computed again, where it keeps them.
fn cheap(asked: &Experiment) -> Option<Experiment> {
    (asked.recompute != Recompute::Cheap).then(|| Experiment { recompute: Recompute::Cheap, ..asked.clone() })
}

/// The checkpointing asked for first, then every segment length that can matter for the model's depth; of a brief search, the
/// one that keeps least.
fn checkpointings(asked: &Experiment, is_brief: bool) -> Vec<Checkpointing> {
    let depth = asked.model.blocks();
    if is_brief {
        let mut all = vec![asked.checkpointing, Checkpointing::Sqrt];
        all.dedup();
        return all;
    }
    let lengths = (1..=depth).filter(|k| *k <= 4 || depth.is_multiple_of(*k) || k * k <= depth);
    let mut all = vec![asked.checkpointing];
    let segments = lengths.skip(1).take(6).map(Checkpointing::Every);
    let shares = [75, 50, 25].map(Checkpointing::Percent);
    // A deep model keeps least by segments that are longer than these, and each plan of one takes its time.
    let deep = (depth > DEEP).then_some(Checkpointing::Sqrt);
    let known = [Checkpointing::None, Checkpointing::Blocks];
    for candidate in deep.into_iter().chain(known).chain(segments).chain(shares) {
        if !all.contains(&candidate) {
            all.push(candidate);
        }
    }
    all
}
