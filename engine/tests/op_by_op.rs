//! Dry run against real run, op by op: the same ops in the same order, and at each the memory that was measured.

use plimsoll_engine::{
    Bytes, Experiment, Result,
    backend::{
        Backend, Candle, DryRun, Executor, HostSlice,
        pool::{self, Pool, Standing},
    },
    data::{Facts, Input},
    experiment::{Batch, Checkpointing, Frozen, ModelKind, OptimizerKind, Outputs, Precision, TapeUse},
    memory::{Category, Ledger, Point, ledger::Recording},
    plan::time,
    rng::{Rng, Stream},
    train::step::{Blank, MicroBatch, Session},
};

const FACTS: Facts = Facts::one_label(Input::Image { height: 12, width: 12, channels: 3 }, 5, 100, 20);

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
    images: Vec<f32>,
    labels: Vec<u32>,
}

impl Noise {
    fn new(samples: usize) -> Self {
        let rng = Rng::new(5, Stream::Data, 0);
        let images = (0..(samples * FACTS.input.elements()) as u64).map(|i| rng.normal(i) as f32).collect();
        Self { images, labels: (0..samples).map(|i| (i % FACTS.classes) as u32).collect() }
    }
}

impl MicroBatch for &Noise {
    fn samples(&self) -> usize {
        self.labels.len()
    }
    fn inputs(&self) -> HostSlice<'_> {
        HostSlice::F32(&self.images)
    }
    fn labels(&self) -> &[u32] {
        &self.labels
    }
}

/// Every model with every precision, each with another checkpointing and optimizer.
fn cases() -> Vec<Experiment> {
    let mut cases = Vec::new();
    for (i, kind) in [ModelKind::Mlp, ModelKind::Cnn, ModelKind::Sepcnn, ModelKind::Mobilenetv2, ModelKind::Vit]
        .into_iter()
        .enumerate()
    {
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
            cases.push(experiment);
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

fn dry(experiment: &Experiment) -> [Recording; 3] {
    let executor = Executor::new(DryRun::new(pool::threads(), time::rates()), Ledger::new(None, true));
    let mut session = Session::new(executor, experiment, &FACTS).expect("no budget");
    passes(&mut session, || Blank(experiment.batch.micro)).expect("a dry run")
}

#[test]
fn the_real_step_writes_the_ledger_of_the_dry_one() {
    for experiment in cases() {
        let noise = Noise::new(experiment.batch.micro);
        let executor = Executor::new(Candle::cpu(pool::threads()), Ledger::new(None, true));
        let mut session = Session::new(executor, &experiment, &FACTS).expect("no budget");
        let real = passes(&mut session, || &noise).expect("a real run");
        for (real, dry) in real.iter().zip(&dry(&experiment)) {
            assert_eq!(real.timeline.points, dry.timeline.points, "{experiment:?}");
            assert_eq!(real.alive_at_peak, dry.alive_at_peak, "{experiment:?}");
            assert_eq!((real.live_peak, real.reserved_peak), (dry.live_peak, dry.reserved_peak));
        }
    }
}

/// Measured bytes at every op of the second step, above the idle level.
fn measured(pool: &Pool, experiment: &Experiment, noise: &Noise) -> Vec<Bytes> {
    let meter = pool.meter();
    let idle = meter.now().live;
    let samples = pool.run(|| {
        let executor = Executor::new(Candle::cpu(pool::threads()), Ledger::new(None, false));
        let mut session = Session::new(executor, experiment, &FACTS).expect("no budget");
        session.step(1e-3, || Ok(noise)).expect("a first step");
        session.executor().sample(meter);
        session.step(1e-3, || Ok(noise)).expect("a second step");
        session.executor().take_samples()
    });
    assert_eq!(meter.now().live, idle, "everything is given back");
    samples.into_iter().map(|high| high.saturating_sub(idle)).collect()
}

#[test]
fn memory_measured_at_every_op_is_what_the_dry_run_says() {
    let pool = Pool::new(Standing::Equal).expect("threads");
    for experiment in cases() {
        let noise = Noise::new(experiment.batch.micro);
        let samples = measured(&pool, &experiment, &noise);
        let [_, steady, _] = dry(&experiment);
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
