//! How the parameters are updated: the rule, when, and how fast.

use crate::{
    experiment::words::words,
    experiment::{
        limits::MAX_STEPS,
        settings::{KERNELS, Limits, NOTHING, settings},
    },
};

words! {
    /// The update rule.
    pub enum OptimizerKind {
        /// Plain gradient descent: no state.
        Sgd = "sgd",
        /// SGD with one velocity a parameter.
        Momentum = "momentum",
        /// SGD with one velocity a parameter, looking a step ahead (Nesterov 1983).
        Nesterov = "nesterov",
        /// One mean of squares a parameter, without momentum and not centred (Tieleman & Hinton 2012, as PyTorch writes it).
        Rmsprop = "rmsprop",
        /// Two moments a parameter, with L2 weight decay (Kingma & Ba 2015).
        Adam = "adam",
        /// Two moments a parameter (Loshchilov & Hutter 2019).
        Adamw = "adamw",
        /// The two moments in 8 bits each, block by block (Dettmers et al. 2022). Tensors under 4096 elements keep theirs as
        /// [`OptimizerKind::Adamw`] does.
        Adamw8bit = "adamw8bit",
        /// The two moments in 4 bits each, by block and by row and column (Li, Chen & Zhu 2023). Tensors under 4096 elements
        /// keep theirs as [`OptimizerKind::Adamw`] does.
        Adamw4bit = "adamw4bit",
        /// The two moments in 8 bits each, group by group, and of weights of 16 bits 8-bit corrections in place of a wider copy
        /// (Gonzalez Ortiz et al. 2026, "FlashOptim").
        FlashAdamw = "flash-adamw",
        /// One momentum an element of the matrices of hidden layers; a step follows the semi-orthogonal matrix nearest to it
        /// (Jordan et al. 2024, with the scale of Liu et al. 2025, so that rates are those of AdamW). For a convolution, a
        /// filter's taps are a row. Everything else, embeddings and classes included, is updated as by
        /// [`OptimizerKind::Adamw`].
        Muon = "muon",
        /// For the matrices of hidden layers, two moments an element of the longer side, of the gradient's part in a random
        /// direction of the shorter one; a step follows the gradient (Zhu et al. 2024). Everything else, embeddings and classes
        /// included, is updated as by [`OptimizerKind::Adamw`].
        ApolloMini = "apollo-mini",
        /// For a matrix, a second moment a row and one a column; for a vector, one an element; no first moment (Shazeer & Stern
        /// 2018, with a given learning rate).
        Adafactor = "adafactor",
        /// One momentum a parameter; a step follows its sign (Chen et al. 2023).
        Lion = "lion",
    }
}

/// A constant of some of the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hyperparameter {
    /// The setting [`Optimizer::momentum`].
    Momentum,
    /// The setting [`Optimizer::beta1`].
    Beta1,
    /// The setting [`Optimizer::beta2`].
    Beta2,
    /// The setting [`Optimizer::epsilon`].
    Epsilon,
}

impl OptimizerKind {
    /// The constants that can be chosen for it.
    pub fn hyperparameters(self) -> &'static [Hyperparameter] {
        use Hyperparameter::{Beta1, Beta2, Epsilon, Momentum};
        match self {
            Self::Sgd | Self::Adafactor => &[],
            Self::Momentum | Self::Nesterov => &[Momentum],
            Self::Lion => &[Beta1, Beta2],
            Self::Muon => &[Momentum, Beta1, Beta2, Epsilon],
            Self::Rmsprop => &[Beta2, Epsilon],
            Self::Adam | Self::Adamw | Self::Adamw8bit | Self::Adamw4bit | Self::FlashAdamw | Self::ApolloMini => {
                &[Beta1, Beta2, Epsilon]
            }
        }
    }

    /// Whether a constant can be chosen for it.
    pub fn has(self, hyperparameter: Hyperparameter) -> bool {
        self.hyperparameters().contains(&hyperparameter)
    }

    /// Whether every number of its state belongs to one weight.
    pub fn keeps_state_by_weight(self) -> bool {
        match self {
            Self::Sgd
            | Self::Momentum
            | Self::Nesterov
            | Self::Rmsprop
            | Self::Adam
            | Self::Adamw
            | Self::Lion
            | Self::Muon => true,
            // Blocks with a scale, and sums over rows and columns.
            Self::Adamw8bit | Self::Adamw4bit | Self::FlashAdamw | Self::ApolloMini | Self::Adafactor => false,
        }
    }

    /// Whether weights of 16 bits have corrections, so that mixed precision holds no wider copy of them.
    pub fn corrects_weights(self) -> bool {
        match self {
            Self::FlashAdamw => true,
            Self::Sgd
            | Self::Momentum
            | Self::Nesterov
            | Self::Rmsprop
            | Self::Adam
            | Self::Adamw
            | Self::Adamw8bit
            | Self::Adamw4bit
            | Self::Muon
            | Self::ApolloMini
            | Self::Adafactor
            | Self::Lion => false,
        }
    }

    /// How light its state is, from 0 for two moments an element to the most for no state. Neighbours change the
    /// training least, and rules of one number take the same memory.
    pub fn lightness(self) -> u8 {
        match self {
            Self::Adam | Self::Adamw => 0,
            Self::FlashAdamw => 1,
            Self::Adamw8bit => 2,
            Self::Adamw4bit => 3,
            Self::ApolloMini => 4,
            Self::Adafactor => 5,
            Self::Lion => 6,
            Self::Muon => 7,
            Self::Momentum | Self::Nesterov | Self::Rmsprop => 8,
            Self::Sgd => 9,
        }
    }

    /// One rule for each [`lightness`](Self::lightness), the one with most state first.
    pub fn from_heavy_to_light() -> Vec<Self> {
        let mut kinds = Self::ALL.to_vec();
        kinds.sort_by_key(|kind| kind.lightness());
        kinds.dedup_by_key(|kind| kind.lightness());
        kinds
    }

    /// The `beta2` of the rule's paper or of its usual program: 0.99 for lion and rmsprop, 0.999 otherwise.
    pub fn usual_beta2(self) -> f64 {
        if matches!(self, Self::Lion | Self::Rmsprop) { 0.99 } else { 0.999 }
    }

    /// The usual `momentum`: 0.95 for muon, 0.9 otherwise.
    pub fn usual_momentum(self) -> f64 {
        if self == Self::Muon { 0.95 } else { 0.9 }
    }
}

impl Optimizer {
    /// Chooses a rule. Where `beta2` or `momentum` is the usual one of the rule before, it becomes the usual one of the new
    /// rule, because the user did not choose it.
    pub fn choose(&mut self, kind: OptimizerKind) {
        if self.momentum == self.kind.usual_momentum() {
            self.momentum = kind.usual_momentum();
        }
        if self.beta2 == self.kind.usual_beta2() {
            self.beta2 = kind.usual_beta2();
        }
        self.kind = kind;
    }
}

words! {
    /// When the parameters are updated.
    pub enum UpdateTime {
        /// After the backward pass: every gradient is held until then.
        AfterBackward = "after-backward",
        /// Each layer's as soon as its gradient is complete, which is then freed (Lv et al. 2023, "LOMO", with any rule).
        /// Forbids everything that needs all gradients at once: clipping by the global norm, accumulation, and loss scaling.
        InBackward = "in-backward",
    }
}

words! {
    /// How the learning rate goes after warm-up.
    pub enum Schedule {
        /// The rate stays the same.
        Constant = "constant",
        /// The rate falls to zero along half a cosine (Loshchilov & Hutter 2017).
        Cosine = "cosine",
        /// The rate falls to zero along a line, as in transformers' `get_linear_schedule_with_warmup`.
        Linear = "linear",
    }
}

settings! {
    /// How the parameters are updated.
    pub struct Optimizer in optimizer {
        /// The update rule.
        pub kind: OptimizerKind = OptimizerKind::Adamw, KERNELS;
        /// When it is applied.
        pub update: UpdateTime = UpdateTime::AfterBackward, KERNELS;
        /// The learning rate after warm-up.
        pub learning_rate: f64 = 1e-3, NOTHING.limits(Limits::Positive {
            high: 1e4, what: "a learning rate", example: "0.001",
        });
        /// Weight decay: L2 for sgd, momentum, nesterov, rmsprop and adam, decoupled otherwise.
        pub weight_decay: f64 = 0.01, NOTHING.numbers(0.0, 1e3, "a weight decay");
        /// Decay of the velocity (momentum, nesterov, and muon, whose program has 0.95).
        pub momentum: f64 = 0.9, NOTHING.limits(decay("0.9")).when(|e| e.optimizer.kind.has(Hyperparameter::Momentum));
        /// Decay of the first moment (adam, the forms of adamw, muon, apollo-mini); share of the momentum in a step (lion).
        pub beta1: f64 = 0.9, NOTHING.limits(decay("0.9")).when(|e| e.optimizer.kind.has(Hyperparameter::Beta1));
        /// Decay of the second moment (adam, the forms of adamw, muon, apollo-mini), of the momentum (lion, whose paper has
        /// 0.99).
        pub beta2: f64 = 0.999, NOTHING.limits(decay("0.999")).when(|e| e.optimizer.kind.has(Hyperparameter::Beta2));
        /// Added to the denominator (rmsprop, adam, the forms of adamw, muon, apollo-mini).
        pub epsilon: f64 = 1e-8, NOTHING.when(|e| e.optimizer.kind.has(Hyperparameter::Epsilon)).limits(Limits::Positive {
            high: 1.0, what: "an epsilon", example: "1e-8",
        });
        /// The largest norm the whole gradient may have; 0 leaves it as it is (Pascanu et al. 2013).
        pub clip_norm: f64 = 0.0, NOTHING.switch().numbers(0.0, 1e9, "a norm");
        /// Steps over which the learning rate rises from zero.
        pub warmup_steps: u64 = 0, NOTHING.counts(0, MAX_STEPS, "a number of steps");
        /// How it goes after that.
        pub schedule: Schedule = Schedule::Constant, NOTHING;
    }
}

const fn decay(example: &'static str) -> Limits {
    Limits::Fraction { what: "a decay", example }
}
