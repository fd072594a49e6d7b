//! Settings of transformers, mixers and U-Nets.

use plimsoll_engine::experiment::AttentionKind;

use super::Numeric;
use crate::widgets::control::{Choice, Number, Place, Spec};

const WIDTHS: Number = Number {
    stops: &[
        16., 32., 64., 96., 128., 192., 256., 288., 384., 512., 768., 1024., 1280., 1600., 2048., 3072., 4096., 5120.,
        8192.,
    ],
    zero: None,
    place: Place::Setting,
};

pub(in crate::panels::experiment) const TOKEN_WIDTH: Numeric = (
    Spec {
        key: "model.width",
        name: "Width",
        help: "Numbers that stand for each token or patch: activations grow in proportion, the weights of every block with the \
                square. So does the time, once the width is more than the length.",
    },
    WIDTHS,
);

pub(in crate::panels::experiment) const LEVEL_FILTERS: Numeric = (
    Spec {
        key: "model.width",
        name: "Width",
        help: "Filters of the first level, doubled from level to level: activations grow in proportion, weights with the \
                square. The first level holds most of the activations, the last most of the weights and of the time.",
    },
    Number { stops: &[4., 8., 12., 16., 24., 32., 48., 64., 96., 128.], ..WIDTHS },
);

const DEPTHS: Number = Number {
    stops: &[1., 2., 3., 4., 6., 8., 12., 16., 20., 24., 32., 36., 40., 48., 64., 80.],
    zero: None,
    place: Place::Setting,
};

pub(in crate::panels::experiment) const SAME_BLOCKS: Numeric = (
    Spec {
        key: "model.depth",
        name: "Blocks",
        help: "Every block is as large as the others: weights, optimizer state and kept activations grow in proportion. So does \
                the time; checkpointing keeps only what goes between blocks.",
    },
    DEPTHS,
);

pub(in crate::panels::experiment) const LEVELS: Numeric = (
    Spec {
        key: "model.depth",
        name: "Levels",
        help: "Times the image is halved and the filters doubled: weights grow fourfold a level, activations hardly. The \
                output that each level hands over to the way up stays alive until then, and checkpointing cannot free it.",
    },
    Number { stops: &[1., 2., 3., 4., 5., 6.], ..DEPTHS },
);

pub(in crate::panels::experiment) const HEADS: Numeric = (
    Spec {
        key: "model.heads",
        name: "Heads",
        help: "The width is shared out among them, so weights stay the same; plain attention keeps a square of probabilities for \
                each, efficient attention does not. Time stays nearly the same too, until heads are very narrow.",
    },
    Number {
        stops: &[1., 2., 3., 4., 6., 8., 12., 14., 16., 20., 25., 32., 40., 64.],
        zero: None,
        place: Place::Setting,
    },
);

pub(in crate::panels::experiment) const KV_HEADS: Numeric = (
    Spec {
        key: "model.kv_heads",
        name: "Key heads",
        help: "Heads of keys and values, which several heads of queries share: fewer take fewer weights and smaller kept \
                activations. Products with keys and values get shorter, attention itself does not.",
    },
    Number { stops: &[1., 2., 4., 8., 16., 32., 40.], zero: None, place: Place::Setting },
);

pub(in crate::panels::experiment) const HIDDEN: Numeric = (
    Spec {
        key: "model.hidden",
        name: "Feed-forward",
        help: "Units of each block's feed-forward layer, usually four times the width: most weights and the widest kept \
                activations are here. Its products take most of the time as well.",
    },
    Number {
        stops: &[
            32., 64., 128., 256., 512., 768., 1024., 1536., 2048., 3072., 4096., 5120., 6400., 8192., 11008., 14336.,
            28672.,
        ],
        zero: None,
        place: Place::Setting,
    },
);

pub(in crate::panels::experiment) const PATCH: Numeric = (
    Spec {
        key: "model.patch",
        name: "Patch",
        help: "Side of the squares an image is cut into: half the side makes four times the tokens, and four times the \
                activations of every block. Time grows as they do, plain attention's with the square.",
    },
    Number { stops: &[1., 2., 4., 7., 8., 14., 16., 32.], zero: None, place: Place::Setting },
);

pub(in crate::panels::experiment) const TIED: (Spec, Choice<bool>) = (
    Spec {
        key: "model.tied",
        name: "Last layer",
        help: "When tied, the output layer shares the embedding's weights, which saves one vocabulary-sized matrix with its gradient \
                and optimizer state. The products are the same, so the time is too.",
    },
    Choice { options: &[(true, "as the embedding"), (false, "its own weights")], place: Place::Setting },
);

pub(in crate::panels::experiment) const QKV_BIAS: (Spec, Choice<bool>) = (
    Spec {
        key: "model.qkv_bias",
        name: "Query bias",
        help: "A bias for queries, keys and values, as Qwen2 has it: a few numbers a block. It costs next to no time.",
    },
    Choice { options: &[(false, "none"), (true, "as in Qwen2")], place: Place::Setting },
);

pub(in crate::panels::experiment) const QK_NORM: (Spec, Choice<bool>) = (
    Spec {
        key: "model.qk_norm",
        name: "Query/key norm",
        help: "RMS norm of each head's queries and keys before their positions, as Qwen3 has it: two small weights a block, and \
               a second copy of queries and keys among the activations. Two more passes over them take a little time.",
    },
    Choice { options: &[(false, "none"), (true, "as in Qwen3")], place: Place::Setting },
);

pub(in crate::panels::experiment) const HEAD_DIM: Numeric = (
    Spec {
        key: "model.head_dim",
        name: "Head size",
        help: "Numbers of a head's queries, keys and values: by itself the width is divided by the heads. Larger heads grow the \
               attention's weights and activations in proportion, and its time with them.",
    },
    Number { stops: &[0., 16., 32., 64., 96., 128., 192., 256.], zero: Some("width / heads"), place: Place::Setting },
);

pub(in crate::panels::experiment) const DROPOUT: Numeric = (
    Spec {
        key: "model.dropout",
        name: "Dropout",
        help: "Share of the activations set to zero while training, against learning by heart. The mask is computed again where \
                it is needed, so it takes no memory and little time.",
    },
    Number { stops: &[0., 0.05, 0.1, 0.2, 0.3, 0.5], zero: Some("off"), place: Place::Setting },
);

pub(in crate::panels::experiment) const ATTENTION: (Spec, Choice<AttentionKind>) = (
    Spec {
        key: "model.attention",
        name: "Attention",
        help: "Plain attention keeps a square of probabilities for every head and sample, which long sequences cannot afford. \
                Efficient attention keeps one number a row and computes them again, block by block, at little cost in time.",
    },
    Choice {
        options: &[(AttentionKind::Efficient, "efficient"), (AttentionKind::Plain, "plain")],
        place: Place::Setting,
    },
);

pub(in crate::panels::experiment) const WINDOW: Numeric = (
    Spec {
        key: "model.window",
        name: "Window",
        help: "Positions that each one sees, itself and those before it: what is kept stays the same, plain probabilities \
                included. Time of attention grows with the window instead of the length.",
    },
    Number {
        stops: &[0., 4., 8., 16., 32., 64., 128., 256., 512., 1024., 2048., 4096.],
        zero: Some("all"),
        place: Place::Setting,
    },
);

pub(in crate::panels::experiment) const ROTARY_BASE: Numeric = (
    Spec {
        key: "model.rotary_base",
        name: "Rotary base",
        help: "How slowly the slowest pair of a head turns with the position: long sequences want a larger base. It changes \
                neither memory nor time.",
    },
    Number { stops: &[100., 1000., 10_000., 100_000., 500_000., 1_000_000.], zero: None, place: Place::Setting },
);

pub(in crate::panels::experiment) const NORM_EPSILON: Numeric = (
    Spec {
        key: "model.norm_epsilon",
        name: "Norm epsilon",
        help: "The number that a norm adds to the variance before it divides by its root. Published weights need the one \
                that they were trained with. It changes neither memory nor time.",
    },
    Number { stops: &[0., 1e-12, 1e-6, 1e-5, 1e-3], zero: Some("as published"), place: Place::Setting },
);

pub(in crate::panels::experiment) const LOSS_CHUNK: Numeric = (
    Spec {
        key: "loss_chunk",
        name: "Loss in rows",
        help: "Rows of logits that exist at a time. All of them are batch x length x vocabulary, with a gradient of the \
                same size, which is often the peak. In parts the last layer's products run again for the gradient, which \
                takes a little more time.",
    },
    Number {
        stops: &[0., 64., 128., 256., 512., 1024., 2048., 4096., 8192.],
        zero: Some("all"),
        place: Place::Setting,
    },
);
