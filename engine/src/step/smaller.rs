//! The form and the size that a trained model takes in the end, if it gets smaller, and its tensors then.
//!
//! Always holds: a plan has the size from the same code as the run; only how many weights will be zero is foretold, by the
//! settings. Of several changes the last counts, because integers already leave the zeros out.

use std::fmt;

use super::{Session, slots::named};
use crate::{
    backend::{Backend, DType},
    bytes::Bytes,
    experiment::{CodedWeights, words::words},
    nn::RANGE,
    optim::Stripped,
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
    /// Bytes of the weights as they would be otherwise.
    pub whole_bytes: Bytes,
    /// Whether the number of zeros is foretold, by the share that is to be pruned.
    pub is_estimate: bool,
}

impl fmt::Display for SmallerSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let about = if self.is_estimate { "about " } else { "" };
        write!(f, "{} {about}{} in place of {}", self.became.in_words(), self.bytes, self.whole_bytes)
    }
}

/// A tensor that a file of the trained model has.
#[derive(Debug, Clone, PartialEq)]
pub struct Stored {
    /// Its name there.
    pub name: String,
    /// Its extents.
    pub shape: Vec<usize>,
    /// The type that is computed with.
    pub dtype: DType,
    /// Whether it becomes integers.
    pub is_integer: bool,
    /// The name in a checkpoint of its pruning mask, if it has one.
    pub mask: Option<String>,
}

impl<B: Backend> Session<B> {
    /// The size that the model has in the end, after channels were taken out; `None` if it stays as it is.
    pub fn smaller(&self) -> Option<SmallerSize> {
        let zeros = self.pruning.as_ref().map(|pruning| pruning.planned_zeros(&self.model.prunable()));
        let (zeros, quantise) = (zeros.unwrap_or_default(), &self.experiment.quantise);
        let is_estimate = zeros.iter().any(|(_, [zeros, _])| *zeros > 0);
        let size = |became, bytes, whole_bytes| Some(SmallerSize { became, bytes, whole_bytes, is_estimate });
        if !quantise.kind.is_none() {
            let [bytes, dense_bytes] = self.coded_size(&zeros);
            return size(Became::of(quantise.coded()), bytes, dense_bytes);
        }
        let pruned = is_estimate.then(|| Stripped::of(&zeros, &self.model.params()));
        if let Some(stripped) = pruned.or_else(|| self.taken_out()).filter(|stripped| stripped.gone > 0) {
            return size(Became::Pruned, stripped.bytes, stripped.dense_bytes);
        }
        self.factored().and_then(|factored| size(Became::Factored, factored.bytes, factored.whole_bytes))
    }

    /// The parameters, and then the running statistics without ranges of inputs, as a file of the model has them.
    pub fn stored(&self) -> Vec<Stored> {
        let ledger = self.executor.ledger();
        let integers: Vec<_> = self.integer_layers().into_iter().map(|(_, param)| param.layer()).collect();
        let masked: Vec<_> = match &self.pruning {
            Some(_) => self.model.prunable().into_iter().map(|param| (param.layer(), param.name())).collect(),
            None => Vec::new(),
        };
        let params = self.model.params().into_iter().map(|param| {
            let name = named(ledger, param.layer(), param.name());
            let mask = masked.contains(&(param.layer(), param.name())).then(|| format!("optimizer.{name}.mask"));
            let (shape, dtype) = (param.weight().shape().dims().to_vec(), param.weight().dtype());
            let is_integer = integers.contains(&param.layer()) && param.name() == "weight";
            Stored { name, shape, dtype, is_integer, mask }
        });
        let buffers = self.model.leaves().into_iter().flat_map(|leaf| {
            let own = leaf.buffers().into_iter().filter(|(what, _)| *what != RANGE);
            own.map(|(what, buffer)| Stored {
                name: named(ledger, leaf.layer(), what),
                shape: buffer.shape().dims().to_vec(),
                dtype: buffer.dtype(),
                is_integer: false,
                mask: None,
            })
        });
        params.chain(buffers).collect()
    }
}
