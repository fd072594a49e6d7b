//! Random experiments: every family with every precision, checkpointing and optimizer that can come out, small enough
//! to train in a moment. A seed gives the same experiments everywhere.

use std::path::{Path, PathBuf};

use crate::{
    bytes::Bytes,
    device::target,
    experiment::{
        ActivationKind, AttentionKind, BaseWeights, Batch, CachePlace, Checkpointing, CodedWeights, DataCache,
        DataKind, EvaluationBatch, Execution, Experiment, Frozen, Gpu, Model, ModelKind, OptimizerKind, Placement,
        PoolPolicy, Precision, Projection, Prune, PruneKind, PruneSchedule, PruneScope, QuantiseKind, Recompute,
        Targets, UpdateTime,
    },
    rng::{Rng, Stream},
};

/// A kind of model and of data, and how its sizes are drawn.
struct Family {
    name: &'static str,
    kind: ModelKind,
    sizes: fn(&mut Experiment, Dice),
}

/// Every family, drawn in turn.
const FAMILIES: &[Family] = &[
    Family { name: "mlp", kind: ModelKind::Mlp, sizes: mlp },
    Family { name: "mlp, deep and narrow", kind: ModelKind::Mlp, sizes: deep_mlp },
    Family { name: "cnn", kind: ModelKind::Cnn, sizes: cnn },
    Family { name: "sepcnn", kind: ModelKind::Sepcnn, sizes: cnn },
    Family { name: "resnet-18", kind: ModelKind::Resnet, sizes: resnet },
    Family { name: "mobilenetv1", kind: ModelKind::Mobilenetv1, sizes: mobilenet },
    Family { name: "mobilenetv2", kind: ModelKind::Mobilenetv2, sizes: mobilenet },
    Family { name: "vit", kind: ModelKind::Vit, sizes: patches },
    Family { name: "mixer", kind: ModelKind::Mixer, sizes: patches },
    Family { name: "gpt2", kind: ModelKind::Gpt2, sizes: decoder },
    Family { name: "llama", kind: ModelKind::Llama, sizes: decoder },
    Family { name: "unet", kind: ModelKind::Unet, sizes: unet },
    Family { name: "cnn, deep and narrow", kind: ModelKind::Cnn, sizes: deep_cnn },
    Family { name: "sepcnn, deep and narrow", kind: ModelKind::Sepcnn, sizes: deep_cnn },
    Family { name: "vit, deep and narrow", kind: ModelKind::Vit, sizes: |e, dice| deep(e, dice, patches) },
    Family { name: "mixer, deep and narrow", kind: ModelKind::Mixer, sizes: |e, dice| deep(e, dice, patches) },
    Family { name: "gpt2, deep and narrow", kind: ModelKind::Gpt2, sizes: |e, dice| deep(e, dice, decoder) },
    Family { name: "llama, deep and narrow", kind: ModelKind::Llama, sizes: |e, dice| deep(e, dice, decoder) },
    Family { name: "unet, deep and narrow", kind: ModelKind::Unet, sizes: deep_unet },
];

/// Every kind of model is drawn.
const _: () = {
    let mut kind = 0;
    while kind < ModelKind::ALL.len() {
        let mut family = 0;
        while FAMILIES[family].kind as usize != ModelKind::ALL[kind] as usize {
            family += 1;
            assert!(family < FAMILIES.len(), "a kind of model is not drawn");
        }
        kind += 1;
    }
};

/// The names of the families, in the order in which they are drawn.
pub fn families() -> impl Iterator<Item = &'static str> {
    FAMILIES.iter().map(|family| family.name)
}

/// An experiment that came out.
#[derive(Debug, Clone)]
pub struct Drawn {
    /// The experiment's family.
    pub family: &'static str,
    /// Itself, its budget as by default.
    pub experiment: Experiment,
    rng: Rng,
}

impl Drawn {
    /// Draws a number from `0..n` for a further decision about this experiment. `place` distinguishes the decisions.
    pub fn also(&self, place: u64, n: usize) -> usize {
        Dice(self.rng).below(100 + place, n)
    }
}

/// Random experiments, one after another without end.
#[derive(Debug, Clone)]
pub struct Experiments {
    seed: u64,
    device: String,
    text: Option<PathBuf>,
    next: usize,
}

impl Experiments {
    /// The experiments of a seed for `device`; some learn the bytes of `text`, if one is given.
    pub fn new(seed: u64, device: &str, text: Option<&Path>) -> Self {
        Self { seed, device: device.to_owned(), text: text.map(Path::to_owned), next: 0 }
    }
}

impl Iterator for Experiments {
    type Item = Drawn;

    fn next(&mut self) -> Option<Drawn> {
        let family = &FAMILIES[self.next % FAMILIES.len()];
        let rng = Rng::new(self.seed, Stream::Data, self.next as u64);
        self.next += 1;
        let mut experiment = draw(family, Dice(rng), self.text.as_deref());
        if target::cuda_index(&self.device).is_some() {
            experiment.gpu = gpu(Dice(rng));
            if experiment.prune.kind == PruneKind::Channels && experiment.gpu.pool == PoolPolicy::Planned {
                experiment.gpu.pool = PoolPolicy::Grow;
            }
        }
        experiment.device.clone_from(&self.device);
        Some(Drawn { family: family.name, experiment, rng })
    }
}

/// Numbers of one experiment: each throw has a place of its own, so that a new one changes none of the others.
#[derive(Clone, Copy)]
struct Dice(Rng);

impl Dice {
    /// Draws a number from 0 to `n - 1`.
    fn below(self, place: u64, n: usize) -> usize {
        self.0.below(place, n)
    }

    fn one<T: Copy>(self, place: u64, of: &[T]) -> T {
        of[self.below(place, of.len())]
    }

    /// Whether one of `n` comes out.
    fn rarely(self, place: u64, n: usize) -> bool {
        self.below(place, n) == 0
    }
}

fn draw(family: &Family, dice: Dice, text: Option<&Path>) -> Experiment {
    let mut experiment = Experiment {
        precision: dice.one(5, &Precision::ALL),
        checkpointing: dice.one(
            6,
            &[
                Checkpointing::None,
                Checkpointing::Blocks,
                Checkpointing::Every(2),
                Checkpointing::Sqrt,
                Checkpointing::Percent(dice.below(30, 101) as u8),
                Checkpointing::Pick([1].into_iter().collect()),
            ],
        ),
        batch: Batch { micro: 2 + dice.below(7, 70), accumulation: 1 + dice.below(8, 4), ..Batch::default() },
        ..Experiment::default()
    };
    experiment.run.steps = Some(1 + dice.below(13, 3) as u64);
    experiment.run.seed = 3;
    experiment.data.kind = dice.one(11, &[DataKind::Digits, DataKind::Shapes]);
    (experiment.data.samples, experiment.data.classes) = (700, 2 + dice.below(12, 9));
    experiment.model.kind = family.kind;
    (family.sizes)(&mut experiment, dice);
    match (experiment.data.kind, text) {
        (DataKind::Text, Some(text)) => experiment.data.path = Some(text.to_owned()),
        (DataKind::Text, None) => experiment.data.kind = DataKind::Tokens,
        _ => {}
    }
    experiment.data.placement = match experiment.data.kind {
        // They are part of the program: there is nothing to stream them from.
        DataKind::Digits => dice.one(31, &[Placement::Host, Placement::Device]),
        DataKind::Table => Placement::Host,
        _ => dice.one(31, &[Placement::Streamed, Placement::Host, Placement::Device]),
    };
    kept(&mut experiment, dice);
    experiment.run.threads = dice.one(97, &[0, 0, 0, 1, 3]);
    experiment.optimizer.kind = dice.one(9, &OptimizerKind::ALL);
    experiment.recompute = dice.one(61, &[Recompute::None, Recompute::Cheap]);
    experiment.retain_graph = dice.one(62, &[false, false, true]);
    experiment.execution = dice.one(113, &[Execution::InPlace, Execution::InPlace, Execution::Eager]);
    experiment.frozen = dice.one(63, &[Frozen::None, Frozen::None, Frozen::Blocks(1), Frozen::AllButHead]);
    experiment.lora.rank = dice.one(64, &[0, 0, 0, 4]);
    if experiment.lora.rank > 0 && experiment.model.kind.is_decoder() {
        adapted(&mut experiment, dice);
    }
    if experiment.frozen != Frozen::All && dice.rarely(80, 4) {
        experiment.prune = pruned(dice);
        let learns_all = experiment.frozen == Frozen::None && experiment.lora.rank == 0;
        let can_thin = experiment.model.kind.has_channels() && experiment.optimizer.kind.keeps_state_by_weight();
        if learns_all && can_thin && !dice.rarely(87, 3) {
            (experiment.prune.kind, experiment.prune.begin_step) = (PruneKind::Channels, 0);
            experiment.run.steps = Some(2 + dice.below(88, 3) as u64);
        }
    }
    let can_be_integers = experiment.lora.rank == 0 && experiment.precision != Precision::F64;
    if can_be_integers && dice.rarely(110, 4) {
        integers(&mut experiment, dice);
    }
    if experiment.lora.rank == 0 && dice.rarely(87, 4) {
        experiment.low_rank.rank = dice.one(88, &[1, 2, 3, 5, 8]);
    }
    experiment.optimizer.clip_norm = dice.one(10, &[0.0, 1.0]);
    let several = EvaluationBatch::Samples(8 + dice.below(66, 200));
    experiment.batch.evaluation =
        dice.one(65, &[EvaluationBatch::Micro, EvaluationBatch::Micro, several, EvaluationBatch::Whole]);
    let needs_all = experiment.optimizer.clip_norm > 0.0 || experiment.precision == Precision::F16Mixed;
    if !needs_all && experiment.batch.accumulation == 1 {
        experiment.optimizer.update = UpdateTime::InBackward;
    }
    experiment
}

/// What is kept of streamed images.
fn kept(e: &mut Experiment, dice: Dice) {
    if e.data.placement != Placement::Streamed || !e.data.kind.can_keep() {
        return;
    }
    e.data.cache = dice.one(95, &[DataCache::None, DataCache::Decoded, DataCache::Augmented(2)]);
    e.data.flip = e.data.cache.copies().is_some();
    e.data.cache_in = dice.one(96, &CachePlace::ALL);
}

/// Draws adapters of a decoder, and the weights that they belong to.
fn adapted(e: &mut Experiment, dice: Dice) {
    let some = Targets::of(&[Projection::Q, Projection::V, Projection::Down]);
    e.lora.targets = dice.one(74, &[Targets::ALL, some]);
    e.lora.dropout = dice.one(75, &[0.0, 0.1]);
    e.lora.rslora = dice.rarely(76, 2);
    e.quantise.base = dice.one(77, &BaseWeights::ALL);
    if !e.quantise.base.is_none() {
        e.frozen = dice.one(78, &[Frozen::All, Frozen::AllButHead]);
    }
}

/// A trained model that becomes one of integers.
fn integers(e: &mut Experiment, dice: Dice) {
    e.quantise.kind = dice.one(111, &[QuantiseKind::After, QuantiseKind::Aware]);
    e.quantise.calibration = 1 + dice.below(112, 5);
    match e.quantise.kind {
        QuantiseKind::After if e.model.kind.is_decoder() => e.quantise.weights = dice.one(114, &CodedWeights::ALL),
        QuantiseKind::None | QuantiseKind::After => {}
        QuantiseKind::Aware => e.loss_chunk = 0,
    }
}

/// Weights that become zero, from the first update on or from a later one.
fn pruned(dice: Dice) -> Prune {
    Prune {
        kind: dice.one(81, &[PruneKind::Magnitude, PruneKind::Magnitude, PruneKind::Groups]),
        scope: dice.one(82, &PruneScope::ALL),
        schedule: dice.one(83, &PruneSchedule::ALL),
        initial_sparsity: dice.one(84, &[0.0, 0.2]),
        n: 1 + dice.below(85, 2),
        begin_step: dice.below(86, 2) as u64,
        every: 1,
        ..Prune::default()
    }
}

/// What is chosen of a GPU's memory and arithmetic.
fn gpu(dice: Dice) -> Gpu {
    Gpu {
        pool: dice.one(70, &PoolPolicy::ALL),
        workspace: dice.one(71, &[Bytes::ZERO, Bytes::mib(1), Bytes::mib(32)]),
        tf32: dice.rarely(72, 3),
        deterministic: !dice.rarely(73, 4),
    }
}

/// Draws an activation, mostly ReLU.
fn activation(dice: Dice) -> ActivationKind {
    if dice.rarely(90, 3) { dice.one(91, &ActivationKind::ALL) } else { ActivationKind::Relu }
}

fn mlp(e: &mut Experiment, dice: Dice) {
    e.model = Model {
        width: 1 + dice.below(1, 300),
        depth: 1 + dice.below(2, 6),
        activation: activation(dice),
        ..Model::default()
    };
    if dice.rarely(92, 3) {
        // Classes and values.
        (e.data.kind, e.data.path) = (DataKind::Table, Some(PathBuf::from("shipped:ships.csv")));
        dice.one(93, &["type", "port", "built", "deadweight_t"]).clone_into(&mut e.data.label);
    }
}

/// A deep MLP that consists mostly of bookkeeping.
fn deep_mlp(e: &mut Experiment, dice: Dice) {
    e.model = Model { width: 2, depth: 300 + dice.below(15, 500), ..Model::default() };
}

fn cnn(e: &mut Experiment, dice: Dice) {
    e.model = Model {
        kind: e.model.kind,
        width: 1 + dice.below(1, 24),
        depth: 1 + dice.below(2, 3),
        kernel: dice.one(3, &[1, 3, 5, 7]),
        dense: 1 + dice.below(4, 100),
        activation: activation(dice),
        ..Model::default()
    };
}

fn resnet(e: &mut Experiment, dice: Dice) {
    e.model = Model { kind: e.model.kind, ..Model::default() };
    e.batch = Batch { micro: 2 + dice.below(7, 6), accumulation: 1 + dice.below(8, 2), ..Batch::default() };
    e.data.side = 12 + dice.below(1, 9);
}

fn mobilenet(e: &mut Experiment, dice: Dice) {
    e.model = Model { kind: e.model.kind, multiplier: dice.0.range(18, 0.1, 0.4), ..Model::default() };
    e.batch.micro = 2 + dice.below(7, 20);
    if dice.rarely(19, 2) {
        e.data.side = 12 + dice.below(1, 21);
    }
}

/// Draws heads of 4 to 16 numbers, and as many of them as `width` then has.
fn attention(e: &mut Experiment, dice: Dice) {
    let heads = dice.one(40, &[1, 2, 4]);
    e.model.heads = heads;
    e.model.width = heads * dice.one(41, &[4, 6, 16]);
    e.model.attention = dice.one(42, &[AttentionKind::Plain, AttentionKind::Efficient]);
    e.model.hidden = 1 + dice.below(43, 100);
    e.model.depth = 1 + dice.below(2, 4);
    e.model.dropout = dice.one(44, &[0.0, 0.1]);
}

fn patches(e: &mut Experiment, dice: Dice) {
    attention(e, dice);
    e.model.patch = dice.one(45, &[2, 4]);
    (e.data.kind, e.data.side) = (dice.one(11, &[DataKind::Digits, DataKind::Shapes]), 12 + 4 * dice.below(46, 3));
    e.batch.micro = 2 + dice.below(7, 30);
}

fn decoder(e: &mut Experiment, dice: Dice) {
    attention(e, dice);
    e.model.kv_heads = dice.one(47, &[1, e.model.heads]);
    e.model.window = dice.one(48, &[0, 0, 3]);
    e.model.tied = dice.rarely(49, 2);
    e.data.kind =
        dice.one(50, &[DataKind::Modular, DataKind::Sort, DataKind::Brackets, DataKind::Tokens, DataKind::Text]);
    // Even, for brackets.
    e.data.length = 10 + 2 * dice.below(51, 12);
    e.data.vocabulary = dice.one(52, &[10, 300, 5000]);
    e.data.modulus = 30 + dice.below(53, 30);
    e.batch.micro = 2 + dice.below(7, 30);
}

/// A CNN as deep as the side of its images allows.
fn deep_cnn(e: &mut Experiment, dice: Dice) {
    cnn(e, dice);
    (e.model.width, e.model.depth, e.model.dense) = (1, 6, 1 + dice.below(4, 4));
    (e.data.kind, e.data.side) = (DataKind::Shapes, 64 + dice.below(46, 9));
    e.batch.micro = 2;
}

/// Mostly bookkeeping: many blocks of small tensors.
fn deep(e: &mut Experiment, dice: Dice, family: fn(&mut Experiment, Dice)) {
    family(e, dice);
    let model = &mut e.model;
    model.width = model.heads * 4;
    (model.hidden, model.depth) = (1 + dice.below(43, 8), 24 + dice.below(15, 80));
    e.data.length = 10;
    e.data.vocabulary = e.data.vocabulary.min(300);
    e.batch.micro = 1 + dice.below(7, 2);
}

fn deep_unet(e: &mut Experiment, dice: Dice) {
    unet(e, dice);
    (e.model.width, e.model.depth, e.data.side) = (1, 4, 32);
    e.batch.micro = 2;
}

fn unet(e: &mut Experiment, dice: Dice) {
    let depth = 1 + dice.below(2, 3);
    e.model = Model { kind: e.model.kind, width: 1 + dice.below(1, 8), depth, ..Model::default() };
    (e.data.kind, e.data.side) = (DataKind::Masks, 16 + 8 * dice.below(46, 2));
    e.batch.micro = 2 + dice.below(7, 8);
}
