//! The `config.json` that describes the model of written weights.
//!
//! Owns [`of`]. Always holds: a program that reads the file computes the same as the run. Refuses a setting that the layout
//! has no word for, and names it. Other fields are copied from the file that the run began with.

use serde_json::{Map, Value, json};

use super::labels::{self, PUBLISHED};
use crate::{
    error::{Problem, Result},
    experiment::{DatasetInfo, Experiment, Model, ModelKind, Stem, weights::CONFIG},
};

/// The facts of the data that a run learned from, in addition to their extents.
#[derive(Clone, Copy, Default)]
pub(super) struct Told<'a> {
    /// The names of the classes.
    pub(super) names: Option<&'a [String]>,
    /// Mean and deviation of each channel from 0 to 1, by which pixels were scaled.
    pub(super) scaling: Option<[[f64; 3]; 2]>,
}

/// The configuration of the experiment's model over such data, as the fields of a file.
pub(super) fn of(experiment: &Experiment, info: &DatasetInfo, told: Told<'_>) -> Result<Map<String, Value>> {
    let names = told.names.filter(|names| names.len() == info.classes);
    let told = Told { names, ..told };
    let model = &experiment.model;
    let own = match model.kind {
        ModelKind::Gpt2 => gpt2(model, info)?,
        ModelKind::Llama => llama(experiment, info)?,
        ModelKind::Vit if began_in_timm(experiment) => return as_it_began(experiment, info, told),
        ModelKind::Vit => vit(model, info, names)?,
        ModelKind::Resnet | ModelKind::Mobilenetv2 => return of_timm(experiment, info, told),
        _ => return Err(no_place(model)),
    };
    let mut fields = before(experiment).filter(|fields| fields.get("model_type") == Some(&own["model_type"]));
    let fields = fields.get_or_insert_default();
    for stale in
        ["torch_dtype", "rope_theta", "rope_scaling", "quantization_config", "layer_types", "max_window_layers"]
    {
        fields.remove(stale);
    }
    fields.extend(own.as_object().cloned().unwrap_or_default());
    fields.insert("dtype".to_owned(), type_name(experiment).into());
    Ok(std::mem::take(fields))
}

/// A family that has no layout elsewhere.
pub(super) fn no_place(model: &Model) -> crate::error::Error {
    let message = format!("a {} has no place in the layouts of transformers, torchvision and timm", model.kind.key());
    Problem::new("model.kind", message, "write --format safetensors, which has this program's names").into()
}

/// The type that the weights are written in.
fn type_name(experiment: &Experiment) -> &'static str {
    use crate::tensor::DType;
    match experiment.weight_type() {
        DType::F64 => "float64",
        DType::Bf16 => "bfloat16",
        DType::F16 => "float16",
        DType::F32 | DType::U32 | DType::U8 => "float32",
    }
}

/// The fields of the configuration that the run began with.
fn before(experiment: &Experiment) -> Option<Map<String, Value>> {
    let path = experiment.weights.chosen()?;
    let folder = if path.is_dir() { path } else { path.parent()? };
    let text = std::fs::read_to_string(folder.join(CONFIG)).ok()?;
    serde_json::from_str(&text).ok()
}

/// Whether the run began with weights whose configuration is timm's.
pub(super) fn began_in_timm(experiment: &Experiment) -> bool {
    before(experiment).is_some_and(|fields| fields.get("architecture").is_some_and(Value::is_string))
}

/// The configuration that the run began with, with the present number of classes.
fn as_it_began(experiment: &Experiment, info: &DatasetInfo, told: Told<'_>) -> Result<Map<String, Value>> {
    let mut fields = before(experiment).unwrap_or_default();
    put_for_timm(&mut fields, info, told)?;
    Ok(fields)
}

/// Gives the fields of timm the classes and the pixels of a run; the other fields stay as they are. How a run of this
/// program sees an image, where they say nothing: cropped to its middle square, by cubic interpolation.
fn put_for_timm(fields: &mut Map<String, Value>, info: &DatasetInfo, told: Told<'_>) -> Result<()> {
    let [height, width, channels] = info.image()?;
    fields.insert("num_classes".to_owned(), info.classes.into());
    labels::put_for_timm(fields, told.names);
    let published = fields.entry(PUBLISHED).or_insert_with(|| json!({}));
    let Some(published) = published.as_object_mut() else { return Ok(()) };
    let size = json!([channels, height, width]);
    if published.get("input_size").is_some_and(|own| *own != size) {
        ["test_input_size", "test_crop_pct", "pool_size"].iter().for_each(|stale| drop(published.remove(*stale)));
    }
    published.insert("input_size".to_owned(), size);
    published.insert("num_classes".to_owned(), info.classes.into());
    published.entry("crop_pct").or_insert_with(|| json!(1.0));
    published.entry("interpolation").or_insert_with(|| json!("bicubic"));
    if let Some([mean, deviation]) = told.scaling.filter(|_| channels == 3) {
        published.insert("mean".to_owned(), json!(mean));
        published.insert("std".to_owned(), json!(deviation));
    }
    Ok(())
}

/// The learned positions of the weights that a run began with, and those that it has, if it has fewer.
pub(super) fn fewer_positions(experiment: &Experiment, info: &DatasetInfo) -> Option<[usize; 2]> {
    let whole = before(experiment)?.get("n_positions")?.as_u64()? as usize;
    let [own, _] = info.tokens().ok()?;
    (experiment.model.kind == ModelKind::Gpt2 && own < whole).then_some([whole, own])
}

fn gpt2(model: &Model, info: &DatasetInfo) -> Result<Value> {
    let [length, vocabulary] = info.tokens()?;
    if model.window > 0 && model.window < length {
        let mend = "write --format safetensors, or train with model.window = 0";
        return Err(Problem::new("model.window", "transformers' GPT-2 has no window", mend).into());
    }
    Ok(json!({
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "activation_function": "gelu_new",
        "n_embd": model.width,
        "n_layer": model.depth,
        "n_head": model.heads,
        "n_inner": model.hidden,
        "n_positions": length,
        "n_ctx": length,
        "vocab_size": vocabulary,
        "layer_norm_epsilon": model.epsilon(),
        "tie_word_embeddings": model.tied,
        "embd_pdrop": model.dropout,
        "resid_pdrop": model.dropout,
        "attn_pdrop": 0.0,
        "scale_attn_weights": true,
        "scale_attn_by_inverse_layer_idx": false,
        "add_cross_attention": false,
    }))
}

fn llama(experiment: &Experiment, info: &DatasetInfo) -> Result<Value> {
    let (model, [length, vocabulary]) = (&experiment.model, info.tokens()?);
    let has_window = model.window > 0;
    let (model_type, class) = match (model.qk_norm, model.qkv_bias, has_window) {
        (true, true, _) => {
            let message = "no model of transformers has both normalised queries and keys and a bias of them";
            return Err(Problem::new("model.qk_norm", message, "write --format safetensors").into());
        }
        (true, false, _) => ("qwen3", "Qwen3ForCausalLM"),
        (false, true, _) => ("qwen2", "Qwen2ForCausalLM"),
        (false, false, true) => ("mistral", "MistralForCausalLM"),
        (false, false, false) => ("llama", "LlamaForCausalLM"),
    };
    if model.qk_norm && model.epsilon() != model.query_key_epsilon() {
        let message = "all norms of transformers' Qwen3 add the same, and those of this run do not";
        return Err(Problem::new("model.norm_epsilon", message, "train with model.norm_epsilon = 1e-6").into());
    }
    let positions = before(experiment).and_then(|fields| fields.get("max_position_embeddings")?.as_u64());
    let mut fields = json!({
        "model_type": model_type,
        "architectures": [class],
        "hidden_act": "silu",
        "hidden_size": model.width,
        "num_hidden_layers": model.depth,
        "num_attention_heads": model.heads,
        "num_key_value_heads": model.kv_heads,
        "head_dim": model.head_width(),
        "intermediate_size": model.hidden,
        // Rotary angles have no limit: the most tokens are those of the weights that the run began with.
        "max_position_embeddings": positions.unwrap_or(0).max(length as u64),
        "vocab_size": vocabulary,
        "rms_norm_eps": model.epsilon(),
        "rope_theta": model.rotary_base,
        "rope_parameters": { "rope_type": "default", "rope_theta": model.rotary_base },
        "tie_word_embeddings": model.tied,
        "attention_bias": false,
        "mlp_bias": false,
        "attention_dropout": 0.0,
    });
    if model_type != "llama" {
        fields["sliding_window"] = if has_window { model.window.into() } else { Value::Null };
    }
    if model_type.starts_with("qwen") {
        fields["use_sliding_window"] = has_window.into();
        fields["max_window_layers"] = if has_window { 0.into() } else { model.depth.into() };
    }
    Ok(fields)
}

fn vit(model: &Model, info: &DatasetInfo, names: Option<&[String]>) -> Result<Value> {
    let [height, width, channels] = info.image()?;
    let mut fields = json!({
        "model_type": "vit",
        "architectures": ["ViTForImageClassification"],
        "hidden_act": "gelu",
        "hidden_size": model.width,
        "num_hidden_layers": model.depth,
        "num_attention_heads": model.heads,
        "intermediate_size": model.hidden,
        "image_size": if height == width { json!(height) } else { json!([height, width]) },
        "patch_size": model.patch,
        "num_channels": channels,
        "layer_norm_eps": model.epsilon(),
        "hidden_dropout_prob": model.dropout,
        "attention_probs_dropout_prob": 0.0,
        "qkv_bias": true,
    });
    for (name, value) in labels::of_transformers(names, info.classes) {
        fields[name] = value;
    }
    Ok(fields)
}

/// The fields that timm requires in a model's folder; torchvision has no such file.
fn of_timm(experiment: &Experiment, info: &DatasetInfo, told: Told<'_>) -> Result<Map<String, Value>> {
    let (model, [_, _, channels]) = (&experiment.model, info.image()?);
    if model.stem == Stem::Small {
        let message = "the stem for small images has no place in torchvision's and timm's models";
        let mend = "write --format safetensors, or train with model.stem = \"imagenet\"";
        return Err(Problem::new("model.stem", message, mend).into());
    }
    let architecture = match model.kind {
        ModelKind::Resnet => format!("resnet{}", model.layers),
        ModelKind::Mobilenetv2 => format!("mobilenetv2_{:03}", (model.multiplier * 100.0).round()),
        _ => return Err(no_place(model)),
    };
    // A file from timm says more about its pixels than a run knows.
    let own =
        before(experiment).filter(|fields| fields.get("architecture").and_then(Value::as_str) == Some(&architecture));
    let mut fields = own.unwrap_or_default();
    fields.insert("architecture".to_owned(), architecture.into());
    if channels != 3 {
        fields.insert("model_args".to_owned(), json!({ "in_chans": channels }));
    }
    put_for_timm(&mut fields, info, told)?;
    Ok(fields)
}
