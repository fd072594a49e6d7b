//! Weights that are held as codes: from published ones, through checkpoints, and out again.

use std::path::PathBuf;

use plimsoll_engine::{
    Bytes, Experiment,
    experiment::{BaseWeights, Frozen, Lora, ModelKind, Projection, Targets},
    interop::export,
    memory::{Category, Phase},
    plan::Pass,
    train::{Checkpoint, Keep, Outcome, Start},
};

use super::{beginning_with, exported, info, run, tensors, tiny, trained};

/// A decoder with adapters on codes, which begins with the weights at `path`.
fn coded(base: BaseWeights, path: PathBuf) -> Experiment {
    let mut experiment = tiny(ModelKind::Llama);
    (experiment.lora, experiment.frozen) = (Lora { rank: 2, alpha: 8.0, ..Lora::default() }, Frozen::All);
    (experiment.quantise.base, experiment.weights.path) = (base, Some(path));
    experiment.optimizer.learning_rate = 0.5;
    experiment
}

#[test]
fn codes_are_made_of_published_weights_and_go_out_again_as_numbers() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let plain = tiny(ModelKind::Llama);
    trained(&plain, &at("first"));
    exported(&plain, &at("first"), &at("out"));
    for base in [BaseWeights::Int8, BaseWeights::Nf4, BaseWeights::Nf4Double] {
        let name = |what: &str| at(&format!("{}-{what}", base.key()));
        let experiment = coded(base, at("out"));
        let first = trained(&experiment, &name("run"));
        let (plan, measured) = (&first.plan, first.summary.measured.live);
        let context = plan.categories_at_peak.get(Category::Context);
        let most = measured.0 as f64 * 1.01 + context.0 as f64 + f64::from(1 << 20);
        assert!(measured <= plan.peak.live && plan.peak.live.0 as f64 <= most, "{}: {measured}", base.key());
        assert_eq!(first.summary.left_over, Bytes::ZERO);
        assert!(plan.timeline(Pass::First).points.iter().any(|point| point.phase == Phase::Loading));
        let codes = tensors(&name("run/last.safetensors"));
        // Three projections of 16 by 16, a code an element or half a byte.
        let bytes = 3 * 16 * 16 / if base == BaseWeights::Int8 { 1 } else { 2 };
        assert_eq!(codes["block1.attention.qkv.weight_codes"].len() / 4, bytes);
        assert!(!codes.contains_key("block1.attention.qkv.weight"), "it is held as codes alone");
        // Merged, the model computes the same up to rounding, without codes and adapters.
        let checkpoint = Checkpoint::at(name("run")).expect("saved");
        let to = |what: &str, merge| {
            export(&checkpoint, &name(what), &experiment, &info(&experiment), merge).unwrap_or_else(|e| panic!("{e}"))
        };
        let said = to("merged", true).notes.join("\n");
        let choice = format!("(quantise.base = {})", base.key());
        assert!(said.contains(&choice) && said.contains("not the weights that it began with"), "{said}");
        let next = |experiment: &Experiment, from: &str, to: &str| {
            f64::from_bits(trained(&beginning_with(experiment, name(from)), &name(to)).losses[0])
        };
        let (merged, own) = (next(&plain, "merged", "plain"), next(&experiment, "run", "again"));
        assert!((merged - own).abs() < 1e-5, "{}: {merged} merged, {own} as codes", base.key());
        // What was decoded has the same codes; scales that are coded too may move.
        let again = tensors(&name("again/last.safetensors"));
        let is_same = |name: &String| again[name] == codes[name];
        assert!(codes.keys().all(is_same) || base == BaseWeights::Nf4Double);
        assert_eq!(again["block2.feed-forward.down.adapter_up"], codes["block2.feed-forward.down.adapter_up"]);
        // The adapters alone, as peft has them.
        let said = to("peft", false).notes.join("\n");
        assert!(said.contains(&choice) && said.contains("or write --merge"), "{said}");
        assert!(tensors(&name("peft/adapter_model.safetensors")).keys().all(|name| name.contains(".lora_")));
    }
}

#[test]
fn a_run_on_codes_goes_on_to_the_last_bit() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let plain = tiny(ModelKind::Llama);
    trained(&plain, &at("first"));
    exported(&plain, &at("first"), &at("out"));
    let mut experiment = coded(BaseWeights::Nf4Double, at("out"));
    (experiment.lora.dropout, experiment.lora.rslora) = (0.2, true);
    experiment.run.steps = Some(4);
    let whole = trained(&experiment, &at("whole"));
    experiment.run.steps = Some(2);
    let begun = trained(&experiment, &at("parts"));
    experiment.run.steps = Some(4);
    let resume = Some(at("parts/last.safetensors"));
    let rest = run(Start { keep: Keep::in_folder(at("parts")), resume, ..Start::new(experiment) });
    assert!(matches!(rest.outcome, Outcome::Finished), "{:?}", rest.outcome);
    assert_eq!([begun.losses, rest.losses].concat(), whole.losses);
    assert_eq!(tensors(&at("parts/last.safetensors")), tensors(&at("whole/last.safetensors")));
}

#[test]
fn adapters_of_some_projections_go_out_as_those_and_merged_compute_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    for kind in [ModelKind::Llama, ModelKind::Gpt2] {
        let name = |what: &str| at(&format!("{}-{what}", kind.key()));
        let plain = tiny(kind);
        trained(&plain, &name("first"));
        exported(&plain, &name("first"), &name("out"));
        let mut experiment = plain.clone();
        let targets = Targets::of(&[Projection::Q, Projection::V, Projection::Down]);
        (experiment.lora, experiment.frozen) = (Lora { rank: 2, targets, ..Lora::default() }, Frozen::All);
        (experiment.weights.path, experiment.optimizer.learning_rate) = (Some(name("out")), 0.5);
        trained(&experiment, &name("run"));
        let checkpoint = Checkpoint::at(name("run")).expect("saved");
        let to = |what: &str, merge| {
            export(&checkpoint, &name(what), &experiment, &info(&experiment), merge).unwrap_or_else(|e| panic!("{e}"))
        };
        to("peft", false);
        let adapters = tensors(&name("peft/adapter_model.safetensors"));
        let has = |module: &str| adapters.keys().any(|name| name.contains(module));
        let about = std::fs::read_to_string(name("peft/adapter_config.json")).expect("written");
        let about: serde_json::Value = serde_json::from_str(&about).expect("JSON");
        assert_eq!(about["base_model_name_or_path"].as_str(), name("out").to_str());
        match kind {
            ModelKind::Llama => {
                assert!(has("q_proj") && has("v_proj") && has("down_proj"));
                assert!(!has("k_proj") && !has("o_proj") && !has("up_proj"));
            }
            _ => {
                let up = &adapters["base_model.model.transformer.h.0.attn.c_attn.lora_B.weight"];
                let keys = &up[16 * 2 * 4..2 * 16 * 2 * 4];
                assert!(keys.iter().all(|byte| *byte == 0) && up.iter().any(|byte| *byte != 0), "no keys are adapted");
                assert!(has("mlp.c_proj") && !has("c_fc") && !has("attn.c_proj"));
            }
        }
        to("merged", true);
        let loss = |experiment: &Experiment, from: &str, to: &str| {
            f64::from_bits(trained(&beginning_with(experiment, name(from)), &name(to)).losses[0])
        };
        let [merged, own, before] =
            [loss(&plain, "merged", "m"), loss(&experiment, "run", "o"), loss(&plain, "out", "b")];
        assert!((merged - own).abs() < 1e-5, "{merged} merged, {own} beside");
        assert!((merged - before).abs() > 1e-4, "{merged} and {before}: the adapters did nothing");
    }
}
