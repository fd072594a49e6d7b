//! Small experiments of every family, and their steps op by op: the real ones against the dry ones.
//!
//! A real step makes the same launches as the dry one, on tensors of the same shapes and types, with the same bytes alive
//! after each op; its account is the same, and the device measures no less than the tensors that are alive, and no more than
//! tensors and bookkeeping take.

use std::{cell::RefCell, rc::Rc};

use super::{
    Bench, Choice, Fault, Found, Runner,
    compare::Worst,
    families::{KINDS, small},
};
use crate::{
    backend::{Backend, DType, Executor, HostSlice, Launched, Shape},
    bytes::Bytes,
    data::{DatasetInfo, Input},
    error::Result,
    experiment::{
        AttentionKind, BaseWeights, Checkpointing, CodedWeights, Execution, Experiment, Frozen, OptimizerKind,
        Precision, Projection, QuantiseKind, Recompute, Targets,
    },
    memory::{Blocks, ledger::Recording, probe::uncounted},
    rng::{Rng, Stream},
    step::{Blank, MicroBatch, Session, bookkeeping},
};

/// Noise with labels.
#[derive(Debug)]
pub struct Noise {
    samples: usize,
    input: Input,
    images: Vec<f32>,
    tokens: Vec<u32>,
    labels: Vec<u32>,
}

impl Noise {
    /// Some samples of such data.
    pub fn new(samples: usize, info: &DatasetInfo, seed: u64) -> Self {
        let rng = Rng::new(seed, Stream::Data, 0);
        let (input, count) = (info.input, (samples * info.input.elements()) as u64);
        let images = (0..count).map(|i| rng.normal(i) as f32).collect();
        let tokens = (0..count).map(|i| rng.below(i, info.classes) as u32).collect();
        let labels = (0..samples * info.labels_per_sample).map(|i| (i % info.classes) as u32).collect();
        Self { samples, input, images, tokens, labels }
    }
}

impl MicroBatch for &Noise {
    fn samples(&self) -> usize {
        self.samples
    }
    fn inputs(&self) -> HostSlice<'_> {
        match self.input {
            Input::Image { .. } => HostSlice::F32(&self.images),
            Input::Tokens { .. } => HostSlice::U32(&self.tokens),
        }
    }
    fn labels(&self) -> &[u32] {
        &self.labels
    }
}

/// Every model with every precision, each with another checkpointing, optimizer, attention and size of chunks.
pub fn cases() -> Vec<(Experiment, DatasetInfo)> {
    let mut cases = Vec::new();
    for (i, (kind, info)) in KINDS.into_iter().enumerate() {
        for (j, precision) in Precision::ALL.into_iter().enumerate() {
            let mut experiment = Experiment { precision, ..small(kind) };
            experiment.checkpointing =
                [Checkpointing::None, Checkpointing::Blocks, Checkpointing::Every(2)][(i + j) % 3];
            experiment.optimizer.kind = OptimizerKind::ALL[(2 * i + j) % OptimizerKind::ALL.len()];
            // Every way to save, to freeze and to hold comes along.
            let turn = 5 * i + j;
            experiment.retain_graph = [false, true][turn % 2];
            experiment.recompute = [Recompute::None, Recompute::Cheap][turn / 2 % 2];
            experiment.execution = [Execution::InPlace, Execution::Fused][(i + j) % 2];
            experiment.lora.rank = [0, 3, 0][turn % 3];
            experiment.frozen = [Frozen::None, Frozen::Blocks(1), Frozen::None, Frozen::AllButHead][turn % 4];
            if experiment.lora.rank > 0 && kind.is_decoder() {
                (experiment.quantise.base, experiment.frozen) = (BaseWeights::ALL[turn % 4], Frozen::All);
                experiment.lora.targets = [Targets::ALL, Targets::of(&[Projection::Q, Projection::V])][turn % 2];
            }
            let model = &mut experiment.model;
            (model.tied, model.attention) = (j % 2 == 0, [AttentionKind::Plain, AttentionKind::Efficient][(i + j) % 2]);
            model.dropout = if j == 1 { 0.1 } else { 0.0 };
            experiment.loss_chunk = [0, 0, 64][(i + 2 * j) % 3];
            if experiment.lora.rank == 0 && experiment.loss_chunk == 0 && precision != Precision::F64 {
                experiment.quantise.kind = QuantiseKind::ALL[turn % 3];
                experiment.quantise.calibration = 2;
                if experiment.quantise.kind == QuantiseKind::After && kind.is_decoder() {
                    experiment.quantise.weights = CodedWeights::ALL[(i + j) % 3];
                }
            }
            cases.push((experiment, info));
        }
    }
    cases
}

/// Two steps and an evaluation, and one of the model as integers if it becomes that; each with its recording.
///
/// # Errors
/// Fails when the device refuses memory or fails.
pub fn passes<B: Backend, M: MicroBatch>(session: &mut Session<B>, batch: impl Fn() -> M) -> Result<[Recording; 3]> {
    let recording = |session: &Session<B>| session.executor().ledger().take_recording();
    session.step(1e-3, || Ok(batch()))?;
    let first = recording(session);
    session.step(1e-3, || Ok(batch()))?;
    let steady = recording(session);
    let mut once = Some(batch());
    session.evaluate(|| Ok(once.take()))?;
    let mut once = Some(batch());
    session.compress(|| Ok(batch()), || Ok(once.take()), |_, _| {})?;
    Ok([first, steady, recording(session)])
}

/// A launch as it was seen.
#[derive(Debug, PartialEq)]
struct Seen {
    op: &'static str,
    operands: Vec<(Shape, DType)>,
    /// The tensors alive after it.
    alive: Blocks,
}

/// Every launch, and the device's measurement after it. The log itself is not measured.
#[derive(Default)]
struct Log {
    seen: Vec<Seen>,
    measured: Vec<Bytes>,
}

impl Drop for Log {
    fn drop(&mut self) {
        uncounted(|| drop((std::mem::take(&mut self.seen), std::mem::take(&mut self.measured))));
    }
}

/// Runs two steps and an evaluation on `executor`, watched.
fn trace<B: Backend, M: MicroBatch>(
    executor: Executor<B>,
    measured: Rc<dyn Fn() -> Bytes>,
    (experiment, info): (&Experiment, &DatasetInfo),
    batch: impl Fn() -> M,
) -> Result<Log> {
    let log: Rc<RefCell<Log>> = Rc::default();
    let watch = {
        let log = Rc::clone(&log);
        move |launched: &Launched<'_, B>| {
            let now = measured();
            uncounted(|| {
                let operands = launched.inputs.iter().chain(launched.outputs).map(|t| (t.shape(), t.dtype()));
                let alive = launched.executor.ledger().blocks();
                let log = &mut *log.borrow_mut();
                log.seen.push(Seen { op: launched.kernel.name(), operands: operands.collect(), alive });
                log.measured.push(now);
            });
            Ok(())
        }
    };
    executor.watch(watch);
    let mut session = Session::new(executor, experiment, info)?;
    passes(&mut session, batch)?;
    Ok(log.take())
}

pub(super) fn run<B: Backend>(bench: &Bench<B>, choice: &Choice, runner: &mut Runner<'_>) {
    let all = cases();
    for (kind, _) in KINDS {
        let own = all.iter().filter(|(experiment, _)| experiment.model.kind == kind).collect::<Vec<_>>();
        runner.check(format!("step/{}", kind.key()), || of_family(bench, choice, &own));
    }
}

fn of_family<B: Backend>(
    bench: &Bench<B>,
    choice: &Choice,
    cases: &[&(Experiment, DatasetInfo)],
) -> Result<Found, Fault> {
    let (cases, mut launches, mut worst) = (choice.extent.first(cases), 0, Worst::default());
    for (experiment, info) in cases {
        let chosen = |message: String| Fault::new(format!("{}: {message}", experiment.precision.key()));
        launches += compare(bench, (experiment, info), choice.seed, &mut worst)
            .map_err(|fault| Fault { worst: fault.worst, ..chosen(fault.message) })?;
    }
    let text =
        format!("{launches} ops of {} experiments, the dry run; bytes measured in addition to tensors", cases.len());
    Ok(Found::new(text, worst))
}

fn compare<B: Backend>(
    bench: &Bench<B>,
    of: (&Experiment, &DatasetInfo),
    seed: u64,
    worst: &mut Worst,
) -> Result<usize, Fault> {
    let (experiment, info) = of;
    let noise = Noise::new(experiment.batch.micro, info, seed);
    let blank = || Blank(experiment.batch.micro);
    let account = |recording| bench.account(experiment, None, recording);
    let recordings = passes(&mut Session::new((bench.open)(account(true))?, experiment, info)?, || &noise)?;
    let dry = passes(&mut Session::new(bench.open_dry(account(true)), experiment, info)?, blank)?;
    booked_alike(&recordings, &dry)?;

    let executor = bench.open_free(experiment, false)?;
    let idle = (bench.measured)();
    let real = trace(executor, Rc::clone(&bench.measured), of, || &noise)?;
    let nothing = Rc::new(|| Bytes::ZERO);
    let dry = trace(bench.open_dry(account(false)), nothing, of, blank)?;
    let different = |i: &usize| real.seen.get(*i) != dry.seen.get(*i);
    if let Some(i) = (0..real.seen.len().max(dry.seen.len())).find(different) {
        let [real, dry] = [real.seen.get(i), dry.seen.get(i)];
        return Err(Fault::new(format!("op {i} is {real:?}, and {dry:?} in the dry run")));
    }
    let host = if bench.target.is_gpu() { 0 } else { bookkeeping(experiment, None, info)?.most().0 };
    for (seen, measured) in real.seen.iter().zip(&real.measured) {
        let (Blocks { count: blocks, bytes: Bytes(bytes) }, measured) = (seen.alive, measured.saturating_sub(idle).0);
        let most = host + bench.beside.0 * blocks;
        let here = Worst { error: measured as f64 - bytes as f64, tolerance: most as f64 };
        *worst = worst.or(here);
        if measured < bytes || !here.holds() {
            let message = format!("{measured} bytes measured after {}, of {bytes} in {blocks} tensors", seen.op);
            return Err(Fault { message, worst: here });
        }
    }
    Ok(real.seen.len())
}

/// Checks that the accounts of passes and of their dry runs are the same.
fn booked_alike(real: &[Recording; 3], dry: &[Recording; 3]) -> Result<(), Fault> {
    for (pass, (real, dry)) in ["first step", "second step", "evaluation"].iter().zip(real.iter().zip(dry)) {
        if real.timeline.points != dry.timeline.points || real.alive_at_peak() != dry.alive_at_peak() {
            return Err(Fault::new(format!("the {pass} is booked in another way than its dry run")));
        }
        let peaks = |of: &Recording| (of.live_peak, of.reserved_peak);
        if peaks(real) != peaks(dry) {
            let (real, dry) = (peaks(real), peaks(dry));
            return Err(Fault::new(format!("the {pass} has peaks of {real:?}, and of {dry:?} in the dry run")));
        }
    }
    Ok(())
}
