//! Rotary position embedding (Su et al. 2021).

use crate::{
    autograd::{Tape, Value},
    backend::{AttentionShape, Backend, Executor},
    error::Result,
    memory::timeline::LayerId,
    nn::Layer,
};

/// Rotates packed queries and keys by their positions. Writes over its input when nothing else holds it. Saves nothing: the
/// backward pass rotates the gradient back. In a pass that continues a sequence, positions continue after those of the cache.
#[derive(Debug)]
pub struct Rotary {
    layer: LayerId,
    shape: AttentionShape,
    base: f64,
}

impl Rotary {
    /// A layer at `path`, before the attention of `shape`.
    pub fn new<B: Backend>(executor: &Executor<B>, path: &str, shape: AttentionShape, base: f64) -> Self {
        Self { layer: executor.ledger().layer_id(path), shape, base }
    }
}

impl<B: Backend> Layer<B> for Rotary {
    fn forward<'m>(&'m self, tape: &mut Tape<'m, B>, x: Value<B>) -> Result<Value<B>> {
        let (x_id, base) = (x.id(), self.base);
        if let Some(cache) = tape.cache() {
            let shape = AttentionShape { batch: 1, length: x.tensor.shape().rows(), ..self.shape };
            return tape.executor().rotary_from(x.tensor, shape, base, cache.seen()).map(Value::constant);
        }
        let shape = self.shape.over(x.tensor.shape().rows());
        let y = tape.executor().rotary(x.tensor, shape, base, false)?;
        Ok(tape.record(self.layer, x_id.is_some(), y, move |back, dy| {
            let dx = back.executor().rotary(dy, shape, base, true)?;
            x_id.map_or(Ok(()), |id| back.accumulate_grad(id, dx))
        }))
    }

    fn layer(&self) -> LayerId {
        self.layer
    }
}
