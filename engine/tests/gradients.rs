//! Gradients of whole models: every layer's rule, the tape and checkpointing, against finite differences in f64.

use plimsoll_engine::{
    Experiment,
    autograd::Tape,
    backend::{
        Backend, Candle, DType, Executor, HostSlice, Kernel, Tensor,
        kernel::{Rule, Update},
    },
    data::{Facts, Input, UNSCORED},
    experiment::{AttentionKind, Checkpointing, Frozen, Lora, Model as ModelChoice, ModelKind, Precision},
    memory::{Category, Ledger, Phase},
    models::Model,
    nn::Param,
    rng::{Rng, Stream},
};

/// A seed that differs from run to run, so that the inputs are fresh; printed by a failure.
fn fresh_seed() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(1, |d| d.as_nanos() as u64)
}

struct Bench {
    executor: Executor<Candle>,
    model: Model<Candle>,
    images: Vec<f32>,
    tokens: Vec<u32>,
    labels: Vec<u32>,
    facts: Facts,
    precision: Precision,
}

const SAMPLES: usize = 3;

impl Bench {
    fn new(experiment: &Experiment, facts: Facts, seed: u64) -> Self {
        let executor = Executor::new(Candle::cpu(1), Ledger::new(None, false));
        let model = Model::build(&executor, experiment, &facts).expect("a small model");
        let rng = Rng::new(seed, Stream::Data, 0);
        let pixels = SAMPLES * facts.input.elements();
        let images = (0..pixels as u64).map(|i| rng.normal(i) as f32).collect();
        let tokens = (0..pixels as u64).map(|i| rng.below(1 << 41 | i, facts.classes) as u32).collect();
        let label = |i: u64| match facts.targets {
            // Some of many labels do not count.
            2.. if i.is_multiple_of(3) => UNSCORED,
            _ => rng.below(1 << 40 | i, facts.classes) as u32,
        };
        let labels = (0..(SAMPLES * facts.targets) as u64).map(label).collect();
        Self { executor, model, images, tokens, labels, facts, precision: experiment.precision }
    }

    /// Uniform numbers in ±1 of a parameter's shape.
    fn direction(&self, param: &Param<Candle>, seed: u64, index: usize) -> Tensor<Candle> {
        let shape = param.weight().shape();
        let direction = self.executor.allocate(shape, DType::F64, Category::Scratch, "direction").expect("room");
        let key = Rng::new(seed, Stream::Data, 1 + index as u64).key();
        self.executor.launch(Kernel::Uniform { bound: 1.0, key }, &[], &[&direction]).expect("a direction");
        direction
    }

    /// Moves a parameter by `-rate * direction`.
    fn walk(&self, param: &Param<Candle>, direction: &Tensor<Candle>, rate: f64) {
        let kernel = Kernel::Update(Update { rule: Rule::Sgd, rate, weight_decay: 0.0, grad_scale: 1.0 });
        self.executor.launch(kernel, &[direction], &[param.weight()]).expect("a step");
    }

    /// Moves every parameter a little. A batch norm's bias starts at zero, where a channel that is constant, as a dead one
    /// is, meets the edge of the next ReLU exactly.
    fn leave_the_start(&self, seed: u64) {
        for (i, param) in self.model.params().iter().enumerate() {
            self.walk(param, &self.direction(param, !seed, i), 0.1);
        }
    }

    fn batch(&self) -> (Tensor<Candle>, Tensor<Candle>) {
        let input = self.facts.input;
        let numbers = match input {
            Input::Image { .. } => HostSlice::F32(&self.images),
            Input::Tokens { .. } => HostSlice::U32(&self.tokens),
        };
        let inputs = self.executor.upload(numbers, input.shape(SAMPLES), input.dtype(self.precision), input.label());
        let labels = self.executor.upload(HostSlice::U32(&self.labels), [self.labels.len()], DType::U32, "labels");
        (inputs.expect("room"), labels.expect("room"))
    }

    /// Summed loss; with `backward`, the gradients are left in the parameters.
    fn loss(&self, backward: bool) -> f64 {
        let executor = &self.executor;
        let (images, labels) = self.batch();
        let stats = executor.filled(0.0, [2], DType::F64, Category::Scratch, "stats").expect("room");
        // Recorded either way: evaluation is another function where a layer normalises by its batch.
        let mut tape = Tape::recording(executor);
        let logits = self.model.forward(&mut tape, images).expect("forward");
        executor.cross_entropy(&logits.tensor, &labels, &stats).expect("loss");
        if backward && let Some(id) = logits.id() {
            executor.ledger().set_phase(Phase::Backward);
            let gradient = executor.cross_entropy_grad(logits.tensor, &labels, 1.0).expect("gradient of the loss");
            tape.backward(id, gradient, None, &mut |_| Ok(())).expect("backward");
        }
        values(executor, &stats)[0]
    }

    fn gradients(&self) -> Vec<Vec<f64>> {
        self.loss(true);
        let gradient = |t: Option<Tensor<Candle>>| values(&self.executor, &t.expect("what is trained has a gradient"));
        assert!(self.model.params().iter().all(|p| p.is_trained() || p.gradient().is_none()));
        self.trained().iter().map(|p| gradient(p.take_gradient())).collect()
    }

    fn trained(&self) -> Vec<&Param<Candle>> {
        self.model.params().into_iter().filter(|p| p.is_trained()).collect()
    }
}

fn values<B: Backend>(executor: &Executor<B>, tensor: &Tensor<B>) -> Vec<f64> {
    executor.read(tensor).expect("readable").expect("real numbers")
}

const CHECKPOINTINGS: [Checkpointing; 5] = [
    Checkpointing::None,
    Checkpointing::Blocks,
    Checkpointing::Every(2),
    Checkpointing::Sqrt,
    Checkpointing::Percent(60),
];

/// Transformers and a mixer, each with other choices.
fn transformers() -> Vec<(ModelChoice, Facts)> {
    let image = Facts::one_label(Input::Image { height: 4, width: 6, channels: 2 }, 4, 8, 4);
    let (length, vocabulary) = (5, 7);
    let input = Input::Tokens { length, vocabulary };
    let tokens = Facts { input, targets: length, scored: length, classes: vocabulary, train: 8, test: 4 };
    let of = |kind, attention| ModelChoice {
        kind,
        attention,
        width: 8,
        depth: 3,
        heads: 2,
        kv_heads: 1,
        hidden: 6,
        patch: 2,
        tied: false,
        ..ModelChoice::default()
    };
    vec![
        (of(ModelKind::Vit, AttentionKind::Efficient), image),
        (of(ModelKind::Vit, AttentionKind::Plain), image),
        (of(ModelKind::Mixer, AttentionKind::Plain), image),
        (of(ModelKind::Gpt2, AttentionKind::Plain), tokens),
        (ModelChoice { tied: true, ..of(ModelKind::Gpt2, AttentionKind::Efficient) }, tokens),
        (ModelChoice { window: 2, tied: true, ..of(ModelKind::Llama, AttentionKind::Efficient) }, tokens),
        (ModelChoice { qkv_bias: true, ..of(ModelKind::Llama, AttentionKind::Plain) }, tokens),
    ]
}

fn unets() -> Vec<(ModelChoice, Facts)> {
    let input = Input::Image { height: 4, width: 8, channels: 2 };
    let facts = Facts { input, targets: 32, scored: 32, classes: 3, train: 8, test: 4 };
    vec![(ModelChoice { kind: ModelKind::Unet, width: 3, depth: 2, ..ModelChoice::default() }, facts)]
}

fn cases() -> Vec<(Experiment, Facts)> {
    let image = |side, channels| Input::Image { height: side, width: side, channels };
    let facts = |side, channels| Facts::one_label(image(side, channels), 4, 8, 4);
    let mut cases = Vec::new();
    let (whole, adapters) = (Lora::default(), Lora { rank: 2, alpha: 3.0 });
    for (kind, facts, frozen, lora) in [
        (ModelKind::Mlp, facts(3, 2), Frozen::None, whole),
        (ModelKind::Cnn, facts(9, 2), Frozen::None, whole),
        (ModelKind::Sepcnn, facts(7, 3), Frozen::None, whole),
        (ModelKind::Mobilenetv1, facts(9, 2), Frozen::None, whole),
        (ModelKind::Mobilenetv2, facts(9, 2), Frozen::None, whole),
        (ModelKind::Mlp, facts(3, 2), Frozen::None, adapters),
        (ModelKind::Mlp, facts(3, 2), Frozen::All, adapters),
        (ModelKind::Cnn, facts(9, 2), Frozen::AllButHead, adapters),
        (ModelKind::Mobilenetv1, facts(9, 2), Frozen::Blocks(12), whole),
    ] {
        for checkpointing in CHECKPOINTINGS {
            let mut experiment = Experiment { precision: Precision::F64, checkpointing, ..Experiment::default() };
            (experiment.model.kind, experiment.frozen, experiment.lora) = (kind, frozen, lora);
            experiment.model.width = 5;
            experiment.model.depth = 3;
            experiment.model.dense = 6;
            experiment.model.multiplier = 0.1;
            cases.push((experiment, facts));
        }
    }
    for (model, facts) in transformers().into_iter().chain(unets()) {
        for checkpointing in CHECKPOINTINGS {
            let model = ModelChoice { depth: 3.min(model.depth), ..model.clone() };
            let experiment = Experiment { precision: Precision::F64, checkpointing, model, ..Experiment::default() };
            cases.push((experiment, facts));
        }
    }
    cases
}

#[test]
fn directional_derivatives_agree_with_finite_differences() {
    let seed = fresh_seed();
    for (mut experiment, facts) in cases() {
        experiment.run.seed = seed;
        let bench = Bench::new(&experiment, facts, seed);
        bench.leave_the_start(seed);
        let gradients = bench.gradients();
        for (i, (param, gradient)) in bench.trained().iter().zip(&gradients).enumerate() {
            let direction = bench.direction(param, seed, i);
            let expected: f64 = values(&bench.executor, &direction).iter().zip(gradient).map(|(d, g)| d * g).sum();
            let difference = |epsilon: f64| {
                bench.walk(param, &direction, -epsilon);
                let above = bench.loss(false);
                bench.walk(param, &direction, 2.0 * epsilon);
                let below = bench.loss(false);
                bench.walk(param, &direction, -epsilon);
                (above - below) / (2.0 * epsilon)
            };
            // Steps so small that a ReLU or a maximum rarely changes sides; where one does, as in deep networks with batch
            // norm over few values, a smaller step agrees. A rule
            // that is wrong agrees with none.
            let error = |measured: &f64| (measured - expected).abs();
            let measured = [1e-6, 1e-8, 1e-9, 1e-10].map(difference);
            let measured = measured.into_iter().min_by(|a, b| error(a).total_cmp(&error(b))).expect("four");
            assert!(
                (measured - expected).abs() <= 1e-6 + 1e-4 * expected.abs(),
                "seed {seed}, {:?} {}, parameter {i} ({}): {measured} measured, {expected} from the tape",
                experiment.model.kind,
                experiment.checkpointing,
                param.name(),
            );
        }
    }
}

#[test]
fn checkpointing_changes_no_bit_of_loss_or_gradients() {
    let seed = fresh_seed();
    for precision in [Precision::F32, Precision::Bf16Mixed] {
        let run = |(mut experiment, facts): (Experiment, Facts)| {
            experiment.run.seed = seed;
            experiment.precision = precision;
            // It drops the same when it is computed again.
            experiment.model.dropout = 0.3;
            let bench = Bench::new(&experiment, facts, seed);
            (bench.loss(false), bench.gradients())
        };
        let results: Vec<_> = cases().into_iter().map(run).collect();
        for of_one_model in results.chunks(CHECKPOINTINGS.len()) {
            assert!(of_one_model.iter().all(|r| r == &of_one_model[0]), "seed {seed}, {precision:?}");
        }
    }
}
