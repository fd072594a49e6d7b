//! The decoders of Hugging Face: GPT-2, Llama and those made after it.

use serde_json::Value;

use super::{Config, Imported, OTHER, Samples, plain};
use crate::{
    error::Result,
    experiment::{Model, ModelKind},
};

/// Decoders with learned positions.
pub(super) fn gpt2(config: &Config<'_>) -> Result<Imported> {
    let width = config.count("n_embd")?;
    config.activation("activation_function", &["gelu_new", "gelu_pytorch_tanh", "gelu_fast"])?;
    let mut omitted = Vec::new();
    let unlike = ["scale_attn_by_inverse_layer_idx", "add_cross_attention"]
        .into_iter()
        .filter_map(|name| Some((name, config.flag(name, false))).filter(|(_, flag)| !matches!(flag, Ok(false))));
    let mut unlike = unlike.map(|(name, flag)| flag.map(|_| format!("{name} true"))).collect::<Result<Vec<_>>>()?;
    if !config.flag("scale_attn_weights", true)? {
        unlike.push("scale_attn_weights false".to_owned());
    }
    let dropout = config.share("resid_pdrop")?;
    for name in ["embd_pdrop", "attn_pdrop"] {
        let share = config.share(name)?;
        if share != dropout || (name == "attn_pdrop" && share > 0.0) {
            omitted.push(format!("{name} {share}"));
        }
    }
    let heads = config.count("n_head")?;
    let model = Model {
        kind: ModelKind::Gpt2,
        width,
        depth: config.count("n_layer")?,
        heads,
        kv_heads: heads,
        hidden: config.maybe_count("n_inner")?.unwrap_or(4 * width),
        tied: config.flag("tie_word_embeddings", true)?,
        dropout,
        norm_epsilon: config.epsilon("layer_norm_epsilon", 1e-5, 1e-5)?,
        ..Model::default()
    };
    // Files of the first years have the other name only.
    let is_old = config.given("n_positions").is_none() && config.given("n_ctx").is_some();
    let length = config.count(if is_old { "n_ctx" } else { "n_positions" })?;
    Ok(Imported { model, samples: Samples::Tokens(length), omitted, unlike })
}

/// Decoders with rotary positions and gated units, without biases.
pub(super) fn llama(config: &Config<'_>) -> Result<Imported> {
    config.activation("hidden_act", &["silu", "swish"])?;
    for name in ["attention_bias", "mlp_bias"] {
        if config.flag(name, false)? {
            return Err(config.wrong(name, format!("true has no place here; {OTHER}; to plan alone, write false")));
        }
    }
    let (width, heads) = (config.count("hidden_size")?, config.count("num_attention_heads")?);
    let head_dim = config.maybe_count("head_dim")?.filter(|numbers| numbers.checked_mul(heads) != Some(width));
    let model = Model {
        kind: ModelKind::Llama,
        width,
        depth: config.count("num_hidden_layers")?,
        heads,
        kv_heads: config.maybe_count("num_key_value_heads")?.unwrap_or(heads),
        head_dim: head_dim.unwrap_or(0),
        hidden: config.count("intermediate_size")?,
        tied: config.flag("tie_word_embeddings", false)?,
        rotary_base: config.rotary_base()?,
        norm_epsilon: config.epsilon("rms_norm_eps", 1e-6, 1e-5)?,
        ..Model::default()
    };
    let unlike = config.other_positions();
    let omitted = config.omitted(&["attention_dropout"]).into_iter().chain(unlike.clone()).collect();
    let samples = Samples::Tokens(config.count("max_position_embeddings")?);
    Ok(Imported { model, samples, omitted, unlike })
}

/// Llama with a window.
pub(super) fn mistral(config: &Config<'_>) -> Result<Imported> {
    let mut imported = llama(config)?;
    // Without a word of it, a file means the window of the first of them.
    let is_named = config.fields.contains_key("sliding_window");
    let window = if is_named { config.maybe_count("sliding_window")?.unwrap_or(0) } else { 4096 };
    imported.model.window = if config.layers_slide(imported.model.depth)?.unwrap_or(true) { window } else { 0 };
    Ok(imported)
}

/// Llama with a bias of queries, keys and values.
pub(super) fn qwen2(config: &Config<'_>) -> Result<Imported> {
    let mut imported = llama(config)?;
    imported.model.qkv_bias = true;
    sliding_window(config, imported)
}

/// Llama with heads of a size of their own, whose queries and keys are normalised.
pub(super) fn qwen3(config: &Config<'_>) -> Result<Imported> {
    let mut imported = llama(config)?;
    imported.model.qk_norm = true;
    // One number for all norms of the model.
    imported.model.norm_epsilon = config.number("rms_norm_eps", 1e-6)?;
    sliding_window(config, imported)
}

/// The window of Qwen's files, which some of their layers may have.
fn sliding_window(config: &Config<'_>, mut imported: Imported) -> Result<Imported> {
    let layers = config.layers_slide(imported.model.depth)?;
    if layers == Some(false) || !config.flag("use_sliding_window", false)? {
        return Ok(imported);
    }
    if layers == Some(true) {
        imported.model.window = config.count("sliding_window")?;
    } else {
        let (layers, depth) = (config.maybe_count("max_window_layers")?, imported.model.depth);
        // Layers up to this one see everything.
        match layers {
            Some(full) if full >= depth => {}
            Some(full) if full > 0 => {
                let message = format!("{full} has a window in some layers and not in others, and here all are alike");
                return Err(
                    config.wrong("max_window_layers", format!("{message}; {OTHER}; to plan alone, write 0 or {depth}"))
                );
            }
            _ => imported.model.window = config.count("sliding_window")?,
        }
    }
    Ok(imported)
}

impl Config<'_> {
    /// Whether its layers have a window, where the file says it layer by layer, as newer ones do.
    fn layers_slide(&self, depth: usize) -> Result<Option<bool>> {
        const FIELD: &str = "layer_types";
        let Some(given) = self.given(FIELD) else { return Ok(None) };
        let types: Vec<&str> = given.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        if types.len() != depth {
            return Err(self.wrong(FIELD, format!("does not have as many words as there are layers: {depth}")));
        }
        match types.iter().find(|word| !["full_attention", "sliding_attention"].contains(word)) {
            Some(other) => Err(self.wrong(FIELD, format!("{} has no place here; {OTHER}", plain(&(*other).into())))),
            None if types.iter().all(|word| word == &types[0]) => {
                Ok(types.first().map(|word| *word == "sliding_attention"))
            }
            None => {
                let message = "some layers have a window and others have none, and here all are alike";
                Err(self.wrong(FIELD, format!("{message}; {OTHER}")))
            }
        }
    }

    /// The base of the angles: newer files have it in a group with everything about positions, which takes precedence over the
    /// field of older ones.
    fn rotary_base(&self) -> Result<f64> {
        let group = self.given("rope_parameters");
        let Some(base) = group.and_then(|group| group.get("rope_theta")).filter(|base| !base.is_null()) else {
            return self.number("rope_theta", 10_000.0);
        };
        let wrong = || self.wrong("rope_parameters", "rope_theta is not a number; write one, such as 10000.0");
        base.as_f64().ok_or_else(wrong)
    }

    /// Ways to stretch the positions, none of which is supported.
    fn other_positions(&self) -> Vec<String> {
        let stretches = |group: &Value| {
            let kind = group.get("rope_type").or_else(|| group.get("type")).and_then(Value::as_str);
            let share = group.get("partial_rotary_factor").and_then(Value::as_f64);
            kind != Some("default") || share.is_some_and(|share| share != 1.0)
        };
        let groups = ["rope_scaling", "rope_parameters"].into_iter().filter_map(|name| Some((name, self.given(name)?)));
        let other = groups.filter(|(_, group)| stretches(group));
        other.map(|(name, group)| format!("{name} {}", plain(group))).collect()
    }
}
