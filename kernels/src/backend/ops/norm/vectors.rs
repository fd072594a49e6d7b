//! The vectors next to the matrix of a normalisation: its statistics, what is learnt, and the running estimates.

use crate::backend::{Backend, Tensor};

/// The two vectors that a normalisation and its gradient use.
#[derive(Debug)]
pub struct Statistics<B: Backend> {
    /// Mean of each channel or row.
    pub mean: Tensor<B>,
    /// 1 / sqrt(variance + epsilon).
    pub inverse: Tensor<B>,
}

impl<B: Backend> Clone for Statistics<B> {
    fn clone(&self) -> Self {
        Self { mean: self.mean.clone(), inverse: self.inverse.clone() }
    }
}

impl<B: Backend> IntoIterator for Statistics<B> {
    type Item = Tensor<B>;
    type IntoIter = std::array::IntoIter<Tensor<B>, 2>;

    fn into_iter(self) -> Self::IntoIter {
        [self.mean, self.inverse].into_iter()
    }
}

/// The learned scale and offset of a normalisation.
#[derive(Debug)]
pub struct Affine<'a, B: Backend> {
    /// The factor.
    pub weight: &'a Tensor<B>,
    /// The summand.
    pub bias: &'a Tensor<B>,
}

/// Running estimates of a batch normalisation.
#[derive(Debug)]
pub struct Running<'a, B: Backend> {
    /// The running estimate of the mean.
    pub mean: &'a Tensor<B>,
    /// The running estimate of the unbiased variance.
    pub variance: &'a Tensor<B>,
}
