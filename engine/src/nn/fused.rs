//! Fused execution: layers that do the elementwise work of the layers after them in their own pass over memory.
//!
//! Owns the rules of what a layer may take over from those after it, and the gradient rules that differ then. Always holds:
//! the layers that are taken over are on the tape as if each had run, under their own paths, and no number differs from
//! theirs by a bit, except where cuBLASLt adds a bias on a GPU ([`Executor::joins_ops`]). Refuses nothing: if a layer cannot
//! take over the next ones, they run one by one.

use crate::{
    autograd::{Saved, Slope, Tape, Value},
    backend::{
        Backend, Executor, Tensor,
        ops::{ActivationFunction, Function, Summands},
    },
    error::Result,
    memory::timeline::LayerId,
    nn::{Dropout, Layer, Param, Residual, activation::saved_output, param::accumulate_all},
};

/// The tail of a layer: the operations after it, in this order.
pub struct Tail<'m, B: Backend> {
    /// A dropout.
    pub(super) dropout: Option<&'m Dropout>,
    /// The sum with a shortcut.
    pub(super) sum: Option<(&'m Residual<B>, Value<B>)>,
    /// A function of each element.
    pub(super) function: Option<&'m dyn Layer<B>>,
    /// A norm of rows, whose layer runs after this one and takes the output that was made for it.
    pub(super) norm: Option<&'m dyn Layer<B>>,
}

impl<B: Backend> Default for Tail<'_, B> {
    fn default() -> Self {
        Self { dropout: None, sum: None, function: None, norm: None }
    }
}

impl<'m, B: Backend> Tail<'m, B> {
    /// Runs the operations after a layer with the output `y`, one after another; the norm later.
    pub(super) fn apart(self, tape: &mut Tape<'m, B>, mut y: Value<B>) -> Result<Value<B>> {
        if let Some(dropout) = self.dropout {
            let _layer = tape.executor().enter(Layer::<B>::layer(dropout));
            y = dropout.forward(tape, y)?;
        }
        if let Some((residual, shortcut)) = self.sum {
            let _layer = tape.executor().enter(residual.layer());
            y = residual.add(tape, y, shortcut)?;
        }
        if let Some(layer) = self.function {
            let _layer = tape.executor().enter(layer.layer());
            y = layer.forward(tape, y)?;
        }
        Ok(y)
    }

    /// The function, if nothing stands before it.
    pub(super) fn function_alone(&self) -> Option<(LayerId, Function)> {
        let is_alone = self.dropout.is_none() && self.sum.is_none();
        self.function.filter(|_| is_alone).and_then(|layer| Some((layer.layer(), layer.function()?)))
    }

    /// Whether there is a sum and no function after it.
    pub(super) fn sums_alone(&self) -> bool {
        self.sum.is_some() && self.function.is_none()
    }

    /// Adds `bias` and the shortcut to a product `y`, drops elements between the two, and normalises the sum, in one pass over
    /// memory. `record` leaves the gradient rule of the product and its bias on the tape.
    pub(super) fn summed(
        self,
        tape: &mut Tape<'m, B>,
        y: Tensor<B>,
        bias: Option<&'m Param<B>>,
        record: impl FnOnce(&mut Tape<'m, B>, Tensor<B>) -> Value<B>,
    ) -> Result<Value<B>> {
        let Some((residual, shortcut)) = self.sum else { return Ok(record(tape, y)) };
        let drawn = self.dropout.and_then(|dropout| Some((dropout, dropout.draw(tape.pass())?)));
        let norm = self.norm.and_then(|layer| Some((layer.layer(), layer.row_norm()?)));
        if bias.is_none() && drawn.is_none() && norm.is_none() {
            let main = record(tape, y);
            let _layer = tape.executor().enter(residual.layer());
            return residual.add(tape, main, shortcut);
        }
        let bias = bias.map(Param::weight);
        let of = Summands { bias, dropout: drawn.map(|(_, drawn)| drawn), other: &shortcut.tensor };
        let (y, normed) = tape.executor().sum_normed(y, &of, norm.as_ref().map(|(_, scale)| scale))?;
        let mut main = record(tape, y);
        if let Some((dropout, drawn)) = drawn {
            main = dropout.record(tape, main.id(), drawn, main.tensor.clone(), None);
        }
        let sum = residual.recorded(tape, main, shortcut);
        Ok(match (norm, normed) {
            (Some((layer, _)), Some(normed)) => sum.with_normed(layer, normed),
            _ => sum,
        })
    }
}

/// The function of a layer, of the product `x` plus its bias, in one pass over memory. The gradient of the bias is taken in the
/// pass of the function's: the rule of the product has none for it.
pub(super) fn bias_then<'m, B: Backend>(
    tape: &mut Tape<'m, B>,
    (layer, function): (LayerId, Function),
    x: Value<B>,
    bias: &'m Param<B>,
) -> Result<Value<B>> {
    let (x_id, own) = (x.id(), bias.weight().clone());
    let again = move |executor: &Executor<B>, x: Tensor<B>| executor.bias_then(function, x, &own);
    let (y, source, saved) = match function {
        Function::Rectifier(_) => {
            let source = saved_output(x.source().then(layer, again.clone()), tape, x_id);
            let y = again(tape.executor(), x.tensor)?;
            let saved = Saved::new(&y, &source);
            (y, source, saved)
        }
        Function::Smooth(_) => {
            let y = again(tape.executor(), x.tensor.clone())?;
            let source = tape.recomputable(layer, &x, again);
            (y, source, x.save())
        }
    };
    let y = tape.record(layer, x_id.is_some(), y, move |back, dy| {
        let executor = back.executor();
        let of = saved.tensor(executor)?;
        let dx = accumulate_all(&[bias], executor, |into| {
            executor.bias_then_grad(function, &of, bias.weight(), dy, into.first())
        })?;
        drop(of);
        back.release(saved.into_kept());
        back.accumulate_grad(x_id, dx)
    });
    Ok(y.with_source(source))
}

/// Records `y`, GELU of `sum`, which the kernel of a product made of it. The layer after it may pass its gradient on to `sum`.
pub(super) fn gelu_of<'m, B: Backend>(tape: &mut Tape<'m, B>, layer: LayerId, sum: Value<B>, y: Tensor<B>) -> Value<B> {
    let slope = Slope { sum: sum.tensor.clone(), id: sum.id() };
    let (sum_id, saved) = (sum.id(), sum.save());
    drop(sum);
    let y = tape.record(layer, sum_id.is_some(), y, move |back, dy| {
        let executor = back.executor();
        let dx = executor.activation_grad(ActivationFunction::GeluTanh, &saved.tensor(executor)?, dy)?;
        back.release(saved.into_kept());
        back.accumulate_grad(sum_id, dx)
    });
    if sum_id.is_some() && tape.is_recording() { y.with_slope(slope) } else { y }
}
