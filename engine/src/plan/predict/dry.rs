//! A dry run of a whole run's passes: its ledger, its steps and evaluations, and what it has recorded.
//!
//! Always holds: a dry run allocates nothing but the engine's own structures, and calls what a run calls. A log is recorded once
//! the bookkeeping and the places of blocks are known.

use std::sync::Arc;

use super::{
    graphs,
    layer_rows::ModelFacts,
    passes::{OfModel, Passes},
    places,
    teaching::{self, Asked},
};
use crate::{
    backend::{DryRun, Executor},
    bytes::Bytes,
    device::Target,
    error::Result,
    experiment::Experiment,
    hardware::Machine,
    memory::{Bookkeeping, Ledger, allocator::Places, ledger::Recording, tally},
    plan::{Pass, Resolved},
    step::{Blank, Session, SmallerSize, bookkeeping, load, restore, save::Nowhere},
};

/// Micro-batches of one step that are run dry. Each after the second repeats the second to the byte, so a longer step
/// has nothing more to show.
pub(super) const MICRO_BATCHES: usize = 32;

/// The purpose of a dry run of steps.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Record allocations, to see their memory.
    Record,
    /// Log everything, to find places and to see the memory of blocks there.
    Log,
    /// Refuse allocations that cross the line.
    Refuse,
    /// Record the requests of allocations to a pool that grows.
    Ask,
}

/// Runs the steps dry against a ledger.
pub(super) struct Dry<'a> {
    pub(super) resolved: &'a Resolved,
    pub(super) session: Session<DryRun>,
    /// The teacher, where it was asked before the first step: then the first recording is of that.
    pub(super) asked: Option<Asked>,
    /// The recordings so far, one a pass. Those of a log are empty until it is replayed.
    pub(super) recordings: Vec<Recording>,
    /// The facts of the model before channels were taken out of it.
    pub(super) whole: Option<ModelFacts>,
    /// The size that the model has in the end, if it gets smaller.
    pub(super) smaller: Option<SmallerSize>,
    /// Micro-batches of a step that are not run, nor shown.
    left_out: usize,
    /// What graphs of the largest step's launches are allowed.
    pub(super) graphs: Bytes,
}

/// A dry run that is over.
pub(super) struct Done<'a> {
    pub(super) dry: Dry<'a>,
    pub(super) bookkeeping: Bookkeeping,
    pub(super) passes: Passes,
    /// Where its blocks lie, if that was found.
    pub(super) places: Option<Arc<Places>>,
}

/// The parts of a process's memory that an allocator holds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Apart {
    /// The most of the range or the pool, and the most of the heap, in any pass.
    pub(super) all: [Bytes; 2],
    /// What the heap has no more once the model is made and took its first step, as far as other blocks find room there.
    pub(super) spare: Bytes,
    /// The pages of the range on which blocks had lain with the first batch on the device, and the most of the heap by then.
    pub(super) begun: Bytes,
    /// The pages of the range on which blocks had lain once a test had a batch on the device, the last time that a test made one
    /// on the host, and the most of the heap by then; `None` if there is no test.
    pub(super) fed: Option<Bytes>,
    /// Once channels were taken out, if they are: the most of the range, and what lay there and in the heap with such a batch.
    pub(super) thinned: Option<(Bytes, Option<Bytes>)>,
}

impl Done<'_> {
    /// The recordings of the run's passes.
    pub(super) fn recordings(&self) -> &[Recording] {
        &self.dry.recordings[..=self.passes.compress]
    }

    /// The most of the range or the pool, and of the heap, in passes of the run.
    pub(super) fn apart(&self) -> Apart {
        let most = |part: usize, passes: &[Recording]| {
            let peaks = passes.iter().map(|recording| recording.apart_peak[part]);
            peaks.max().unwrap_or_default()
        };
        let (recordings, Passes { whole, thinned, .. }) = (self.recordings(), &self.passes);
        let resolved = self.dry.resolved;
        let is_tested_again = resolved.steps().1 > resolved.tested_every();
        let is_of_test = resolved.evaluation_batch() > resolved.experiment().batch.micro;
        let fed = |model: &OfModel, is_last: bool| {
            let first = model.first_evaluate?;
            // A second test finds all pages that the first one touched.
            let evaluated = if is_tested_again { Some(recordings[model.save].touched) } else { recordings[first].fed };
            let compress = recordings.len() - 1;
            let compressed =
                recordings[compress].fed.map(|fed| if is_of_test { fed } else { recordings[compress].touched });
            let compressed = compressed.filter(|_| is_last).map(|fed| fed + most(1, &recordings[..compress]));
            evaluated.map(|fed| fed + most(1, &recordings[..first])).max(compressed)
        };
        let all = [0, 1].map(|part| most(part, recordings));
        Apart {
            all,
            // The rest are holes between small blocks.
            spare: Bytes((all[1] - most(1, &recordings[self.passes.first + 1..])).0 / 4 * 3),
            begun: recordings[self.passes.first]
                .fed
                .map_or(Bytes::ZERO, |fed| fed + most(1, &recordings[..=self.passes.first])),
            fed: fed(whole, thinned.is_none()),
            thinned: thinned.as_ref().map(|(prune, thinned)| (most(0, &recordings[prune + 1..]), fed(thinned, true))),
        }
    }

    /// The most that the allocator held in any pass of the run.
    pub(super) fn reserved(&self) -> Bytes {
        self.recordings().iter().map(|recording| recording.reserved_peak).max().unwrap_or_default()
    }
}

/// Runs the passes dry and records them, with blocks at `places` if there are any.
pub(super) fn recorded<'a>(resolved: &'a Resolved, machine: &Machine, places: Option<Arc<Places>>) -> Result<Done<'a>> {
    let shortened = shortened(resolved.experiment());
    let dry = Dry::new(resolved, &shortened, machine, Purpose::Record, places.as_ref())?;
    if places.is_none() {
        // Places follow every request.
        dry.session.executor().ledger().leave_out_repetitions();
    }
    Ok(Done { places, ..done(dry)? })
}

/// Runs the passes dry and logs everything. Places and bookkeeping are known at the end, and the recordings are made of the log
/// then.
pub(super) fn logged<'a>(resolved: &'a Resolved, machine: &Machine) -> Result<Done<'a>> {
    // Made here, because it does not count as bookkeeping; the session's own copy does.
    let shortened = shortened(resolved.experiment());
    let run = || -> Result<Done<'a>> {
        let dry = Dry::new(resolved, &shortened, machine, Purpose::Log, None)?;
        dry.session.executor().ledger().leave_out_repetitions();
        done(dry)
    };
    let target = resolved.target();
    let mut done = if target.is_gpu() { run()? } else { tally::counted(run)? };
    let ledger = done.dry.session.executor().ledger();
    let has_places = target.is_gpu() || places::are_in_range(resolved.experiment());
    // A step that the run does not have takes no room in its range.
    done.places = has_places.then(|| ledger.places(target, done.passes.compress + 1)).flatten();
    let recordings = ledger.replayed(places::allocator(resolved), done.places.as_ref());
    done.dry.recordings = recordings;
    Ok(done)
}

/// Runs the passes.
fn done(mut dry: Dry<'_>) -> Result<Done<'_>> {
    let mut passes = dry.passes()?;
    if dry.resolved.steps_left() <= 1 {
        // A later step, as it would be.
        passes.whole.step_secs = dry.step()?;
        passes.whole.steady = Some(dry.take_recording());
    }
    let bookkeeping = dry.session.executor().ledger().gathered();
    Ok(Done { dry, bookkeeping, passes, places: None })
}

/// The experiment with no more micro-batches in a step, and batches of a calibration, than are run dry.
pub(super) fn shortened(experiment: &Experiment) -> Experiment {
    let mut shortened = experiment.clone();
    shortened.batch.accumulation = experiment.batch.accumulation.min(MICRO_BATCHES);
    // Batches after the second repeat it here as well.
    shortened.quantise.calibration = experiment.quantise.calibration.min(MICRO_BATCHES);
    shortened
}

/// The executor that runs `resolved` dry, against a ledger of its own.
pub(super) fn executor(
    resolved: &Resolved,
    machine: &Machine,
    purpose: Purpose,
    places: Option<&Arc<Places>>,
) -> Result<Executor<DryRun>> {
    let (experiment, target) = (resolved.experiment(), resolved.target().clone());
    let of_target =
        |is_strict, recording| Ledger::for_target(&target, experiment.gpu.pool, resolved.line(), is_strict, recording);
    let ledger = match (purpose, &target) {
        (Purpose::Log, Target::Cpu(_)) => Ledger::logging(),
        (Purpose::Log, Target::Gpu(_)) => Ledger::logging_of_gpu(),
        (Purpose::Record, _) => of_target(false, true),
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
    pub(super) fn new(
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
        Ok(Self { resolved, session, asked, recordings, whole: None, smaller: None, left_out, graphs: Bytes::ZERO })
    }

    /// Predicted seconds of the step.
    pub(super) fn step(&mut self) -> Result<f64> {
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
        if let Target::Gpu(profile) = self.resolved.target() {
            self.graphs = self.graphs.max(nodes.allowance(executor.backend().take_nodes(), profile.graph_node()));
        }
        let left_out = self.left_out + executor.ledger().take_left_out();
        Ok(secs + executor.backend().take_secs() + micro_batch_secs * left_out as f64)
    }

    /// A batch of the test data and the last one, which has the remaining samples: a kernel may need more room for fewer
    /// rows. Returns the predicted seconds of all batches.
    pub(super) fn evaluate(&self) -> Result<f64> {
        let (samples, all) = (self.resolved.evaluation_batch(), self.resolved.info().test);
        let run = [samples, all % samples];
        let mut batches = run.into_iter().filter(|n| *n > 0).map(Blank);
        let backend = self.session.executor().backend();
        backend.take_secs();
        self.session.evaluate(|| Ok(batches.next()))?;
        Ok(backend.take_secs() * all as f64 / run.iter().sum::<usize>().max(1) as f64)
    }

    /// Runs the change of the trained model into one of integers, and its test.
    pub(super) fn compress(&self) -> Result<()> {
        let (samples, micro) = (self.resolved.evaluation_batch(), self.resolved.experiment().batch.micro);
        let mut batches = [samples, self.resolved.info().test % samples].into_iter().filter(|n| *n > 0).map(Blank);
        self.session.compress(|| Ok(Blank(micro)), || Ok(batches.next()), |_, _| {}).map(drop)
    }

    /// Runs the writing of a checkpoint.
    pub(super) fn save(&self) -> Result<()> {
        self.session.save(&[], &mut Nowhere)
    }

    /// Takes out the recordings of a run's passes, in the order of [`Pass::ALL`].
    pub(super) fn by_pass(&mut self, of_run: &Passes) -> [Recording; Pass::ALL.len()] {
        let thinned = of_run.thinned.as_ref();
        Pass::ALL.map(|pass| {
            let index = match pass {
                Pass::Teach => self.asked.is_some().then_some(0),
                Pass::First => Some(of_run.first),
                Pass::Steady => of_run.whole.steady,
                Pass::Prune => thinned.map(|(prune, _)| *prune),
                Pass::Pruned => thinned.and_then(|(_, thinned)| thinned.steady),
                // Of the model that is tested first.
                Pass::Evaluate => of_run.whole.evaluate.or(thinned.and_then(|(_, thinned)| thinned.evaluate)),
                Pass::Save => Some(of_run.whole.save),
                Pass::Compress => Some(of_run.compress),
            };
            index.map(|index| std::mem::take(&mut self.recordings[index])).unwrap_or_default()
        })
    }

    /// Ends a recording; its number.
    pub(super) fn take_recording(&mut self) -> usize {
        let ledger = self.session.executor().ledger();
        tally::suspended(|| self.recordings.push(ledger.take_recording()));
        self.recordings.len() - 1
    }
}
