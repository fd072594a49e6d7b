//! Settings of sequences: their content, and the part of them that is scored.

use super::Numeric;
use crate::widgets::control::{Choice, Number, Place, Spec};

pub(in crate::panels::experiment) const VOCABULARY: Numeric = (
    Spec {
        key: "data.vocabulary",
        name: "Vocabulary",
        help: "Different tokens: each has a row in the embedding and a column in the logits, which with a large vocabulary are \
                the largest activation. More are harder to learn and slower in the last layer.",
    },
    Number {
        stops: &[4., 10., 64., 256., 1024., 4096., 16384., 32000., 50257., 128_000.],
        zero: None,
        place: Place::Setting,
    },
);

pub(in crate::panels::experiment) const EMBEDDING_ROWS: Numeric = (
    Spec {
        key: "data.vocabulary",
        name: "Vocabulary",
        help: "Rows of the model's embedding, and columns of the logits, which with a large vocabulary are the largest tensor of \
                a step. A published model has as many as its config.json says, often a few more than its tokenizer has tokens. \
                Time grows with the columns.",
    },
    Number {
        stops: &[0., 257., 8192., 32_000., 50_257., 128_256., 151_936.],
        zero: Some("as the tokens"),
        place: Place::Own {
            get: |experiment| experiment.data.chosen_vocabulary().unwrap_or_default() as f64,
            set: |experiment, rows| experiment.data.vocabulary = rows as usize,
        },
    },
);

pub(in crate::panels::experiment) const MODULUS: Numeric = (
    Spec {
        key: "data.modulus",
        name: "Modulus",
        help: "Sums are taken modulo this number: there are as many samples as its square, and tokens as the number plus one. \
                The rule is found late, long after the training sums are known by heart.",
    },
    Number { stops: &[7., 23., 53., 97., 113., 199., 401., 997.], zero: None, place: Place::Setting },
);

pub(in crate::panels::experiment) const PACKING: (Spec, Choice<bool>) = (
    Spec {
        key: "data.packing",
        name: "Sequences",
        help: "With padding, each sample is a sequence of its own: a longer one is cut, a shorter one is filled up, and \
                the padding takes as much memory and time as text. With packing, samples are joined, with the token that \
                ends a text between them, and cut to the length: nothing is wasted, a step takes the same memory, and an \
                epoch has fewer steps. Attention then also sees earlier samples in the same sequence.",
    },
    Choice { options: &[(false, "padded"), (true, "packed")], place: Place::Setting },
);

pub(in crate::panels::experiment) const COMPLETION_ONLY: (Spec, Choice<bool>) = (
    Spec {
        key: "data.completion_only",
        name: "Scored",
        help: "The tokens that count in the loss: completions and an assistant's words, as in instruction tuning, or every \
                token. A text without a prompt is scored whole. Memory and time stay the same: the model reads all of it \
                either way.",
    },
    Choice { options: &[(true, "completions only"), (false, "every token")], place: Place::Setting },
);
