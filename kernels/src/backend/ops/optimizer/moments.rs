//! The constants of the rules with Adam's moments.

use super::Update;
use crate::{
    rng::{Rng, Stream},
    tensor::DType,
};

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

impl Moments {
    /// What decides, at this update, whether scales of groups are rounded up or down.
    pub(crate) fn rounding(&self) -> Rng {
        Rng::new(self.step, Stream::Rounding, 0)
    }
}

/// A type of 16 bits that a weight can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NarrowWeight {
    /// 8 bits of exponent, 7 of fraction.
    Bf16,
    /// 5 bits of exponent, 10 of fraction.
    F16,
}

impl NarrowWeight {
    /// The type of narrow weights; `None` for wider ones.
    pub fn of(dtype: DType) -> Option<Self> {
        match dtype {
            DType::Bf16 => Some(Self::Bf16),
            DType::F16 => Some(Self::F16),
            DType::F32 | DType::F64 | DType::U32 | DType::U8 => None,
        }
    }
}

/// Adam's constants, with the factors that are the same for all elements of a parameter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct AdamConstants {
    /// The factor of `m / (sqrt(v) + epsilon)`.
    pub(crate) rate: f64,
    /// The factor by which decoupled decay shrinks a weight.
    pub(crate) decay: f64,
    /// L2 decay.
    pub(crate) l2: f64,
    /// Added to the root.
    pub(crate) epsilon: f64,
}

impl Update {
    /// The constants of [`UpdateRule::Adam`](super::UpdateRule::Adam), or with decoupled decay of
    /// [`UpdateRule::AdamW`](super::UpdateRule::AdamW) and its narrower forms:
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
