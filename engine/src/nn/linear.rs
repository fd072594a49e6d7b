//! The dense layer.

use crate::{
    autograd::{Tape, Value},
    backend::Backend,
    error::Result,
    memory::timeline::LayerId,
    nn::{Init, Layer, Param},
};

/// `y = x w^T + b`. Saves its input.
pub struct Linear<B: Backend> {
    layer: LayerId,
    weight: Param<B>, // [out, in]
    bias: Param<B>,   // [out]
}

impl<B: Backend> Linear<B> {
    /// A layer at `path` from `inner` features to `out`.
    pub fn new(init: &mut Init<'_, B>, path: &str, inner: usize, out: usize) -> Result<Self> {
        let layer = init.executor().ledger().layer_id(path);
        let weight = init.uniform(layer, "weight", [out, inner], inner)?;
        let bias = init.uniform(layer, "bias", [out], inner)?;
        Ok(Self { layer, weight, bias })
    }
}

impl<B: Backend> Layer<B> for Linear<B> {
    fn forward<'m>(&'m self, tape: &mut Tape<'m, B>, x: Value<B>) -> Result<Value<B>> {
        let executor = tape.executor();
        let y = executor.linear(&x.tensor, self.weight.weight())?; // [rows, out]
        executor.add_bias(&y, self.bias.weight())?;
        let x_id = x.id();
        let x = x.tensor;
        Ok(tape.record(self.layer, true, y, move |back, dy| {
            let executor = back.executor();
            self.bias.accumulate(executor, |into| executor.bias_grad(&dy, into))?;
            self.weight.accumulate(executor, |into| executor.linear_weight_grad(&x, &dy, into))?;
            drop(x);
            match x_id {
                Some(id) => back.give(id, back.executor().linear_input_grad(&dy, self.weight.weight())?),
                None => Ok(()),
            }
        }))
    }

    fn layer(&self) -> LayerId {
        self.layer
    }

    fn params(&self) -> Vec<&Param<B>> {
        vec![&self.weight, &self.bias]
    }
}
