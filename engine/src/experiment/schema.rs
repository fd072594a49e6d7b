//! The keys of the preset format: their order, their types, and which of them an experiment uses.
//!
//! Owns the one table that reading, writing and setting go by, so that no key can be read and not written. Always
//! holds: every name in [`KEYS`] has a [`slot`]. Refuses nothing: values are judged in `preset` (types) and `check`
//! (sense).

use std::path::PathBuf;

use crate::{
    bytes::Bytes,
    experiment::{
        AttentionKind, Checkpointing, DataKind, DataSetting, Experiment, Frozen, Hyperparameter, ModelKind,
        OptimizerKind, Outputs, Placement, PoolPolicy, Precision, Schedule, Stem, TapeUse, Task, UpdateTime,
    },
};

/// Every key, in the order it is written. A dot parts the group from the key in it.
pub(super) const KEYS: &[&str] = &[
    "version",
    "title",
    "description",
    "budget",
    "device",
    "precision",
    "checkpointing",
    "loss_chunk",
    "outputs",
    "tape",
    "frozen",
    "gpu.pool",
    "gpu.workspace",
    "gpu.tf32",
    "gpu.deterministic",
    "model.kind",
    "model.width",
    "model.depth",
    "model.kernel",
    "model.dense",
    "model.layers",
    "model.multiplier",
    "model.stem",
    "model.heads",
    "model.kv_heads",
    "model.hidden",
    "model.patch",
    "model.tied",
    "model.qkv_bias",
    "model.dropout",
    "model.attention",
    "model.window",
    "model.rotary_base",
    "data.kind",
    "data.path",
    "data.side",
    "data.classes",
    "data.samples",
    "data.length",
    "data.vocabulary",
    "data.modulus",
    "data.test_fraction",
    "data.placement",
    "data.flip",
    "data.crop",
    "data.colour",
    "batch.micro",
    "batch.accumulation",
    "optimizer.kind",
    "optimizer.update",
    "optimizer.learning_rate",
    "optimizer.weight_decay",
    "optimizer.momentum",
    "optimizer.beta1",
    "optimizer.beta2",
    "optimizer.epsilon",
    "optimizer.clip_norm",
    "optimizer.warmup_steps",
    "optimizer.schedule",
    "lora.rank",
    "lora.alpha",
    "run.steps",
    "run.epochs",
    "run.seed",
    "run.evaluate_every",
];

/// The field behind a key.
pub(super) enum Slot<'a> {
    Version(&'a mut u32),
    Flag(&'a mut bool),
    Count(&'a mut usize),
    Number(&'a mut f64),
    Steps(&'a mut u64),
    MaybeSteps(&'a mut Option<u64>),
    Text(&'a mut String),
    Path(&'a mut Option<PathBuf>),
    Size(&'a mut Bytes),
    Checkpointing(&'a mut Checkpointing),
    Frozen(&'a mut Frozen),
    Word(Box<dyn Word + 'a>),
}

/// A field that is one of a few words.
pub(super) trait Word {
    /// The words it may be.
    fn words(&self) -> Vec<&'static str>;
    /// The word it is.
    fn now(&self) -> &'static str;
    /// Makes it `word`; false when that is none of the words.
    fn choose(&mut self, word: &str) -> bool;
}

struct Choice<'a, T: 'static> {
    field: &'a mut T,
    table: &'static [(&'static str, T)],
}

impl<T: Copy + PartialEq> Word for Choice<'_, T> {
    fn words(&self) -> Vec<&'static str> {
        self.table.iter().map(|(word, _)| *word).collect()
    }

    fn now(&self) -> &'static str {
        self.table.iter().find(|(_, value)| value == self.field).map_or("", |(word, _)| *word)
    }

    fn choose(&mut self, word: &str) -> bool {
        let found = self.table.iter().find(|(known, _)| *known == word);
        if let Some((_, value)) = found {
            *self.field = *value;
        }
        found.is_some()
    }
}

const MODELS: &[(&str, ModelKind)] = &[
    ("mlp", ModelKind::Mlp),
    ("cnn", ModelKind::Cnn),
    ("sepcnn", ModelKind::Sepcnn),
    ("resnet", ModelKind::Resnet),
    ("mobilenetv1", ModelKind::Mobilenetv1),
    ("mobilenetv2", ModelKind::Mobilenetv2),
    ("vit", ModelKind::Vit),
    ("mixer", ModelKind::Mixer),
    ("gpt2", ModelKind::Gpt2),
    ("llama", ModelKind::Llama),
    ("unet", ModelKind::Unet),
];
const ATTENTIONS: &[(&str, AttentionKind)] =
    &[("plain", AttentionKind::Plain), ("efficient", AttentionKind::Efficient)];
const STEMS: &[(&str, Stem)] = &[("small", Stem::Small), ("imagenet", Stem::Imagenet)];
const DATA: &[(&str, DataKind)] = &[
    ("digits", DataKind::Digits),
    ("shapes", DataKind::Shapes),
    ("idx", DataKind::Idx),
    ("cifar10", DataKind::Cifar10),
    ("cifar100", DataKind::Cifar100),
    ("images", DataKind::Images),
    ("masks", DataKind::Masks),
    ("modular", DataKind::Modular),
    ("sort", DataKind::Sort),
    ("brackets", DataKind::Brackets),
    ("text", DataKind::Text),
    ("tokens", DataKind::Tokens),
];
const PLACEMENTS: &[(&str, Placement)] =
    &[("streamed", Placement::Streamed), ("host", Placement::Host), ("device", Placement::Device)];
const OPTIMIZERS: &[(&str, OptimizerKind)] = &[
    ("sgd", OptimizerKind::Sgd),
    ("momentum", OptimizerKind::Momentum),
    ("nesterov", OptimizerKind::Nesterov),
    ("adam", OptimizerKind::Adam),
    ("adamw", OptimizerKind::Adamw),
    ("adamw8bit", OptimizerKind::Adamw8bit),
    ("adafactor", OptimizerKind::Adafactor),
    ("lion", OptimizerKind::Lion),
];
const UPDATES: &[(&str, UpdateTime)] =
    &[("after-backward", UpdateTime::AfterBackward), ("in-backward", UpdateTime::InBackward)];
const SCHEDULES: &[(&str, Schedule)] = &[("constant", Schedule::Constant), ("cosine", Schedule::Cosine)];
const OUTPUTS: &[(&str, Outputs)] = &[("kept", Outputs::Kept), ("made-again", Outputs::MadeAgain)];
const TAPES: &[(&str, TapeUse)] = &[("frees", TapeUse::Frees), ("held", TapeUse::Held)];
const POOLS: &[(&str, PoolPolicy)] =
    &[("grow", PoolPolicy::Grow), ("give-back", PoolPolicy::GiveBack), ("reserve", PoolPolicy::Reserve)];
const PRECISIONS: &[(&str, Precision)] = &[
    ("f32", Precision::F32),
    ("bf16-mixed", Precision::Bf16Mixed),
    ("f16-mixed", Precision::F16Mixed),
    ("bf16", Precision::Bf16),
    ("f64", Precision::F64),
];

fn word<'a, T: Copy + PartialEq>(field: &'a mut T, table: &'static [(&'static str, T)]) -> Slot<'a> {
    Slot::Word(Box::new(Choice { field, table }))
}

/// The field behind `key`; `None` for a name that is no key.
pub(super) fn slot<'a>(e: &'a mut Experiment, key: &str) -> Option<Slot<'a>> {
    Some(match key {
        "version" => Slot::Version(&mut e.version),
        "title" => Slot::Text(&mut e.title),
        "description" => Slot::Text(&mut e.description),
        "budget" => Slot::Size(&mut e.budget),
        "device" => Slot::Text(&mut e.device),
        "gpu.pool" => word(&mut e.gpu.pool, POOLS),
        "gpu.workspace" => Slot::Size(&mut e.gpu.workspace),
        "gpu.tf32" => Slot::Flag(&mut e.gpu.tf32),
        "gpu.deterministic" => Slot::Flag(&mut e.gpu.deterministic),
        "precision" => word(&mut e.precision, PRECISIONS),
        "checkpointing" => Slot::Checkpointing(&mut e.checkpointing),
        "loss_chunk" => Slot::Count(&mut e.loss_chunk),
        "outputs" => word(&mut e.outputs, OUTPUTS),
        "tape" => word(&mut e.tape, TAPES),
        "frozen" => Slot::Frozen(&mut e.frozen),
        "lora.rank" => Slot::Count(&mut e.lora.rank),
        "lora.alpha" => Slot::Number(&mut e.lora.alpha),
        "model.kind" => word(&mut e.model.kind, MODELS),
        "model.width" => Slot::Count(&mut e.model.width),
        "model.depth" => Slot::Count(&mut e.model.depth),
        "model.kernel" => Slot::Count(&mut e.model.kernel),
        "model.dense" => Slot::Count(&mut e.model.dense),
        "model.layers" => Slot::Count(&mut e.model.layers),
        "model.multiplier" => Slot::Number(&mut e.model.multiplier),
        "model.stem" => word(&mut e.model.stem, STEMS),
        "model.heads" => Slot::Count(&mut e.model.heads),
        "model.kv_heads" => Slot::Count(&mut e.model.kv_heads),
        "model.hidden" => Slot::Count(&mut e.model.hidden),
        "model.patch" => Slot::Count(&mut e.model.patch),
        "model.tied" => Slot::Flag(&mut e.model.tied),
        "model.qkv_bias" => Slot::Flag(&mut e.model.qkv_bias),
        "model.dropout" => Slot::Number(&mut e.model.dropout),
        "model.attention" => word(&mut e.model.attention, ATTENTIONS),
        "model.window" => Slot::Count(&mut e.model.window),
        "model.rotary_base" => Slot::Number(&mut e.model.rotary_base),
        "data.kind" => word(&mut e.data.kind, DATA),
        "data.path" => Slot::Path(&mut e.data.path),
        "data.side" => Slot::Count(&mut e.data.side),
        "data.classes" => Slot::Count(&mut e.data.classes),
        "data.samples" => Slot::Count(&mut e.data.samples),
        "data.length" => Slot::Count(&mut e.data.length),
        "data.vocabulary" => Slot::Count(&mut e.data.vocabulary),
        "data.modulus" => Slot::Count(&mut e.data.modulus),
        "data.test_fraction" => Slot::Number(&mut e.data.test_fraction),
        "data.placement" => word(&mut e.data.placement, PLACEMENTS),
        "data.flip" => Slot::Flag(&mut e.data.flip),
        "data.crop" => Slot::Count(&mut e.data.crop),
        "data.colour" => Slot::Number(&mut e.data.colour),
        "batch.micro" => Slot::Count(&mut e.batch.micro),
        "batch.accumulation" => Slot::Count(&mut e.batch.accumulation),
        "optimizer.kind" => word(&mut e.optimizer.kind, OPTIMIZERS),
        "optimizer.update" => word(&mut e.optimizer.update, UPDATES),
        "optimizer.learning_rate" => Slot::Number(&mut e.optimizer.learning_rate),
        "optimizer.weight_decay" => Slot::Number(&mut e.optimizer.weight_decay),
        "optimizer.momentum" => Slot::Number(&mut e.optimizer.momentum),
        "optimizer.beta1" => Slot::Number(&mut e.optimizer.beta1),
        "optimizer.beta2" => Slot::Number(&mut e.optimizer.beta2),
        "optimizer.epsilon" => Slot::Number(&mut e.optimizer.epsilon),
        "optimizer.clip_norm" => Slot::Number(&mut e.optimizer.clip_norm),
        "optimizer.warmup_steps" => Slot::Steps(&mut e.optimizer.warmup_steps),
        "optimizer.schedule" => word(&mut e.optimizer.schedule, SCHEDULES),
        "run.steps" => Slot::MaybeSteps(&mut e.run.steps),
        "run.epochs" => Slot::MaybeSteps(&mut e.run.epochs),
        "run.seed" => Slot::Steps(&mut e.run.seed),
        "run.evaluate_every" => Slot::Steps(&mut e.run.evaluate_every),
        _ => return None,
    })
}

/// The words of the models that learn `task`, and of the data that teach it.
pub(super) fn kinds_for(task: Task) -> [Vec<&'static str>; 2] {
    let models = MODELS.iter().filter(|(_, kind)| kind.task() == task).map(|(word, _)| *word);
    let data = DATA.iter().filter(|(_, kind)| kind.task() == task).map(|(word, _)| *word);
    [models.collect(), data.collect()]
}

/// Whether the kinds that `e` chooses make use of `key`.
pub(super) fn is_used(e: &Experiment, key: &str) -> bool {
    match key {
        // What is off needs no line; without a device, a preset is for whichever is chosen.
        "device" => e.device != "cpu",
        "loss_chunk" => e.loss_chunk > 0,
        "outputs" => e.outputs != Outputs::Kept,
        "tape" => e.tape != TapeUse::Frees,
        "frozen" => e.frozen != Frozen::None,
        "lora.rank" | "lora.alpha" => e.lora.rank > 0,
        "gpu.pool" | "gpu.workspace" | "gpu.tf32" | "gpu.deterministic" => e.device != "cpu",
        "model.width" | "model.depth" => !e.model.kind.has_stem(),
        "model.kernel" | "model.dense" => e.model.kind.is_plain_cnn(),
        "model.layers" => e.model.kind == ModelKind::Resnet,
        "model.multiplier" => matches!(e.model.kind, ModelKind::Mobilenetv1 | ModelKind::Mobilenetv2),
        "model.stem" => e.model.kind.has_stem(),
        "model.heads" | "model.attention" => e.model.kind.has_attention(),
        "model.kv_heads" | "model.rotary_base" => e.model.kind == ModelKind::Llama,
        "model.qkv_bias" => e.model.kind == ModelKind::Llama && e.model.qkv_bias,
        "model.hidden" => e.model.kind.has_feed_forward(),
        "model.patch" => e.model.kind.has_patches(),
        "model.tied" => e.model.kind.is_decoder(),
        "model.dropout" => e.model.kind.has_feed_forward() && e.model.dropout != 0.0,
        "model.window" => e.model.kind.is_decoder() && e.model.window > 0,
        "data.path" => e.data.kind.is_on_disk(),
        "data.side" => e.data.kind.has_side(),
        "data.classes" => e.data.kind.uses(DataSetting::Classes),
        "data.samples" => e.data.kind.has_samples(),
        "data.length" => e.data.kind.has_length(),
        "data.vocabulary" => e.data.kind.has_vocabulary(),
        "data.modulus" => e.data.kind.uses(DataSetting::Modulus),
        // What is off, or as ever, needs no line.
        "data.placement" => e.data.placement != Placement::Host,
        "data.flip" => e.data.flip,
        "data.crop" => e.data.crop > 0,
        "data.colour" => e.data.colour != 0.0,
        "data.test_fraction" => e.data.kind.is_split(),
        "optimizer.momentum" => e.optimizer.kind.has(Hyperparameter::Momentum),
        "optimizer.beta1" => e.optimizer.kind.has(Hyperparameter::Beta1),
        "optimizer.beta2" => e.optimizer.kind.has(Hyperparameter::Beta2),
        "optimizer.epsilon" => e.optimizer.kind.has(Hyperparameter::Epsilon),
        _ => true,
    }
}

/// The keys of a group (`""` for the top), and the groups themselves at the top.
pub(super) fn names_in(group: &str) -> Vec<&'static str> {
    let mut names: Vec<&str> = KEYS
        .iter()
        .filter_map(|key| match key.split_once('.') {
            None => group.is_empty().then_some(*key),
            Some((of, name)) if of == group => Some(name),
            Some((of, _)) => group.is_empty().then_some(of),
        })
        .collect();
    names.dedup();
    names
}

/// Whether `name` is a group.
pub(super) fn is_group(name: &str) -> bool {
    KEYS.iter().any(|key| key.split_once('.').is_some_and(|(group, _)| group == name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suggest::nearest;

    #[test]
    fn every_key_has_a_field() {
        let mut experiment = Experiment::default();
        for key in KEYS {
            assert!(slot(&mut experiment, key).is_some(), "{key}");
        }
    }

    #[test]
    fn a_slip_of_the_finger_finds_its_key() {
        assert_eq!(nearest("mirco", names_in("batch")), Some("micro"));
        assert_eq!(nearest("modle", names_in("")), Some("model"));
        assert_eq!(nearest("zzzz", names_in("")), None);
    }
}
