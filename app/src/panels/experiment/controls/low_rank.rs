//! Layers as products of smaller ones.

use super::Numeric;
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
