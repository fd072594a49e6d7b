//! The prediction: a dry run of the model's making, the first step, later steps and evaluations, until they repeat, and of
//! a checkpoint's writing.
//!
//! A later step asks for the same blocks as the one before, but a pool may put them elsewhere: the first step's blocks
//! decide where the second finds room, and the second's where the third does. Always holds: the dry run goes on until the
//! pool is as it was after an earlier step. From there on everything repeats. Blocks with places of their own repeat from the
//! second step on.

mod dry;
mod graphs;
mod layer_rows;
mod op_times;
mod passes;
pub(crate) mod places;
pub(crate) mod process;
mod teaching;

use std::{sync::Arc, time::Instant};

use crate::{
    bytes::Bytes,
    device::Target,
    error::{BudgetError, Error, Problem, Result},
    experiment::EvaluationBatch,
    hardware::Machine,
    memory::{Categories, Category, ledger::Recording},
    plan::{Pass, Peak, Plan, Resolved},
};

use self::{
    dry::{Done, Dry, Purpose, logged, recorded, shortened},
    layer_rows::{ModelFacts, layer_rows},
};
pub use self::{op_times::op_secs, places::requests, process::Grown};

/// Predicts the memory and time of a run of `resolved` on `machine`. Reads nothing else.
///
/// # Examples
///
/// ```
/// use plimsoll_engine::{Bytes, Experiment, error::Problem, hardware::Machine, plan::{Resolved, predict}};
///
/// let machine = Machine::nominal();
/// let experiment = Experiment { budget: Bytes::mib(64), ..Experiment::default() };
/// let resolved = Resolved::new(&experiment, &machine).map_err(|problems: Vec<Problem>| problems[0].clone())?;
/// let plan = predict(&resolved, &machine)?;
/// assert!(plan.fits() && plan.peak.live < Bytes::mib(64));
///
/// // A prediction reads nothing but its two arguments.
/// assert_eq!(predict(&resolved, &machine)?.peak, plan.peak);
/// # Ok::<(), plimsoll_engine::Error>(())
/// ```
///
/// # Errors
/// Fails when the model cannot be built, as when a tensor has more elements than any device holds.
pub fn predict(resolved: &Resolved, machine: &Machine) -> Result<Plan> {
    let start = Instant::now();
    let mut plan = placed(resolved, machine).map_err(|error| of_sizes(error, resolved))?;
    let free = machine.free_memory().map(|free| free.bytes);
    if plan.host_obstacle(free).is_some() {
        plan.host_offers = plan.ways_to_feed(free);
    }
    plan.plan_secs = start.elapsed().as_secs_f64();
    Ok(plan)
}

/// The plan, with the places of blocks where they are to be found beforehand and take no more than growing.
fn placed(resolved: &Resolved, machine: &Machine) -> Result<Plan> {
    let recorded = |places| Ok(plan_of(resolved, machine, recorded(resolved, machine, places)?));
    let is_gpu = resolved.target().is_gpu();
    if is_gpu && !places::are_planned(resolved.experiment()) {
        return recorded(None);
    }
    // One dry run tells requests, places and figures, as long as the run keeps to its places. That of a run of one step has a
    // second one, which would take places as well.
    if !is_gpu || resolved.steps_left() > 1 {
        let done = logged(resolved, machine)?;
        if !is_gpu || places::are_best(resolved, machine, &done)? {
            return Ok(plan_of(resolved, machine, done));
        }
    }
    let Some((places, grown)) = places::found(resolved, machine)? else { return recorded(None) };
    let plan = recorded(Some(places))?;
    // Places are advice: a run that could not keep to them has grown, and may have grown too far.
    if plan.peak.reserved > grown { recorded(None) } else { Ok(plan) }
}

/// A tensor that cannot be is a problem of the experiment's sizes.
fn of_sizes(error: Error, resolved: &Resolved) -> Error {
    let Error::TooLarge { .. } = &error else { return error };
    let batch = &resolved.experiment().batch;
    let also = if batch.evaluation == EvaluationBatch::Micro { "" } else { ", or batch.evaluation" };
    let mend = format!("lower model.width, other sizes of the model, or batch.micro{also}");
    Error::Experiment(Problem::new("model.width", error.to_string(), mend))
}

/// The refusal that a run of `resolved` would meet, by another dry run; `None` when it stays inside its budget.
///
/// # Errors
/// Fails for every other reason than the refusal, which is the value.
pub fn refusal(resolved: &Resolved, machine: &Machine) -> Result<Option<BudgetError>> {
    let shortened = shortened(resolved.experiment());
    let places = places::of_plan(resolved, machine)?;
    let run = || Dry::new(resolved, &shortened, machine, Purpose::Refuse, places.as_ref())?.passes();
    match run() {
        Ok(_) => Ok(None),
        Err(Error::Budget(refusal)) => Ok(Some(refusal.planned())),
        Err(other) => Err(other),
    }
}

/// The plan of a dry run that is over.
fn plan_of(resolved: &Resolved, machine: &Machine, done: Done<'_>) -> Plan {
    let (reserved, apart) = (done.reserved(), done.apart());
    let Done { mut dry, bookkeeping, passes: of_run, places } = done;
    let (steps_per_epoch, total_steps) = resolved.steps();
    let model = dry.whole.take().unwrap_or_else(|| ModelFacts::of(&dry.session, resolved.experiment().precision));
    let recordings = dry.by_pass(&of_run);
    let (peak_pass, peak) = highest(resolved, &recordings);
    let (live, alive_at_peak) = (peak.live_peak, peak.alive_at_peak());
    let graphs = graphs::allowed(resolved, reserved, dry.graphs);
    let most_graphs = graphs::most(resolved, dry.graphs);
    let categories_at_peak = categories(resolved, peak, reserved, graphs);
    let layers = layer_rows(&dry, &model.leaves, &recordings[Pass::Steady as usize], peak);
    let length = |pass| recordings[pass as usize].timeline.points.len();
    let extent = process::Extent::of(peak_pass, length, alive_at_peak.len(), layers.len());
    let first = &recordings[Pass::First as usize].timeline;
    let grown = process::Grown::of(resolved, reserved + graphs, apart, first);
    let process = process::planned(resolved, machine, grown, extent);
    let [teach, first, steady, prune, pruned, evaluate, save, compress] =
        recordings.map(|recording| recording.timeline);
    Plan {
        resolved: resolved.clone(),
        machine: machine.clone(),
        budget: resolved.line(),
        target: resolved.target().clone(),
        experiment: Arc::clone(resolved.experiment()),
        bookkeeping,
        peak: Peak { live, reserved, process },
        peak_pass,
        categories_at_peak,
        host: resolved.host(),
        host_offers: Vec::new(),
        layers,
        alive_at_peak,
        parameters: model.parameters,
        trained: model.trained,
        high_precision: model.high_precision,
        smaller: dry.smaller,
        pruning: dry.session.pruning_bytes(),
        total_steps,
        steps_per_epoch,
        step_secs: of_run.whole.step_secs,
        pruned_step_secs: of_run.thinned.as_ref().map_or(0.0, |(_, thinned)| thinned.step_secs),
        test_secs: of_run.thinned.as_ref().map_or(&of_run.whole, |(_, thinned)| thinned).test_secs,
        teach_secs: dry.asked.map_or(0.0, |asked| asked.secs),
        thinned_after: resolved.thinned_after(),
        places,
        planned_anew: Vec::new(),
        graphs,
        most_graphs,
        grown,
        plan_secs: 0.0,
        teach,
        first,
        steady,
        prune,
        pruned,
        evaluate,
        save,
        compress,
    }
}

/// The pass with the most bytes alive, of those that the run has.
fn highest<'a>(resolved: &Resolved, recordings: &'a [Recording; Pass::ALL.len()]) -> (Pass, &'a Recording) {
    // A tie goes to the first of these: the steady step is most of the run.
    const IN_A_TIE: [Pass; Pass::ALL.len()] =
        [Pass::Steady, Pass::First, Pass::Evaluate, Pass::Save, Pass::Prune, Pass::Pruned, Pass::Teach, Pass::Compress];
    let is_run = |pass: &Pass| match pass {
        Pass::Steady => resolved.steps_left() > 1,
        Pass::Compress => !resolved.experiment().quantise.kind.is_none(),
        Pass::Teach | Pass::First | Pass::Prune | Pass::Pruned | Pass::Evaluate | Pass::Save => true,
    };
    let mut highest = Pass::First;
    for pass in IN_A_TIE.into_iter().filter(is_run).rev() {
        if recordings[pass as usize].live_peak >= recordings[highest as usize].live_peak {
            highest = pass;
        }
    }
    (highest, &recordings[highest as usize])
}

/// The bytes alive at the peak by category, the allocator's bytes beyond them, and the context of a GPU with its graphs.
fn categories(resolved: &Resolved, peak: &Recording, reserved: Bytes, graphs: Bytes) -> Categories {
    let mut categories = peak.categories_at_peak;
    categories.add(Category::Slack, reserved.saturating_sub(peak.live_peak).0);
    if let Target::Gpu(profile) = resolved.target() {
        categories.add(Category::Context, (profile.context + graphs).0);
    }
    categories
}

#[cfg(test)]
mod tests;
