//! Networks for images: transformers' ViT, and the architectures of timm that are here.

use serde_json::Value;

use super::{Config, Imported, OTHER, Samples, plain, shortened};
use crate::{
    error::Result,
    experiment::{Model, ModelKind, Stem},
};

pub(super) const VIT_FIELDS: &[(&str, &str)] = &[
    ("model.width", "hidden_size"),
    ("model.depth", "num_hidden_layers"),
    ("model.heads", "num_attention_heads"),
    ("model.hidden", "intermediate_size"),
    ("model.patch", "patch_size"),
    ("model.dropout", "hidden_dropout_prob"),
    ("data.side", "image_size"),
];

/// Classes of a file that does not say: those of ImageNet.
const CLASSES: usize = 1000;

/// Vision transformers with a class token.
pub(super) fn vit(config: &Config<'_>) -> Result<Imported> {
    config.activation("hidden_act", &["gelu"])?;
    if !config.flag("qkv_bias", true)? {
        return Err(config.wrong("qkv_bias", format!("false has no place here; {OTHER}; to plan alone, write true")));
    }
    let heads = config.maybe_count("num_attention_heads")?.unwrap_or(12);
    let dropout =
        if config.given("hidden_dropout_prob").is_some() { config.share("hidden_dropout_prob")? } else { 0.0 };
    let model = Model {
        kind: ModelKind::Vit,
        width: config.maybe_count("hidden_size")?.unwrap_or(768),
        depth: config.maybe_count("num_hidden_layers")?.unwrap_or(12),
        heads,
        kv_heads: heads,
        hidden: config.maybe_count("intermediate_size")?.unwrap_or(3072),
        patch: config.maybe_count("patch_size")?.unwrap_or(16),
        norm_epsilon: config.epsilon("layer_norm_eps", 1e-12, 1e-6)?,
        dropout,
        ..Model::default()
    };
    let labels = config.given("id2label").and_then(Value::as_object).map(serde_json::Map::len);
    let classes = match labels {
        Some(labels) => labels,
        None => config.maybe_count("num_labels")?.unwrap_or(2),
    };
    let side = config.maybe_count("image_size")?.unwrap_or(224);
    let omitted = config.omitted(&["attention_probs_dropout_prob"]);
    Ok(Imported { model, samples: Samples::Images { side, classes }, omitted, unlike: Vec::new() })
}

/// The model that timm's `architecture` names.
pub(super) fn timm(config: &Config<'_>) -> Result<Imported> {
    let name = config.given("architecture").and_then(Value::as_str).unwrap_or_default();
    let argument = |name: &str| config.given("model_args").and_then(|given| given.get(name)).and_then(Value::as_u64);
    let Some((model, side)) = architecture(name) else {
        let known = "resnet18, resnet34, resnet50, resnet101, mobilenetv2_100 and its other widths, and vit_tiny, vit_small, \
                     vit_base or vit_large with _patch16_224 or other sizes";
        let message = format!("{} is not one that can be opened; those are {known}", shortened(&name.into()));
        return Err(config.wrong("architecture", message));
    };
    let side = argument("img_size").map_or(side, |side| side as usize);
    let classes = argument("num_classes").map(|classes| classes as usize);
    let classes = classes.or(config.maybe_count("num_classes")?).unwrap_or(CLASSES);
    let unlike = config.other_arguments(if model.kind == ModelKind::Vit { "token" } else { "avg" });
    Ok(Imported { model, samples: Samples::Images { side, classes }, omitted: unlike.clone(), unlike })
}

impl Config<'_> {
    /// The arguments by which timm builds something other than the architecture's name says, whose images are pooled by
    /// `pooling`.
    fn other_arguments(&self, pooling: &str) -> Vec<String> {
        const SIZES: [&str; 3] = ["img_size", "in_chans", "num_classes"];
        let is_own = |name: &str, value: &Value| SIZES.contains(&name) || (name == "global_pool" && *value == *pooling);
        let of_group = self.given("model_args").and_then(Value::as_object).into_iter().flatten();
        let of_file = self.given("global_pool").map(|value| ("global_pool", value));
        let all = of_group.map(|(name, value)| (name.as_str(), value)).chain(of_file);
        all.filter(|(name, value)| !is_own(name, value))
            .map(|(name, value)| format!("{name} {}", plain(value)))
            .collect()
    }
}

/// The model of a name of timm, and the side of its images.
fn architecture(name: &str) -> Option<(Model, usize)> {
    if let Some(layers) = name.strip_prefix("resnet") {
        let layers = layers.parse().ok().filter(|layers| [18, 34, 50, 101].contains(layers))?;
        return Some((Model { kind: ModelKind::Resnet, layers, stem: Stem::Imagenet, ..Model::default() }, 224));
    }
    if let Some(share) = name.strip_prefix("mobilenetv2_") {
        let multiplier = share.parse::<u32>().ok().filter(|share| [35, 50, 75, 100, 140].contains(share))?;
        let multiplier = f64::from(multiplier) / 100.0;
        return Some((
            Model { kind: ModelKind::Mobilenetv2, multiplier, stem: Stem::Imagenet, ..Model::default() },
            224,
        ));
    }
    let (size, rest) = name.strip_prefix("vit_")?.split_once("_patch")?;
    let (patch, side) = rest.split_once('_')?;
    let (width, depth, heads) = match size {
        "tiny" => (192, 12, 3),
        "small" => (384, 12, 6),
        "base" => (768, 12, 12),
        "large" => (1024, 24, 16),
        _ => return None,
    };
    let (patch, side) = (patch.parse().ok()?, side.parse().ok()?);
    let kind = ModelKind::Vit;
    let model = Model { kind, width, depth, heads, kv_heads: heads, hidden: 4 * width, patch, ..Model::default() };
    Some((model, side))
}
