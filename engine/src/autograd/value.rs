//! Tensors on their way through the forward pass.
//!
//! Owns a tensor with what the layers after it need to know. Always holds: what a layer may take over from the one before is
//! with the first handle of a value only.

use std::fmt;

use super::{Saved, Source, ValueId};
use crate::{
    backend::{Backend, Tensor, ops::NormedRows},
    memory::timeline::LayerId,
};

/// What a value is GELU of, in its tanh form: a rule that multiplies by a weight may pass the gradient on to that at once. Should
/// another gradient reach the value as well, its own rule passes that one on.
pub(crate) struct Slope<B: Backend> {
    /// The tensor.
    pub(crate) sum: Tensor<B>,
    /// Its name on the tape.
    pub(crate) id: Option<ValueId>,
}

/// A tensor on its way through the forward pass.
pub struct Value<B: Backend> {
    /// The tensor.
    pub tensor: Tensor<B>,
    /// The value's name on the tape; `None` when it requires no gradient.
    pub(super) id: Option<ValueId>,
    /// How the backward pass gets the tensor.
    pub(super) source: Source<B>,
    /// The output of the next layer's norm, if it was made in the same pass over memory.
    /// Boxed, like the slope, because most values have none.
    pub(super) normed: Option<Box<(LayerId, NormedRows<B>)>>,
    /// What it is GELU of, if the next layer may compute the gradient of that.
    pub(super) slope: Option<Box<Slope<B>>>,
}

impl<B: Backend> Value<B> {
    /// A value that requires no gradient: the batch, or any value of a pass that is not recorded.
    pub fn constant(tensor: Tensor<B>) -> Self {
        Self { tensor, id: None, source: Source::Itself, normed: None, slope: None }
    }

    /// Saves the value for a gradient rule: as the tensor, or as a recipe for it.
    pub fn save(&self) -> Saved<B> {
        Saved::new(&self.tensor, &self.source)
    }

    /// How the backward pass gets the tensor.
    pub(crate) fn source(&self) -> &Source<B> {
        &self.source
    }

    /// The same value, with another source.
    #[must_use]
    pub(crate) fn with_source(self, source: Source<B>) -> Self {
        Self { source, ..self }
    }

    /// The same value, with the output of the norm `layer` for it.
    #[must_use]
    pub(crate) fn with_normed(self, layer: LayerId, normed: NormedRows<B>) -> Self {
        Self { normed: Some(Box::new((layer, normed))), ..self }
    }

    /// Takes the output of the norm `layer` for it, if that was made already.
    pub(crate) fn take_normed(&mut self, layer: LayerId) -> Option<NormedRows<B>> {
        self.normed.take_if(|normed| normed.0 == layer).map(|normed| normed.1)
    }

    /// The same value, which is GELU of another.
    #[must_use]
    pub(crate) fn with_slope(self, slope: Slope<B>) -> Self {
        Self { slope: Some(Box::new(slope)), ..self }
    }

    /// Takes what it is GELU of.
    pub(crate) fn take_slope(&mut self) -> Option<Slope<B>> {
        self.slope.take().map(|slope| *slope)
    }

    /// The value's name on the tape.
    pub fn id(&self) -> Option<ValueId> {
        self.id
    }
}

impl<B: Backend> fmt::Debug for Value<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {:?}", self.id, self.tensor)
    }
}

impl<B: Backend> Clone for Value<B> {
    /// A second handle of the same value, without the output of a norm; its gradient is the sum of both uses' gradients.
    fn clone(&self) -> Self {
        Self { tensor: self.tensor.clone(), id: self.id, source: self.source.clone(), normed: None, slope: None }
    }
}
