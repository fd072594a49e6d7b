//! Published sizes of the models that have them: one choice that sets width, depth, heads and related settings.

use plimsoll_engine::experiment::{Model, ModelKind};

use crate::widgets::control::{Choice, Place, Spec};

/// The settings of a published size.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Size {
    width: usize,
    depth: usize,
    heads: usize,
    kv_heads: usize,
    hidden: usize,
    tied: bool,
    qkv_bias: bool,
    /// Heads of this size with normalised queries and keys; 0: neither.
    qk_norm: usize,
    rotary_base: f64,
}

/// A size whose heads share no keys, with the biases and bases of its family's first papers.
const fn size(width: usize, depth: usize, heads: usize, hidden: usize) -> Size {
    Size { width, depth, heads, kv_heads: heads, hidden, tied: false, qkv_bias: false, qk_norm: 0, rotary_base: 1e4 }
}

const VIT: [Size; 4] =
    [size(192, 12, 3, 768), size(384, 12, 6, 1536), size(768, 12, 12, 3072), size(1024, 24, 16, 4096)];
const MIXER: [Size; 3] = [size(512, 8, 1, 2048), size(768, 12, 1, 3072), size(1024, 24, 1, 4096)];
const GPT2: [Size; 4] = [
    Size { tied: true, ..size(768, 12, 12, 3072) },
    Size { tied: true, ..size(1024, 24, 16, 4096) },
    Size { tied: true, ..size(1280, 36, 20, 5120) },
    Size { tied: true, ..size(1600, 48, 25, 6400) },
];
const LLAMA: [Size; 14] = [
    Size { tied: true, ..size(288, 6, 6, 768) },
    Size { tied: true, ..size(768, 12, 12, 2048) },
    Size { kv_heads: 2, tied: true, qkv_bias: true, rotary_base: 1e6, ..size(896, 24, 14, 4864) },
    Size { kv_heads: 8, tied: true, qk_norm: 128, rotary_base: 1e6, ..size(1024, 28, 16, 3072) },
    Size { kv_heads: 4, ..size(2048, 22, 32, 5632) },
    Size { kv_heads: 8, tied: true, rotary_base: 5e5, ..size(2048, 16, 32, 8192) },
    Size { kv_heads: 2, tied: true, qkv_bias: true, rotary_base: 1e6, ..size(1536, 28, 12, 8960) },
    Size { kv_heads: 8, tied: true, rotary_base: 5e5, ..size(3072, 28, 24, 8192) },
    Size { kv_heads: 2, tied: true, qkv_bias: true, rotary_base: 1e6, ..size(2048, 36, 16, 11008) },
    size(4096, 32, 32, 11008),
    Size { kv_heads: 8, ..size(4096, 32, 32, 14336) },
    Size { kv_heads: 4, qkv_bias: true, rotary_base: 1e6, ..size(3584, 28, 28, 18944) },
    Size { kv_heads: 8, rotary_base: 5e5, ..size(4096, 32, 32, 14336) },
    size(5120, 40, 40, 13824),
];
const UNET: [Size; 3] = [size(8, 3, 1, 1), size(32, 4, 1, 1), size(64, 4, 1, 1)];

/// The sizes of a family.
fn sizes(kind: ModelKind) -> &'static [Size] {
    match kind {
        ModelKind::Vit => &VIT,
        ModelKind::Mixer => &MIXER,
        ModelKind::Gpt2 => &GPT2,
        ModelKind::Llama => &LLAMA,
        ModelKind::Unet => &UNET,
        _ => &[],
    }
}

/// Makes the model one of its family's sizes.
fn set(model: &mut Model, size: Size) {
    (model.width, model.depth) = (size.width, size.depth);
    if model.kind.has_attention() {
        model.heads = size.heads;
    }
    if model.kind.has_feed_forward() {
        model.hidden = size.hidden;
    }
    if model.kind.is_decoder() {
        model.tied = size.tied;
    }
    if model.kind == ModelKind::Llama {
        (model.kv_heads, model.qkv_bias, model.rotary_base) = (size.kv_heads, size.qkv_bias, size.rotary_base);
        (model.head_dim, model.qk_norm) = (size.qk_norm, size.qk_norm > 0);
    }
}

/// Which of its family's sizes the model has; past the end if it has none of them.
fn place(model: &Model) -> usize {
    let is = |size: &Size| {
        let mut sized = model.clone();
        set(&mut sized, *size);
        sized == *model
    };
    sizes(model.kind).iter().position(is).unwrap_or(usize::MAX)
}

const SPEC: Spec = Spec {
    key: "model.size",
    name: "Size",
    help: "The sizes of the papers: width, depth, heads and feed-forward units at once. Weights, their gradients and their \
            optimizer state grow with them, and the time of a step in proportion to the weights.",
};

const fn choice(options: &'static [(usize, &'static str)]) -> Choice<usize> {
    Choice {
        options,
        place: Place::Own {
            get: |e| place(&e.model),
            set: |e, v| {
                if let Some(size) = sizes(e.model.kind).get(v) {
                    set(&mut e.model, *size);
                }
            },
        },
    }
}

const VIT_SIZES: Choice<usize> = choice(&[(0, "ViT-Ti"), (1, "ViT-S"), (2, "ViT-B"), (3, "ViT-L")]);
const MIXER_SIZES: Choice<usize> = choice(&[(0, "Mixer-S"), (1, "Mixer-B"), (2, "Mixer-L")]);
const GPT2_SIZES: Choice<usize> = choice(&[(0, "GPT-2 small"), (1, "medium"), (2, "large"), (3, "XL")]);
const LLAMA_SIZES: Choice<usize> = choice(&[
    (0, "stories, 15M"),
    (1, "stories, 110M"),
    (2, "Qwen2 0.5B"),
    (3, "Qwen3 0.6B"),
    (4, "TinyLlama 1.1B"),
    (5, "Llama 3.2 1B"),
    (6, "Qwen2.5 1.5B"),
    (7, "Llama 3.2 3B"),
    (8, "Qwen2.5 3B"),
    (9, "Llama 7B"),
    (10, "Mistral 7B"),
    (11, "Qwen2.5 7B"),
    (12, "Llama 3 8B"),
    (13, "Llama 13B"),
]);
const UNET_SIZES: Choice<usize> = choice(&[(0, "small"), (1, "half as wide"), (2, "as published")]);

/// The choice of published sizes, for the families that have one.
pub(in crate::panels::experiment) fn published(kind: ModelKind) -> Option<(Spec, &'static Choice<usize>)> {
    let sizes = match kind {
        ModelKind::Vit => &VIT_SIZES,
        ModelKind::Mixer => &MIXER_SIZES,
        ModelKind::Gpt2 => &GPT2_SIZES,
        ModelKind::Llama => &LLAMA_SIZES,
        ModelKind::Unet => &UNET_SIZES,
        _ => return None,
    };
    Some((SPEC, sizes))
}

#[cfg(test)]
mod tests {
    use plimsoll_engine::Experiment;

    use super::*;

    #[test]
    fn every_size_has_a_name_is_known_again_and_can_be() {
        for kind in [ModelKind::Vit, ModelKind::Mixer, ModelKind::Gpt2, ModelKind::Llama, ModelKind::Unet] {
            let (spec, choice) = published(kind).expect("a family with sizes");
            assert_eq!(choice.options.len(), sizes(kind).len(), "{kind:?}");
            for (value, name) in choice.options {
                let mut experiment = Experiment::default();
                experiment.model.kind = kind;
                choice.set(spec, &mut experiment, *value);
                assert_eq!(choice.get(spec, &experiment), *value, "{name}");
                let model = &experiment.model;
                assert!(!kind.has_attention() || model.width.is_multiple_of(model.heads), "{name}");
                assert!(kind != ModelKind::Llama || model.heads.is_multiple_of(model.kv_heads), "{name}");
                experiment.model.width += 1;
                assert_ne!(choice.get(spec, &experiment), *value, "{name}");
            }
        }
    }
}
