//! The form and the size that a trained model takes in the end, if it gets smaller.
//!
//! Always holds: a plan has the size from the same code as the run; only how many weights will be zero is foretold, by the
//! settings. Of several changes the last counts, because integers already leave the zeros out.

use std::fmt;

use super::Session;
use crate::{
    backend::Backend,
    bytes::Bytes,
    experiment::{CodedWeights, words::words},
    models::FactoredSize,
    optim::{Pruning, Stripped},
};

words! {
    /// The form that a trained model took.
    pub enum Became {
        /// Weights and inputs of its layers are 8-bit integers.
        Integers = "integers",
        /// Weights are 8-bit integers.
        Weights8 = "8-bit weights",
        /// Weights are 4-bit integers.
        Weights4 = "4-bit weights",
        /// The pruned parts are left out.
        Pruned = "pruned",
        /// Layers are products of smaller ones.
        Factored = "low rank",
    }
}

impl Became {
    /// The form of a model with these weights.
    pub fn of(weights: CodedWeights) -> Self {
        match weights {
            CodedWeights::WithInputs => Self::Integers,
            CodedWeights::Int8 => Self::Weights8,
            CodedWeights::Int4 => Self::Weights4,
        }
    }

    /// The form in words that follow `the model`.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Integers => "as 8-bit integers",
            Self::Weights8 => "with weights as 8-bit integers",
            Self::Weights4 => "with weights as 4-bit integers",
            Self::Pruned => "without its pruned parts",
            Self::Factored => "with layers as products of smaller ones",
        }
    }
}

/// The size that a model will have when it is trained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SmallerSize {
    /// Its form.
    pub became: Became,
    /// Bytes of its weights.
    pub bytes: Bytes,
    /// Bytes of the weights as they would be otherwise, with all channels and every layer whole.
    pub whole_bytes: Bytes,
    /// Bytes of the tensors of its file in the published layouts: those bytes, running statistics, and what a layout adds.
    pub file_bytes: Bytes,
    /// Whether the number of zeros is foretold, by the share that is to be pruned.
    pub is_estimate: bool,
}

impl fmt::Display for SmallerSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let about = if self.is_estimate { "about " } else { "" };
        write!(f, "{} {about}{} in place of {}", self.became.in_words(), self.bytes, self.whole_bytes)?;
        if self.file_bytes == self.bytes {
            return Ok(());
        }
        let added = "with what the layout adds and any running statistics";
        write!(f, "; its tensors take {about}{} in a file of export --compressed, {added}", self.file_bytes)
    }
}

/// The bytes of a model with all channels and every layer whole. It takes `as_trained` as it was trained, without the channels
/// that were taken out, and with the layers that were factored.
pub fn whole_bytes(as_trained: Bytes, stripped: Option<Stripped>, factored: Option<FactoredSize>) -> Bytes {
    let taken_out = stripped.map_or(Bytes::ZERO, |own| own.dense_bytes.saturating_sub(own.as_trained()));
    let left_out = factored.map_or(Bytes::ZERO, |own| own.whole_bytes.saturating_sub(own.bytes));
    as_trained + taken_out + left_out
}

impl<B: Backend> Session<B> {
    /// What pruning to zeros holds as long as the session trains; nothing where no weight becomes zero.
    pub fn pruning_bytes(&self) -> Bytes {
        self.pruning.as_ref().map_or(Bytes::ZERO, Pruning::bytes)
    }

    /// The size that the model has in the end, after channels were taken out; `None` if it stays as it is.
    pub fn smaller(&self) -> Option<SmallerSize> {
        let zeros = self.pruning.as_ref().map(|pruning| pruning.planned_zeros(&self.model.prunable()));
        let (zeros, quantise) = (zeros.unwrap_or_default(), &self.experiment.quantise);
        let is_estimate = zeros.iter().any(|(_, [zeros, _])| *zeros > 0);
        let (taken_out, factored) = (self.taken_out(), self.factored());
        // In its file the weights take `own` bytes.
        let size = |became, bytes, own, as_trained| {
            let whole_bytes = whole_bytes(as_trained, taken_out, factored);
            Some(SmallerSize { became, bytes, whole_bytes, file_bytes: own + self.file_beside(), is_estimate })
        };
        if !quantise.kind.is_none() {
            let [bytes, dense_bytes] = self.coded_size(&zeros);
            // The layout of packed weights has no mask.
            let own = if self.code_of_weights().is_some() { self.coded_size(&[])[0] } else { bytes };
            return size(Became::of(quantise.coded()), bytes, own, dense_bytes);
        }
        let pruned = is_estimate.then(|| Stripped::of(&zeros, &self.model.params()));
        if let Some(stripped) = pruned.or(taken_out).filter(|stripped| stripped.gone > 0) {
            return size(Became::Pruned, stripped.bytes, stripped.bytes, stripped.as_trained());
        }
        factored.and_then(|factored| size(Became::Factored, factored.bytes, factored.bytes, factored.bytes))
    }
}
