//! Dropout (Srivastava et al. 2014) without a stored mask.

use std::cell::Cell;

use crate::{
    autograd::{Pass, Tape, Value, ValueId},
    backend::{Backend, DType, Tensor, ops},
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

    /// The elements that this pass drops; none in an evaluation.
    pub(super) fn draw(&self, pass: Pass) -> Option<ops::Dropout> {
        if pass == Pass::Evaluation || self.probability == 0.0 {
            return None;
        }
        if pass == Pass::Training {
            self.passes.set(self.passes.get() + 1);
        }
        let key = Rng::new(self.stream, Stream::Dropout, self.passes.get()).key();
        Some(ops::Dropout { probability: self.probability, key })
    }

    /// Records the output `y` for the input with this id, and keeps `mask` with the gradient rule.
    pub(super) fn record<'m, B: Backend + 'm>(
        &self,
        tape: &mut Tape<'m, B>,
        x_id: Option<ValueId>,
        ops::Dropout { probability, key }: ops::Dropout,
        y: Tensor<B>,
        mask: Option<Tensor<B>>,
    ) -> Value<B> {
        tape.record_keeping(self.layer, x_id.is_some(), y, mask, move |back, dy| {
            let dx = back.executor().dropout(dy, probability, key)?;
            match x_id {
                Some(id) => back.accumulate_grad(id, dx),
                None => Ok(()),
            }
        })
    }
}

impl<B: Backend> Layer<B> for Dropout {
    fn forward<'m>(&'m self, tape: &mut Tape<'m, B>, x: Value<B>) -> Result<Value<B>> {
        let Some(drawn) = self.draw(tape.pass()) else { return Ok(x) };
        let (x_id, executor) = (x.id(), tape.executor());
        let y = executor.dropout(x.tensor, drawn.probability, drawn.key)?;
        let mask = if executor.is_eager() {
            Some(executor.filled(1.0, y.shape(), DType::U8, Category::Activations, "mask")?)
        } else {
            None
        };
        Ok(self.record(tape, x_id, drawn, y, mask))
    }

    fn dropout(&self) -> Option<&Dropout> {
        Some(self)
    }

    fn layer(&self) -> LayerId {
        self.layer
    }

    fn passes(&self) -> Option<&Cell<u64>> {
        Some(&self.passes)
    }
}
