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
    /// One momentum a parameter, of which a step follows the sign (Chen et al. 2023).
    Lion,
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
    /// Weight decay: decoupled for adamw and lion, L2 otherwise.
    pub weight_decay: f64,
    /// Decay of the velocity (momentum, nesterov).
    pub momentum: f64,
    /// Decay of the first moment (adam, adamw); share of the momentum in a step (lion).
    pub beta1: f64,
    /// Decay of the second moment (adam, adamw), of the momentum (lion).
    pub beta2: f64,
    /// Added to the denominator (adam, adamw).
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
