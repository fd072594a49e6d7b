//! Dropout (Srivastava et al. 2014).

use super::{Contract, OperandBytes};
use crate::{
    backend::{Backend, DType, Executor, Tensor},
    device::Processor,
    error::Result,
};

/// out: `y`, updated: element i becomes zero where [`Rng::bits`](crate::rng::Rng::bits) of counter i are among the lowest
/// `probability`, otherwise `y / (1 - probability)`. With the same key, it is its own gradient.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dropout {
    /// Probability of zero, in [0, 1).
    pub probability: f64,
    /// Key of the random source.
    pub key: u64,
}

impl Contract for Dropout {
    fn name(&self) -> &'static str {
        "dropout"
    }

    fn takes(&self, inputs: &[usize], outputs: &[usize]) -> bool {
        matches!((inputs, outputs), ([], [_])) && (0.0..1.0).contains(&self.probability)
    }

    fn flops(&self) -> u64 {
        0
    }

    fn traffic_bytes(&self, operands: &OperandBytes) -> u64 {
        operands.all()
    }

    fn cpu_scratch_bytes(&self, _dtype: DType, _: Processor) -> usize {
        0
    }

    fn cuda_scratch_bytes(&self, _dtype: DType) -> usize {
        0
    }
}

impl<B: Backend> Executor<B> {
    /// Drops each element with a probability, in place when nothing else holds `x`. With the same key, the op is its own
    /// gradient.
    ///
    /// # Errors
    /// Fails for a probability outside [0, 1), when the mask would cross the budget
    /// ([`Error::Budget`](crate::Error::Budget)) or when the device fails.
    pub fn dropout(&self, x: Tensor<B>, probability: f64, key: u64) -> Result<Tensor<B>> {
        let y = self.own(x, "dropout")?;
        self.launch(Dropout { probability, key }, &[], &[&y])?;
        Ok(y)
    }
}
