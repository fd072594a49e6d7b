//! What goes out and comes back.

use std::{fs, path::PathBuf};

use candle_core::{DType, Device, Tensor, safetensors};
use plimsoll_engine::{
    Bytes, Experiment,
    experiment::{CodedWeights, Frozen, Lora, Model, ModelKind, Normalise, Precision, QuantiseKind},
    hardware::Machine,
    interop::export,
    memory::{Category, Phase},
    plan::{Pass, Plan, Resolved},
    train::{Checkpoint, Keep, Outcome, Start, Tester, Tried},
};
use std::collections::HashMap;

use super::{Run, beginning_with, exported, info, published, run, tensors, tiny, trained};

/// Every kind of decoder, with what its layout turns on.
fn decoders() -> Vec<Experiment> {
    let llama = |change: fn(&mut Model)| {
        let mut experiment = tiny(ModelKind::Llama);
        (experiment.model.kv_heads, experiment.model.tied) = (1, false);
        change(&mut experiment.model);
        experiment
    };
    vec![
        tiny(ModelKind::Gpt2),
        llama(|_| {}),
        llama(|model| (model.qkv_bias, model.tied) = (true, true)),
        llama(|model| (model.qk_norm, model.head_dim, model.norm_epsilon) = (true, 6, 1e-6)),
        llama(|model| model.window = 3),
    ]
}

#[test]
fn an_exported_decoder_loads_again_to_the_last_bit_and_never_takes_more_than_predicted() {
    go_out_and_come_back(decoders());
}

#[test]
fn an_exported_transformer_for_images_does_so_too() {
    go_out_and_come_back(vec![tiny(ModelKind::Vit)]);
}

#[test]
fn an_exported_mobilenet_does_so_too() {
    go_out_and_come_back(vec![tiny(ModelKind::Mobilenetv2)]);
}

#[test]
fn an_export_says_how_its_pixels_were_scaled() {
    for (scaled, found) in [
        (Normalise::Half, Normalise::Half),
        (Normalise::Imagenet, Normalise::Imagenet),
        (Normalise::Dataset, Normalise::Auto),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let mut experiment = tiny(ModelKind::Vit);
        experiment.data.normalise = scaled;
        trained(&experiment, &at("first"));
        exported(&experiment, &at("first"), &at("out"));
        let mut next = beginning_with(&experiment, at("out"));
        next.data.normalise = Normalise::Auto;
        assert_eq!(next.whole_data().normalise, found, "after {scaled:?}");
        // Its own files say it too, alone as well.
        let checkpoint = Checkpoint::open(at("first/last.safetensors")).expect("saved");
        checkpoint.write_weights(at("weights.safetensors")).expect("written");
        for own in ["first", "weights.safetensors"] {
            next.weights.path = Some(at(own));
            assert_eq!(next.whole_data().normalise, scaled, "{own}");
            let said = Resolved::new(&next, &Machine::nominal()).expect("possible").notes().join("\n");
            assert!(said.contains(&format!("pixels have {}, as the weights were trained", scaled.words())), "{said}");
        }
    }
}

#[test]
fn what_timm_asks_of_pixels_goes_out_as_it_came_and_as_the_run_scaled_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let json = |name: &str| -> serde_json::Value {
        serde_json::from_str(&fs::read_to_string(at(name)).expect("written")).expect("JSON")
    };
    let mut experiment = tiny(ModelKind::Resnet);
    experiment.data.normalise = Normalise::Dataset;
    trained(&experiment, &at("first"));
    exported(&experiment, &at("first"), &at("out"));
    // The mean and the deviation of the run's own images, which follow from nothing that another program has.
    let (config, processor) = (json("out/config.json"), json("out/preprocessor_config.json"));
    let published = &config["pretrained_cfg"];
    let mean: Vec<f64> = serde_json::from_value(published["mean"].clone()).expect("three numbers");
    assert!(mean.len() == 3 && mean.iter().all(|mean| (0.1..0.9).contains(mean)), "{config}");
    assert_eq!((&published["mean"], &published["std"]), (&processor["image_mean"], &processor["image_std"]));
    assert_eq!((&published["crop_pct"], &published["interpolation"]), (&1.0.into(), &"bicubic".into()));
    // A folder of others says more, and another scaling is told over theirs.
    let mut told = config.clone();
    told["pretrained_cfg"]["crop_pct"] = 0.95.into();
    told["pretrained_cfg"]["first_conv"] = "conv1".into();
    fs::write(at("out/config.json"), told.to_string()).expect("writable");
    let mut next = beginning_with(&experiment, at("out"));
    next.data.normalise = Normalise::Half;
    trained(&next, &at("second"));
    exported(&next, &at("second"), &at("again"));
    let published = &json("again/config.json")["pretrained_cfg"];
    assert_eq!(published["mean"], serde_json::json!([0.5, 0.5, 0.5]));
    assert_eq!((&published["crop_pct"], &published["first_conv"]), (&0.95.into(), &"conv1".into()));
}

fn go_out_and_come_back(experiments: Vec<Experiment>) {
    for experiment in experiments {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        trained(&experiment, &at("first"));
        exported(&experiment, &at("first"), &at("out"));
        let own = trained(&beginning_with(&experiment, at("first")), &at("own"));
        let theirs = trained(&beginning_with(&experiment, at("out")), &at("theirs"));
        let case = || format!("{:?}", experiment.model);
        assert_eq!(own.losses, theirs.losses, "{}", case());
        let (first, loaded) = (tensors(&at("first/last.safetensors")), tensors(&at("theirs/last.safetensors")));
        for (name, bits) in &first {
            // Batch norms have seen one more batch.
            let is_moved = name.contains("running");
            assert!(is_moved || loaded.get(name) == Some(bits), "{name} of {}", case());
        }
        for Run { plan, summary, .. } in [&own, &theirs] {
            assert!(summary.measured.live <= plan.peak.live, "{}: {summary:?}", case());
            assert!(summary.measured.reserved <= plan.peak.reserved, "{}: {summary:?}", case());
            assert_eq!(summary.left_over, Bytes::ZERO, "{}", case());
            let context = plan.categories_at_peak.get(Category::Context);
            let most = summary.measured.live.0 as f64 * 1.01 + context.0 as f64 + f64::from(1 << 20);
            assert!(plan.peak.live.0 as f64 <= most, "{}: {summary:?}, {:?}", case(), plan.peak);
            let is_loading = |phase| plan.timeline(Pass::First).points.iter().any(|point| point.phase == phase);
            assert!(is_loading(Phase::Loading), "loading is a phase of the plan");
        }
    }
}

#[test]
fn weights_take_no_more_than_beginning_without_them() {
    let without = tiny(ModelKind::Llama);
    let with = beginning_with(&without, "anywhere".into());
    let plan = |experiment: &Experiment| Plan::of(experiment, &Machine::nominal()).expect("a plan").peak.live;
    let mut base = without.clone();
    base.run.steps = Some(1);
    let above = plan(&with).0.saturating_sub(plan(&base).0);
    assert!(above < 4096, "{above} bytes more");
}

#[test]
fn a_run_that_goes_on_needs_the_weights_no_more() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let mut experiment = tiny(ModelKind::Gpt2);
    trained(&experiment, &at("first"));
    exported(&experiment, &at("first"), &at("out"));
    experiment.weights.path = Some(at("out"));
    experiment.run.steps = Some(4);
    let whole = trained(&experiment, &at("whole"));
    experiment.run.steps = Some(2);
    let begun = trained(&experiment, &at("parts"));
    fs::remove_dir_all(at("out")).expect("it was there");
    experiment.run.steps = Some(4);
    let resume = Some(at("parts/last.safetensors"));
    let start = Start { keep: Keep::in_folder(at("parts")), resume, ..Start::new(experiment.clone()) };
    let rest = run(start);
    assert!(matches!(rest.outcome, Outcome::Finished), "{:?}", rest.outcome);
    assert_eq!([begun.losses, rest.losses].concat(), whole.losses);
    // A run that begins does.
    let Outcome::Failed(error) = run(Start::new(experiment)).outcome else { panic!("the weights are gone") };
    assert!(error.to_string().contains("no such file"), "{error}");
}

#[test]
fn a_head_for_other_classes_begins_afresh_and_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let mut experiment = tiny(ModelKind::Vit);
    trained(&experiment, &at("first"));
    exported(&experiment, &at("first"), &at("out"));
    experiment.data.classes = 6;
    let next = trained(&beginning_with(&experiment, at("out")), &at("next"));
    let said = next.warnings.join("\n");
    assert!(said.contains("head.classes.weight begins with new values: classifier.weight is [4, 16]"), "{said}");
    let (first, loaded) = (tensors(&at("first/last.safetensors")), tensors(&at("next/last.safetensors")));
    assert_eq!(first["patches.weight"], loaded["patches.weight"]);
    // Vision transformers begin with a head of zeros.
    assert!(loaded["head.classes.weight"].iter().all(|byte| *byte == 0));
    // Tried as they are, these weights answer by chance, and those of as many classes do not.
    let caution = |experiment: &Experiment| {
        let tried = Tried::begun(beginning_with(experiment, at("out")));
        Tester::new().evaluate(&tried).unwrap_or_else(|error| panic!("{error}")).caution
    };
    assert!(
        caution(&experiment)
            .is_some_and(|said| said.contains("answers are random: head.classes.weight begins with new values"))
    );
    experiment.data.classes = 4;
    assert_eq!(caution(&experiment), None);
}

#[test]
fn adapters_are_exported_alone_or_merged_and_refused_where_they_have_no_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let base = tiny(ModelKind::Llama);
    trained(&base, &at("first"));
    exported(&base, &at("first"), &at("out"));
    let mut lora = base.clone();
    (lora.lora, lora.frozen) = (Lora { rank: 2, alpha: 8.0, ..Lora::default() }, Frozen::All);
    trained(&lora, &at("from-nothing"));
    let to = |name: &str, experiment: &Experiment, run: &str, merge| {
        fs::create_dir_all(at(name)).expect("a folder");
        let checkpoint = Checkpoint::at(at(run)).expect("saved");
        export(&checkpoint, &at(name), experiment, &info(experiment), merge)
    };
    let error = to("no", &lora, "from-nothing", false).expect_err("no base").to_string();
    assert!(error.contains("the run began from nothing") && error.contains("--merge"), "{error}");
    lora.weights.path = Some(at("out"));
    lora.optimizer.learning_rate = 0.5;
    trained(&lora, &at("adapted"));
    to("adapter", &lora, "adapted", false).unwrap_or_else(|error| panic!("{error}"));
    let adapter = tensors(&at("adapter/adapter_model.safetensors"));
    let name = |layer: &str, matrix: &str| format!("base_model.model.model.layers.1.{layer}.lora_{matrix}.weight");
    assert_eq!(adapter[&name("self_attn.q_proj", "A")], adapter[&name("self_attn.v_proj", "A")]);
    assert_ne!(adapter[&name("mlp.gate_proj", "B")], adapter[&name("mlp.up_proj", "B")]);
    let config = fs::read_to_string(at("adapter/adapter_config.json")).expect("written");
    let config: serde_json::Value = serde_json::from_str(&config).expect("JSON");
    assert_eq!((&config["r"], &config["lora_alpha"]), (&2.into(), &8.0.into()));
    assert_eq!(config["target_modules"].as_array().map(Vec::len), Some(7));
    // Merged, the model computes the same up to rounding, without adapters.
    to("merged", &lora, "adapted", true).unwrap_or_else(|error| panic!("{error}"));
    let loss = |experiment: &Experiment, from: PathBuf, name: &str| {
        f64::from_bits(trained(&beginning_with(experiment, from), &at(name)).losses[0])
    };
    let [merged, adapted, before] =
        [loss(&base, at("merged"), "m"), loss(&lora, at("adapted"), "a"), loss(&base, at("out"), "b")];
    assert!((merged - adapted).abs() < 1e-5, "{merged} merged, {adapted} adapted");
    assert!((merged - before).abs() > 1e-4, "{merged} and {before}: the adapters did nothing");
    let error = to("no", &Experiment { frozen: Frozen::None, ..lora }, "adapted", false).expect_err("more was trained");
    assert!(error.to_string().contains("trained more than its adapters"), "{error}");
}

#[test]
fn weights_of_any_precision_go_into_any_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let (experiment, whole) = published(folder.path());
    let path = folder.path().join("half.safetensors");
    for (dtype, precision) in
        [(DType::BF16, Precision::F32), (DType::F16, Precision::Bf16Mixed), (DType::F64, Precision::F32)]
    {
        let narrow = whole.iter().map(|(name, tensor)| (name.clone(), tensor.to_dtype(dtype).expect("a type")));
        let narrow: HashMap<String, Tensor> = narrow.collect();
        safetensors::save(&narrow, &path).expect("written");
        let experiment = Experiment { precision, ..experiment.clone() };
        let into = folder.path().join(format!("{dtype:?}"));
        let run = trained(&beginning_with(&experiment, path.clone()), &into);
        assert!(run.summary.measured.live <= run.plan.peak.live);
        let loaded = safetensors::load(into.join("last.safetensors"), &Device::Cpu).expect("saved");
        let [own, theirs] = [&loaded["embedding.weight"], &narrow["transformer.wte.weight"]].map(|tensor| {
            let flat = tensor.to_dtype(DType::F32).and_then(|tensor| tensor.flatten_all());
            flat.and_then(|flat| flat.to_vec1::<f32>()).expect("numbers")
        });
        assert_eq!(own, theirs, "{dtype:?}");
    }
}

#[test]
fn a_decoder_without_its_head_gets_one_and_it_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let mut experiment = tiny(ModelKind::Llama);
    experiment.model.tied = false;
    trained(&experiment, &at("first"));
    exported(&experiment, &at("first"), &at("out"));
    let file = at("out/model.safetensors");
    let mut whole = safetensors::load(&file, &Device::Cpu).expect("tensors");
    whole.remove("lm_head.weight").expect("a head");
    safetensors::save(&whole, &file).expect("written");
    let next = trained(&beginning_with(&experiment, at("out")), &at("next"));
    let said = next.warnings.join("\n");
    assert!(said.contains("the head begins with new values: the file has none"), "{said}");
}

#[test]
fn what_an_export_leaves_out_or_leaves_there_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let (whole, _) = published(folder.path());
    let mut shorter = beginning_with(&whole, at("out"));
    shorter.data.length = 5;
    let run = trained(&shorter, &at("shorter"));
    assert!(run.warnings.iter().any(|said| said.contains("of 8 learned positions the first 5")), "{:?}", run.warnings);
    fs::create_dir(at("again")).expect("a folder");
    fs::write(at("again/model.safetensors.index.json"), "{}").expect("written");
    let checkpoint = Checkpoint::at(at("shorter")).expect("saved");
    let exported = export(&checkpoint, &at("again"), &shorter, &info(&shorter), true).expect("written");
    let parts = ["of the 8 learned positions", "no adapters to merge", "index.json is of the weights that were there"];
    assert_eq!(exported.notes.len(), parts.len(), "{:?}", exported.notes);
    for (note, part) in exported.notes.iter().zip(parts) {
        assert!(note.contains(part), "{note}");
    }
}

#[test]
fn an_export_says_that_integers_are_left_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let plain = tiny(ModelKind::Llama);
    trained(&plain, &at("run"));
    let notes = |experiment: &Experiment| {
        let checkpoint = Checkpoint::at(at("run")).expect("saved");
        export(&checkpoint, &at("out"), experiment, &info(experiment), false).unwrap_or_else(|e| panic!("{e}")).notes
    };
    assert_eq!(notes(&plain), Vec::<String>::new());
    // The same weights: what becomes of them at the end is in no checkpoint.
    let mut coded = plain;
    (coded.quantise.kind, coded.quantise.weights) = (QuantiseKind::After, CodedWeights::Int4);
    let said = notes(&coded).join("\n");
    assert!(said.contains("(quantise.kind = after, quantise.weights = int4)"), "{said}");
}
