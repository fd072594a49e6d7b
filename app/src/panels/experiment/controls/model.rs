//! The architecture.

use plimsoll_engine::experiment::{ActivationKind, DepthUnit, Model, ModelKind, ModelSetting, Stem, WidthUnit};

use super::super::rows;
use super::{
    ATTENTION, DROPOUT, HEAD_DIM, HEADS, HIDDEN, KV_HEADS, LEVEL_FILTERS, LEVELS, NORM_EPSILON, Numeric, PATCH,
    QK_NORM, QKV_BIAS, ROTARY_BASE, Row, SAME_BLOCKS, TIED, TOKEN_WIDTH, WINDOW, hint,
};
use crate::{
    format,
    widgets::control::{Choice, Number, Place, Spec},
};

pub(in crate::panels::experiment) const MODEL: (Spec, Choice<ModelKind>) = (
    Spec {
        key: "model.kind",
        name: "Kind",
        help: "Dense layers and transformers hold their memory in weights, convolutions in activations; depthwise-separable \
                convolutions need about a ninth of the weights. Time follows the products: attention's grow with the square of \
                the length, a U-Net's with the pixels.",
    },
    Choice {
        options: &[
            (ModelKind::Mlp, "dense layers (MLP)"),
            (ModelKind::Sepcnn, "separable CNN"),
            (ModelKind::Cnn, "CNN"),
            (ModelKind::Mobilenetv1, "MobileNetV1"),
            (ModelKind::Mobilenetv2, "MobileNetV2"),
            (ModelKind::Resnet, "ResNet"),
            (ModelKind::Vit, "transformer (ViT)"),
            (ModelKind::Mixer, "MLP-Mixer"),
            (ModelKind::Unet, "U-Net"),
            (ModelKind::Gpt2, "decoder, as GPT-2"),
            (ModelKind::Llama, "decoder, as Llama"),
        ],
        place: Place::Own {
            get: |e| e.model.kind,
            set: |e, v| {
                e.model.kind = v;
                super::task::suit_data(e);
            },
        },
    },
);

const WIDTHS: Number = Number {
    stops: &[4., 8., 16., 24., 32., 48., 64., 96., 128., 192., 256., 384., 512., 768., 1024., 2048., 4096.],
    zero: None,
    place: Place::Setting,
};

pub(in crate::panels::experiment) const WIDTH: Numeric = (
    Spec {
        key: "model.width",
        name: "Width",
        help: "Units of each hidden layer: weights between hidden layers, their gradients and their optimizer state grow with \
                its square. So does the time of their products.",
    },
    WIDTHS,
);

pub(in crate::panels::experiment) const FILTERS: Numeric = (
    Spec {
        key: "model.width",
        name: "Width",
        help: "Filters of the first block, doubled from block to block: activations grow in proportion and weights with the \
                square. Time grows with the square too, once the filters are many.",
    },
    WIDTHS,
);

const DEPTHS: Number =
    Number { stops: &[1., 2., 3., 4., 5., 6., 8., 10., 12., 16., 24., 32.], zero: None, place: Place::Setting };

pub(in crate::panels::experiment) const DEPTH: Numeric = (
    Spec {
        key: "model.depth",
        name: "Hidden layers",
        help: "Each layer adds its weights, with gradients and optimizer state, and one set of activations that must be kept. \
                Time grows in proportion.",
    },
    DEPTHS,
);

pub(in crate::panels::experiment) const BLOCKS: Numeric = (
    Spec {
        key: "model.depth",
        name: "Blocks",
        help: "Each block halves the image and doubles the filters: late blocks hold weights, early ones activations. A deeper \
                model also shrinks what the dense layer must read, so time and memory may fall.",
    },
    DEPTHS,
);

pub(in crate::panels::experiment) const ACTIVATION: (Spec, Choice<ActivationKind>) = (
    Spec {
        key: "model.activation",
        name: "Activation",
        help: "The function after each hidden layer. ReLU is written over its input, so it takes no memory of its own. The smooth \
                ones need their input for the gradient, so each keeps a second tensor unless cheap activations are recomputed; \
                their exponentials take more time.",
    },
    Choice {
        options: &[
            (ActivationKind::Relu, "ReLU"),
            (ActivationKind::Gelu, "GELU"),
            (ActivationKind::Silu, "SiLU"),
            (ActivationKind::Mish, "Mish"),
        ],
        place: Place::Setting,
    },
);

pub(in crate::panels::experiment) const KERNEL: Numeric = (
    Spec {
        key: "model.kernel",
        name: "Kernel",
        help: "Side of the square a filter looks at: weights grow with its square, kept activations not at all. The time of a \
                convolution and the scratch for its columns grow with the square too.",
    },
    Number { stops: &[1., 3., 5., 7., 9.], zero: None, place: Place::Setting },
);

pub(in crate::panels::experiment) const DENSE: Numeric = (
    Spec {
        key: "model.dense",
        name: "Dense units",
        help: "Units of the dense layer before the classes: it reads every value of the last block, so most weights are often \
                here. Its time is small compared with the convolutions.",
    },
    WIDTHS,
);

pub(in crate::panels::experiment) const LAYERS: (Spec, Choice<usize>) = (
    Spec {
        key: "model.layers",
        name: "Layers",
        help: "18 and 34 use blocks of two 3 x 3 convolutions, 50 and 101 bottlenecks whose outputs are four times as wide, so \
                activations grow faster than weights. Time grows with the layers.",
    },
    Choice { options: &[(18, "18"), (34, "34"), (50, "50"), (101, "101")], place: Place::Setting },
);

pub(in crate::panels::experiment) const MULTIPLIER: Numeric = (
    Spec {
        key: "model.multiplier",
        name: "Multiplier",
        help: "Multiplies the channels of every layer: activations grow in proportion, weights with its square. Time lies \
                between the two.",
    },
    Number { stops: &[0.25, 0.35, 0.5, 0.75, 1.0, 1.4, 2.0], zero: None, place: Place::Setting },
);

pub(in crate::panels::experiment) const STEM: (Spec, Choice<Stem>) = (
    Spec {
        key: "model.stem",
        name: "Stem",
        help: "The ImageNet stem makes the image a quarter as wide and high at once, so all later activations are a sixteenth; \
                small images would have nothing left. The stem for small images keeps their size, and their time.",
    },
    Choice { options: &[(Stem::Imagenet, "large (ImageNet)"), (Stem::Small, "small images")], place: Place::Setting },
);

/// The row of a setting that only some families use.
pub(in crate::panels::experiment) fn model_row(setting: ModelSetting) -> Row {
    match setting {
        ModelSetting::Width(WidthUnit::Units) => Row::of(&WIDTH),
        ModelSetting::Width(WidthUnit::Filters) => Row::of(&FILTERS),
        ModelSetting::Width(WidthUnit::LevelFilters) => Row::of(&LEVEL_FILTERS),
        ModelSetting::Width(WidthUnit::Embedding) => Row::of(&TOKEN_WIDTH),
        ModelSetting::Depth(DepthUnit::HiddenLayers) => Row::of(&DEPTH),
        ModelSetting::Depth(DepthUnit::Blocks) => Row::of(&BLOCKS),
        ModelSetting::Depth(DepthUnit::SameBlocks) => Row::of(&SAME_BLOCKS),
        ModelSetting::Depth(DepthUnit::Levels) => Row::of(&LEVELS),
        ModelSetting::Kernel => Row::of(&KERNEL),
        ModelSetting::Dense => Row::of(&DENSE),
        ModelSetting::Multiplier => Row::of(&MULTIPLIER),
        ModelSetting::Heads => Row::of(&HEADS),
        ModelSetting::KvHeads => Row::of(&KV_HEADS),
        ModelSetting::HeadDim => Row::of(&HEAD_DIM),
        ModelSetting::Hidden => Row::of(&HIDDEN),
        ModelSetting::Patch => Row::of(&PATCH),
        ModelSetting::Window => Row::of(&WINDOW),
        ModelSetting::RotaryBase => Row::of(&ROTARY_BASE),
        ModelSetting::NormEpsilon => Row::of(&NORM_EPSILON),
        ModelSetting::Dropout => Row::of(&DROPOUT),
        ModelSetting::Activation => Row::of(&ACTIVATION),
        ModelSetting::Layers => Row::of(&LAYERS),
        ModelSetting::Stem => Row::drawn(&[STEM.0], |ui, form, _| {
            form.choice(ui, STEM.0, &STEM.1);
            hint(ui, form, STEM.0.key);
        }),
        ModelSetting::Attention => Row::of(&ATTENTION),
        ModelSetting::Tied => Row::of(&TIED),
        ModelSetting::QkvBias => Row::of(&QKV_BIAS),
        ModelSetting::QkNorm => Row::of(&QK_NORM),
    }
}

/// The family of a model in a word or two, where its control's words have no room: that in brackets, or after `as`.
pub(crate) fn family(kind: ModelKind) -> &'static str {
    let (_, words) = MODEL.1.options.iter().find(|(known, _)| *known == kind).copied().unwrap_or((kind, kind.key()));
    match (words.split_once(" ("), words.split_once(", as ")) {
        (Some((_, short)), _) => short.trim_end_matches(')'),
        (None, Some((_, model))) => model,
        (None, None) => words,
    }
}

/// The family by its word in a preset; `None` of an unknown one.
pub(crate) fn family_of(key: &str) -> Option<&'static str> {
    ModelKind::ALL.into_iter().find(|kind| kind.key() == key).map(family)
}

/// The words of a setting that distinguish a model from others of its family; `None` for a setting that does not.
pub(in crate::panels) fn model_words(setting: ModelSetting, model: &Model) -> Option<String> {
    match setting {
        ModelSetting::Width(_) => Some(format!("width {}", model.width)),
        // As its control is called.
        ModelSetting::Depth(_) => {
            rows::names(&[model_row(setting)]).pop().map(|(_, name)| format!("{name} {}", model.depth))
        }
        ModelSetting::Layers => Some(format::counted(model.layers as u64, "layer")),
        ModelSetting::Multiplier => Some(format!("multiplier {}", model.multiplier)),
        ModelSetting::Patch => Some(format!("patch {}", model.patch)),
        ModelSetting::Heads => Some(format::counted(model.heads as u64, "head")),
        ModelSetting::Activation => {
            (model.activation != ActivationKind::Relu).then(|| model.activation.key().to_owned())
        }
        ModelSetting::Kernel
        | ModelSetting::Dense
        | ModelSetting::Stem
        | ModelSetting::KvHeads
        | ModelSetting::HeadDim
        | ModelSetting::QkNorm
        | ModelSetting::Hidden
        | ModelSetting::Tied
        | ModelSetting::QkvBias
        | ModelSetting::Dropout
        | ModelSetting::Attention
        | ModelSetting::Window
        | ModelSetting::NormEpsilon
        | ModelSetting::RotaryBase => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_family_has_a_short_name_of_its_own() {
        let names: Vec<&str> = ModelKind::ALL.into_iter().map(family).collect();
        let mut different = names.clone();
        different.sort_unstable();
        different.dedup();
        assert_eq!(different.len(), names.len(), "{names:?}");
        // A comma stands between the settings of a name.
        assert!(names.iter().all(|name| !name.contains([',', '('])), "{names:?}");
        assert_eq!([family_of("mlp"), family_of("gpt2"), family_of("abc")], [Some("MLP"), Some("GPT-2"), None]);
    }
}
