//! The size of a model whose layers are factored, and its size with every layer whole.

use std::fmt;

use super::Model;
use crate::{
    backend::Backend,
    bytes::{Bytes, are, counted},
    tensor::DType,
};

/// The size of a model whose layers are factored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FactoredSize {
    /// Layers that are factored.
    pub layers: u64,
    /// Bytes of all parameters.
    pub bytes: Bytes,
    /// Bytes of all parameters if every layer were whole.
    pub whole_bytes: Bytes,
}

impl fmt::Display for FactoredSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { layers, bytes, whole_bytes } = self;
        let (layers, are) = (counted(*layers, "layer"), are(*layers));
        write!(f, "{layers} {are} factored: the model takes {bytes}, and {whole_bytes} with every layer whole")
    }
}

impl<B: Backend> Model<B> {
    /// The model's size if layers are factored, with their weights in the type `dtype`; `None` if no layer is.
    pub fn factored_size(&self, dtype: DType) -> Option<FactoredSize> {
        let layers = self.factorable.iter().filter(|layer| layer.ranks.is_some()).count() as u64;
        if layers == 0 {
            return None;
        }
        let bytes: u64 = self.params().iter().map(|param| param.weight().bytes()).sum();
        let saved: usize = self.factorable.iter().map(|layer| layer.whole.weights() - layer.weights()).sum();
        Some(FactoredSize { layers, bytes: Bytes(bytes), whole_bytes: Bytes(bytes + (saved * dtype.size()) as u64) })
    }
}
