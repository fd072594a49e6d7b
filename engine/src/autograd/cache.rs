//! The key-value cache: the keys and values of the positions that a model of sequences has seen.
//!
//! Owns a tensor of each attention layer, made in the first pass and booked on that layer. Always holds: every layer has the
//! keys and values of the first `seen` positions, as the pass that made them computed them. A pass that fails leaves the
//! positions before it as they were.

use std::cell::{Cell, RefCell};

use crate::{
    backend::{Backend, Tensor},
    bytes::Bytes,
    error::Result,
    memory::timeline::LayerId,
};

/// How much a cache holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cached {
    /// Positions that there is room for.
    pub positions: usize,
    /// Bytes of their keys and values, of all layers.
    pub bytes: Bytes,
}

/// The keys and values of one sequence, for passes that see its next positions.
pub struct Cache<B: Backend> {
    places: usize,
    seen: Cell<usize>,
    layers: RefCell<Vec<(LayerId, Tensor<B>)>>, // [places, 2 kv_heads * head_dim]
}

impl<B: Backend> Cache<B> {
    /// Makes a cache with room for this many positions. Nothing is allocated before the first pass.
    pub fn new(places: usize) -> Self {
        Self { places, seen: Cell::new(0), layers: RefCell::default() }
    }

    /// Positions that there is room for.
    pub fn places(&self) -> usize {
        self.places
    }

    /// Positions that passes have seen.
    pub fn seen(&self) -> usize {
        self.seen.get()
    }

    /// A pass over `positions` more is over.
    pub fn advance(&self, positions: usize) {
        self.seen.set(self.seen.get() + positions);
    }

    /// The positions and bytes that the cache holds.
    pub fn size(&self) -> Cached {
        let bytes = self.layers.borrow().iter().map(|(_, kept)| kept.bytes()).sum();
        Cached { positions: self.places, bytes: Bytes(bytes) }
    }

    /// The tensor that a layer keeps, made by `make` in its first pass.
    ///
    /// # Errors
    /// The errors of `make`.
    pub fn of(&self, layer: LayerId, make: impl FnOnce() -> Result<Tensor<B>>) -> Result<Tensor<B>> {
        if let Some((_, kept)) = self.layers.borrow().iter().find(|(of, _)| *of == layer) {
            return Ok(kept.clone());
        }
        let made = make()?;
        self.layers.borrow_mut().push((layer, made.clone()));
        Ok(made)
    }
}
