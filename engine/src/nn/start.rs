//! The values of a parameter before training.

use crate::backend::ops::Elementwise;

/// The values of a parameter before training.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Start {
    /// Uniform in ±1/sqrt(fan_in): PyTorch's default for dense and convolution layers (He et al. 2015 with a gain for
    /// slope sqrt(5)).
    Uniform {
        /// Inputs that one output reads.
        fan_in: usize,
    },
    /// Normal around zero.
    Normal {
        /// The standard deviation.
        std: f64,
    },
    /// Zero everywhere.
    Zero,
}

impl Start {
    /// The kernel that writes the values, from a random source of this key.
    pub(super) fn fill(self, key: u64) -> Elementwise {
        match self {
            Self::Uniform { fan_in } => Elementwise::Uniform { bound: 1.0 / (fan_in as f64).sqrt(), key },
            Self::Normal { std } => Elementwise::Normal { std, key },
            Self::Zero => Elementwise::Fill(0.0),
        }
    }
}
