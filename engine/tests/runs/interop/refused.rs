//! Weights that are refused, each in a sentence with the file, the place and the mend.

use std::{collections::HashMap, fs, path::Path};

use candle_core::{DType, Device, Tensor, safetensors};
use plimsoll_engine::{
    Experiment,
    experiment::{Frozen, Model, ModelKind, Stem, preset},
    interop::{Fitted, Mapped},
};
use proptest::prelude::*;

use super::{exported, info, published, tiny, trained};

fn refused(experiment: &Experiment, path: &Path) -> String {
    match Fitted::open(path, experiment, &info(experiment)) {
        Ok(_) => panic!("{} was taken", path.display()),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_run_with_adapters_is_no_beginning_for_one_without_and_says_what_would_be() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut adapted = tiny(ModelKind::Gpt2);
    (adapted.lora.rank, adapted.frozen) = (2, Frozen::All);
    trained(&adapted, folder.path());
    for rank in [0, 3] {
        let mut other = adapted.clone();
        other.lora.rank = rank;
        if rank == 0 {
            other.frozen = Frozen::None;
        }
        let said = refused(&other, folder.path());
        assert!(said.contains("write lora.rank and lora.targets as the run of these weights has them"), "{said}");
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
    assert!(refused(&untied, &path).contains("set model.tied=true, as"), "{}", refused(&untied, &path));
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
fn every_part_of_a_fused_layer_is_named_by_what_is_wrong_with_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let mut experiment = tiny(ModelKind::Llama);
    experiment.model.tied = false;
    trained(&experiment, &at("first"));
    exported(&experiment, &at("first"), &at("out"));
    let whole = safetensors::load(at("out/model.safetensors"), &Device::Cpu).expect("written");
    let path = at("changed.safetensors");
    let changed = |change: &dyn Fn(&mut HashMap<String, Tensor>)| {
        let mut tensors = whole.clone();
        change(&mut tensors);
        safetensors::save(&tensors, &path).expect("written");
        refused(&experiment, &path)
    };
    let of = |name: &str| format!("model.layers.0.{name}.weight");
    let said = changed(&|tensors| drop(tensors.remove(&of("self_attn.k_proj"))));
    assert!(said.contains("missing: model.layers.0.self_attn.k_proj.weight;") && !said.contains("no place"), "{said}");
    let said = changed(&|tensors| {
        let turned = tensors[&of("mlp.gate_proj")].t().and_then(|turned| turned.contiguous()).expect("two extents");
        tensors.insert(of("mlp.gate_proj"), turned);
    });
    assert!(said.contains("gate_proj.weight is [16, 24]") && !said.contains("no place"), "{said}");
    let codes = |tensors: &mut HashMap<String, Tensor>, name: &str| {
        let whole = tensors[name].zeros_like().and_then(|zeros| zeros.to_dtype(DType::U8)).expect("zeros");
        tensors.insert(name.to_owned(), whole);
    };
    let said = changed(&|tensors| codes(tensors, &of("self_attn.q_proj")));
    assert!(said.contains("self_attn.q_proj.weight (U8); save them as F32") && !said.contains("no place"), "{said}");
    let said = changed(&|tensors| tensors.retain(|name, _| !name.starts_with("model.layers.1.")));
    assert!(said.contains(" and 6 more;"), "all nine: {said}");
    // A head that is not of the vocabulary of its own file is no other vocabulary, and of no other type.
    let said = changed(&|tensors| {
        let head = Tensor::zeros((25, 16), DType::F32, &Device::Cpu).expect("zeros");
        tensors.insert("lm_head.weight".to_owned(), head);
    });
    assert!(said.contains("have other extents: lm_head.weight is [25, 16], and the model has [20, 16]"), "{said}");
    assert!(changed(&|tensors| codes(tensors, "lm_head.weight")).contains("lm_head.weight (U8); save them as F32"));
    // Of another vocabulary as a whole, both begin afresh and both are told of.
    let mut larger = experiment.clone();
    larger.data.vocabulary = 30;
    let fitted = Fitted::open(&at("out/model.safetensors"), &larger, &info(&larger)).unwrap_or_else(|e| panic!("{e}"));
    let caution = fitted.caution().expect("by chance");
    assert!(
        caution.contains("embedding.weight begins with new values") && caution.contains("head.classes.weight begins"),
        "{caution}"
    );
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
fn the_settings_under_which_weights_would_fit_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.safetensors");
    let decoder = |kind, change: fn(&mut Experiment)| {
        let mut experiment = tiny(kind);
        (experiment.model.kv_heads, experiment.model.tied) = (1, false);
        change(&mut experiment);
        experiment
    };
    let plain = |_: &mut Experiment| {};
    let cases = [
        (
            decoder(ModelKind::Llama, |e| (e.model.qkv_bias, e.model.depth) = (true, 3)),
            decoder(ModelKind::Llama, plain),
            "set model.depth=3, model.qkv_bias=true, as the weights have it",
        ),
        (
            decoder(ModelKind::Gpt2, |e| (e.data.length, e.model.hidden) = (4, 20)),
            decoder(ModelKind::Gpt2, plain),
            "set model.hidden=20, data.length=4, as the weights have it",
        ),
        (decoder(ModelKind::Vit, |e| e.data.side = 16), tiny(ModelKind::Vit), "set data.side=16, as the weights"),
        (
            tiny(ModelKind::Mobilenetv2),
            decoder(ModelKind::Mobilenetv2, |e| e.model.multiplier = 0.5),
            "or choose others",
        ),
    ];
    for (own, other, mend) in cases {
        trained(&own, folder.path());
        let out = folder.path().join("out");
        exported(&own, folder.path(), &out);
        // Without the file that says it.
        fs::copy(out.join("model.safetensors"), &path).expect("copied");
        let said = refused(&other, &path);
        assert!(said.contains(mend), "{said}");
        // The run's own file says it too.
        let own = refused(&other, &folder.path().join("last.safetensors"));
        assert!(own.contains(mend) || mend.starts_with("or"), "{own}");
    }
}

#[test]
fn a_residual_network_of_another_depth_and_stem_is_named_by_its_settings() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.safetensors");
    let mut tensors = HashMap::new();
    // As many as tell the depth, and no more than are needed to be told apart.
    let of = |extents: &[usize]| Tensor::zeros(extents, DType::F32, &Device::Cpu).expect("zeros");
    let mut put = |name: String, extents: &[usize]| drop(tensors.insert(name, of(extents)));
    put("conv1.weight".to_owned(), &[64, 3, 7, 7]);
    let norm = |put: &mut dyn FnMut(String, &[usize]), name: &str, width: usize| {
        ["weight", "bias", "running_mean", "running_var"]
            .iter()
            .for_each(|what| put(format!("{name}.{what}"), &[width]));
    };
    norm(&mut put, "bn1", 64);
    for (stage, (width, count)) in [(64, 3), (128, 4), (256, 6), (512, 3)].into_iter().enumerate() {
        for block in 0..count {
            let name = format!("layer{}.{block}", stage + 1);
            let inner = if block == 0 && stage > 0 { width / 2 } else { width };
            put(format!("{name}.conv1.weight"), &[width, inner, 3, 3]);
            put(format!("{name}.conv2.weight"), &[width, width, 3, 3]);
            norm(&mut put, &format!("{name}.bn1"), width);
            norm(&mut put, &format!("{name}.bn2"), width);
            if inner != width {
                put(format!("{name}.downsample.0.weight"), &[width, inner, 1, 1]);
                norm(&mut put, &format!("{name}.downsample.1"), width);
            }
        }
    }
    put("fc.weight".to_owned(), &[4, 512]);
    put("fc.bias".to_owned(), &[4]);
    safetensors::save(&tensors, &path).expect("written");
    let mut experiment = tiny(ModelKind::Resnet);
    experiment.model.stem = Stem::Small;
    let said = refused(&experiment, &path);
    assert!(said.contains("set model.layers=34, model.stem=imagenet, as the weights have it"), "{said}");
    // Types that are not weights are named as what they are.
    let counts = Tensor::zeros(64, DType::I64, &Device::Cpu).expect("zeros");
    tensors.insert("bn1.weight".to_owned(), counts);
    safetensors::save(&tensors, &path).expect("written");
    (experiment.model.stem, experiment.model.layers) = (Stem::Imagenet, 34);
    let said = refused(&experiment, &path);
    let types = "tensors have elements of types that are not weights here: bn1.weight (I64); save them as F32";
    assert!(said.contains(types) && !said.contains("extents"), "{said}");
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
    assert!(refused(&experiment, &parts).contains("which does not lie next to it"));
    map.insert("transformer.wte.weight", "c.safetensors");
    index(&map);
    assert!(refused(&experiment, &parts).contains("names the file c.safetensors, which is not there"));
    let pickled = folder.path().join("pickled");
    fs::create_dir(&pickled).expect("a folder");
    fs::write(pickled.join("pytorch_model.bin"), "no").expect("written");
    assert!(refused(&experiment, &pickled).contains("is pickled, and reading a pickled file runs"));
    assert!(refused(&experiment, &pickled.join("pytorch_model.bin")).contains("save the weights as safetensors"));
    // A folder that has only those says so when it is opened; what has the name of weights but is something else is refused.
    let config =
        r#"{"model_type": "gpt2", "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 8, "vocab_size": 20}"#;
    fs::write(pickled.join("config.json"), config).expect("written");
    let opened = preset::open(&pickled).expect("a configuration");
    assert_eq!(opened.experiment.weights.path, None);
    assert!(opened.notes.iter().any(|note| note.contains("pytorch_model.bin, which is pickled")), "{:?}", opened.notes);
    fs::create_dir(pickled.join("model.safetensors")).expect("a folder");
    let opened = preset::open(&pickled).expect("a configuration").experiment;
    let said = refused(&opened, opened.weights.path.as_ref().expect("the folder"));
    assert!(said.contains("model.safetensors") && said.contains("folder"), "{said}");
    assert!(refused(&experiment, &folder.path().join("nowhere")).contains("no such file"));
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
