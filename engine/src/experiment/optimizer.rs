//! How the parameters are updated: the rule, when, and how fast.

use serde::{Deserialize, Serialize};

/// The update rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OptimizerKind {
    /// Plain gradient descent: no state.
    Sgd,
    /// One velocity a parameter.
    Momentum,
    /// One velocity a parameter, looking a step ahead (Nesterov 1983).
    Nesterov,
    /// Two moments a parameter, with L2 weight decay (Kingma & Ba 2015).
    Adam,
    /// Two moments a parameter (Loshchilov & Hutter 2019).
    Adamw,
    /// The two moments in 8 bits each, block by block (Dettmers et al. 2022). Tensors under 4096 elements keep theirs as
    /// [`OptimizerKind::Adamw`] does.
    Adamw8bit,
    /// Of a matrix a second moment a row and one a column, of a vector one an element; no first moment (Shazeer & Stern
    /// 2018, with a given learning rate).
    Adafactor,
    /// One momentum a parameter, of which a step follows the sign (Chen et al. 2023).
    Lion,
}

/// A constant of some of the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hyperparameter {
    /// [`Optimizer::momentum`].
    Momentum,
    /// [`Optimizer::beta1`].
    Beta1,
    /// [`Optimizer::beta2`].
    Beta2,
    /// [`Optimizer::epsilon`].
    Epsilon,
}

impl OptimizerKind {
    /// Every rule, as a menu shows them.
    pub const ALL: [Self; 8] = [
        Self::Sgd,
        Self::Momentum,
        Self::Nesterov,
        Self::Adam,
        Self::Adamw,
        Self::Adamw8bit,
        Self::Adafactor,
        Self::Lion,
    ];

    /// The text in presets.
    pub fn key(self) -> &'static str {
        match self {
            Self::Sgd => "sgd",
            Self::Momentum => "momentum",
            Self::Nesterov => "nesterov",
            Self::Adam => "adam",
            Self::Adamw => "adamw",
            Self::Adamw8bit => "adamw8bit",
            Self::Adafactor => "adafactor",
            Self::Lion => "lion",
        }
    }

    /// The constants that can be chosen for it.
    pub fn hyperparameters(self) -> &'static [Hyperparameter] {
        use Hyperparameter::{Beta1, Beta2, Epsilon, Momentum};
        match self {
            Self::Sgd | Self::Adafactor => &[],
            Self::Momentum | Self::Nesterov => &[Momentum],
            Self::Lion => &[Beta1, Beta2],
            Self::Adam | Self::Adamw | Self::Adamw8bit => &[Beta1, Beta2, Epsilon],
        }
    }

    /// Whether a constant can be chosen for it.
    pub fn has(self, hyperparameter: Hyperparameter) -> bool {
        self.hyperparameters().contains(&hyperparameter)
    }

    /// How light its state is, from 0 for two moments an element to the most for no state. Neighbours change the
    /// training least, and rules of one number take the same memory.
    pub fn lightness(self) -> u8 {
        match self {
            Self::Adam | Self::Adamw => 0,
            Self::Adamw8bit => 1,
            Self::Adafactor => 2,
            Self::Lion => 3,
            Self::Momentum | Self::Nesterov => 4,
            Self::Sgd => 5,
        }
    }

    /// One rule of each [`lightness`](Self::lightness), the one with most state first.
    pub fn from_heavy_to_light() -> Vec<Self> {
        let mut kinds = Self::ALL.to_vec();
        kinds.sort_by_key(|kind| kind.lightness());
        kinds.dedup_by_key(|kind| kind.lightness());
        kinds
    }

    /// The `beta2` of the rule's paper: 0.99 for lion, 0.999 otherwise.
    pub fn usual_beta2(self) -> f64 {
        if self == Self::Lion { 0.99 } else { 0.999 }
    }
}

impl Optimizer {
    /// Chooses a rule. Where `beta2` is the usual one of the rule before, it becomes the usual one of the new rule: what
    /// stands there was not chosen.
    pub fn choose(&mut self, kind: OptimizerKind) {
        if self.beta2 == self.kind.usual_beta2() {
            self.beta2 = kind.usual_beta2();
        }
        self.kind = kind;
    }
}

/// When the parameters are updated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UpdateTime {
    /// After the backward pass: every gradient is held until then.
    AfterBackward,
    /// Each layer's as soon as its gradient is complete, which is then freed (Lv et al. 2023, "LOMO", with any rule).
    /// Forbids what needs all gradients at once: clipping by the global norm, accumulation, and loss scaling.
    InBackward,
}

/// How the learning rate goes after warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Schedule {
    /// It stays.
    Constant,
    /// It falls to zero along half a cosine (Loshchilov & Hutter 2017).
    Cosine,
}

/// How the parameters are updated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Optimizer {
    /// The update rule.
    pub kind: OptimizerKind,
    /// When it is applied.
    pub update: UpdateTime,
    /// The learning rate after warm-up.
    pub learning_rate: f64,
    /// Weight decay: L2 for sgd, momentum, nesterov and adam, decoupled otherwise.
    pub weight_decay: f64,
    /// Decay of the velocity (momentum, nesterov).
    pub momentum: f64,
    /// Decay of the first moment (adam, adamw, adamw8bit); share of the momentum in a step (lion).
    pub beta1: f64,
    /// Decay of the second moment (adam, adamw, adamw8bit), of the momentum (lion, whose paper has 0.99).
    pub beta2: f64,
    /// Added to the denominator (adam, adamw, adamw8bit).
    pub epsilon: f64,
    /// The largest norm the whole gradient may have; 0 leaves it as it is (Pascanu et al. 2013).
    pub clip_norm: f64,
    /// Steps over which the learning rate rises from zero.
    pub warmup_steps: u64,
    /// How it goes after that.
    pub schedule: Schedule,
}

impl Default for Optimizer {
    fn default() -> Self {
        Self {
            kind: OptimizerKind::Adamw,
            update: UpdateTime::AfterBackward,
            learning_rate: 1e-3,
            weight_decay: 0.01,
            momentum: 0.9,
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-8,
            clip_norm: 0.0,
            warmup_steps: 0,
            schedule: Schedule::Constant,
        }
    }
}
