//! Weights in and weights out: what is exported loads again to the same bits, what is predicted of loading is never below
//! what is measured, and what does not fit is refused in words.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use candle_core::{DType, Device, Tensor, safetensors};
use plimsoll_engine::{
    Bytes, Experiment,
    experiment::{DataKind, DatasetInfo, Frozen, Lora, Model, ModelKind, OptimizerKind, Precision, Stem, preset},
    hardware::Machine,
    interop::{Fitted, Mapped, export},
    memory::{Category, Phase},
    plan::{Pass, Plan, Resolved},
    train::{Checkpoint, Command, Event, Keep, Outcome, Start, Summary, Trainer},
};
use proptest::prelude::*;

/// A small experiment of a family, two steps long.
fn tiny(kind: ModelKind) -> Experiment {
    let model = Model { kind, width: 16, depth: 2, heads: 2, kv_heads: 2, hidden: 24, patch: 4, ..Model::default() };
    let mut e = Experiment { model, ..Experiment::default() };
    (e.batch.micro, e.run.steps, e.data.samples, e.budget) = (4, Some(2), 40, Bytes::gib(4));
    e.optimizer.kind = OptimizerKind::Sgd;
    match kind {
        ModelKind::Gpt2 | ModelKind::Llama => {
            (e.data.kind, e.data.length, e.data.vocabulary) = (DataKind::Tokens, 8, 20);
        }
        _ => {
            (e.data.kind, e.data.side, e.data.classes) = (DataKind::Shapes, 32, 4);
            (e.model.stem, e.model.multiplier) = (Stem::Imagenet, 0.1);
            (e.batch.micro, e.data.samples, e.run.steps) = (2, 10, Some(1));
        }
    }
    e
}

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

struct Run {
    plan: Arc<Plan>,
    losses: Vec<u64>,
    warnings: Vec<String>,
    outcome: Outcome,
    summary: Summary,
}

fn run(start: Start) -> Run {
    let trainer = Trainer::new(|| {});
    trainer.send(Command::Start(Box::new(start)));
    let (mut plan, mut losses, mut warnings) = (None, Vec::new(), Vec::new());
    for event in trainer.events() {
        match event {
            Event::Started { plan: started, .. } => plan = Some(started),
            Event::Step(record) => losses.push(record.loss.to_bits()),
            Event::Warning(text) => warnings.push(text),
            Event::Ended { outcome, summary, .. } => {
                return Run { plan: plan.expect("it was planned"), losses, warnings, outcome, summary };
            }
            _ => {}
        }
    }
    panic!("the trainer is gone");
}

/// Trains, and leaves the checkpoint in `folder`.
fn trained(experiment: &Experiment, folder: &Path) -> Run {
    let run = run(Start { keep: Keep::in_folder(folder), ..Start::new(experiment.clone()) });
    assert!(matches!(run.outcome, Outcome::Finished), "{:?}", run.outcome);
    run
}

fn info(experiment: &Experiment) -> DatasetInfo {
    *Resolved::new(experiment, &Machine::nominal()).unwrap_or_else(|problems| panic!("{problems:?}")).info()
}

/// The model of a run in the layout of others.
fn exported(experiment: &Experiment, run: &Path, folder: &Path) {
    fs::create_dir_all(folder).expect("a folder");
    let checkpoint = Checkpoint::at(run).expect("saved");
    export(&checkpoint, folder, experiment, &info(experiment), false).unwrap_or_else(|error| panic!("{error}"));
}

fn tensors(path: &Path) -> HashMap<String, Vec<u8>> {
    let loaded = safetensors::load(path, &Device::Cpu).expect("safetensors");
    let bits = |tensor: &Tensor| {
        let flat = tensor.flatten_all().and_then(|flat| flat.to_vec1::<f32>()).expect("f32");
        flat.into_iter().flat_map(f32::to_le_bytes).collect()
    };
    loaded.iter().filter(|(name, _)| !name.starts_with("optimizer.")).map(|(name, t)| (name.clone(), bits(t))).collect()
}

/// A run of one step at a rate of nearly nothing that begins with `path`: its checkpoint has the weights that were loaded.
fn beginning_with(experiment: &Experiment, path: PathBuf) -> Experiment {
    let mut next = experiment.clone();
    next.weights.path = Some(path);
    (next.run.steps, next.run.seed) = (Some(1), 5);
    (next.optimizer.learning_rate, next.optimizer.weight_decay) = (1e-300, 0.0);
    next
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
    assert!(said.contains("head.classes.weight begins afresh: classifier.weight is [4, 16]"), "{said}");
    let (first, loaded) = (tensors(&at("first/last.safetensors")), tensors(&at("next/last.safetensors")));
    assert_eq!(first["patches.weight"], loaded["patches.weight"]);
    // Vision transformers begin with a head of zeros.
    assert!(loaded["head.classes.weight"].iter().all(|byte| *byte == 0));
}

/// Tensors of a tiny GPT-2 as others name them, and the experiment they are of.
fn published(folder: &Path) -> (Experiment, HashMap<String, Tensor>) {
    let experiment = tiny(ModelKind::Gpt2);
    trained(&experiment, &folder.join("first"));
    exported(&experiment, &folder.join("first"), &folder.join("out"));
    let tensors = safetensors::load(folder.join("out/model.safetensors"), &Device::Cpu).expect("written");
    (experiment, tensors)
}

fn refused(experiment: &Experiment, path: &Path) -> String {
    match Fitted::open(path, experiment, &info(experiment)) {
        Ok(_) => panic!("{} was taken", path.display()),
        Err(error) => error.to_string(),
    }
}

#[test]
fn what_is_missing_misshapen_or_left_over_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let (experiment, whole) = published(folder.path());
    let path = folder.path().join("changed.safetensors");
    let changed = |change: &dyn Fn(&mut HashMap<String, Tensor>)| {
        let mut tensors = whole.clone();
        change(&mut tensors);
        safetensors::save(&tensors, &path).expect("written");
    };
    changed(&|tensors| {
        tensors.remove("transformer.h.1.ln_1.bias");
        tensors.insert("transformer.h.0.extra.weight".to_owned(), tensors["transformer.wpe.weight"].clone());
        let wide = Tensor::zeros((16, 99), DType::F32, &Device::Cpu).expect("zeros");
        tensors.insert("transformer.h.0.mlp.c_fc.weight".to_owned(), wide);
    });
    let said = refused(&experiment, &path);
    for part in [
        "tensors are missing: transformer.h.1.ln_1.bias;",
        "transformer.h.0.mlp.c_fc.weight is [16, 99], and the model has [16, 24];",
        "tensors have no place in the model: transformer.h.0.extra.weight;",
    ] {
        assert!(said.contains(part), "{said}");
    }
    changed(&|tensors| tensors.retain(|name, _| !name.contains("ln_")));
    assert!(refused(&experiment, &path).contains("transformer.h.0.ln_1.weight, transformer.h.0.ln_1.bias"), "some");
    assert!(refused(&experiment, &path).contains(" more;"), "{}", refused(&experiment, &path));
    assert!(refused(&tiny(ModelKind::Llama), &path).contains("has none of the tensors of this model"));
    // A tied head is there twice in some files; another head is another model.
    changed(&|tensors| drop(tensors.insert("lm_head.weight".to_owned(), tensors["transformer.wte.weight"].clone())));
    assert!(Fitted::open(&path, &experiment, &info(&experiment)).is_ok());
    changed(&|tensors| {
        let other = Tensor::ones((20, 16), DType::F32, &Device::Cpu).expect("ones");
        tensors.insert("lm_head.weight".to_owned(), other);
    });
    assert!(refused(&experiment, &path).contains("write model.tied = false"));
    let mut untied = experiment.clone();
    untied.model.tied = false;
    changed(&|_| {});
    assert!(refused(&untied, &path).contains("write model.tied = true"), "{}", refused(&untied, &path));
    // Without what stands before names, as files of the model without its head have it, and in 16 bits.
    changed(&|tensors| {
        let short = |(name, tensor): (String, Tensor)| {
            (name.trim_start_matches("transformer.").to_owned(), tensor.to_dtype(DType::BF16).expect("bf16"))
        };
        *tensors = std::mem::take(tensors).into_iter().map(short).collect();
    });
    let fitted = Fitted::open(&path, &experiment, &info(&experiment)).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(fitted.naming(), "transformers' GPT-2");
    assert!(fitted.notes().iter().all(|note| note.contains("no config.json")), "{:?}", fitted.notes());
}

#[test]
fn a_model_that_computes_something_else_is_refused_with_the_settings() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let mut experiment = tiny(ModelKind::Llama);
    experiment.model.kv_heads = 1;
    trained(&experiment, &at("first"));
    exported(&experiment, &at("first"), &at("out"));
    for (change, mend) in [
        ((|model| model.rotary_base = 5e5) as fn(&mut Model), "model.rotary_base=10000.0"),
        (|model| model.norm_epsilon = 1e-3, "model.norm_epsilon=1e-5"),
        (|model| model.window = 4, "model.window=0"),
    ] {
        let mut other = experiment.clone();
        change(&mut other.model);
        let said = refused(&other, &at("out"));
        assert!(said.contains("would compute something else") && said.contains(mend), "{said}");
        // The run's own file says it too.
        assert!(refused(&other, &at("first")).contains(mend));
    }
    let config = fs::read_to_string(at("out/config.json")).expect("written");
    let stretched = config.replace("\"rope_type\": \"default\"", "\"rope_type\": \"llama3\", \"factor\": 8.0");
    assert_ne!(config, stretched);
    fs::write(at("out/config.json"), stretched).expect("written");
    assert!(refused(&experiment, &at("out")).contains("rope_parameters (a group), which has no place here"));
    fs::write(at("out/config.json"), config).expect("written");
    // The folder opens as the experiment that its weights fit.
    let opened = preset::open(at("out")).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(opened.experiment.weights.path, Some(at("out")));
    assert_eq!(opened.experiment.model.kv_heads, 1);
    assert!(Fitted::open(&at("out"), &opened.experiment, &info(&opened.experiment)).is_ok());
    fs::remove_file(at("out/model.safetensors")).expect("it was there");
    assert_eq!(preset::open(at("out")).expect("a configuration").experiment.weights.path, None);
}

#[test]
fn weights_in_several_files_are_found_by_their_index_and_pickled_ones_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let (experiment, whole) = published(folder.path());
    let parts = folder.path().join("parts");
    fs::create_dir(&parts).expect("a folder");
    let index = |map: &HashMap<&str, &str>| {
        let text = serde_json::json!({ "metadata": {}, "weight_map": map }).to_string();
        fs::write(parts.join("model.safetensors.index.json"), text).expect("written");
    };
    let (a, b): (HashMap<&str, &Tensor>, HashMap<&str, &Tensor>) =
        whole.iter().map(|(name, tensor)| (name.as_str(), tensor)).partition(|(name, _)| name.contains("h.0."));
    let owned = |part: &HashMap<&str, &Tensor>| -> HashMap<String, Tensor> {
        part.iter().map(|(name, tensor)| ((*name).to_owned(), (*tensor).clone())).collect()
    };
    safetensors::save(&owned(&a), parts.join("a.safetensors")).expect("written");
    safetensors::save(&owned(&b), parts.join("b.safetensors")).expect("written");
    let mut map: HashMap<&str, &str> = a.keys().map(|name| (*name, "a.safetensors")).collect();
    map.extend(b.keys().map(|name| (*name, "b.safetensors")));
    index(&map);
    let fitted = Fitted::open(&parts, &experiment, &info(&experiment)).unwrap_or_else(|error| panic!("{error}"));
    assert!(fitted.tensors() > a.len());
    map.insert("transformer.wte.weight", "a.safetensors");
    index(&map);
    assert!(refused(&experiment, &parts).contains("(tensor transformer.wte.weight): is not in"));
    map.insert("transformer.wte.weight", "../out/model.safetensors");
    index(&map);
    assert!(refused(&experiment, &parts).contains("which does not lie beside it"));
    map.insert("transformer.wte.weight", "c.safetensors");
    index(&map);
    assert!(refused(&experiment, &parts).contains("names the file c.safetensors, which is not there"));
    let pickled = folder.path().join("pickled");
    fs::create_dir(&pickled).expect("a folder");
    fs::write(pickled.join("pytorch_model.bin"), "no").expect("written");
    assert!(refused(&experiment, &pickled).contains("is pickled, and to read a pickled file is to run"));
    assert!(refused(&experiment, &pickled.join("pytorch_model.bin")).contains("save the weights as safetensors"));
    assert!(refused(&experiment, &folder.path().join("nowhere")).contains("no such file"));
}

#[test]
fn adapters_are_exported_alone_or_merged_and_refused_where_they_have_no_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let base = tiny(ModelKind::Llama);
    trained(&base, &at("first"));
    exported(&base, &at("first"), &at("out"));
    let mut lora = base.clone();
    (lora.lora, lora.frozen) = (Lora { rank: 2, alpha: 8.0 }, Frozen::All);
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

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Whatever a header says: it is refused in a sentence, or every tensor of it lies in the file.
    #[test]
    fn no_header_is_taken_at_its_word(
        length in prop_oneof![any::<u64>(), 0..400_u64],
        begin in any::<u64>(),
        end in prop_oneof![any::<u64>(), 0..64_u64],
        extents in prop::collection::vec(prop_oneof![any::<u64>(), 0..9_u64], 0..5),
        dtype in prop_oneof![Just("F32"), Just("BF16"), Just("I64"), Just("F4"), Just("Q9")],
        truth in any::<bool>(),
        cut in 0..200_usize,
    ) {
        let begin = if truth { 0 } else { begin };
        let entry = serde_json::json!({ "dtype": dtype, "shape": extents, "data_offsets": [begin, end] });
        let header = serde_json::json!({ "a": entry }).to_string();
        let length = if truth { header.len() as u64 } else { length };
        let mut bytes = length.to_le_bytes().to_vec();
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend(std::iter::repeat_n(0, 32));
        bytes.truncate(bytes.len().saturating_sub(if truth { 0 } else { cut }));
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.safetensors");
        fs::write(&path, &bytes).expect("written");
        match Mapped::open(&path) {
            Ok(_) => {
                let elements: u64 = extents.iter().product();
                prop_assert!(begin == 0 && elements <= 64, "{header}");
            }
            Err(error) => prop_assert!(error.to_string().starts_with(&path.display().to_string()), "{error}"),
        }
    }
}
