//! Each rule, and the setting that it blames.

use super::*;
use crate::{
    bytes::Bytes,
    experiment::{BaseWeights, DataKind, Input, ModelKind, Projection, Targets},
};

const DIGITS: DatasetInfo = DatasetInfo::one_label(Input::Image { height: 8, width: 8, channels: 1 }, 10, 1438, 359);

fn problems(change: impl FnOnce(&mut Experiment)) -> Vec<Problem> {
    let mut experiment = Experiment::default();
    change(&mut experiment);
    check(&experiment, Some(&DIGITS))
}

#[track_caller]
fn blames(key: &str, change: impl FnOnce(&mut Experiment)) {
    let found = problems(change);
    assert_eq!(found.iter().map(|p| p.key.as_str()).collect::<Vec<_>>(), [key], "{found:?}");
    assert!(!found[0].mend.is_empty());
}

#[test]
fn the_default_has_no_problem() {
    assert_eq!(problems(|_| {}), []);
}

#[test]
fn each_impossible_value_is_blamed_on_its_key() {
    blames("version", |e| e.version = VERSION + 1);
    blames("budget", |e| e.budget = Bytes(0));
    blames("budget", |e| e.budget = Bytes(u64::MAX));
    blames("device", |e| e.device = "toaster".to_owned());
    blames("gpu.workspace", |e| (e.device, e.gpu.workspace) = ("cuda:0".to_owned(), Bytes::gib(65)));
    blames("checkpointing", |e| e.checkpointing = Checkpointing::Every(0));
    blames("frozen", |e| e.frozen = Frozen::Blocks(3));
    blames("frozen", |e| e.frozen = Frozen::All);
    blames("lora.alpha", |e| (e.lora.rank, e.lora.alpha) = (4, f64::NAN));
    blames("optimizer.update", |e| (e.optimizer.update, e.optimizer.clip_norm) = (UpdateTime::InBackward, 1.0));
    blames("optimizer.update", |e| (e.optimizer.update, e.batch.accumulation) = (UpdateTime::InBackward, 2));
    blames("checkpointing", |e| e.checkpointing = Checkpointing::Pick([1, 99].into_iter().collect()));
    blames("model.width", |e| e.model.width = 0);
    blames("model.width", |e| e.model.width = usize::MAX);
    blames("model.depth", |e| e.model.depth = 10_001);
    blames("model.layers", |e| (e.model.kind, e.model.layers) = (ModelKind::Resnet, 19));
    blames("model.multiplier", |e| (e.model.kind, e.model.multiplier) = (ModelKind::Mobilenetv2, f64::NAN));
    blames("batch.micro", |e| (e.model.kind, e.batch.micro) = (ModelKind::Resnet, 1));
    blames("batch.micro", |e| e.batch.micro = 0);
    blames("batch.micro", |e| e.batch.micro = 1439);
    blames("batch.accumulation", |e| e.batch.accumulation = 23);
    blames("data.path", |e| e.data.kind = DataKind::Idx);
    blames("data.path", |e| e.data.kind = DataKind::Images);
    blames("data.crop_padding", |e| e.data.crop_padding = 5);
    blames("data.color_jitter", |e| e.data.color_jitter = 1.5);
    blames("data.color_jitter", |e| e.data.color_jitter = f64::NAN);
    blames("data.test_fraction", |e| e.data.test_fraction = 1.0);
    blames("data.test_fraction", |e| e.data.test_fraction = f64::NAN);
    blames("optimizer.learning_rate", |e| e.optimizer.learning_rate = 0.0);
    blames("optimizer.learning_rate", |e| e.optimizer.learning_rate = f64::NAN);
    blames("optimizer.weight_decay", |e| e.optimizer.weight_decay = f64::NAN);
    blames("optimizer.beta1", |e| e.optimizer.beta1 = 1.0);
    blames("optimizer.epsilon", |e| e.optimizer.epsilon = 0.0);
    blames("optimizer.clip_norm", |e| e.optimizer.clip_norm = -1.0);
    blames("run.steps", |e| e.run.steps = Some(0));
    blames("run.epochs", |e| (e.run.steps, e.run.epochs) = (Some(1), Some(1)));
    blames("run.seed", |e| e.run.seed = u64::MAX);
}

#[test]
fn what_is_held_as_codes_cannot_learn_and_needs_what_can() {
    let coded = |change: fn(&mut Experiment)| {
        let mut e = Experiment::default();
        (e.model.kind, e.data.kind, e.quantise.base) = (ModelKind::Llama, DataKind::Tokens, BaseWeights::Nf4);
        (e.lora.rank, e.frozen) = (4, Frozen::All);
        change(&mut e);
        check(&e, None)
    };
    assert_eq!(coded(|_| {}), []);
    assert_eq!(coded(|e| e.frozen = Frozen::AllButHead), []);
    let said =
        |change: fn(&mut Experiment)| coded(change).iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    let alone = said(|e| (e.lora.rank, e.frozen) = (0, Frozen::AllButHead));
    assert!(alone.contains("there are no adapters") && alone.contains("lora.rank = 16"), "{alone}");
    let learning = said(|e| e.frozen = Frozen::None);
    assert!(learning.contains("frozen = none leaves some to") && learning.contains("write frozen = all"), "{learning}");
    let other = said(|e| (e.model.kind, e.data.kind) = (ModelKind::Cnn, DataKind::Shapes));
    assert!(other.contains("gpt2 and llama have"), "{other}");
    let gate = said(|e| {
        e.model.kind = ModelKind::Gpt2;
        e.lora.targets = Targets::of(&[Projection::Q, Projection::Gate]);
    });
    assert!(
        gate.contains("lora.targets: gpt2 has no projection gate") && gate.contains("q, k, v, o, up, down"),
        "{gate}"
    );
}

#[test]
fn a_model_that_does_not_learn_what_the_data_teach_is_refused_with_what_would_do() {
    for (kind, teaches) in [
        (DataKind::Masks, "a class for each pixel"),
        (DataKind::Text, "the next token"),
        (DataKind::Modular, "the next token"),
    ] {
        let experiment = Experiment {
            data: crate::experiment::Data { kind, path: Some("some.txt".into()), ..Default::default() },
            ..Default::default()
        };
        let found = check(&experiment, None);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].key, "model.kind");
        assert!(found[0].message.contains("learns one class for an image"), "{}", found[0]);
        assert!(found[0].message.contains(teaches), "{}", found[0]);
        assert!(found[0].mend.contains("data.kind = one of digits, shapes, spirals, idx, cifar10"), "{}", found[0]);
    }
}

#[test]
fn a_key_that_the_kinds_do_not_use_is_not_judged() {
    let found = problems(|e| {
        e.model.kernel = 4;
        e.data.classes = 0;
        e.optimizer.momentum = 7.0;
    });
    assert_eq!(found, []);
}

#[test]
fn the_image_bounds_the_blocks_and_the_kernel() {
    for (kind, depth, right) in [
        (ModelKind::Cnn, 3, true),
        (ModelKind::Cnn, 4, false),
        (ModelKind::Sepcnn, 4, true),
        (ModelKind::Sepcnn, 5, false),
    ] {
        let found = problems(|e| (e.model.kind, e.model.width, e.model.depth) = (kind, 8, depth));
        assert_eq!(found.is_empty(), right, "{kind:?} {depth}: {found:?}");
    }
    blames("model.kernel", |e| (e.model.kind, e.model.kernel) = (ModelKind::Cnn, 9));
    let found = problems(|e| (e.model.kind, e.model.kernel) = (ModelKind::Cnn, 9));
    assert_eq!(found[0].mend, "write an odd number up to 7");
    blames("model.kernel", |e| (e.model.kind, e.model.kernel) = (ModelKind::Cnn, 4));
    blames("model.depth", |e| (e.model.kind, e.model.width, e.model.depth) = (ModelKind::Cnn, 40_000, 2));
}

#[test]
fn points_are_told_apart_from_small_images() {
    const POINTS: DatasetInfo = DatasetInfo::one_label(Input::Image { height: 1, width: 1, channels: 2 }, 2, 3200, 800);
    for kind in [ModelKind::Cnn, ModelKind::Sepcnn, ModelKind::Vit] {
        let mut experiment = Experiment::default();
        (experiment.model.kind, experiment.data.kind) = (kind, DataKind::Spirals);
        let found = check(&experiment, Some(&POINTS));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].to_string().starts_with("data.kind: spirals are points and not images"), "{}", found[0]);
        assert!(found[0].mend.starts_with("write model.kind = mlp"), "{}", found[0]);
        experiment.data.kind = DataKind::Idx;
        experiment.data.path = Some("images".into());
        let found = check(&experiment, Some(&POINTS));
        assert!(found.iter().all(|problem| !problem.mend.contains("0 or less")), "{found:?}");
    }
}

#[test]
fn a_test_set_that_leaves_too_little_is_blamed_before_the_batch() {
    const LEFT: DatasetInfo = DatasetInfo::one_label(Input::Image { height: 8, width: 8, channels: 1 }, 10, 1, 1796);
    let mut experiment = Experiment::default();
    experiment.data.test_fraction = 0.99999;
    let found = check(&experiment, Some(&LEFT));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].to_string().starts_with("data.test_fraction: 0.99999 of 1797 samples leaves 1 to train on"));
    assert!(found[0].mend.ends_with("write batch.micro = 1 or less"), "{}", found[0]);
}
