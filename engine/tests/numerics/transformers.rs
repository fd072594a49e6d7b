//! Transformers, mixers and U-Nets at their published sizes: as many parameters as published, and dry runs of them whole.

use plimsoll_engine::{
    Experiment,
    backend::{DryRun, Executor, Rates},
    data::{DatasetInfo, Input},
    device::{Processor, Target},
    experiment::{Data, DataKind, Model, ModelKind, Precision},
    hardware::Machine,
    memory::{Category, Ledger, Phase, Point},
    models,
    plan::Plan,
};

fn tokens(length: usize, vocabulary: usize) -> DatasetInfo {
    DatasetInfo::label_each_token(length, vocabulary, 1000, 100)
}

fn parameters(model: Model, facts: &DatasetInfo) -> u64 {
    let executor =
        Executor::new(DryRun::new(Target::Cpu(Processor::with_threads(1)), Rates::NOMINAL), Ledger::new(None, false));
    let experiment = Experiment { model, ..Experiment::default() };
    models::Model::build(&executor, &experiment, facts).expect("no budget").parameters()
}

/// GPT-2 as published, by width, depth and heads.
fn gpt2(width: usize, depth: usize, heads: usize) -> Model {
    Model { kind: ModelKind::Gpt2, width, depth, heads, hidden: 4 * width, tied: true, ..Model::default() }
}

/// Llama as published, by width, depth, heads, key heads and units of the feed-forward layer.
fn llama(width: usize, depth: usize, heads: usize, kv_heads: usize, hidden: usize) -> Model {
    Model { kind: ModelKind::Llama, width, depth, heads, kv_heads, hidden, tied: false, ..Model::default() }
}

#[test]
fn decoders_have_as_many_parameters_as_published() {
    let facts = tokens(1024, 50_257);
    for (width, depth, heads, published) in [
        (768, 12, 12, 124_439_808),
        (1024, 24, 16, 354_823_168),
        (1280, 36, 20, 774_030_080),
        (1600, 48, 25, 1_557_611_200),
    ] {
        assert_eq!(parameters(gpt2(width, depth, heads), &facts), published, "gpt2 of width {width}");
    }
    for (model, vocabulary, published) in [
        (llama(4096, 32, 32, 32, 11_008), 32_000, 6_738_415_616),
        (llama(5120, 40, 40, 40, 13_824), 32_000, 13_015_864_320),
        (llama(4096, 32, 32, 8, 14_336), 128_256, 8_030_261_248),
    ] {
        assert_eq!(parameters(model, &tokens(4096, vocabulary)), published, "llama with {vocabulary} tokens");
    }
    // Qwen3-0.6B, tied, with heads of 128 and normalised queries and keys.
    let qwen = Model { tied: true, qk_norm: true, head_dim: 128, ..llama(1024, 28, 16, 8, 3072) };
    assert_eq!(parameters(qwen, &tokens(4096, 151_936)), 596_049_920);
    // Qwen2-0.5B, tied, with a bias of queries, keys and values.
    let qwen = Model { tied: true, qkv_bias: true, ..llama(896, 24, 14, 2, 4864) };
    assert_eq!(parameters(qwen, &tokens(4096, 151_936)), 494_032_768);
}

#[test]
fn the_benchmark_decoder_has_the_parameters_of_its_peer() {
    let model = Model { tied: false, ..gpt2(256, 6, 8) };
    // 2 x 256 x 256 embedded and told apart, 128 x 256 positions, the last norm; in a block two norms, 256 x 768 + 768,
    // 256 x 256 + 256, 256 x 1024 + 1024 and 1024 x 256 + 256.
    let block = 1024 + 197_376 + 65_792 + 263_168 + 262_400;
    assert_eq!(parameters(model, &tokens(128, 256)), 131_072 + 32_768 + 512 + 6 * block);
}

#[test]
fn vision_transformers_and_mixers_have_as_many_parameters_as_published() {
    let facts = DatasetInfo::one_label(Input::Image { height: 224, width: 224, channels: 3 }, 1000, 1000, 100);
    let of = |kind, width, depth, heads| {
        let model = Model { kind, width, depth, heads, hidden: 4 * width, patch: 16, ..Model::default() };
        parameters(model, &facts)
    };
    for (width, heads, published) in [(192, 3, 5_717_416), (384, 6, 22_050_664), (768, 12, 86_567_656)] {
        assert_eq!(of(ModelKind::Vit, width, 12, heads), published, "vit of width {width}");
    }
    for (width, depth, published) in [(512, 8, 18_528_264), (768, 12, 59_880_472)] {
        assert_eq!(of(ModelKind::Mixer, width, depth, 1), published, "mixer of width {width}");
    }
}

#[test]
fn a_u_net_has_the_parameters_of_its_levels() {
    let facts = |side, channels, classes| DatasetInfo {
        labels_per_sample: side * side,
        scored_labels: side * side,
        ..DatasetInfo::one_label(Input::Image { height: side, width: side, channels }, classes, 100, 10)
    };
    let unet = |width, depth| Model { kind: ModelKind::Unet, width, depth, ..Model::default() };
    // Ronneberger et al. 2015, figure 1: 64 to 1024 filters, one channel, two classes.
    let conv = |from: u64, to: u64| 9 * from * to + to;
    let levels = [64, 128, 256, 512, 1024];
    let mut expected = conv(1, 64) + conv(64, 64) + 64 * 2 + 2;
    for pair in levels.windows(2) {
        let [above, below] = [pair[0], pair[1]];
        expected += conv(above, below) + conv(below, below);
        expected += 4 * below * above + above + conv(below, above) + conv(above, above);
    }
    assert_eq!(parameters(unet(64, 4), &facts(512, 1, 2)), expected);
    assert_eq!(expected, 31_030_658);
}

#[test]
fn the_largest_are_planned_whole_with_every_byte_of_their_parameters() {
    for (model, length, vocabulary) in [
        (gpt2(1600, 48, 25), 1024, 50_257),
        (llama(4096, 32, 32, 32, 11_008), 4096, 32_000),
        (llama(5120, 40, 40, 40, 13_824), 4096, 32_000),
    ] {
        let data = Data { kind: DataKind::Tokens, length, vocabulary, samples: 1000, ..Data::default() };
        let mut experiment = Experiment { model, data, precision: Precision::Bf16Mixed, ..Experiment::default() };
        experiment.batch.micro = 1;
        let plan = Plan::of(&experiment, &Machine::nominal()).expect("a plan");
        let parameters = parameters(experiment.model.clone(), &tokens(length, vocabulary));
        assert_eq!(plan.parameters, parameters);
        // The few numbers of the norms have no narrower copy.
        let norms: u64 = plan.layers.iter().filter(|row| row.path.ends_with("norm")).map(|row| row.parameters).sum();
        let updated = plan.steady.points.iter().find(|point| point.phase == Phase::Optimizer).expect("an update");
        let held = |category| updated.categories.get(category).0;
        assert_eq!(held(Category::Parameters), 2 * parameters + 2 * norms);
        assert_eq!(held(Category::MasterWeights), 4 * (parameters - norms));
        assert_eq!(held(Category::Gradients), 4 * parameters);
        assert_eq!(held(Category::OptimizerState), 8 * parameters);
        // What comes on top is a block's activations for each block: more than the inputs of its layers, and not twice all.
        let activations = |point: &Point| point.categories.get(Category::Activations).0;
        let most = plan.steady.points.iter().map(activations).max().unwrap_or(0);
        let (rows, width, depth) = (length as u64, experiment.model.width as u64, experiment.model.depth as u64);
        let a_block = 2 * rows * (8 * width + experiment.model.hidden as u64);
        assert!((depth * a_block..4 * depth * a_block).contains(&most), "{most} against {}", depth * a_block);
    }
}

#[test]
fn logits_in_chunks_never_exist_whole() {
    let data = Data { kind: DataKind::Tokens, length: 256, vocabulary: 50_257, samples: 100, ..Data::default() };
    let plan = |loss_chunk| {
        let model = gpt2(128, 2, 4);
        let mut experiment = Experiment { model, data: data.clone(), loss_chunk, ..Experiment::default() };
        experiment.batch.micro = 4;
        Plan::of(&experiment, &Machine::nominal()).expect("a plan")
    };
    let (whole, chunked) = (plan(0), plan(128));
    let logits = 4 * 256 * 50_257 * 4;
    let activations = |plan: &Plan| {
        let all = plan.steady.points.iter().chain(&plan.evaluate.points);
        all.map(|point| point.categories.get(Category::Activations).0).max().unwrap_or(0)
    };
    assert!(activations(&whole) > logits && activations(&chunked) < logits / 4);
    assert!(chunked.peak.live.0 + logits / 2 < whole.peak.live.0);
}
