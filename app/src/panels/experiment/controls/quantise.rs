//! A trained model as one of integers.

use plimsoll_engine::experiment::{CodedWeights, QuantiseKind};

use super::{Numeric, Row, smaller};
use crate::widgets::control::{Choice, Number, Place, Spec};

pub(in crate::panels::experiment) const QUANTISE: (Spec, Choice<QuantiseKind>) = (
    Spec {
        key: "quantise.kind",
        name: "Integers",
        help: "Dense layers and convolutions of the trained model become 8-bit integers, about a quarter of f32, and the test is \
                made again with them. After training: by the ranges that layers see in a few batches. While it trains: it computes \
                with numbers rounded as integers would be, and learns to live with it; a step then takes more memory and time, \
                because rounded weights and inputs are held as well. Neither makes training itself smaller.",
    },
    Choice {
        options: &[
            (QuantiseKind::None, "none"),
            (QuantiseKind::After, "after training"),
            (QuantiseKind::Aware, "while it trains"),
        ],
        place: Place::Setting,
    },
);

pub(in crate::panels::experiment) const CODED_WEIGHTS: (Spec, Choice<CodedWeights>) = (
    Spec {
        key: "quantise.weights",
        name: "Coded weights",
        help: "Weights and inputs of 8 bits are multiplied as integers. A decoder that writes a token at a time waits for its \
                weights, so these alone may be integers: of 8 bits, or of 4, about an eighth of f32. Products then decode a part \
                of a weight at a time, and nothing has to be calibrated. 4 bits cost more of the loss than 8.",
    },
    Choice {
        options: &[
            (CodedWeights::WithInputs, "with inputs, 8 bits"),
            (CodedWeights::Int8, "alone, 8 bits"),
            (CodedWeights::Int4, "alone, 4 bits"),
        ],
        place: Place::Setting,
    },
);

pub(in crate::panels::experiment) const CALIBRATION: Numeric = (
    Spec {
        key: "quantise.calibration",
        name: "Calibration",
        help: "Training batches in which the least and the largest input of every layer are looked for when training is over. A \
                few are enough; each is a forward pass.",
    },
    Number { stops: &[1., 2., 4., 8., 16., 32., 64., 128.], zero: None, place: Place::Setting },
);

/// The rows of the group.
pub(in crate::panels::experiment) const INTEGERS: &[Row] = &[
    Row::of(&QUANTISE),
    Row::of(&CODED_WEIGHTS).when(|e| e.model.kind.is_decoder() || !e.quantise.weights.has_inputs()),
    Row::of(&CALIBRATION),
    Row::drawn(&[], smaller).when(|e| !e.quantise.kind.is_none()),
];
