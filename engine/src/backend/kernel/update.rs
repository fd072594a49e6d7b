//! The rules by which an optimizer updates a parameter, as kernels know them.

use super::Rows;

/// One update of one parameter. Below, `g = grad_scale * grad`, and `t` counts updates from 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Update {
    /// The rule.
    pub rule: Rule,
    /// Learning rate.
    pub rate: f64,
    /// Weight decay: L2 (`g += weight_decay * w`) for the rules up to [`Rule::Adam`], decoupled for the others
    /// (`w *= 1 - rate * weight_decay` first; Loshchilov & Hutter 2019).
    pub weight_decay: f64,
    /// Undoes loss scaling and applies clipping.
    pub grad_scale: f64,
}

/// The constants of Adam's two moments.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moments {
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// Added to the denominator.
    pub epsilon: f64,
    /// `t`.
    pub step: u64,
}

/// A rule, and which tensors it keeps beside the weight. They are of the weight's type where nothing else is said.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rule {
    /// `w -= rate * g`. Keeps nothing.
    Sgd,
    /// `v = momentum * v + g; w -= rate * v` (Sutskever et al. 2013, as PyTorch writes it). Keeps `v`.
    Momentum {
        /// Decay of the velocity.
        momentum: f64,
    },
    /// As [`Rule::Momentum`], but `w -= rate * (g + momentum * v)` (Nesterov 1983, as PyTorch writes it).
    Nesterov {
        /// Decay of the velocity.
        momentum: f64,
    },
    /// `m = b1 m + (1-b1) g; v = b2 v + (1-b2) g²; w -= rate * (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + epsilon)`
    /// (Kingma & Ba 2015). Keeps `m`, `v`.
    Adam(Moments),
    /// As [`Rule::Adam`], with decoupled weight decay (Loshchilov & Hutter 2019).
    AdamW(Moments),
    /// As [`Rule::AdamW`], its moments in 8 bits between updates (Dettmers et al. 2022, "8-bit optimizers via block-wise
    /// quantization"). Keeps, for `m` and then for `v`, a code (u8) an element and the largest magnitude (f32) of every
    /// [`Rule::BLOCK`] elements: of `m`'s dynamic code with a sign, of `v`'s without. Zeros stand for zero.
    AdamW8(Moments),
    /// `w -= rate * sign(b1 m + (1-b1) g); m = b2 m + (1-b2) g` (Chen et al. 2023). Keeps `m`.
    Lion {
        /// Share of the momentum in the step's direction.
        beta1: f64,
        /// Decay of the momentum.
        beta2: f64,
    },
    /// Adafactor without relative step and first moment (Shazeer & Stern 2018, algorithms 4 and 5). Of a matrix, with
    /// `b = 1 - t^-0.8`: `r = b r + (1-b) mean over a row of (g² + 1e-30)`, `c` the same over a column, `v = r c / mean(r)`;
    /// `u = g / sqrt(v); w -= rate * u / max(1, rms(u))`. A matrix of one row is a vector: `v = b v + (1-b) (g² + 1e-30)`.
    /// Keeps `r [rows]` and `c [columns]`, or `v`, in f32 (f64 for f64).
    Adafactor {
        /// The weight as a matrix.
        extents: Rows,
        /// `t`.
        step: u64,
    },
}

/// Adam's constants with what does not change over a parameter made beforehand.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct AdamConstants {
    /// What multiplies `m / (sqrt(v) + epsilon)`.
    pub(crate) rate: f64,
    /// What decoupled decay leaves of a weight.
    pub(crate) decay: f64,
    /// L2 decay.
    pub(crate) l2: f64,
    /// Added to the root.
    pub(crate) epsilon: f64,
}

impl Update {
    /// Of [`Rule::Adam`], or with decoupled decay of [`Rule::AdamW`] and [`Rule::AdamW8`]:
    /// `rate * (m / c1) / (sqrt(v / c2) + e) = (rate * sqrt(c2) / c1) * m / (sqrt(v) + e * sqrt(c2))`.
    pub(crate) fn adam(&self, moments: &Moments, is_decoupled: bool) -> AdamConstants {
        let Moments { beta1, beta2, epsilon, step } = *moments;
        let step = i32::try_from(step).unwrap_or(i32::MAX);
        let (c1, c2) = (1.0 - beta1.powi(step), (1.0 - beta2.powi(step)).sqrt());
        AdamConstants {
            rate: self.rate * c2 / c1,
            decay: if is_decoupled { 1.0 - self.rate * self.weight_decay } else { 1.0 },
            l2: if is_decoupled { 0.0 } else { self.weight_decay },
            epsilon: epsilon * c2,
        }
    }
}

impl Rule {
    /// Elements that share a scale in [`Rule::AdamW8`].
    pub const BLOCK: usize = 256;

    /// Added to every square in [`Rule::Adafactor`].
    pub(crate) const ADAFACTOR_EPSILON: f64 = 1e-30;

    /// What of a new square enters the means of [`Rule::Adafactor`] at `step`.
    pub(crate) fn adafactor_take(step: u64) -> f64 {
        (step.max(1) as f64).powf(-0.8)
    }

    /// The name on screen and in timelines.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Sgd => "sgd",
            Self::Momentum { .. } => "momentum",
            Self::Nesterov { .. } => "nesterov",
            Self::Adam(_) => "adam",
            Self::AdamW(_) => "adamw",
            Self::AdamW8(_) => "adamw 8-bit",
            Self::Lion { .. } => "lion",
            Self::Adafactor { .. } => "adafactor",
        }
    }

    /// Elements of each tensor it keeps beside a weight of `elements`, and how many tensors that are.
    pub(crate) fn kept(&self, elements: usize) -> ([usize; 4], usize) {
        let blocks = elements.div_ceil(Self::BLOCK);
        match *self {
            Self::Sgd => ([0; 4], 0),
            Self::Momentum { .. } | Self::Nesterov { .. } | Self::Lion { .. } => ([elements; 4], 1),
            Self::Adam(_) | Self::AdamW(_) => ([elements; 4], 2),
            Self::AdamW8(_) => ([elements, blocks, elements, blocks], 4),
            Self::Adafactor { extents: Rows { rows: 1, columns }, .. } => ([columns; 4], 1),
            Self::Adafactor { extents: Rows { rows, columns }, .. } => ([rows, columns, 0, 0], 2),
        }
    }
}
