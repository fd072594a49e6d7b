//! The dense layer.

use std::rc::Rc;

use crate::{
    autograd::{Tape, Value},
    backend::{Backend, Executor, Tensor},
    error::Result,
    memory::timeline::LayerId,
    nn::{Init, Layer, Param, Start},
};

/// `y = x w^T + b` over the last extent. Saves its input.
pub struct Linear<B: Backend> {
    layer: LayerId,
    weight: Rc<Param<B>>,   // [out, in]
    bias: Option<Param<B>>, // [out]
    /// The weight is another layer's, which has it among its parameters.
    is_tied: bool,
}

impl<B: Backend> Linear<B> {
    /// A layer at `path` from `inner` features to `out`, with bias, both uniform in ±1/sqrt(inner).
    pub fn new(init: &mut Init<'_, B>, path: &str, inner: usize, out: usize) -> Result<Self> {
        let layer = init.executor().ledger().layer_id(path);
        let weight = Rc::new(init.uniform(layer, "weight", [out, inner], inner)?);
        let bias = Some(init.uniform(layer, "bias", [out], inner)?);
        Ok(Self { layer, weight, bias, is_tied: false })
    }

    /// A layer at `path` whose weight `[out, in]` starts as `start`; with `has_bias`, a bias that starts as zero.
    pub fn with(
        init: &mut Init<'_, B>,
        path: &str,
        [inner, out]: [usize; 2],
        start: Start,
        has_bias: bool,
    ) -> Result<Self> {
        let layer = init.executor().ledger().layer_id(path);
        let weight = Rc::new(init.param(layer, "weight", [out, inner], start)?);
        let bias = has_bias.then(|| init.param(layer, "bias", [out], Start::Zero)).transpose()?;
        Ok(Self { layer, weight, bias, is_tied: false })
    }

    /// A layer at `path` without bias that reads another layer's parameter `[out, in]` and adds to its gradient.
    pub fn tied(executor: &Executor<B>, path: &str, weight: &Rc<Param<B>>) -> Self {
        let layer = executor.ledger().layer_id(path);
        Self { layer, weight: Rc::clone(weight), bias: None, is_tied: true }
    }

    /// The output for `x [rows, in]`: `[rows, out]`.
    pub fn output(&self, executor: &Executor<B>, x: &Tensor<B>) -> Result<Tensor<B>> {
        let y = executor.linear(x, self.weight.weight())?; // [rows, out]
        if let Some(bias) = &self.bias {
            executor.add_bias(&y, bias.weight())?;
        }
        Ok(y)
    }

    /// Adds to the parameters' gradients what rows `x [rows, in]` with output gradients `dy [rows, out]` give.
    pub fn accumulate(&self, executor: &Executor<B>, x: &Tensor<B>, dy: &Tensor<B>) -> Result<()> {
        if let Some(bias) = &self.bias {
            bias.accumulate(executor, |into| executor.bias_grad(dy, into))?;
        }
        self.weight.accumulate(executor, |into| executor.linear_weight_grad(x, dy, into))
    }

    /// The weight as the forward pass reads it.
    pub fn weight(&self) -> &Tensor<B> {
        self.weight.weight()
    }
}

impl<B: Backend> Layer<B> for Linear<B> {
    fn forward<'m>(&'m self, tape: &mut Tape<'m, B>, x: Value<B>) -> Result<Value<B>> {
        let y = self.output(tape.executor(), &x.tensor)?; // [rows, out]
        let (x_id, saved) = (x.id(), x.save());
        drop(x);
        Ok(tape.record(self.layer, true, y, move |back, dy| {
            let executor = back.executor().clone();
            // What is there goes before the input's gradient comes; what is made again comes after it.
            if saved.is_kept() {
                self.accumulate(&executor, &saved.tensor(&executor)?, &dy)?;
                drop(saved);
                return x_id.map_or(Ok(()), |id| back.give(id, executor.linear_input_grad(&dy, self.weight())?));
            }
            if let Some(id) = x_id {
                back.give(id, executor.linear_input_grad(&dy, self.weight())?)?;
            }
            let x = saved.tensor(&executor)?;
            drop(saved);
            self.accumulate(&executor, &x, &dy)
        }))
    }

    fn layer(&self) -> LayerId {
        self.layer
    }

    fn params(&self) -> Vec<&Param<B>> {
        let own = (!self.is_tied).then_some(&*self.weight);
        own.into_iter().chain(&self.bias).collect()
    }
}
