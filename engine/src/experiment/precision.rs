//! The type that each part computes in.

use crate::{experiment::words::words, tensor::DType};

words! {
    /// The type that each part computes in.
    pub enum Precision {
        /// Everything is f32.
        F32 = "f32",
        /// bf16 weights and activations, f32 master weights, gradients and optimizer state. An optimizer with corrections keeps
        /// those in place of master weights, here and in f16-mixed.
        Bf16Mixed = "bf16-mixed",
        /// f16 weights and activations, f32 master weights, gradients and optimizer state, dynamic loss scaling.
        F16Mixed = "f16-mixed",
        /// Everything is bf16.
        Bf16 = "bf16",
        /// Everything is f64.
        F64 = "f64",
    }
}

impl Precision {
    /// Type of weights as the forward pass reads them, of activations and of the batch.
    pub fn compute(self) -> DType {
        match self {
            Self::F32 => DType::F32,
            Self::Bf16Mixed | Self::Bf16 => DType::Bf16,
            Self::F16Mixed => DType::F16,
            Self::F64 => DType::F64,
        }
    }

    /// Type of the weights that the optimizer updates if it has no corrections, of gradients and of the optimizer's state.
    pub fn master(self) -> DType {
        match self {
            Self::F32 | Self::Bf16Mixed | Self::F16Mixed => DType::F32,
            Self::Bf16 => DType::Bf16,
            Self::F64 => DType::F64,
        }
    }

    /// Type of statistics and other sums that are kept: f32, or f64 for f64.
    pub fn sums(self) -> DType {
        if self == Self::F64 { DType::F64 } else { DType::F32 }
    }

    /// Whether there is an f32 copy of the weights in addition to the narrower ones, if the optimizer has no corrections.
    pub fn has_master_weights(self) -> bool {
        self.compute() != self.master()
    }
}
