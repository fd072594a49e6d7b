//! Learned positions.

use crate::{
    autograd::{Tape, Value},
    backend::Backend,
    error::Result,
    memory::timeline::LayerId,
    nn::{Init, Layer, Param, ParamRole, Start},
};

/// Adds a learned row to each position of a sequence. Writes over its input when nothing else holds it. Saves nothing. In a
/// pass that continues a sequence, positions continue after those of the cache.
pub struct Positions<B: Backend> {
    layer: LayerId,
    weight: Param<B>, // [length, width]
}

impl<B: Backend> Positions<B> {
    /// A layer at `path` for sequences of `length`.
    ///
    /// # Errors
    /// The errors of [`Init::param`]: a parameter crosses the budget, or the device fails.
    pub fn new(init: &mut Init<'_, B>, path: &str, length: usize, width: usize, start: Start) -> Result<Self> {
        let layer = init.executor().ledger().layer_id(path);
        Ok(Self { layer, weight: init.param(layer, ParamRole::Weight, [length, width], start)? })
    }
}

impl<B: Backend> Layer<B> for Positions<B> {
    fn forward<'m>(&'m self, tape: &mut Tape<'m, B>, x: Value<B>) -> Result<Value<B>> {
        let x_id = x.id();
        if let Some(cache) = tape.cache() {
            let rows = cache.seen()..cache.seen() + x.tensor.shape().rows();
            let weight = self.weight.weight().rows_view(rows);
            return tape.executor().add_positions(x.tensor, &weight).map(Value::constant);
        }
        let y = tape.executor().add_positions(x.tensor, self.weight.weight())?; // [batch * length, width]
        Ok(tape.record(self.layer, x_id.is_some() || self.weight.is_trained(), y, move |back, dy| {
            let executor = back.executor();
            self.weight.accumulate(executor, |into| executor.positions_grad(&dy, into))?;
            back.accumulate_grad(x_id, dy)
        }))
    }

    fn layer(&self) -> LayerId {
        self.layer
    }

    fn each_param<'a>(&'a self, see: &mut dyn FnMut(&'a Param<B>)) {
        see(&self.weight);
    }
}
