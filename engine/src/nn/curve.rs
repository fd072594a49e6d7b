//! Smooth activations.

use crate::{
    autograd::{Tape, Value},
    backend::{Backend, Executor, ops::ActivationFunction},
    error::Result,
    memory::timeline::LayerId,
    nn::Layer,
};

/// The Gaussian error linear unit (Hendrycks & Gimpel 2016). Saves its input, from which its output can be made again.
pub struct Gelu {
    layer: LayerId,
    function: ActivationFunction,
}

/// The sigmoid-weighted linear unit (Elfwing, Uchibe & Doya 2017). Saves its input, from which its output can be made
/// again.
pub struct Silu {
    layer: LayerId,
}

impl Gelu {
    /// A layer at `path`, exact.
    pub fn new<B: Backend>(executor: &Executor<B>, path: &str) -> Self {
        Self { layer: executor.ledger().layer_id(path), function: ActivationFunction::Gelu }
    }

    /// A layer at `path`, approximated by tanh, as GPT-2 has it.
    pub fn tanh<B: Backend>(executor: &Executor<B>, path: &str) -> Self {
        Self { layer: executor.ledger().layer_id(path), function: ActivationFunction::GeluTanh }
    }
}

impl Silu {
    /// A layer at `path`.
    pub fn new<B: Backend>(executor: &Executor<B>, path: &str) -> Self {
        Self { layer: executor.ledger().layer_id(path) }
    }
}

fn forward<'m, B: Backend>(
    tape: &mut Tape<'m, B>,
    layer: LayerId,
    function: ActivationFunction,
    x: Value<B>,
) -> Result<Value<B>> {
    let y = tape.executor().activation(function, &x.tensor)?;
    let Some(id) = x.id() else { return Ok(Value::constant(y)) };
    let source = tape.recomputable(layer, &x, move |executor, x| executor.activation(function, &x));
    let saved = x.save();
    drop(x);
    let y = tape.record(layer, true, y, move |back, dy| {
        let executor = back.executor();
        let dx = executor.activation_grad(function, &saved.tensor(executor)?, dy)?;
        back.release(saved.into_kept());
        back.accumulate_grad(id, dx)
    });
    Ok(y.with_source(source))
}

impl<B: Backend> Layer<B> for Gelu {
    fn forward<'m>(&'m self, tape: &mut Tape<'m, B>, x: Value<B>) -> Result<Value<B>> {
        forward(tape, self.layer, self.function, x)
    }

    fn layer(&self) -> LayerId {
        self.layer
    }
}

impl<B: Backend> Layer<B> for Silu {
    fn forward<'m>(&'m self, tape: &mut Tape<'m, B>, x: Value<B>) -> Result<Value<B>> {
        forward(tape, self.layer, ActivationFunction::Silu, x)
    }

    fn layer(&self) -> LayerId {
        self.layer
    }
}
