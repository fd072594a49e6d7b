//! Random experiments: every family with every precision, checkpointing, optimizer and budget that can come out.

use plimsoll_engine::{
    Experiment,
    experiment::{
        Batch, Checkpointing, DataKind, Frozen, Model, ModelKind, OptimizerKind, Outputs, Precision, TapeUse,
        UpdateTime,
    },
    rng::Rng,
};

/// A kind of model and of data, and how its sizes are drawn: small enough to train in a moment.
pub(crate) struct Family {
    pub(crate) name: &'static str,
    sizes: fn(&mut Experiment, Dice),
}

/// Every family, drawn in turn.
pub(crate) const FAMILIES: &[Family] = &[
    Family { name: "mlp", sizes: mlp },
    Family { name: "mlp, deep and narrow", sizes: deep_mlp },
    Family { name: "cnn", sizes: |e, dice| cnn(e, dice, ModelKind::Cnn) },
    Family { name: "sepcnn", sizes: |e, dice| cnn(e, dice, ModelKind::Sepcnn) },
    Family { name: "resnet-18", sizes: resnet },
    Family { name: "mobilenetv1", sizes: |e, dice| mobilenet(e, dice, ModelKind::Mobilenetv1) },
    Family { name: "mobilenetv2", sizes: |e, dice| mobilenet(e, dice, ModelKind::Mobilenetv2) },
];

const OPTIMIZERS: &[OptimizerKind] = &[
    OptimizerKind::Sgd,
    OptimizerKind::Momentum,
    OptimizerKind::Nesterov,
    OptimizerKind::Adam,
    OptimizerKind::Adamw,
    OptimizerKind::Lion,
    OptimizerKind::Adafactor,
    OptimizerKind::Adamw8bit,
];

/// Numbers of one experiment: each throw has a place of its own, so that a new one changes none of the others.
#[derive(Clone, Copy)]
pub(crate) struct Dice(pub(crate) Rng);

impl Dice {
    /// From 0 to `n - 1`.
    pub(crate) fn below(self, place: u64, n: usize) -> usize {
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

/// Draws one experiment of a family.
pub(crate) fn draw(family: &Family, rng: Rng) -> Experiment {
    let dice = Dice(rng);
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
        batch: Batch { micro: 2 + dice.below(7, 70), accumulation: 1 + dice.below(8, 4) },
        ..Experiment::default()
    };
    experiment.run.steps = Some(1 + dice.below(13, 3) as u64);
    experiment.run.seed = 3;
    experiment.data.kind = dice.one(11, &[DataKind::Digits, DataKind::Shapes]);
    (experiment.data.samples, experiment.data.classes) = (700, 2 + dice.below(12, 9));
    (family.sizes)(&mut experiment, dice);
    experiment.optimizer.kind = dice.one(9, OPTIMIZERS);
    experiment.outputs = dice.one(31, &[Outputs::Kept, Outputs::MadeAgain]);
    experiment.tape = dice.one(32, &[TapeUse::Frees, TapeUse::Frees, TapeUse::Held]);
    experiment.frozen = dice.one(33, &[Frozen::None, Frozen::None, Frozen::Blocks(1), Frozen::AllButHead]);
    experiment.lora.rank = dice.one(34, &[0, 0, 0, 4]);
    experiment.optimizer.clip_norm = dice.one(10, &[0.0, 1.0]);
    let needs_all = experiment.optimizer.clip_norm > 0.0 || experiment.precision == Precision::F16Mixed;
    if !needs_all && experiment.batch.accumulation == 1 {
        experiment.optimizer.update = UpdateTime::InBackward;
    }
    experiment
}

fn mlp(e: &mut Experiment, dice: Dice) {
    e.model = Model { width: 1 + dice.below(1, 300), depth: 1 + dice.below(2, 6), ..Model::default() };
}

/// Mostly bookkeeping.
fn deep_mlp(e: &mut Experiment, dice: Dice) {
    e.model = Model { width: 2, depth: 300 + dice.below(15, 500), ..Model::default() };
}

fn cnn(e: &mut Experiment, dice: Dice, kind: ModelKind) {
    e.model = Model {
        kind,
        width: 1 + dice.below(1, 24),
        depth: 1 + dice.below(2, 3),
        kernel: dice.one(3, &[1, 3, 5, 7]),
        dense: 1 + dice.below(4, 100),
        ..Model::default()
    };
}

fn resnet(e: &mut Experiment, dice: Dice) {
    e.model = Model { kind: ModelKind::Resnet, ..Model::default() };
    e.batch = Batch { micro: 2 + dice.below(7, 6), accumulation: 1 + dice.below(8, 2) };
    e.data.side = 12 + dice.below(1, 9);
}

fn mobilenet(e: &mut Experiment, dice: Dice, kind: ModelKind) {
    e.model = Model { kind, multiplier: dice.0.range(18, 0.1, 0.4), ..Model::default() };
    e.batch.micro = 2 + dice.below(7, 20);
    if dice.rarely(19, 2) {
        e.data.side = 12 + dice.below(1, 21);
    }
}
