//! The prediction: a dry run of the model's making, the first step, later steps and evaluations, until they repeat, and of
//! a checkpoint's writing.
//!
//! A later step asks for the same blocks as the one before, but a pool may put them elsewhere: the first step's blocks
//! decide where the second finds room, and the second's where the third does. Always holds: the dry run goes on until the
//! pool is as it was after an earlier step. From there on everything repeats.

mod graphs;
mod layer_rows;
mod op_times;
mod passes;
pub(crate) mod places;
pub(crate) mod process;
mod teaching;

use std::{sync::Arc, time::Instant};

use crate::{
    backend::{DryRun, Executor},
    bytes::Bytes,
    device::Target,
    error::{BudgetError, Error, Problem, Result},
    experiment::{EvaluationBatch, Experiment},
    hardware::Machine,
    memory::{Bookkeeping, Categories, Category, Ledger, allocator::Places, ledger::Recording, tally},
    plan::{Pass, Peak, Plan, Resolved},
    step::{Blank, Session, bookkeeping, load, restore, save::Nowhere},
};

use self::{
    layer_rows::{ModelFacts, layer_rows},
    passes::Passes,
    teaching::Asked,
};
pub use self::{op_times::op_secs, places::requests};

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
    let Some((places, grown)) = places::found(resolved, machine)? else { return dry_run(resolved, machine, None) };
    let plan = dry_run(resolved, machine, Some(places))?;
    // Places are advice: a run that could not keep to them has grown, and may have grown too far.
    if plan.peak.reserved > grown { dry_run(resolved, machine, None) } else { Ok(plan) }
}

/// A tensor that cannot be is a problem of the experiment's sizes.
fn of_sizes(error: Error, resolved: &Resolved) -> Error {
    let Error::TooLarge { .. } = &error else { return error };
    let batch = &resolved.experiment().batch;
    let also = if batch.evaluation == EvaluationBatch::Micro { "" } else { ", or batch.evaluation" };
    let mend = format!("lower model.width, other sizes of the model, or batch.micro{also}");
    Error::Experiment(Problem::new("model.width", error.to_string(), mend))
}

/// Micro-batches of one step that are run dry. Each after the second repeats the second to the byte, so a longer step
/// has nothing more to show.
const MICRO_BATCHES: usize = 32;

/// The purpose of a dry run of steps.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// Record allocations, to see their memory.
    Record,
    /// Refuse allocations that cross the line.
    Refuse,
    /// Record the requests of allocations to a pool that grows.
    Ask,
}

/// Runs the steps dry against a ledger.
struct Dry<'a> {
    resolved: &'a Resolved,
    session: Session<DryRun>,
    /// The teacher, where it was asked before the first step: then the first recording is of that.
    asked: Option<Asked>,
    /// The recordings so far, one a pass. On the processor they are empty until the ledger is replayed.
    recordings: Vec<Recording>,
    /// The facts of the model before channels were taken out of it.
    whole: Option<ModelFacts>,
    /// Micro-batches of a step that are not run, nor shown.
    left_out: usize,
    /// What graphs of the largest step's launches are allowed.
    graphs: Bytes,
}

/// A dry run that is over.
struct Done<'a> {
    dry: Dry<'a>,
    bookkeeping: Bookkeeping,
    passes: Passes,
    /// Where its blocks lie on the processor, if that was found.
    places: Option<Arc<Places>>,
}

/// Runs the passes dry and records them. On the processor the same run counts the bookkeeping, which is known at its end;
/// the recordings are made from its log then.
fn recorded<'a>(resolved: &'a Resolved, machine: &Machine, places: Option<&Arc<Places>>) -> Result<Done<'a>> {
    // Made here, because it does not count as bookkeeping; the session's own copy does.
    let shortened = shortened(resolved.experiment());
    let run = || -> Result<Done<'a>> {
        let mut dry = Dry::new(resolved, &shortened, machine, Purpose::Record, places)?;
        if places.is_none() {
            // Places follow every request.
            dry.session.executor().ledger().leave_out_repetitions();
        }
        let mut passes = dry.passes()?;
        if resolved.steps_left() <= 1 {
            // A second step, as it would be.
            passes.whole.step_secs = dry.step()?;
            passes.whole.steady = Some(dry.take_recording());
        }
        let bookkeeping = dry.session.executor().ledger().gathered();
        Ok(Done { dry, bookkeeping, passes, places: None })
    };
    if resolved.target().is_gpu() {
        return run();
    }
    let mut done = tally::counted(run)?;
    let ledger = done.dry.session.executor().ledger();
    let is_in_range = places::are_in_range(resolved.experiment());
    done.places = is_in_range.then(|| ledger.places()).flatten();
    let recordings = ledger.replayed(is_in_range, done.places.as_ref());
    done.dry.recordings = recordings;
    Ok(done)
}

/// The experiment with no more micro-batches in a step, and batches of a calibration, than are run dry.
fn shortened(experiment: &Experiment) -> Experiment {
    let mut shortened = experiment.clone();
    shortened.batch.accumulation = experiment.batch.accumulation.min(MICRO_BATCHES);
    // Batches after the second repeat it here as well.
    shortened.quantise.calibration = experiment.quantise.calibration.min(MICRO_BATCHES);
    shortened
}

/// The executor that runs `resolved` dry, against a ledger of its own.
fn executor(
    resolved: &Resolved,
    machine: &Machine,
    purpose: Purpose,
    places: Option<&Arc<Places>>,
) -> Result<Executor<DryRun>> {
    let (experiment, target) = (resolved.experiment(), resolved.target().clone());
    let of_target =
        |is_strict, recording| Ledger::for_target(&target, experiment.gpu.pool, resolved.line(), is_strict, recording);
    let ledger = match (purpose, &target) {
        (Purpose::Record, Target::Cpu(_)) => Ledger::logging(),
        (Purpose::Record, Target::Gpu(_)) => of_target(false, true),
        (Purpose::Refuse, _) => of_target(true, false),
        (Purpose::Ask, _) => of_target(false, false),
    };
    ledger.follow(places);
    if purpose == Purpose::Ask {
        ledger.keep_requests();
    }
    if purpose == Purpose::Refuse && !target.is_gpu() {
        ledger.keep_books(bookkeeping(experiment, resolved.teacher(), resolved.info())?);
    }
    let rates = graphs::rates(resolved, machine.rates(&target, experiment.gpu.tf32));
    Ok(Executor::new(DryRun::new(target, rates), ledger))
}

impl<'a> Dry<'a> {
    /// A dry run of the resolved experiment, run as [`shortened`], with its blocks at `places` if they were found.
    fn new(
        resolved: &'a Resolved,
        shortened: &Experiment,
        machine: &Machine,
        purpose: Purpose,
        places: Option<&Arc<Places>>,
    ) -> Result<Self> {
        let experiment = resolved.experiment();
        let executor = executor(resolved, machine, purpose, places)?;
        let mut recordings = Vec::new();
        let teaching = teaching::made(&executor, resolved)?;
        let asked = teaching.map(|teaching| teaching::asked(&executor, teaching, resolved)).transpose()?;
        if asked.is_some() {
            tally::suspended(|| recordings.push(executor.ledger().take_recording()));
        }
        let left_out = experiment.batch.accumulation - shortened.batch.accumulation;
        let mut session = Session::new(executor, shortened, resolved.info())?;
        match resolved.resumed() {
            Some(resumed) => session.restore(&resumed.counters, &mut restore::Anything)?,
            None if experiment.weights.chosen().is_some() => session.load(&mut load::Anything)?,
            None => {}
        }
        if let Some(teacher) = resolved.teacher().filter(|_| asked.is_none()) {
            session.teach(teacher, &mut load::Anything)?;
        }
        Ok(Self { resolved, session, asked, recordings, whole: None, left_out, graphs: Bytes::ZERO })
    }

    /// Predicted seconds of the step.
    fn step(&mut self) -> Result<f64> {
        let executor = self.session.executor().clone();
        executor.backend().take_secs();
        executor.backend().take_nodes();
        let mut nodes = graphs::Nodes::default();
        let (mut secs, mut micro_batch_secs) = (0.0, 0.0);
        let micro = self.resolved.experiment().batch.micro;
        self.session.step(0.0, || {
            // The time of the kernels since the last micro-batch began.
            micro_batch_secs = executor.backend().take_secs();
            secs += micro_batch_secs;
            nodes.micro_batch(executor.backend().take_nodes());
            Ok(Blank(micro))
        })?;
        self.graphs = self.graphs.max(nodes.allowance(executor.backend().take_nodes()));
        let left_out = self.left_out + executor.ledger().take_left_out();
        Ok(secs + executor.backend().take_secs() + micro_batch_secs * left_out as f64)
    }

    /// A batch of the test data and the last one, which has the remaining samples: a kernel may need more room for fewer
    /// rows.
    fn evaluate(&self) -> Result<()> {
        let samples = self.resolved.evaluation_batch();
        let mut batches = [samples, self.resolved.info().test % samples].into_iter().filter(|n| *n > 0).map(Blank);
        self.session.evaluate(|| Ok(batches.next())).map(drop)
    }

    /// Runs the change of the trained model into one of integers, and its test.
    fn compress(&self) -> Result<()> {
        let (samples, micro) = (self.resolved.evaluation_batch(), self.resolved.experiment().batch.micro);
        let mut batches = [samples, self.resolved.info().test % samples].into_iter().filter(|n| *n > 0).map(Blank);
        self.session.compress(|| Ok(Blank(micro)), || Ok(batches.next())).map(drop)
    }

    /// Runs the writing of a checkpoint.
    fn save(&self) -> Result<()> {
        self.session.save(&[], &mut Nowhere)
    }

    /// Takes out the recordings of a run's passes, in the order of [`Pass::ALL`].
    fn by_pass(&mut self, of_run: &Passes) -> [Recording; Pass::ALL.len()] {
        let thinned = of_run.thinned.as_ref();
        Pass::ALL.map(|pass| {
            let index = match pass {
                Pass::Teach => self.asked.is_some().then_some(0),
                Pass::First => Some(of_run.first),
                Pass::Steady => of_run.whole.steady,
                Pass::Prune => thinned.map(|(prune, _)| *prune),
                Pass::Pruned => thinned.and_then(|(_, thinned)| thinned.steady),
                Pass::Evaluate => Some(of_run.whole.evaluate),
                Pass::Save => Some(of_run.whole.save),
                Pass::Compress => Some(of_run.compress),
            };
            index.map(|index| std::mem::take(&mut self.recordings[index])).unwrap_or_default()
        })
    }

    /// Ends a recording; its number.
    fn take_recording(&mut self) -> usize {
        let ledger = self.session.executor().ledger();
        tally::suspended(|| self.recordings.push(ledger.take_recording()));
        self.recordings.len() - 1
    }
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

fn dry_run(resolved: &Resolved, machine: &Machine, places: Option<Arc<Places>>) -> Result<Plan> {
    let Done { mut dry, bookkeeping, passes: of_run, places: on_cpu } = recorded(resolved, machine, places.as_ref())?;
    let (steps_per_epoch, total_steps) = resolved.steps();
    // The most that the pool held in any pass of the run.
    let reserved =
        dry.recordings[..=of_run.compress].iter().map(|recording| recording.reserved_peak).max().unwrap_or_default();
    let model = dry.whole.take().unwrap_or_else(|| ModelFacts::of(&dry.session, resolved.experiment().precision));
    let recordings = dry.by_pass(&of_run);
    let (peak_pass, peak) = highest(resolved, &recordings);
    let (live, alive_at_peak) = (peak.live_peak, peak.alive_at_peak());
    let graphs = graphs::allowed(resolved, reserved, dry.graphs);
    let categories_at_peak = categories(resolved, peak, reserved, graphs);
    let points: usize = recordings.iter().map(|recording| recording.timeline.points.len()).sum();
    let process = process::planned(resolved, machine, reserved + graphs, points);
    let layers = layer_rows(&dry, &model.leaves, &recordings[Pass::Steady as usize], &alive_at_peak);
    let [teach, first, steady, prune, pruned, evaluate, save, compress] =
        recordings.map(|recording| recording.timeline);
    Ok(Plan {
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
        total_steps,
        steps_per_epoch,
        step_secs: of_run.whole.step_secs,
        pruned_step_secs: of_run.thinned.as_ref().map_or(0.0, |(_, thinned)| thinned.step_secs),
        teach_secs: dry.asked.map_or(0.0, |asked| asked.secs),
        thinned_after: resolved.thinned_after(),
        places: places.or(on_cpu),
        planned_anew: Vec::new(),
        graphs,
        plan_secs: 0.0,
        teach,
        first,
        steady,
        prune,
        pruned,
        evaluate,
        save,
        compress,
    })
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
