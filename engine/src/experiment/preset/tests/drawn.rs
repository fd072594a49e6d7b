//! Experiments drawn at random, written and read back; and texts that are not presets.

use std::path::PathBuf;

use proptest::prelude::*;

use super::*;
use crate::experiment::{
    AttentionKind, Batch, CachePlace, Data, DataCache, DataKind, EvaluationBatch, Gpu, Lora, Model, Placement, Run,
    Schedule, Stem, UpdateTime, limits::RESNETS,
};

prop_compose! {
    fn models()(kind in prop_oneof![Just(ModelKind::Mlp), Just(ModelKind::Cnn), Just(ModelKind::Sepcnn),
            Just(ModelKind::Resnet), Just(ModelKind::Mobilenetv2), Just(ModelKind::Vit), Just(ModelKind::Mixer)],
        width in 1usize..512, depth in 1usize..4, kernel in prop_oneof![Just(1usize), Just(3), Just(5)],
        dense in 1usize..512, layers in 0usize..4, multiplier in 0.1..2.0f64, large in any::<bool>(),
        heads in 1usize..5, hidden in 1usize..512, patch in 1usize..3, dropout in 0.0..0.9f64, plain in any::<bool>())
        -> Model {
        let stem = if large { Stem::Imagenet } else { Stem::Small };
        let attention = if plain { AttentionKind::Plain } else { AttentionKind::Efficient };
        let width = if kind == ModelKind::Vit { width * heads } else { width };
        Model {
            kind, width, depth, kernel, dense, layers: RESNETS[layers], multiplier, stem, heads, hidden, patch, dropout,
            attention, ..Default::default()
        }
    }
}

prop_compose! {
    fn sources()(kind in prop_oneof![Just(DataKind::Digits), Just(DataKind::Shapes), Just(DataKind::Idx),
        Just(DataKind::Cifar100), Just(DataKind::Images)],
        length in 2usize..64, vocabulary in 4usize..1000, modulus in 2usize..200,
        path in "[^\\x00]{1,20}", side in 12usize..64, classes in 2usize..=10, samples in 3000usize..10_000,
        test_fraction in 0.01..0.5f64,
        (placement, cache, cache_in, host_budget) in (0usize..3, prop_oneof![Just(DataCache::None), Just(DataCache::Decoded),
            (1usize..=1000).prop_map(DataCache::Augmented)], prop_oneof![Just(CachePlace::Ram), Just(CachePlace::Disk)], (0u64..1 << 50).prop_map(Bytes)), flip: bool, crop_padding in 0usize..=4, color_jitter in 0.0..1.0f64) -> Data {
        let path = kind.is_on_disk().then(|| PathBuf::from(path));
        let placement = [Placement::Streamed, Placement::Host, Placement::Device][placement];
        Data { kind, path, side, classes, samples, length, vocabulary, modulus, test_fraction, placement, cache, cache_in, host_budget, flip, crop_padding, color_jitter, ..Data::default() }
    }
}

prop_compose! {
    fn optimizers()(
        kind in prop::sample::select(OptimizerKind::ALL.to_vec()),
        learning_rate in 1e-12..1e3f64, weight_decay in 0.0..1.0f64, momentum in 0.0..0.999f64,
        beta1 in 0.0..0.999f64, beta2 in 0.0..0.999f64, epsilon in 1e-300..1.0f64, clip_norm in 0.0..1e8f64,
        warmup_steps in 0u64..1000, schedule in prop_oneof![Just(Schedule::Constant), Just(Schedule::Cosine)])
        -> Optimizer {
        Optimizer {
            kind, update: UpdateTime::AfterBackward, learning_rate, weight_decay, momentum, beta1, beta2, epsilon, clip_norm, warmup_steps, schedule,
        }
    }
}

prop_compose! {
    fn devices()(device in prop_oneof![Just("cpu"), Just("cuda:0"), Just("rtx4060-8g")],
        pool in prop::sample::select(PoolPolicy::ALL.to_vec()), workspace in 0u64..1 << 36, tf32 in any::<bool>(),
        deterministic in any::<bool>()) -> (String, Gpu) {
        (device.to_owned(), Gpu { pool, workspace: Bytes(workspace), tf32, deterministic })
    }
}

prop_compose! {
    fn experiments()(title in "[^\r\n]{0,40}", description in "(?s)([ \t\n\"\\\\a-z]|.){0,400}",
        budget in 1u64..1 << 50, (device, gpu) in devices(), precision in 0usize..5,
        checkpointing in prop_oneof![Just(Checkpointing::None), Just(Checkpointing::Blocks),
            (1usize..9).prop_map(Checkpointing::Every), Just(Checkpointing::Sqrt),
            (0u8..=100).prop_map(Checkpointing::Percent), Just(Checkpointing::Pick([1].into_iter().collect()))],
        (kept, retain_graph, frozen, rank) in (any::<bool>(), any::<bool>(), 0usize..4, 0usize..9), model in models(), data in sources(), loss_chunk in 0usize..99, micro in 1usize..64, accumulation in 1usize..8,
        evaluation in prop_oneof![Just(EvaluationBatch::Micro), Just(EvaluationBatch::Whole), (1usize..999).prop_map(EvaluationBatch::Samples)],
        optimizer in optimizers(), length in prop::option::of((any::<bool>(), 1u64..1000)),
        seed in 0u64..=i64::MAX as u64, evaluate_every in 0u64..100,
        (save_every, save_minutes, save_best, threads) in (0u64..100, 0.0..100.0, any::<bool>(), 0usize..99)) -> Experiment {
        let (steps, epochs) = match length {
            None => (None, None),
            Some((true, n)) => (Some(n), None),
            Some((false, n)) => (None, Some(n)),
        };
        Experiment {
            title, description, budget: Bytes(budget), device, gpu, precision: Precision::ALL[precision], checkpointing, loss_chunk, model,
            data, batch: Batch { micro, accumulation, evaluation }, optimizer,
            recompute: if kept { Recompute::None } else { Recompute::Cheap },
            retain_graph,
            frozen: [Frozen::None, Frozen::AllButHead, Frozen::Blocks(1), Frozen::All][frozen],
            lora: Lora { rank, alpha: 8.0, ..Lora::default() },
            run: Run { steps, epochs, seed, threads, evaluate_every, save_every, save_minutes, save_best }, ..Default::default()
        }
    }
}

/// The experiment with every key that its kinds do not use at its default.
fn used(e: &Experiment) -> Experiment {
    let mut to = Experiment::default();
    for setting in settings::all().filter(|setting| setting.is_used(e)) {
        if let Some(text) = setting.write(e) {
            setting.read(&mut to, setting.key, &from_text(&text)).unwrap_or_else(|wrong| panic!("{wrong:?}"));
        }
    }
    to
}

proptest! {
    #[test]
    fn a_valid_experiment_written_reads_back_equal(experiment in experiments()) {
        prop_assume!(check(&experiment, None).is_empty());
        let text = to_text(&experiment);
        match parse(&text, "x.toml") {
            Ok(read) => prop_assert_eq!(read, used(&experiment)),
            Err(error) => prop_assert!(false, "{}\n{}", error, text),
        }
    }

    #[test]
    fn mutated_text_never_panics(at in any::<prop::sample::Index>(), junk in "(?s).{0,8}", cut in 0usize..30) {
        let mut chars: Vec<char> = to_text(&Experiment::default()).chars().collect();
        let at = at.index(chars.len());
        let end = (at + cut).min(chars.len());
        chars.splice(at..end, junk.chars());
        let text: String = chars.into_iter().collect();
        if let Ok(experiment) = parse(&text, "x.toml") {
            prop_assert!(check(&experiment, None).is_empty());
        }
    }

    #[test]
    fn any_text_at_all_never_panics(text in "(?s).{0,200}", assignment in "(?s).{0,40}") {
        let _ = parse(&text, "x.toml");
        let _ = set(&mut Experiment::default(), &assignment);
    }
}

proptest! {
    #[test]
    fn whatever_is_remembered_comes_back_equal(experiment in experiments(), width: usize, rate in any::<f64>()) {
        prop_assume!(!rate.is_nan());
        let mut experiment = experiment;
        // Unused and impossible settings are remembered too.
        (experiment.model.width, experiment.optimizer.learning_rate) = (width >> 1, rate);
        let text = serde_json::to_string(&experiment).expect("text");
        prop_assert_eq!(serde_json::from_str::<Experiment>(&text).expect("own text"), experiment);
    }
}
