//! Dry run against real run, op by op: the same ops in the same order, and at each the memory that was measured.

use std::rc::Rc;

use plimsoll_engine::{
    Bytes, Experiment, Result,
    backend::{
        Backend, Candle, DryRun, Executor, HostSlice,
        pool::{self, Pool, Standing},
    },
    data::{Facts, Input},
    device::Target,
    experiment::{AttentionKind, Batch, Checkpointing, Frozen, ModelKind, OptimizerKind, Outputs, Precision, TapeUse},
    memory::{Category, Ledger, Point, ledger::Recording, probe::uncounted},
    plan::time,
    rng::{Rng, Stream},
    train::step::{Blank, MicroBatch, Session},
};

const IMAGES: Facts = Facts::one_label(Input::Image { height: 12, width: 12, channels: 3 }, 5, 100, 20);
const TOKENS: Facts =
    Facts { input: Input::Tokens { length: 20, vocabulary: 50 }, targets: 20, scored: 20, classes: 50, ..IMAGES };
const MASKS: Facts = Facts { targets: 144, scored: 144, ..IMAGES };

const OPTIMIZERS: [OptimizerKind; 8] = [
    OptimizerKind::Adamw,
    OptimizerKind::Momentum,
    OptimizerKind::Sgd,
    OptimizerKind::Nesterov,
    OptimizerKind::Adam,
    OptimizerKind::Lion,
    OptimizerKind::Adafactor,
    OptimizerKind::Adamw8bit,
];

/// Noise with labels.
struct Noise {
    samples: usize,
    input: Input,
    images: Vec<f32>,
    tokens: Vec<u32>,
    labels: Vec<u32>,
}

impl Noise {
    fn new(samples: usize, facts: &Facts) -> Self {
        let rng = Rng::new(5, Stream::Data, 0);
        let (input, count) = (facts.input, (samples * facts.input.elements()) as u64);
        let images = (0..count).map(|i| rng.normal(i) as f32).collect();
        let tokens = (0..count).map(|i| rng.below(i, facts.classes) as u32).collect();
        let labels = (0..samples * facts.targets).map(|i| (i % facts.classes) as u32).collect();
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

const KINDS: [(ModelKind, Facts); 9] = [
    (ModelKind::Mlp, IMAGES),
    (ModelKind::Cnn, IMAGES),
    (ModelKind::Sepcnn, IMAGES),
    (ModelKind::Mobilenetv2, IMAGES),
    (ModelKind::Vit, IMAGES),
    (ModelKind::Mixer, IMAGES),
    (ModelKind::Gpt2, TOKENS),
    (ModelKind::Llama, TOKENS),
    (ModelKind::Unet, MASKS),
];

/// Every model with every precision, each with another checkpointing, optimizer, attention and size of chunks.
fn cases() -> Vec<(Experiment, Facts)> {
    let mut cases = Vec::new();
    for (i, (kind, facts)) in KINDS.into_iter().enumerate() {
        for (j, precision) in Precision::ALL.into_iter().enumerate() {
            let mut experiment = Experiment { precision, ..Experiment::default() };
            experiment.model.kind = kind;
            (experiment.model.width, experiment.model.multiplier, experiment.model.heads) = (24, 0.25, 4);
            experiment.model.patch = 4;
            experiment.checkpointing =
                [Checkpointing::None, Checkpointing::Blocks, Checkpointing::Every(2)][(i + j) % 3];
            experiment.optimizer.kind = OPTIMIZERS[(2 * i + j) % OPTIMIZERS.len()];
            experiment.batch = Batch { micro: 10, accumulation: 2 };
            // Every way to save, to freeze and to hold comes along.
            let turn = 5 * i + j;
            experiment.tape = [TapeUse::Frees, TapeUse::Held][turn % 2];
            experiment.outputs = [Outputs::Kept, Outputs::MadeAgain][turn / 2 % 2];
            experiment.lora.rank = [0, 3, 0][turn % 3];
            experiment.frozen = [Frozen::None, Frozen::Blocks(1), Frozen::None, Frozen::AllButHead][turn % 4];
            let model = &mut experiment.model;
            (model.hidden, model.heads, model.kv_heads) = (40, 6, 2);
            (model.tied, model.attention) = (j % 2 == 0, [AttentionKind::Plain, AttentionKind::Efficient][(i + j) % 2]);
            model.dropout = if j == 1 { 0.1 } else { 0.0 };
            experiment.loss_chunk = [0, 0, 64][(i + 2 * j) % 3];
            cases.push((experiment, facts));
        }
    }
    cases
}

/// Two steps and an evaluation; returns what each left in the recording.
fn passes<B: Backend, M: MicroBatch>(session: &mut Session<B>, batch: impl Fn() -> M) -> Result<[Recording; 3]> {
    let recording = |session: &Session<B>| session.executor().ledger().take_recording();
    session.step(1e-3, || Ok(batch()))?;
    let first = recording(session);
    session.step(1e-3, || Ok(batch()))?;
    let steady = recording(session);
    let mut once = Some(batch());
    session.evaluate(|| Ok(once.take()))?;
    Ok([first, steady, recording(session)])
}

fn dry(experiment: &Experiment, facts: &Facts) -> [Recording; 3] {
    let executor =
        Executor::new(DryRun::new(Target::Cpu { threads: pool::threads() }, time::rates()), Ledger::new(None, true));
    let mut session = Session::new(executor, experiment, facts).expect("no budget");
    passes(&mut session, || Blank(experiment.batch.micro)).expect("a dry run")
}

#[test]
fn the_real_step_writes_the_ledger_of_the_dry_one() {
    for (experiment, facts) in cases() {
        let noise = Noise::new(experiment.batch.micro, &facts);
        let executor = Executor::new(Candle::cpu(pool::threads()), Ledger::new(None, true));
        let mut session = Session::new(executor, &experiment, &facts).expect("no budget");
        let real = passes(&mut session, || &noise).expect("a real run");
        for (real, dry) in real.iter().zip(&dry(&experiment, &facts)) {
            assert_eq!(real.timeline.points, dry.timeline.points, "{experiment:?}");
            assert_eq!(real.alive_at_peak, dry.alive_at_peak, "{experiment:?}");
            assert_eq!((real.live_peak, real.reserved_peak), (dry.live_peak, dry.reserved_peak));
        }
    }
}

/// Measured bytes at every op of the second step, above the idle level.
fn measured(pool: &Pool, experiment: &Experiment, facts: &Facts, noise: &Noise) -> Vec<Bytes> {
    let meter = pool.meter();
    let idle = meter.now().live;
    let samples = pool.run(|| {
        let executor = Executor::new(Candle::cpu(pool::threads()), Ledger::new(None, false));
        let mut session = Session::new(executor, experiment, facts).expect("no budget");
        session.step(1e-3, || Ok(noise)).expect("a first step");
        session.executor().sample(uncounted(|| Rc::new(meter)));
        session.step(1e-3, || Ok(noise)).expect("a second step");
        session.executor().take_samples()
    });
    assert_eq!(meter.now().live, idle, "everything is given back");
    samples.into_iter().map(|high| high.saturating_sub(idle)).collect()
}

#[test]
fn memory_measured_at_every_op_is_what_the_dry_run_says() {
    let pool = Pool::new(Standing::Equal).expect("threads");
    for (experiment, facts) in cases() {
        let noise = Noise::new(experiment.batch.micro, &facts);
        let samples = measured(&pool, &experiment, &facts, &noise);
        let [_, steady, _] = dry(&experiment, &facts);
        assert_eq!(samples.len(), steady.timeline.points.len(), "{experiment:?}");
        for (point, sample) in steady.timeline.points.iter().zip(samples) {
            let place = || format!("{} of {} in {experiment:?}", point.op, steady.timeline.layer(point.layer));
            // Tensors are exact; scratch and bookkeeping are bounds.
            assert!(sample <= point.live, "{}: {sample} measured, {} predicted", place(), point.live);
            assert!(sample >= tensors(point), "{}: {sample} measured, {} in tensors", place(), tensors(point));
        }
    }
}

fn tensors(point: &Point) -> Bytes {
    point.live - point.categories.get(Category::Context) - point.categories.get(Category::Scratch)
}
