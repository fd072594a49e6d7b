//! Layers as products of smaller ones.

use plimsoll_engine::Experiment;

use super::{Numeric, Row, ranks};
use crate::widgets::control::{Number, Place, Spec};

pub(in crate::panels::experiment) const LOW_RANK: Numeric = (
    Spec {
        key: "low_rank.rank",
        name: "Rank of layers",
        help: "Each dense layer and 1 x 1 convolution becomes two of this rank, and each larger convolution up to three around a \
                small kernel, where that has fewer weights. They are the nearest such layers to trained weights, and the run \
                then repairs what was lost. Weights, gradients, optimizer state and time shrink; each factor adds one narrow \
                activation. The layer that gives the classes stays whole.",
    },
    Number { stops: &[0., 1., 2., 4., 8., 16., 32., 64., 128., 256.], zero: Some("off"), place: Place::Setting },
);

pub(in crate::panels::experiment) const ENERGY: Numeric = (
    Spec {
        key: "low_rank.energy",
        name: "Energy kept",
        help: "Each layer gets the least rank whose squared singular values hold this share of them all: layers whose weights \
                carry more keep more. It needs trained weights, which are looked at once; the ranks are listed below. A layer \
                whose factors would not be smaller stays whole.",
    },
    Number { stops: &[0., 0.5, 0.7, 0.8, 0.9, 0.95, 0.99], zero: Some("off"), place: Place::Setting },
);

pub(in crate::panels::experiment) const SIZE: Numeric = (
    Spec {
        key: "low_rank.size",
        name: "Size kept",
        help: "The share of the whole model's weights that the factored one has at the most. Every layer keeps as much energy as \
                the others, as much as that size allows. It needs trained weights, which are looked at once; the ranks are \
                listed below.",
    },
    Number { stops: &[0., 0.1, 0.2, 0.3, 0.5, 0.7, 0.9], zero: Some("off"), place: Place::Setting },
);

/// The rows of the group: of three ways to choose ranks the chosen one, or all that are possible. Ranks can be found from
/// weights if there are some.
pub(in crate::panels::experiment) const RANKS: &[Row] = &[
    Row::of(&LOW_RANK).when(|e| e.low_rank.rank > 0 || !is_chosen(e)),
    Row::of(&ENERGY).alone("energy of layers").when(|e| e.low_rank.energy > 0.0 || (has_weights(e) && !is_chosen(e))),
    Row::of(&SIZE).alone("factored size").when(|e| e.low_rank.size > 0.0 || (has_weights(e) && !is_chosen(e))),
    Row::drawn(&[], |ui, _, context| ranks::words(ui, context)),
];

fn is_chosen(e: &Experiment) -> bool {
    e.low_rank.rank > 0 || e.low_rank.energy > 0.0 || e.low_rank.size > 0.0
}

fn has_weights(e: &Experiment) -> bool {
    e.weights.chosen().is_some()
}
