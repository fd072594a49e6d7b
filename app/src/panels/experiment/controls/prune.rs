//! Weights that become zero.

use plimsoll_engine::experiment::{PruneKind, PruneSchedule, PruneScope};

use super::{Numeric, Row, hint, saves_nothing, smaller};
use crate::widgets::control::{Choice, Number, Place, Spec};

pub(in crate::panels::experiment) const PRUNE: (Spec, Choice<PruneKind>) = (
    Spec {
        key: "prune.kind",
        name: "Prune",
        help: "Sets weights of dense layers and convolutions to zero while the run trains, or takes whole channels out. With \
                zeros training gets no smaller: they are stored and multiplied like other numbers, and a mask of one bit a \
                weight is added. Channels that are taken out are gone: from there on weights, optimizer state and activations \
                are smaller, and steps are faster.",
    },
    Choice {
        options: &[
            (PruneKind::Magnitude, "the least weights"),
            (PruneKind::Groups, "n of every m"),
            (PruneKind::Channels, "channels"),
            (PruneKind::None, "none"),
        ],
        place: Place::Setting,
    },
);

pub(in crate::panels::experiment) const PRUNE_SCOPE: (Spec, Choice<PruneScope>) = (
    Spec {
        key: "prune.scope",
        name: "Compared in",
        help: "The range of the search for the smallest weights: in each layer, so that all are as sparse, or in all \
                layers together, so that layers of large weights keep more. It changes neither memory nor time.",
    },
    Choice {
        options: &[(PruneScope::Layer, "each layer"), (PruneScope::Global, "all layers together")],
        place: Place::Setting,
    },
);

pub(in crate::panels::experiment) const FINAL_SPARSITY: Numeric = (
    Spec {
        key: "prune.final_sparsity",
        name: "Final sparsity",
        help: "The share of these weights that is zero in the end, or of each layer's channels that is taken out. Half the zeros \
                cost most models nothing; from nine tenths on accuracy usually falls. Zeros change no memory and no time of \
                training, channels change both.",
    },
    Number { stops: &[0.1, 0.25, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98], zero: None, place: Place::Setting },
);

pub(in crate::panels::experiment) const PRUNE_SCHEDULE: (Spec, Choice<PruneSchedule>) = (
    Spec {
        key: "prune.schedule",
        name: "Growth",
        help: "A share that grows quickly at first and slowly at the end lets the weights that stay make up for those that went \
                (Zhu & Gupta 2017). It changes neither memory nor time.",
    },
    Choice {
        options: &[(PruneSchedule::Constant, "all at once"), (PruneSchedule::Polynomial, "quickly, then slowly")],
        place: Place::Setting,
    },
);

pub(in crate::panels::experiment) const INITIAL_SPARSITY: Numeric = (
    Spec {
        key: "prune.initial_sparsity",
        name: "Initial sparsity",
        help: "The share of these weights that is zero from the first pruning on. It changes neither memory nor time.",
    },
    Number { stops: &[0., 0.1, 0.25, 0.5, 0.75], zero: Some("none"), place: Place::Setting },
);

pub(in crate::panels::experiment) const PRUNE_N: Numeric = (
    Spec {
        key: "prune.n",
        name: "Kept",
        help: "This many weights of every group stay, the largest ones. Sparse tensor cores multiply 2 of 4 twice as fast when \
                a model is used; this program trains with all of them.",
    },
    Number { stops: &[1., 2., 4., 8., 16.], zero: None, place: Place::Setting },
);

pub(in crate::panels::experiment) const PRUNE_M: Numeric = (
    Spec {
        key: "prune.m",
        name: "Of",
        help: "Neighbouring weights of a group, along the inputs of a layer. It changes neither memory nor time.",
    },
    Number { stops: &[2., 4., 8., 16., 32.], zero: None, place: Place::Setting },
);

pub(in crate::panels::experiment) const PRUNE_BEGIN: Numeric = (
    Spec {
        key: "prune.begin_step",
        name: "Begin after",
        help: "The update after which weights are pruned first. A model that has learned something shows better which \
                weights it needs. It changes neither memory nor time, except for channels: the later they go, the longer \
                the run is as large as before.",
    },
    Number { stops: &[0., 10., 20., 50., 100., 200., 500., 1000.], zero: Some("the first"), place: Place::Setting },
);

pub(in crate::panels::experiment) const PRUNE_END: Numeric = (
    Spec {
        key: "prune.end_step",
        name: "End after",
        help: "The update after which weights are pruned last; the steps that are left repair what was lost. It changes \
                neither memory nor time.",
    },
    Number {
        stops: &[0., 50., 100., 200., 500., 1000., 2000., 5000.],
        zero: Some("3/4 of the run"),
        place: Place::Setting,
    },
);

pub(in crate::panels::experiment) const PRUNE_EVERY: Numeric = (
    Spec {
        key: "prune.every",
        name: "Every (steps)",
        help: "Updates from one pruning to the next. Each looks at every weight a few times, which takes less than a step.",
    },
    Number { stops: &[1., 5., 10., 20., 50., 100., 200., 500., 1000.], zero: None, place: Place::Setting },
);

/// When channels are taken out, which is once.
const CHANNELS_GO: Numeric = (PRUNE_BEGIN.0, Number { zero: Some("half of the run"), ..PRUNE_BEGIN.1 });

/// The rows of the group.
pub(in crate::panels::experiment) const PRUNING: &[Row] = &[
    Row::of(&PRUNE).alone("pruning"),
    Row::of(&PRUNE_SCOPE).alone("pruning compared in"),
    Row::of(&FINAL_SPARSITY),
    Row::of(&PRUNE_SCHEDULE).alone("growth of pruning"),
    Row::of(&INITIAL_SPARSITY),
    Row::of(&PRUNE_N).alone("weights kept of a group"),
    Row::of(&PRUNE_M).alone("weights of a group"),
    Row::of(&CHANNELS_GO).alone("pruning begins after").when(|e| e.prune.kind == PruneKind::Channels).unnamed(),
    Row::of(&PRUNE_BEGIN).alone("pruning begins after").when(|e| e.prune.kind != PruneKind::Channels),
    Row::of(&PRUNE_END).alone("pruning ends after"),
    Row::of(&PRUNE_EVERY).alone("steps between prunings"),
    Row::drawn(&[], |ui, form, _| hint(ui, form, PRUNE_BEGIN.0.key)).when(|e| !e.prune.kind.is_none()),
    Row::drawn(&[], saves_nothing).when(|e| e.prune.kind.sets_to_zero()),
    // Integers say it below.
    Row::drawn(&[], smaller).when(|e| !e.prune.kind.is_none() && e.quantise.kind.is_none()),
];
