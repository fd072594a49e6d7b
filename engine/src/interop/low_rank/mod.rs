//! Factored layers and weights: factors from whole weights, whole weights from factors, and ranks from singular values.
//!
//! Always holds: one layer at a time is decomposed, in f64 and on one thread, and its factors are rounded once to the type
//! that the model keeps.

mod decompose;
mod factors;
mod spectra;
mod svd;

pub(super) use self::factors::{Factors, Merged, convert};
pub use self::spectra::Spectra;
use super::slots::dry;
use crate::{
    bytes::Bytes,
    error::Result,
    experiment::{DatasetInfo, Experiment, Ranks, WholeLayer},
    nn::Factorable,
    tensor::DType,
};

/// The layers of the experiment's model that are factored, in forward order.
///
/// # Errors
/// Fails when the model cannot be built.
pub fn factored(experiment: &Experiment, info: &DatasetInfo) -> Result<Vec<Factorable>> {
    if !experiment.low_rank.is_chosen() {
        return Ok(Vec::new());
    }
    let session = dry(experiment, info)?;
    Ok(session.model().factorable().iter().filter(|layer| layer.ranks.is_some()).cloned().collect())
}

/// The most host memory that is taken to factor these layers as they are loaded, one after another.
pub fn factoring_bytes(layers: &[Factorable]) -> Bytes {
    factoring(layers, |_| svd::PACKED_BYTES, decompose::decomposed_bytes)
}

/// Those of the bytes that are written to.
pub(crate) fn factoring_touched(layers: &[Factorable]) -> Bytes {
    factoring(layers, |weight| svd::PACKED_WRITTEN.min(weight), decompose::decomposed_written)
}

/// The most bytes for one of the layers, where products of a weight of so many bytes pack `packed` bytes, and its decomposition
/// takes `decomposed` bytes besides.
fn factoring(layers: &[Factorable], packed: fn(usize) -> usize, decomposed: fn(WholeLayer, Ranks) -> usize) -> Bytes {
    let of = |layer: &Factorable| {
        let weight = layer.whole.weights() * DType::F64.size();
        layer.ranks.map_or(0, |ranks| weight + packed(weight) + decomposed(layer.whole, ranks))
    };
    Bytes(layers.iter().map(of).max().unwrap_or(0) as u64)
}
