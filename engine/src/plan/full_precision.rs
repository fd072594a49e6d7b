//! The tensors that stay wider than the type that is computed in, and the reasons. They are read off the parameters, states
//! and buffers that the dry run made.

use serde::Serialize;

use crate::{
    backend::{Backend, DType, Tensor},
    experiment::Precision,
    models::Model,
    nn::Param,
};

/// A tensor that is wider than the activations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HighPrecisionTensor {
    /// Path of its layer.
    pub layer: String,
    /// Its name, such as `weight`.
    pub name: &'static str,
    /// The copy's type.
    pub dtype: DType,
    /// The copy's size.
    pub bytes: u64,
    /// Why it is not narrower.
    pub reason: &'static str,
}

const MASTER: &str = "updates smaller than a step of the narrow type would be lost, so the optimizer updates this copy";
const FEW: &str = "few numbers, whose small differences matter";
const GRADIENT: &str = "a sum over many rows, and over micro-batches, of small terms";
const STATE: &str = "a running mean that moves by small shares of itself";
const STATISTICS: &str = "an estimate that moves by a tenth of each batch's";

/// The wider tensors of a model whose optimizer has made its state; empty if everything has one width.
pub(super) fn of<B: Backend>(
    model: &Model<B>,
    precision: Precision,
    path: impl Fn(&Param<B>) -> String + Copy,
) -> Vec<HighPrecisionTensor> {
    let narrow = precision.compute().size();
    let mut found = Vec::new();
    let mut note = |param: &Param<B>, name, (tensor, dtype): (&Tensor<B>, DType), reason| {
        if dtype.size() > narrow && dtype != DType::U32 {
            let (layer, bytes) = (path(param), (tensor.elements() * dtype.size()) as u64);
            found.push(HighPrecisionTensor { layer, name, dtype, bytes, reason });
        }
    };
    for param in model.params() {
        let reason = if param.copy().is_some() { MASTER } else { FEW };
        note(param, param.name(), typed(param.master()), reason);
        if param.is_trained() {
            note(param, "gradient", (param.weight(), param.gradient_type()), GRADIENT);
        }
        param.made_state().iter().for_each(|state| note(param, "optimizer state", typed(state), STATE));
    }
    for layer in model.leaves() {
        let buffers = layer.buffers();
        if buffers.is_empty() {
            continue;
        }
        let Some(param) = layer.params().into_iter().find(|param| param.layer() == layer.layer()) else { continue };
        buffers.into_iter().for_each(|(_, buffer)| note(param, "running statistics", typed(buffer), STATISTICS));
    }
    found
}

fn typed<B: Backend>(tensor: &Tensor<B>) -> (&Tensor<B>, DType) {
    (tensor, tensor.dtype())
}
