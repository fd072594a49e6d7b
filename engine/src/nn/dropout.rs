//! Dropout (Srivastava et al. 2014) without a stored mask.

use std::cell::Cell;

use crate::{
    autograd::{Pass, Tape, Value},
    backend::{Backend, DType},
    error::Result,
    memory::{Category, timeline::LayerId},
    nn::{Init, Layer},
    rng::{Rng, Stream},
};

/// Drops a share of the elements in training. Writes over its input when nothing else holds it. Saves nothing: a key decides
/// which elements are dropped, so the backward pass and a recomputation drop the same ones. In eager execution it keeps the
/// room of a mask, a byte an element, which nothing reads.
pub struct Dropout {
    layer: LayerId,
    probability: f64,
    stream: u64,
    passes: Cell<u64>,
}

impl Dropout {
    /// A layer at `path` that drops each element with `probability`, in [0, 1).
    pub fn new<B: Backend>(init: &mut Init<'_, B>, path: &str, probability: f64) -> Self {
        let layer = init.executor().ledger().layer_id(path);
        Self { layer, probability, stream: init.stream(Stream::Dropout), passes: Cell::new(0) }
    }
}

impl<B: Backend> Layer<B> for Dropout {
    fn forward<'m>(&'m self, tape: &mut Tape<'m, B>, x: Value<B>) -> Result<Value<B>> {
        if tape.pass() == Pass::Evaluation || self.probability == 0.0 {
            return Ok(x);
        }
        if tape.pass() == Pass::Training {
            self.passes.set(self.passes.get() + 1);
        }
        let (probability, key) = (self.probability, Rng::new(self.stream, Stream::Dropout, self.passes.get()).key());
        let x_id = x.id();
        let executor = tape.executor();
        let y = executor.dropout(x.tensor, probability, key)?;
        let mask = if executor.is_eager() {
            Some(executor.filled(1.0, y.shape(), DType::U8, Category::Activations, "mask")?)
        } else {
            None
        };
        Ok(tape.record_keeping(self.layer, x_id.is_some(), y, mask, move |back, dy| {
            let dx = back.executor().dropout(dy, probability, key)?;
            match x_id {
                Some(id) => back.accumulate_grad(id, dx),
                None => Ok(()),
            }
        }))
    }

    fn layer(&self) -> LayerId {
        self.layer
    }

    fn passes(&self) -> Option<&Cell<u64>> {
        Some(&self.passes)
    }
}
