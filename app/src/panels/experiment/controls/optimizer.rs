//! The update rule.

use plimsoll_engine::experiment::{OptimizerKind, Schedule, UpdateTime};

use super::{Numeric, Row};
use crate::widgets::control::{Choice, Number, Place, Spec};

/// The words of an optimizer, in its control and in offers.
pub(crate) const fn optimizer_words(kind: OptimizerKind) -> &'static str {
    match kind {
        OptimizerKind::Sgd => "SGD",
        OptimizerKind::Momentum => "SGD with momentum",
        OptimizerKind::Nesterov => "Nesterov momentum",
        OptimizerKind::Rmsprop => "RMSprop",
        OptimizerKind::Adam => "Adam",
        OptimizerKind::Adamw => "AdamW",
        OptimizerKind::Adamw8bit => "8-bit AdamW",
        OptimizerKind::Adamw4bit => "4-bit AdamW",
        OptimizerKind::FlashAdamw => "8-bit FlashAdamW",
        OptimizerKind::Adafactor => "Adafactor",
        OptimizerKind::Lion => "Lion",
        OptimizerKind::Muon => "Muon",
        OptimizerKind::ApolloMini => "APOLLO-Mini",
    }
}

/// The same of an optimizer by its word in a preset; `None` of an unknown one.
pub(crate) fn optimizer_of(key: &str) -> Option<&'static str> {
    OptimizerKind::ALL.into_iter().find(|kind| kind.key() == key).map(optimizer_words)
}

const fn named(kind: OptimizerKind) -> (OptimizerKind, &'static str) {
    (kind, optimizer_words(kind))
}

pub(in crate::panels::experiment) const OPTIMIZER: (Spec, Choice<OptimizerKind>) = (
    Spec {
        key: "optimizer.kind",
        name: "Rule",
        help: "SGD keeps no state, momentum, RMSprop and Lion one value a parameter, Adam and AdamW two, the forms of AdamW with 8 \
                and 4 bits two bytes and one, and Adafactor one value a row and column. FlashAdamW keeps two bytes, and where \
                weights have 16 bits a third one in place of their f32 copy. Muon keeps one value a parameter of the \
                hidden layers' matrices and APOLLO-Mini two a row or column of them; both train the rest by AdamW. AdamW usually \
                needs the fewest steps; Lion wants a rate 3 to 10 times lower and a beta 2 of 0.99, APOLLO-Mini one 3 to 10 \
                times higher. The update is short compared with the passes, except for Muon's products, which take scratch as \
                well.",
    },
    Choice {
        options: &[
            named(OptimizerKind::Sgd),
            named(OptimizerKind::Momentum),
            named(OptimizerKind::Nesterov),
            named(OptimizerKind::Rmsprop),
            named(OptimizerKind::Adam),
            named(OptimizerKind::Adamw),
            named(OptimizerKind::Adamw8bit),
            named(OptimizerKind::Adamw4bit),
            named(OptimizerKind::FlashAdamw),
            named(OptimizerKind::Adafactor),
            named(OptimizerKind::Lion),
            named(OptimizerKind::Muon),
            named(OptimizerKind::ApolloMini),
        ],
        place: Place::Own { get: |e| e.optimizer.kind, set: |e, v| e.optimizer.choose(v) },
    },
);

pub(in crate::panels::experiment) const UPDATE: (Spec, Choice<UpdateTime>) = (
    Spec {
        key: "optimizer.update",
        name: "Update",
        help: "Updating each layer as soon as its gradient is complete frees that gradient at once, so they are never all \
                alive; clipping, accumulation and loss scaling need them all and cannot go with it. It changes no number and \
                no time.",
    },
    Choice {
        options: &[(UpdateTime::InBackward, "in backward"), (UpdateTime::AfterBackward, "after backward")],
        place: Place::Setting,
    },
);

pub(in crate::panels::experiment) const LEARNING_RATE: Numeric = (
    Spec {
        key: "optimizer.learning_rate",
        name: "Learning rate",
        help: "The length of a step against the gradient; it changes no memory and no time per step. Too low learns slowly, too \
                high jumps about or ends in values that are not finite.",
    },
    Number {
        stops: &[1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 1.0],
        zero: None,
        place: Place::Setting,
    },
);

pub(in crate::panels::experiment) const WEIGHT_DECAY: Numeric = (
    Spec {
        key: "optimizer.weight_decay",
        name: "Weight decay",
        help: "Pulls weights towards zero at every update, which often helps on unseen data. It takes no memory and next to no \
                time.",
    },
    Number { stops: &[0., 1e-4, 5e-4, 1e-3, 5e-3, 0.01, 0.03, 0.1, 0.3], zero: Some("off"), place: Place::Setting },
);

pub(in crate::panels::experiment) const MOMENTUM: Numeric = (
    Spec {
        key: "optimizer.momentum",
        name: "Momentum",
        help: "Share of the last step that goes into the next; a velocity is kept for any share. It changes no time per \
                step, and usually saves many steps.",
    },
    Number { stops: &[0., 0.5, 0.8, 0.9, 0.95, 0.98, 0.99], zero: None, place: Place::Setting },
);

pub(in crate::panels::experiment) const BETA1: Numeric = (
    Spec {
        key: "optimizer.beta1",
        name: "Beta 1",
        help: "How slowly the mean of gradients forgets; the mean is kept for any value. It changes neither memory nor \
                time per step.",
    },
    MOMENTUM.1,
);

pub(in crate::panels::experiment) const BETA2: Numeric = (
    Spec {
        key: "optimizer.beta2",
        name: "Beta 2",
        help: "How slowly the mean of squared gradients forgets; lower values follow sudden changes better. It changes \
                neither memory nor time per step.",
    },
    Number { stops: &[0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 0.9999], ..MOMENTUM.1 },
);

pub(in crate::panels::experiment) const EPSILON: Numeric = (
    Spec {
        key: "optimizer.epsilon",
        name: "Epsilon",
        help: "Added to the root of the mean of squared gradients before it divides; too small a value is lost in 16-bit \
                types. It changes neither memory nor time per step.",
    },
    Number { stops: &[1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4], zero: None, place: Place::Setting },
);

pub(in crate::panels::experiment) const CLIP: Numeric = (
    Spec {
        key: "optimizer.clip_norm",
        name: "Clip norm",
        help: "Shortens the whole gradient to this norm when it is longer, against sudden jumps. It needs the norm, which \
                takes one pass over the gradients and hardly any memory.",
    },
    Number { stops: &[0., 0.1, 0.25, 0.5, 1., 2., 5., 10.], zero: Some("off"), place: Place::Setting },
);

pub(in crate::panels::experiment) const WARMUP: Numeric = (
    Spec {
        key: "optimizer.warmup_steps",
        name: "Warm-up",
        help: "Steps over which the learning rate rises from zero, which keeps the first updates from breaking the weights. It \
                changes neither memory nor time per step.",
    },
    Number { stops: &[0., 10., 20., 50., 100., 200., 500., 1000.], zero: Some("off"), place: Place::Setting },
);

pub(in crate::panels::experiment) const SCHEDULE: (Spec, Choice<Schedule>) = (
    Spec {
        key: "optimizer.schedule",
        name: "Schedule",
        help: "A learning rate that falls to zero, along a cosine or a line, lets the run settle, and usually ends more \
                accurate. It changes neither memory nor time per step.",
    },
    Choice {
        options: &[
            (Schedule::Constant, "constant"),
            (Schedule::Cosine, "cosine to zero"),
            (Schedule::Linear, "linear to zero"),
        ],
        place: Place::Setting,
    },
);

/// The rows of the group.
pub(in crate::panels::experiment) const RULE: &[Row] =
    &[Row::of(&OPTIMIZER).alone("optimizer"), Row::of(&LEARNING_RATE)];

/// The advanced settings of the optimizer. Its constants are shown with its kind.
pub(in crate::panels::experiment) const RULE_REST: &[Row] = &[
    Row::of(&UPDATE),
    Row::of(&SCHEDULE),
    Row::of(&WARMUP),
    Row::of(&WEIGHT_DECAY),
    Row::of(&CLIP),
    Row::of(&MOMENTUM).unnamed(),
    Row::of(&BETA1).unnamed(),
    Row::of(&BETA2).unnamed(),
    Row::of(&EPSILON).unnamed(),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_optimizers_have_the_same_words_and_none_has_a_comma() {
        let words: Vec<&str> = OptimizerKind::ALL.iter().map(|kind| optimizer_words(*kind)).collect();
        assert!(
            words.iter().all(|word| !word.contains(',') && words.iter().filter(|other| *other == word).count() == 1)
        );
    }
}
