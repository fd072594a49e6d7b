//! The loss over some rows of logits at a time: the same sums as over all at once.

use plimsoll_engine::{
    Experiment,
    backend::{Cpu, Executor, HostSlice, IGNORE_INDEX},
    data::DatasetInfo,
    experiment::{Checkpointing, ModelKind, OptimizerKind, Precision, UpdateTime},
    memory::Ledger,
    rng::{Rng, Stream},
    selftest::draw::fresh_seed,
    step::{MicroBatch, Session, StepOutput},
};

const LENGTH: usize = 6;
const FACTS: DatasetInfo =
    DatasetInfo { scored_labels: LENGTH - 1, ..DatasetInfo::label_each_token(LENGTH, 11, 100, 20) };

struct Sequences {
    tokens: Vec<u32>,
    labels: Vec<u32>,
}

impl Sequences {
    fn new(samples: usize, seed: u64) -> Self {
        let rng = Rng::new(seed, Stream::Data, 0);
        let tokens = (0..(samples * LENGTH) as u64).map(|i| rng.below(i, FACTS.classes) as u32).collect();
        let label = |i: usize| match i % LENGTH {
            0 => IGNORE_INDEX,
            _ => rng.below(1 << 40 | i as u64, FACTS.classes) as u32,
        };
        Self { tokens, labels: (0..samples * LENGTH).map(label).collect() }
    }
}

impl MicroBatch for &Sequences {
    fn samples(&self) -> usize {
        self.tokens.len() / LENGTH
    }
    fn inputs(&self) -> HostSlice<'_> {
        HostSlice::U32(&self.tokens)
    }
    fn labels(&self) -> &[u32] {
        &self.labels
    }
}

/// What a step, the weights after it and an evaluation come to.
fn outcome(experiment: &Experiment, seed: u64) -> (StepOutput, Vec<f64>, (f64, f64)) {
    let executor = Executor::new(Cpu::new(1), Ledger::new(None, false));
    let mut session = Session::new(executor, experiment, &FACTS).expect("no budget");
    let batch = Sequences::new(experiment.batch.micro, seed);
    let output = session.step(0.1, || Ok(&batch)).expect("a step");
    let read = |session: &Session<Cpu>| {
        let weight = |param: &plimsoll_engine::nn::Param<Cpu>| session.executor().read(param.weight());
        let weights = session.model().params().into_iter().map(weight);
        weights.map(|w| w.expect("readable").expect("numbers")).collect::<Vec<_>>().concat()
    };
    let weights = read(&session);
    let mut once = Some(&batch);
    let evaluated = session.evaluate(|| Ok(once.take())).expect("an evaluation");
    (output, weights, evaluated)
}

#[test]
fn losses_gradients_and_updates_are_those_of_all_rows_at_once() {
    let seed = fresh_seed();
    for (kind, tied, checkpointing, update) in [
        (ModelKind::Gpt2, true, Checkpointing::None, UpdateTime::AfterBackward),
        (ModelKind::Gpt2, false, Checkpointing::Blocks, UpdateTime::AfterBackward),
        (ModelKind::Llama, true, Checkpointing::Blocks, UpdateTime::InBackward),
        (ModelKind::Llama, false, Checkpointing::None, UpdateTime::InBackward),
    ] {
        let mut experiment = Experiment { precision: Precision::F64, checkpointing, ..Experiment::default() };
        let model = &mut experiment.model;
        (model.kind, model.tied, model.width, model.heads, model.kv_heads, model.hidden) = (kind, tied, 8, 2, 1, 12);
        (experiment.optimizer.kind, experiment.optimizer.update) = (OptimizerKind::Sgd, update);
        experiment.batch.micro = 4;
        experiment.run.seed = seed;
        let (output, weights, evaluated) = outcome(&experiment, seed);
        for chunk in [1, 5, 24, 1000] {
            experiment.loss_chunk = chunk;
            let (other, others, found) = outcome(&experiment, seed);
            let is_near = |a: f64, b: f64| (a - b).abs() <= 1e-12 * (1.0 + b.abs());
            assert!(is_near(other.loss, output.loss) && other.accuracy == output.accuracy, "seed {seed}: {other:?}");
            assert!(is_near(other.gradient_norm, output.gradient_norm), "seed {seed}: {other:?} {output:?}");
            assert!(is_near(found.0, evaluated.0) && found.1 == evaluated.1, "seed {seed}");
            assert!(
                weights.iter().zip(&others).all(|(a, b)| is_near(*a, *b)),
                "seed {seed}, {kind:?}, chunks of {chunk}"
            );
        }
    }
}
