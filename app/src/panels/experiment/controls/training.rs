//! Settings of the trained part of a model, and of the retained graph.

use plimsoll_engine::experiment::{BaseWeights, Frozen};

use super::{Numeric, Row, adapters, hint};
use crate::widgets::control::{Choice, Number, Place, Spec};

pub(in crate::panels::experiment) const RETAIN_GRAPH: (Spec, Choice<bool>) = (
    Spec {
        key: "retain_graph",
        name: "Retain graph",
        help: "Without it, each activation is freed once the backward pass has used it. With it, all stay until the step ends, \
                as with retain_graph=True in PyTorch or a loss that is never detached: activations and gradients pile up, and \
                the time is the same.",
    },
    Choice { options: &[(false, "no: freed early"), (true, "yes: kept to the end")], place: Place::Setting },
);

/// The frozen part of a model, without its number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::panels::experiment) enum FreezeMode {
    /// Every layer.
    All,
    /// All but the head.
    AllButHead,
    /// The first blocks.
    Blocks,
    /// Nothing.
    None,
}

pub(in crate::panels::experiment) const FROZEN: (Spec, Choice<FreezeMode>) = (
    Spec {
        key: "frozen",
        name: "Frozen",
        help: "Frozen layers have no gradient, no optimizer state, and before the first layer that learns they save \
                no activations. Their part of the backward pass is left out as well, up to two thirds of their time.",
    },
    Choice {
        options: &[
            (FreezeMode::All, "all but adapters"),
            (FreezeMode::AllButHead, "all but the head"),
            (FreezeMode::Blocks, "the first blocks"),
            (FreezeMode::None, "nothing"),
        ],
        place: Place::Own {
            get: |e| match e.frozen {
                Frozen::None => FreezeMode::None,
                Frozen::AllButHead => FreezeMode::AllButHead,
                Frozen::Blocks(_) => FreezeMode::Blocks,
                Frozen::All => FreezeMode::All,
            },
            set: |e, v| {
                e.frozen = match v {
                    FreezeMode::None => Frozen::None,
                    FreezeMode::AllButHead => Frozen::AllButHead,
                    FreezeMode::Blocks => Frozen::Blocks(1),
                    FreezeMode::All => Frozen::All,
                }
            },
        },
    },
);

pub(in crate::panels::experiment) const FROZEN_BLOCKS: Numeric = (
    Spec {
        key: "frozen.blocks",
        name: "Frozen blocks",
        help: "The first blocks and what comes before them do not learn: each goes without a gradient, optimizer state and \
            saved activations. The backward pass ends where learning does, and so gets shorter.",
    },
    Number {
        stops: &[1., 2., 3., 4., 6., 8., 12., 16., 20., 24., 31., 39., 47.],
        zero: None,
        place: Place::Own {
            get: |e| if let Frozen::Blocks(count) = e.frozen { count as f64 } else { 1.0 },
            set: |e, v| e.frozen = Frozen::Blocks((v as usize).max(1)),
        },
    },
);

pub(in crate::panels::experiment) const LORA_RANK: Numeric = (
    Spec {
        key: "lora.rank",
        name: "Adapter rank",
        help: "Each dense layer is frozen, and two small matrices of this rank learn next to it (LoRA): gradients and \
                optimizer state are theirs alone, a hundredth of the model's. The forward pass gains their products, the \
                backward pass loses the large weight gradients.",
    },
    Number { stops: &[0., 1., 2., 4., 8., 16., 32., 64., 128., 256.], zero: Some("off"), place: Place::Setting },
);

pub(in crate::panels::experiment) const LORA_ALPHA: Numeric = (
    Spec {
        key: "lora.alpha",
        name: "Adapter scale",
        help: "The output of the adapters is multiplied by this over their rank. It changes neither memory nor time.",
    },
    Number { stops: &[1., 2., 4., 8., 16., 32., 64., 128.], zero: None, place: Place::Setting },
);

pub(in crate::panels::experiment) const LORA_DROPOUT: Numeric = (
    Spec {
        key: "lora.dropout",
        name: "Adapter dropout",
        help: "Share of an adapter's inputs set to zero while training, against learning by heart. The adapter works on a copy of \
                its input then: one activation more while it runs.",
    },
    Number { stops: &[0., 0.05, 0.1, 0.2, 0.3], zero: Some("off"), place: Place::Setting },
);

pub(in crate::panels::experiment) const LORA_RSLORA: (Spec, Choice<bool>) = (
    Spec {
        key: "lora.rslora",
        name: "Scale by rank",
        help: "The divisor of the adapters' scale: the rank, or the root of the rank (rsLoRA), with which a high rank \
                learns as fast as a low one. It changes neither memory nor time.",
    },
    Choice { options: &[(false, "over the rank"), (true, "its root (rsLoRA)")], place: Place::Setting },
);

pub(in crate::panels::experiment) const BASE: (Spec, Choice<BaseWeights>) = (
    Spec {
        key: "quantise.base",
        name: "Base weights",
        help: "QLoRA: the frozen dense layers of the blocks are held as codes of 8 or 4 bits, with a scale for each block of them, \
                and decoded a part at a time when they are multiplied. NF4 takes a quarter of bf16, and double quantisation codes \
                its scales too. It needs adapters and frozen layers, because codes do not learn. Decoding makes a step slower, \
                most of all with few tokens.",
    },
    Choice {
        options: &[
            (BaseWeights::None, "as computed with"),
            (BaseWeights::Int8, "8 bits"),
            (BaseWeights::Nf4, "4 bits (NF4)"),
            (BaseWeights::Nf4Double, "4 bits (NF4 double)"),
        ],
        place: Place::Setting,
    },
);

/// The rows of the group of the trained parts.
pub(in crate::panels::experiment) const TRAINED: &[Row] = &[
    Row::of(&FROZEN),
    Row::of(&FROZEN_BLOCKS).when(|e| matches!(e.frozen, Frozen::Blocks(_))),
    Row::drawn(&[LORA_RANK.0], |ui, form, _| {
        form.number(ui, LORA_RANK.0, LORA_RANK.1);
        hint(ui, form, LORA_RANK.0.key);
    }),
    Row::of(&LORA_ALPHA),
    Row::drawn(&[adapters::TARGETS], |ui, form, _| adapters::targets(ui, form)).when(|e| e.lora.rank > 0),
    Row::of(&LORA_DROPOUT),
    Row::of(&LORA_RSLORA),
    Row::of(&BASE).when(|e| (e.lora.rank > 0 && e.model.kind.is_decoder()) || !e.quantise.base.is_none()),
];
