//! What learns, and how long what it needs is held.

use plimsoll_engine::experiment::Frozen;

use super::Numeric;
use crate::widgets::control::{Choice, Number, Spec};

pub(in crate::panels::experiment) const TAPE: (Spec, Choice<bool>) = (
    Spec {
        key: "tape",
        name: "Tape",
        help: "What the backward pass needs is freed as soon as it has been used, or held to the end of the step, as where a \
                program keeps the graph of an eager framework. Held, activations and gradients pile up; the time is the same.",
    },
    Choice {
        options: &[(false, "frees as it walks"), (true, "held to the end")],
        get: |e| e.retain_graph,
        set: |e, v| e.retain_graph = v,
    },
);

/// What is frozen, without its number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::panels::experiment) enum Ice {
    /// Everything.
    All,
    /// All but the head.
    AllButHead,
    /// The first blocks.
    Blocks,
    /// Nothing.
    None,
}

pub(in crate::panels::experiment) const FROZEN: (Spec, Choice<Ice>) = (
    Spec {
        key: "frozen",
        name: "Frozen",
        help: "Layers that do not learn have no gradient, no optimizer state, and before the first layer that learns they save \
                no activations. Their part of the backward pass is left out as well, up to two thirds of their time.",
    },
    Choice {
        options: &[
            (Ice::All, "all, for adapters alone"),
            (Ice::AllButHead, "all but the head"),
            (Ice::Blocks, "the first blocks"),
            (Ice::None, "nothing"),
        ],
        get: |e| match e.frozen {
            Frozen::None => Ice::None,
            Frozen::AllButHead => Ice::AllButHead,
            Frozen::Blocks(_) => Ice::Blocks,
            Frozen::All => Ice::All,
        },
        set: |e, v| {
            e.frozen = match v {
                Ice::None => Frozen::None,
                Ice::AllButHead => Frozen::AllButHead,
                Ice::Blocks => Frozen::Blocks(1),
                Ice::All => Frozen::All,
            }
        },
    },
);

pub(in crate::panels::experiment) const FROZEN_BLOCKS: Numeric = (
    Spec {
        key: "frozen.blocks",
        name: "Frozen blocks",
        help: "Blocks from the first on that do not learn, with what stands before them: each takes its gradient, its optimizer \
                state and its saved activations away. The backward pass ends where learning does, and so gets shorter.",
    },
    Number {
        stops: &[1., 2., 3., 4., 6., 8., 12., 16., 20., 24., 31., 39., 47.],
        whole: true,
        zero: None,
        get: |e| if let Frozen::Blocks(count) = e.frozen { count as f64 } else { 1.0 },
        set: |e, v| e.frozen = Frozen::Blocks((v as usize).max(1)),
    },
);

pub(in crate::panels::experiment) const LORA_RANK: Numeric = (
    Spec {
        key: "lora.rank",
        name: "Adapter rank",
        help: "Beside each dense layer, which is then frozen, two small matrices of this rank learn (LoRA): gradients and \
                optimizer state are theirs alone, a hundredth of the model's. The forward pass has their products more, the \
                backward pass lacks the large weight gradients.",
    },
    Number {
        stops: &[0., 1., 2., 4., 8., 16., 32., 64., 128., 256.],
        whole: true,
        zero: Some("off"),
        get: |e| e.lora.rank as f64,
        set: |e, v| e.lora.rank = v as usize,
    },
);

pub(in crate::panels::experiment) const LORA_ALPHA: Numeric = (
    Spec {
        key: "lora.alpha",
        name: "Adapter scale",
        help: "What the adapters add is multiplied by this over their rank. It changes neither memory nor time.",
    },
    Number {
        stops: &[1., 2., 4., 8., 16., 32., 64., 128.],
        whole: false,
        zero: None,
        get: |e| e.lora.alpha,
        set: |e, v| e.lora.alpha = v,
    },
);
