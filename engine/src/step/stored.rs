//! The tensors that a file of a trained model has, and what the published layouts of compressed files add to them.
//!
//! Always holds: groups of codes and rows of masks end with the row of their weight, so a file has more of them than a run that
//! counts a weight as one row.

use super::{Session, slots::named};
use crate::{
    backend::{Backend, DType, ops::Code},
    bytes::Bytes,
    nn::RANGE,
};

/// Bytes of a number that says an extent, or where a row begins.
const PLACE: usize = 8;
/// Bytes of the integers that codes are packed into.
pub(crate) const WORD: usize = 4;

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

impl Stored {
    /// Bytes that a file has of it beside those that are counted: extents, where the rows of a mask begin, and what rows take
    /// that do not end with a byte or a group. `code` is that of packed weights.
    fn beside(&self, code: Option<Code>) -> usize {
        let (elements, inner) = (self.shape.iter().product::<usize>(), self.shape.last().copied().unwrap_or(1).max(1));
        let (rows, extents) = (elements / inner, PLACE * self.shape.len());
        match code {
            Some(code) if self.is_integer => {
                let codes = rows * words(code, inner) * WORD - code.bytes(elements);
                let scales = elements / group(code, inner) - code.blocks(elements);
                extents + codes + size_of::<f32>() * scales
            }
            None if self.mask.is_some() => extents + PLACE * rows + rows * inner.div_ceil(8) - elements.div_ceil(8),
            Some(_) | None => 0,
        }
    }
}

/// Elements of a row of `inner` that share a scale in the published layout, whose groups end with their row. A block here may go
/// on in the next row; it is then cut into such groups, which repeat its scale.
pub(crate) fn group(code: Code, inner: usize) -> usize {
    let (mut a, mut b) = (code.block(), inner.max(1));
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Bits of a code.
pub(crate) fn bits(code: Code) -> usize {
    if code == Code::Int8 { 8 } else { 4 }
}

/// Words of a row of `inner` codes.
pub(crate) fn words(code: Code, inner: usize) -> usize {
    (inner * bits(code)).div_ceil(8 * WORD)
}

impl<B: Backend> Session<B> {
    /// Bytes that a file of the model has beside its parameters: running statistics, and what the layout adds.
    pub(super) fn file_beside(&self) -> Bytes {
        let (code, parameters) = (self.code_of_weights(), self.model.params().len());
        let of = |(number, stored): (usize, Stored)| match number < parameters {
            true => stored.beside(code),
            false => stored.dtype.size() * stored.shape.iter().product::<usize>(),
        };
        Bytes(self.stored().into_iter().enumerate().map(of).sum::<usize>() as u64)
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
