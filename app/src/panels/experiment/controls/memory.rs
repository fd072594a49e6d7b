//! Settings that decide memory first: batch, precision, checkpointing.

use plimsoll_engine::experiment::{Checkpointing, Execution, Precision, Recompute};

use super::{LOSS_CHUNK, Numeric, PICKED, RETAIN_GRAPH, Row, picked, samples_an_update};
use crate::{
    naming::checkpointing::{EVERY_BLOCK, SQUARE_ROOT},
    widgets::control::{Choice, Number, Place, Spec},
};

pub(in crate::panels::experiment) const MICRO: Numeric = (
    Spec {
        key: "batch.micro",
        name: "Micro-batch",
        help: "Samples that go through the model at once: activations, batch and scratch grow in proportion, while weights \
                and optimizer state do not. Larger micro-batches use the processor better and take less time per sample, \
                until it is busy.",
    },
    Number {
        stops: &[1., 2., 4., 8., 16., 32., 48., 64., 96., 128., 192., 256., 384., 512., 768., 1024., 2048., 4096.],
        zero: None,
        place: Place::Setting,
    },
);

pub(in crate::panels::experiment) const ACCUMULATION: Numeric = (
    Spec {
        key: "batch.accumulation",
        name: "Accumulation",
        help: "Forward and backward passes whose gradients are summed before one update: the update sees a larger batch, while \
                activations stay those of one micro-batch. From 2 passes on, the sums of all gradients stay alive next to the \
                activations: this takes up to about the size of the gradients, once, and further passes take no more. Each \
                pass costs its full time, and an epoch has fewer updates.",
    },
    Number { stops: &[1., 2., 4., 8., 16., 32., 64.], zero: None, place: Place::Setting },
);

pub(in crate::panels::experiment) const PRECISION: (Spec, Choice<Precision>) = (
    Spec {
        key: "precision",
        name: "Precision",
        help: "The type of activations and weights: 16-bit types halve activations, and the mixed ones also keep an f32 master \
                copy of the weights, or FlashAdamW's corrections. On graphics cards narrow types are faster; a processor \
                without them converts at every product, which takes longer.",
    },
    Choice {
        options: &[
            (Precision::Bf16, "bf16 throughout"),
            (Precision::Bf16Mixed, "bf16 mixed"),
            (Precision::F16Mixed, "f16 mixed"),
            (Precision::F32, "f32"),
            (Precision::F64, "f64"),
        ],
        place: Place::Setting,
    },
);

/// Checkpointing without its numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::panels::experiment) enum CheckpointMode {
    /// Every activation is kept.
    None,
    /// The input of every block is kept.
    EveryBlock,
    /// The input of every k-th block is kept.
    EveryK,
    /// The inputs of about the square root of the blocks.
    Sqrt,
    /// A percentage of the activations is kept.
    Percent,
    /// The activations of all but some blocks are kept.
    Pick,
}

pub(in crate::panels::experiment) const CHECKPOINTING: (Spec, Choice<CheckpointMode>) = (
    Spec {
        key: "checkpointing",
        name: "Checkpointing",
        help: "Activation checkpointing: only the inputs of blocks are kept, and the backward pass recomputes the activations \
                inside, so fewer are alive at the peak. The second forward pass costs up to a third more time.",
    },
    Choice {
        options: &[
            (CheckpointMode::None, "none"),
            (CheckpointMode::EveryBlock, EVERY_BLOCK),
            (CheckpointMode::EveryK, "every few blocks"),
            (CheckpointMode::Sqrt, SQUARE_ROOT),
            (CheckpointMode::Percent, "keep a percentage"),
            (CheckpointMode::Pick, "chosen blocks"),
        ],
        place: Place::Own {
            get: |e| match e.checkpointing {
                Checkpointing::None => CheckpointMode::None,
                Checkpointing::Blocks => CheckpointMode::EveryBlock,
                Checkpointing::Every(_) => CheckpointMode::EveryK,
                Checkpointing::Sqrt => CheckpointMode::Sqrt,
                Checkpointing::Percent(_) => CheckpointMode::Percent,
                Checkpointing::Pick(_) => CheckpointMode::Pick,
            },
            set: |e, v| {
                e.checkpointing = match v {
                    CheckpointMode::None => Checkpointing::None,
                    CheckpointMode::EveryBlock => Checkpointing::Blocks,
                    CheckpointMode::EveryK => Checkpointing::Every(2),
                    CheckpointMode::Sqrt => Checkpointing::Sqrt,
                    CheckpointMode::Percent => Checkpointing::Percent(50),
                    CheckpointMode::Pick => Checkpointing::Pick([1].into_iter().collect()),
                }
            },
        },
    },
);

pub(in crate::panels::experiment) const SEGMENT: Numeric = (
    Spec {
        key: "checkpointing.every",
        name: "Blocks each",
        help: "Blocks between two kept inputs: more keep fewer inputs but hold more activations while one segment is computed \
                again. The time stays about the same: every segment is computed twice.",
    },
    Number {
        stops: &[1., 2., 3., 4., 6., 8.],
        zero: None,
        place: Place::Own {
            get: |e| if let Checkpointing::Every(k) = e.checkpointing { k as f64 } else { 1.0 },
            set: |e, v| e.checkpointing = Checkpointing::Every((v as usize).max(1)),
        },
    },
);

pub(in crate::panels::experiment) const SHARE: Numeric = (
    Spec {
        key: "checkpointing.percent",
        name: "Percent kept",
        help: "At most this share of the activations is kept; the blocks that free most bytes for the least time are computed \
                again. At 100 nothing is computed twice, at 0 every block is.",
    },
    Number {
        stops: &[0., 10., 20., 30., 40., 50., 60., 70., 80., 90., 100.],
        zero: None,
        place: Place::Own {
            get: |e| if let Checkpointing::Percent(percent) = e.checkpointing { f64::from(percent) } else { 100.0 },
            set: |e, v| e.checkpointing = Checkpointing::Percent(v.clamp(0.0, 100.0) as u8),
        },
    },
);

pub(in crate::panels::experiment) const RECOMPUTE: (Spec, Choice<Recompute>) = (
    Spec {
        key: "recompute",
        name: "Recompute",
        help: "Selective recomputation: the backward pass recomputes activations that a few fast kernels give, such as the \
                outputs of norms and activation functions, so that they are not stored: a third to a half less. The losses are \
                the same, and the step takes a little more time.",
    },
    Choice { options: &[(Recompute::Cheap, "cheap activations"), (Recompute::None, "none")], place: Place::Setting },
);

pub(in crate::panels::experiment) const EXECUTION: (Spec, Choice<Execution>) = (
    Spec {
        key: "execution",
        name: "Execution",
        help: "In place: an op writes its result over a tensor that is not read any more, and only tensors that a gradient \
                needs are kept. Fused: in place, and a bias with its activation, a batch norm with the sum and the \
                rectifier after it, and a sum with the norm after it are one pass over memory. Eager: every op has an \
                output of its own, and the same tensors are kept as in an eager framework. This takes more memory if \
                activations are the peak, and time for copies. The losses are the same, except for roundings of fused on a GPU.",
    },
    Choice {
        options: &[(Execution::InPlace, "in place"), (Execution::Fused, "fused"), (Execution::Eager, "eager")],
        place: Place::Setting,
    },
);

/// The rows of the group Memory.
pub(in crate::panels::experiment) const MEMORY: &[Row] = &[
    Row::of(&MICRO),
    Row::of(&ACCUMULATION),
    Row::drawn(&[], |ui, form, _| samples_an_update(ui, form)),
    Row::of(&PRECISION),
    Row::of(&CHECKPOINTING),
    Row::of(&SEGMENT).when(|e| matches!(e.checkpointing, Checkpointing::Every(_))),
    Row::of(&SHARE).when(|e| matches!(e.checkpointing, Checkpointing::Percent(_))),
    Row::drawn(&[PICKED], |ui, form, _| picked(ui, form)),
];

/// The advanced settings of memory.
pub(in crate::panels::experiment) const MEMORY_REST: &[Row] = &[
    Row::of(&RECOMPUTE),
    Row::of(&RETAIN_GRAPH),
    Row::of(&EXECUTION),
    Row::of(&LOSS_CHUNK).when(|e| e.model.kind.is_decoder()),
];
