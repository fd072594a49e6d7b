//! The prediction: a dry run of the model's making, the first step, later steps and evaluations, until they repeat.
//!
//! A later step asks for the same blocks as the one before, but a pool may put them elsewhere: what the first step left
//! behind decides where the second finds room, and that where the third does. Holds: what is run dry goes on until the pool
//! is as it was after some step before, from where on everything comes again.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use crate::{
    backend::{Backend, DryRun, Executor},
    bytes::Bytes,
    data::{self, DatasetInfo, Split},
    device::Target,
    error::{BudgetError, Error, Problem, Result},
    experiment::{Experiment, check},
    hardware::target_of_run,
    memory::{
        Alive, Bookkeeping, Categories, Category, Ledger, allocator::heap, ledger::Recording, probe, timeline::LayerId,
    },
    nn::Param,
    plan::{LayerRow, Pass, Peak, Plan, full_precision, time},
    step::{Blank, Session, bookkeeping},
};

/// Plans an experiment.
///
/// # Errors
/// An experiment that cannot be, or data that cannot be read.
pub fn predict(experiment: &Experiment) -> Result<Plan> {
    let start = Instant::now();
    let facts = facts(experiment)?;
    let mut plan = dry_run(experiment, &facts)?;
    plan.plan_secs = start.elapsed().as_secs_f64();
    Ok(plan)
}

/// The facts of an experiment's data, once nothing about the experiment is impossible.
///
/// # Errors
/// The first problem, or data that cannot be read.
pub fn facts(experiment: &Experiment) -> Result<DatasetInfo> {
    refuse(check::check(experiment, None))?;
    let facts = data::facts(&experiment.data)?;
    refuse(check::check(experiment, Some(&facts)))?;
    Ok(facts)
}

fn refuse(problems: Vec<Problem>) -> Result<()> {
    problems.into_iter().next().map_or(Ok(()), |problem| Err(Error::Experiment(problem)))
}

/// Steps of one epoch and of the whole run.
pub fn steps(experiment: &Experiment, facts: &DatasetInfo) -> (u64, u64) {
    let per_epoch = facts.steps_per_epoch(experiment.batch.effective());
    let total = experiment.run.steps.unwrap_or_else(|| experiment.run.epochs.unwrap_or(DEFAULT_EPOCHS) * per_epoch);
    (per_epoch, total)
}

/// Passes over the data when a preset names neither steps nor epochs.
pub const DEFAULT_EPOCHS: u64 = 10;

/// Samples of one evaluation batch: never more than training takes, so that evaluation never sets the peak by its size.
pub fn evaluation_batch(experiment: &Experiment, facts: &DatasetInfo) -> usize {
    experiment.batch.micro.min(facts.test)
}

/// Micro-batches of one step that are run dry. Each after the second repeats the second to the byte, so a longer step
/// has nothing more to show.
const MICRO_BATCHES: usize = 32;

/// Steps, and evaluations, after which it is no more waited for the pool to be as it was before.
const PASSES: u64 = 16;

/// The line a run is held to: its budget, or the whole card where that is less.
fn line(experiment: &Experiment, target: &Target) -> Bytes {
    target.profile().map_or(experiment.budget, |profile| experiment.budget.min(profile.usable_memory()))
}

/// What steps are run dry for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// To see what they take.
    Record,
    /// To be refused where they cross the line.
    Refuse,
}

/// Runs the steps dry against a ledger.
struct Dry {
    session: Session<DryRun>,
    bookkeeping: Bookkeeping,
    micro: usize,
    /// Micro-batches of a step that are not run.
    left_out: usize,
}

impl Dry {
    fn new(experiment: &Experiment, facts: &DatasetInfo, purpose: Purpose) -> Result<Self> {
        let target = target_of_run(experiment)?;
        let (is_strict, recording) = (purpose == Purpose::Refuse, purpose == Purpose::Record);
        let ledger = Ledger::for_target(&target, experiment.gpu.pool, line(experiment, &target), is_strict, recording);
        let mut books = Bookkeeping::default();
        if !target.is_gpu() {
            books = bookkeeping(experiment, facts)?;
            ledger.keep_books(books);
        }
        let rates = time::rates_of(&target, &experiment.gpu);
        let executor = Executor::new(DryRun::new(target, rates), ledger);
        let mut shortened = experiment.clone();
        shortened.batch.accumulation = experiment.batch.accumulation.min(MICRO_BATCHES);
        let left_out = experiment.batch.accumulation - shortened.batch.accumulation;
        let session = Session::new(executor, &shortened, facts)?;
        Ok(Self { session, bookkeeping: books, micro: experiment.batch.micro, left_out })
    }

    /// Predicted seconds of the step.
    fn step(&mut self) -> Result<f64> {
        let executor = self.session.executor().clone();
        executor.backend().take_secs();
        let (mut secs, mut micro_batch_secs) = (0.0, 0.0);
        let micro = self.micro;
        self.session.step(0.0, || {
            // What the kernels since the last micro-batch began have taken.
            micro_batch_secs = executor.backend().take_secs();
            secs += micro_batch_secs;
            Ok(Blank(micro))
        })?;
        Ok(secs + executor.backend().take_secs() + micro_batch_secs * self.left_out as f64)
    }

    /// A batch of the test data and the last one, which has what is left: a kernel may need more room for fewer rows.
    fn evaluate(&self, experiment: &Experiment, facts: &DatasetInfo) -> Result<()> {
        let samples = evaluation_batch(experiment, facts);
        let mut batches = [samples, facts.test % samples].into_iter().filter(|n| *n > 0).map(Blank);
        self.session.evaluate(|| Ok(batches.next())).map(drop)
    }

    fn take_recording(&self) -> Recording {
        self.session.executor().ledger().take_recording()
    }
}

/// What was recorded of a run's passes.
struct Passes {
    first: Recording,
    /// Of the last step; of none where the first is all.
    steady: Recording,
    /// Of the last evaluation.
    evaluate: Recording,
    /// The most that the pool held in any of them.
    reserved: Bytes,
    /// Predicted seconds of the last step.
    step_secs: f64,
}

impl Dry {
    /// The first step, and then steps and evaluations in turn until both leave the pool as they did before.
    fn passes(&mut self, experiment: &Experiment, facts: &DatasetInfo) -> Result<Passes> {
        self.step()?;
        let first = self.take_recording();
        let mut reserved = first.reserved_peak;
        let (mut after_steps, mut after_evaluations) = (HashSet::from([self.layout()]), HashSet::new());
        let mut left = steps(experiment, facts).1.min(PASSES).saturating_sub(1);
        let (mut steady, mut step_secs) = (Recording::default(), 0.0);
        loop {
            while left > 0 {
                left -= 1;
                step_secs = self.step()?;
                steady = self.take_recording();
                reserved = reserved.max(steady.reserved_peak);
                if !after_steps.insert(self.layout()) {
                    break;
                }
            }
            self.evaluate(experiment, facts)?;
            let evaluate = self.take_recording();
            reserved = reserved.max(evaluate.reserved_peak);
            let layout = self.layout();
            if left == 0 || after_steps.contains(&layout) || !after_evaluations.insert(layout) {
                return Ok(Passes { first, steady, evaluate, reserved, step_secs });
            }
        }
    }

    /// Where the pool has room.
    fn layout(&self) -> u64 {
        self.session.executor().ledger().fingerprint()
    }
}

/// The refusal a run of `experiment` would meet; `None` when it stays inside its budget.
///
/// # Errors
/// Anything but the refusal.
pub fn refusal(experiment: &Experiment, facts: &DatasetInfo) -> Result<Option<BudgetError>> {
    let run = || Dry::new(experiment, facts, Purpose::Refuse)?.passes(experiment, facts);
    match run() {
        Ok(_) => Ok(None),
        Err(Error::Budget(refusal)) => Ok(Some(refusal)),
        Err(other) => Err(other),
    }
}

fn dry_run(experiment: &Experiment, facts: &DatasetInfo) -> Result<Plan> {
    let mut dry = Dry::new(experiment, facts, Purpose::Record)?;
    let Passes { first, mut steady, evaluate, reserved, mut step_secs } = dry.passes(experiment, facts)?;
    let (steps_per_epoch, total_steps) = steps(experiment, facts);
    if total_steps <= 1 {
        // What a second one would be, to look at.
        step_secs = dry.step()?;
        steady = dry.take_recording();
    }
    // A tie goes to the steady step, which is most of the run; a run of one step has none.
    let mut passes = vec![(Pass::Steady, &steady), (Pass::First, &first), (Pass::Evaluate, &evaluate)];
    passes.retain(|(pass, _)| *pass != Pass::Steady || total_steps > 1);
    let live = passes.iter().map(|(_, recording)| recording.live_peak).max().unwrap_or_default();
    let (peak_pass, peak) =
        passes.iter().copied().find(|(_, recording)| recording.live_peak == live).unwrap_or((Pass::First, &first));
    let mut categories_at_peak = peak.categories_at_peak;
    categories_at_peak.add(Category::Slack, reserved.saturating_sub(live).0);
    let target = dry.session.executor().backend().target().clone();
    let process = match &target {
        Target::Cpu { .. } => process_context(experiment, facts) + Bytes(heap::grows(reserved.0)),
        Target::Gpu(profile) => {
            categories_at_peak.add(Category::Context, profile.context.0);
            profile.context + reserved
        }
    };
    Ok(Plan {
        budget: line(experiment, &target),
        target,
        experiment: Arc::new(experiment.clone()),
        bookkeeping: dry.bookkeeping,
        peak: Peak { live, reserved, process },
        peak_pass,
        categories_at_peak,
        alive_at_peak: peak.alive_at_peak.clone(),
        host_data: data::held_bytes(&experiment.data, facts)?,
        layers: layer_rows(&dry, &steady, &peak.alive_at_peak),
        parameters: dry.session.model().parameters(),
        trained: dry.session.model().trained(),
        high_precision: full_precision::of(dry.session.model(), experiment.precision, |param| {
            steady.timeline.layer(param.layer()).to_owned()
        }),
        total_steps,
        steps_per_epoch,
        step_secs,
        plan_secs: 0.0,
        first: first.timeline,
        steady: steady.timeline,
        evaluate: evaluate.timeline,
    })
}

/// Resident bytes of the process when nothing is trained: 0 until it is first needed.
static PROCESS_CONTEXT: AtomicU64 = AtomicU64::new(0);

/// Reads what the process holds now as what it holds beside a run; called when no run is under way.
pub(crate) fn read_process_context() {
    let resident = probe::process().map(|p| p.resident).unwrap_or_default();
    PROCESS_CONTEXT.store(resident.0, Ordering::Relaxed);
}

/// What the process holds beside tensors: itself, and the batches that wait in the loader's queue.
fn process_context(experiment: &Experiment, facts: &DatasetInfo) -> Bytes {
    if PROCESS_CONTEXT.load(Ordering::Relaxed) == 0 {
        read_process_context();
    }
    let host_bytes = |split, samples| data::host_bytes(&experiment.data, facts, split, samples);
    let queue =
        host_bytes(Split::Train, experiment.batch.micro) + host_bytes(Split::Test, evaluation_batch(experiment, facts));
    Bytes(PROCESS_CONTEXT.load(Ordering::Relaxed)) + queue
}

fn layer_rows(dry: &Dry, steady: &Recording, at_peak: &[Alive]) -> Vec<LayerRow> {
    let mut peak_bytes: HashMap<&str, u64> = HashMap::new();
    for block in at_peak {
        *peak_bytes.entry(&block.layer).or_default() += block.bytes;
    }
    let of = |id: LayerId| steady.layers.get(id.0 as usize).copied().unwrap_or_default();
    let bytes = |high: &Categories, categories: &[Category]| categories.iter().map(|c| high.get(*c).0).sum();
    let row = |id: LayerId, [parameters, trained]: [u64; 2]| {
        let (usage, path) = (of(id), steady.timeline.layer(id).to_owned());
        LayerRow {
            parameters,
            trained,
            weight_bytes: bytes(&usage.high, &[Category::Parameters, Category::MasterWeights]),
            saved_bytes: usage.saved.0,
            gradient_bytes: bytes(&usage.high, &[Category::Gradients]),
            optimizer_bytes: bytes(&usage.high, &[Category::OptimizerState]),
            peak_bytes: peak_bytes.get(path.as_str()).copied().unwrap_or(0),
            path,
        }
    };
    let model = dry.session.model().leaves().into_iter().map(|layer| {
        let own = layer.params().into_iter().filter(|param| param.layer() == layer.layer());
        let count = |[all, trained]: [u64; 2], param: &Param<DryRun>| {
            let elements = param.weight().elements() as u64;
            [all + elements, trained + if param.is_trained() { elements } else { 0 }]
        };
        row(layer.layer(), own.fold([0; 2], count))
    });
    // The batch and the loss are no layers of the model, but they have their share.
    let ledger = dry.session.executor().ledger();
    [ledger.layer_id("batch")]
        .into_iter()
        .map(|id| row(id, [0; 2]))
        .chain(model)
        .chain([row(ledger.layer_id("loss"), [0; 2])])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        experiment::{PoolPolicy, shipped},
        selftest::experiments::Experiments,
    };

    /// The most that the pool holds in many steps, with an evaluation after every few.
    fn held(experiment: &Experiment) -> Bytes {
        let facts = facts(experiment).expect("facts");
        let mut dry = Dry::new(experiment, &facts, Purpose::Record).expect("a session");
        let mut most = Bytes::ZERO;
        for step in 1..=23 {
            dry.step().expect("a step");
            if step % 5 == 0 {
                dry.evaluate(experiment, &facts).expect("an evaluation");
            }
            most = most.max(dry.take_recording().reserved_peak);
        }
        most
    }

    #[test]
    fn no_later_step_takes_more_of_a_pool_than_was_predicted() {
        let since = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("a clock");
        let seed = since.as_nanos() as u64;
        let shipped =
            shipped::shipped().iter().map(|(name, _)| (*name, shipped::open(name).expect("a preset").experiment));
        let drawn = Experiments::new(seed, "rtx4060-8g", None).take(60).map(|drawn| (drawn.family, drawn.experiment));
        let mut more_than_needed = 0;
        for (name, mut experiment) in shipped.chain(drawn) {
            experiment.device = "rtx4060-8g".to_owned();
            experiment.budget = Bytes::gib(8);
            (experiment.run.steps, experiment.run.epochs) = (Some(40), None);
            for policy in [PoolPolicy::Grow, PoolPolicy::Release] {
                experiment.gpu.pool = policy;
                let (predicted, held) = (predict(&experiment).expect("a plan").peak.reserved, held(&experiment));
                assert!(predicted >= held, "{name}, seed {seed}, {policy:?}: {predicted} predicted, {held} held");
                more_than_needed += usize::from(predicted > held);
            }
        }
        assert!(more_than_needed <= 4, "{more_than_needed} predictions were more than is held, seed {seed}");
    }
}
