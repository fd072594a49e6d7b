//! The selftest's choices for each family of models: the data of its steps, the models whose gradients are compared, and the
//! sizes that are drawn.
//!
//! Always holds: every family is in each of the three.

use std::path::PathBuf;

use super::experiments::Dice;
use crate::{
    data::{DatasetInfo, Input},
    experiment::{
        ActivationKind, AttentionKind, BaseWeights, Batch, DataKind, Experiment, Frozen, LabelKind, Lora, Model,
        ModelKind, Projection, Targets, Task,
    },
};

const IMAGES: DatasetInfo = DatasetInfo::one_label(Input::Image { height: 12, width: 12, channels: 3 }, 5, 100, 20);
const TOKENS: DatasetInfo = DatasetInfo::label_each_token(20, 50, 100, 20);
const MASKS: DatasetInfo = DatasetInfo { labels_per_sample: 144, scored_labels: 144, ..IMAGES };

/// Every family with small data, on which its steps are tried.
pub(super) const KINDS: [(ModelKind, DatasetInfo); ModelKind::ALL.len()] = [
    (ModelKind::Mlp, IMAGES),
    (ModelKind::Cnn, IMAGES),
    (ModelKind::Sepcnn, IMAGES),
    (ModelKind::Mobilenetv2, IMAGES),
    (ModelKind::Vit, IMAGES),
    (ModelKind::Mixer, IMAGES),
    (ModelKind::Gpt2, TOKENS),
    (ModelKind::Llama, TOKENS),
    (ModelKind::Unet, MASKS),
    (ModelKind::Mobilenetv1, IMAGES),
    (ModelKind::Resnet, IMAGES),
];

/// A small experiment of a family.
pub(super) fn small(kind: ModelKind) -> Experiment {
    let mut experiment = Experiment::default();
    let model = &mut experiment.model;
    (model.kind, model.width, model.multiplier, model.patch) = (kind, 24, 0.25, 4);
    (model.hidden, model.heads, model.kv_heads) = (40, 6, 2);
    // The largest of all has few samples: alone it took a third of the whole check.
    let (micro, accumulation) = if kind == ModelKind::Resnet { (3, 1) } else { (10, 2) };
    experiment.batch = Batch { micro, accumulation, ..Batch::default() };
    experiment
}

/// A model with its data, and its trained part.
pub(super) type Sloped = (Model, DatasetInfo, Frozen, Lora, BaseWeights);

/// The models of a family whose gradients are compared with differences: whole, frozen in part, with adapters, with other
/// choices.
pub(super) fn sloped(kind: ModelKind) -> Vec<Sloped> {
    let adapters = Lora { rank: 2, alpha: 3.0, ..Lora::default() };
    let network = || Model { kind, width: 5, depth: 3, dense: 6, multiplier: 0.1, ..Model::default() };
    let case = |info, frozen, lora| (network(), info, frozen, lora, BaseWeights::None);
    let whole = |model, info| (model, info, Frozen::None, Lora::default(), BaseWeights::None);
    let with = |attention| attending(kind, attention);
    let (plain, efficient) = (AttentionKind::Plain, AttentionKind::Efficient);
    let patches = image(4, 6, 2);
    match kind {
        ModelKind::Mlp => vec![
            whole(network(), image(3, 3, 2)),
            case(image(3, 3, 2), Frozen::None, adapters),
            case(image(3, 3, 2), Frozen::All, adapters),
            whole(network(), DatasetInfo { label: LabelKind::Value, classes: 1, ..image(1, 1, 7) }),
        ],
        ModelKind::Cnn => {
            vec![whole(network(), image(9, 9, 2)), case(image(9, 9, 2), Frozen::AllButHead, adapters)]
        }
        ModelKind::Sepcnn => vec![whole(network(), image(7, 7, 3))],
        // Its layers are those of a CNN and of the second MobileNet.
        ModelKind::Resnet => Vec::new(),
        ModelKind::Mobilenetv1 => {
            vec![whole(network(), image(9, 9, 2)), case(image(9, 9, 2), Frozen::Blocks(12), Lora::default())]
        }
        ModelKind::Mobilenetv2 => vec![whole(network(), image(9, 9, 2))],
        ModelKind::Vit => vec![whole(with(efficient), patches), whole(with(plain), patches)],
        ModelKind::Mixer => vec![whole(with(plain), patches)],
        ModelKind::Gpt2 => {
            vec![whole(with(plain), tokens()), whole(Model { tied: true, ..with(efficient) }, tokens())]
        }
        ModelKind::Llama => vec![
            whole(Model { window: 2, tied: true, ..with(efficient) }, tokens()),
            whole(Model { qkv_bias: true, ..with(plain) }, tokens()),
            whole(Model { qk_norm: true, head_dim: 6, ..with(efficient) }, tokens()),
            (
                with(efficient),
                tokens(),
                Frozen::All,
                Lora { targets: Targets::of(&[Projection::Q, Projection::V, Projection::Up]), ..adapters },
                BaseWeights::Nf4Double,
            ),
        ],
        ModelKind::Unet => {
            let masks = DatasetInfo { labels_per_sample: 32, scored_labels: 32, classes: 3, ..image(4, 8, 2) };
            vec![whole(Model { kind, width: 3, depth: 2, ..Model::default() }, masks)]
        }
    }
}

/// Images with one label.
fn image(height: usize, width: usize, channels: usize) -> DatasetInfo {
    DatasetInfo::one_label(Input::Image { height, width, channels }, 4, 8, 4)
}

/// Sequences with a label a token.
fn tokens() -> DatasetInfo {
    DatasetInfo::label_each_token(5, 7, 8, 4)
}

/// A transformer or a mixer.
fn attending(kind: ModelKind, attention: AttentionKind) -> Model {
    Model {
        kind,
        attention,
        width: 8,
        depth: 3,
        heads: 2,
        kv_heads: 1,
        hidden: 6,
        patch: 2,
        tied: false,
        ..Model::default()
    }
}

/// A kind of model and of data, and how its sizes are drawn.
pub(super) struct Family {
    pub(super) name: &'static str,
    pub(super) kind: ModelKind,
    pub(super) sizes: fn(&mut Experiment, Dice),
}

/// Every family, drawn in turn.
pub(super) const FAMILIES: &[Family] = &[
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

/// Every family has steps and is drawn.
const _: () = {
    let mut at = 0;
    while at < ModelKind::ALL.len() {
        let kind = ModelKind::ALL[at] as usize;
        let (mut steps, mut family) = (0, 0);
        while KINDS[steps].0 as usize != kind {
            steps += 1;
            assert!(steps < KINDS.len(), "a family has no steps");
        }
        while FAMILIES[family].kind as usize != kind {
            family += 1;
            assert!(family < FAMILIES.len(), "a family is not drawn");
        }
        at += 1;
    }
};

/// The kinds of data of a task that ship or are generated. Those on a disk are not drawn, because their files are not on every
/// machine. Exceptions are the table that ships, and text if a file is given.
pub(super) fn made(task: Task, has_pictures: bool) -> Vec<DataKind> {
    let is_made = |kind: &DataKind| {
        let traits = kind.traits();
        traits.path.is_none() && traits.task == task && traits.has_pictures == has_pictures
    };
    DataKind::ALL.into_iter().filter(is_made).collect()
}

/// Mostly ReLU.
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
    } else if dice.rarely(115, 4) {
        e.data.kind = dice.one(116, &made(Task::Class, false));
    }
}

/// Mostly bookkeeping.
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
    e.model = Model { kind: e.model.kind, multiplier: dice.range(18, 0.1, 0.4), ..Model::default() };
    e.batch.micro = 2 + dice.below(7, 20);
    if dice.rarely(19, 2) {
        e.data.side = 12 + dice.below(1, 21);
    }
}

/// Heads of 4 to 16 numbers, and as many of them as `width` then has.
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
    (e.data.kind, e.data.side) = (dice.one(11, &made(Task::Class, true)), 12 + 4 * dice.below(46, 3));
    e.batch.micro = 2 + dice.below(7, 30);
}

fn decoder(e: &mut Experiment, dice: Dice) {
    attention(e, dice);
    e.model.kv_heads = dice.one(47, &[1, e.model.heads]);
    e.model.window = dice.one(48, &[0, 0, 3]);
    e.model.tied = dice.rarely(49, 2);
    let kinds: Vec<DataKind> = made(Task::Next, false).into_iter().chain([DataKind::Text]).collect();
    e.data.kind = dice.one(50, &kinds);
    // Even, for brackets.
    e.data.length = 10 + 2 * dice.below(51, 12);
    e.data.vocabulary = dice.one(52, &[10, 300, 5000]);
    e.data.modulus = 30 + dice.below(53, 30);
    e.batch.micro = 2 + dice.below(7, 30);
}

/// As deep as the side of its images allows.
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
    (e.data.kind, e.data.side) = (dice.one(117, &made(Task::Mask, true)), 16 + 8 * dice.below(46, 2));
    e.batch.micro = 2 + dice.below(7, 8);
}
