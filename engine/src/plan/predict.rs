//! The prediction: a dry run of the model's making, the first step, later steps and evaluations, until they repeat.
//!
//! A later step asks for the same blocks as the one before, but a pool may put them elsewhere: what the first step left
//! behind decides where the second finds room, and that where the third does. Holds: what is run dry goes on until the pool
//! is as it was after some step before, from where on everything comes again.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Instant,
};

use crate::{
    backend::{DryRun, Executor},
    bytes::Bytes,
    data::{self, Split},
    device::Target,
    error::{BudgetError, Error, Problem, Result},
    experiment::Experiment,
    hardware::Machine,
    memory::{Alive, Bookkeeping, Categories, Category, Ledger, allocator::heap, ledger::Recording, timeline::LayerId},
    nn::Param,
    plan::{LayerRow, Pass, Peak, Plan, Resolved, full_precision},
    step::{Blank, Session, bookkeeping},
};

/// Predicts what a run of `resolved` takes on `machine`. Reads nothing else.
///
/// # Errors
/// A model that cannot be built, such as one with a tensor of more elements than any device holds.
pub fn predict(resolved: &Resolved, machine: &Machine) -> Result<Plan> {
    let start = Instant::now();
    let mut plan = dry_run(resolved, machine).map_err(of_sizes)?;
    plan.plan_secs = start.elapsed().as_secs_f64();
    Ok(plan)
}

/// A tensor that cannot be is a problem of the experiment's sizes.
fn of_sizes(error: Error) -> Error {
    let Error::TooLarge { .. } = &error else { return error };
    let mend = "lower model.width, other sizes of the model, or batch.micro";
    Error::Experiment(Problem::new("model.width", error.to_string(), mend))
}

/// Micro-batches of one step that are run dry. Each after the second repeats the second to the byte, so a longer step
/// has nothing more to show.
const MICRO_BATCHES: usize = 32;

/// The most steps and evaluations that are run until the pool is as it was before.
const PASSES: u64 = 16;

/// What steps are run dry for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// To see what they take.
    Record,
    /// To be refused where they cross the line.
    Refuse,
}

/// Runs the steps dry against a ledger.
struct Dry<'a> {
    resolved: &'a Resolved,
    session: Session<DryRun>,
    bookkeeping: Bookkeeping,
    /// Micro-batches of a step that are not run.
    left_out: usize,
}

impl<'a> Dry<'a> {
    fn new(resolved: &'a Resolved, machine: &Machine, purpose: Purpose) -> Result<Self> {
        let (experiment, target) = (resolved.experiment(), resolved.target().clone());
        let (is_strict, recording) = (purpose == Purpose::Refuse, purpose == Purpose::Record);
        let ledger = Ledger::for_target(&target, experiment.gpu.pool, resolved.line(), is_strict, recording);
        let mut books = Bookkeeping::default();
        if !target.is_gpu() {
            books = bookkeeping(experiment, resolved.info())?;
            ledger.keep_books(books);
        }
        let rates = machine.rates(&target, experiment.gpu.tf32);
        let executor = Executor::new(DryRun::new(target, rates), ledger);
        let mut shortened = Experiment::clone(experiment);
        shortened.batch.accumulation = experiment.batch.accumulation.min(MICRO_BATCHES);
        let left_out = experiment.batch.accumulation - shortened.batch.accumulation;
        let session = Session::new(executor, &shortened, resolved.info())?;
        Ok(Self { resolved, session, bookkeeping: books, left_out })
    }

    /// Predicted seconds of the step.
    fn step(&mut self) -> Result<f64> {
        let executor = self.session.executor().clone();
        executor.backend().take_secs();
        let (mut secs, mut micro_batch_secs) = (0.0, 0.0);
        let micro = self.resolved.experiment().batch.micro;
        self.session.step(0.0, || {
            // What the kernels since the last micro-batch began have taken.
            micro_batch_secs = executor.backend().take_secs();
            secs += micro_batch_secs;
            Ok(Blank(micro))
        })?;
        Ok(secs + executor.backend().take_secs() + micro_batch_secs * self.left_out as f64)
    }

    /// A batch of the test data and the last one, which has what is left: a kernel may need more room for fewer rows.
    fn evaluate(&self) -> Result<()> {
        let samples = self.resolved.evaluation_batch();
        let mut batches = [samples, self.resolved.info().test % samples].into_iter().filter(|n| *n > 0).map(Blank);
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

impl Dry<'_> {
    /// The first step, and then steps and evaluations in turn until both leave the pool as they did before.
    fn passes(&mut self) -> Result<Passes> {
        self.step()?;
        let first = self.take_recording();
        let mut reserved = first.reserved_peak;
        let (mut after_steps, mut after_evaluations) = (HashSet::from([self.layout()]), HashSet::new());
        let mut left = self.resolved.steps().1.min(PASSES).saturating_sub(1);
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
            self.evaluate()?;
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

/// The refusal that a run of `resolved` would meet, by another dry run; `None` when it stays inside its budget.
///
/// # Errors
/// Anything but the refusal.
pub fn refusal(resolved: &Resolved, machine: &Machine) -> Result<Option<BudgetError>> {
    let run = || Dry::new(resolved, machine, Purpose::Refuse)?.passes();
    match run() {
        Ok(_) => Ok(None),
        Err(Error::Budget(refusal)) => Ok(Some(refusal)),
        Err(other) => Err(other),
    }
}

fn dry_run(resolved: &Resolved, machine: &Machine) -> Result<Plan> {
    let mut dry = Dry::new(resolved, machine, Purpose::Record)?;
    let Passes { first, mut steady, evaluate, reserved, mut step_secs } = dry.passes()?;
    let (steps_per_epoch, total_steps) = resolved.steps();
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
    if let Target::Gpu(profile) = resolved.target() {
        categories_at_peak.add(Category::Context, profile.context.0);
    }
    Ok(Plan {
        resolved: resolved.clone(),
        machine: machine.clone(),
        budget: resolved.line(),
        target: resolved.target().clone(),
        experiment: Arc::clone(resolved.experiment()),
        bookkeeping: dry.bookkeeping,
        peak: Peak { live, reserved, process: process(resolved, machine, reserved) },
        peak_pass,
        categories_at_peak,
        alive_at_peak: peak.alive_at_peak.clone(),
        host_data: resolved.host_data(),
        layers: layer_rows(&dry, &steady, &peak.alive_at_peak),
        parameters: dry.session.model().parameters(),
        trained: dry.session.model().trained(),
        high_precision: full_precision::of(dry.session.model(), resolved.experiment().precision, |param| {
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

/// What the operating system, or the driver of a GPU, will see of the process when the allocator holds `reserved`.
pub fn process(resolved: &Resolved, machine: &Machine, reserved: Bytes) -> Bytes {
    let data = &resolved.experiment().data;
    let host_bytes = |split, samples| data::host_bytes(data, resolved.info(), split, samples);
    match resolved.target() {
        Target::Cpu { .. } => {
            // The batches that wait in the loader's queue.
            let queue = host_bytes(Split::Train, resolved.experiment().batch.micro)
                + host_bytes(Split::Test, resolved.evaluation_batch());
            machine.process_base() + queue + Bytes(heap::grows(reserved.0))
        }
        Target::Gpu(profile) => profile.context + reserved,
    }
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
    fn held(resolved: &Resolved) -> Bytes {
        let mut dry = Dry::new(resolved, &Machine::nominal(), Purpose::Record).expect("a session");
        let mut most = Bytes::ZERO;
        for step in 1..=23 {
            dry.step().expect("a step");
            if step % 5 == 0 {
                dry.evaluate().expect("an evaluation");
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
                let resolved = Resolved::new(&experiment, &Machine::nominal()).expect("possible");
                let predicted = predict(&resolved, &Machine::nominal()).expect("a plan").peak.reserved;
                let held = held(&resolved);
                assert!(predicted >= held, "{name}, seed {seed}, {policy:?}: {predicted} predicted, {held} held");
                more_than_needed += usize::from(predicted > held);
            }
        }
        assert!(more_than_needed <= 4, "{more_than_needed} predictions were more than is held, seed {seed}");
    }
}
