//! The rectifier, and the one that stops at 6.

use crate::{
    autograd::{Tape, Value},
    backend::{Backend, Executor},
    error::Result,
    memory::timeline::LayerId,
    nn::Layer,
};

/// `max(x, 0)`, written over its input where nobody else holds it. Saves its output, which the next layer mostly saves too.
pub struct Relu {
    layer: LayerId,
}

/// `min(max(x, 0), 6)` (Howard et al. 2017), written over its input where nobody else holds it. Saves its output.
pub struct Relu6 {
    layer: LayerId,
}

impl Relu {
    /// A layer at `path`.
    pub fn new<B: Backend>(executor: &Executor<B>, path: &str) -> Self {
        Self { layer: executor.ledger().layer_id(path) }
    }
}

impl Relu6 {
    /// A layer at `path`.
    pub fn new<B: Backend>(executor: &Executor<B>, path: &str) -> Self {
        Self { layer: executor.ledger().layer_id(path) }
    }
}

impl<B: Backend> Layer<B> for Relu {
    fn forward<'m>(&'m self, tape: &mut Tape<'m, B>, x: Value<B>) -> Result<Value<B>> {
        let x_id = x.id();
        let y = tape.executor().relu(x.tensor)?;
        let output = y.clone();
        Ok(tape.record(self.layer, x_id.is_some(), output, move |back, dy| {
            let dx = back.executor().relu_grad(&y, dy)?;
            drop(y);
            match x_id {
                Some(id) => back.give(id, dx),
                None => Ok(()),
            }
        }))
    }

    fn layer(&self) -> LayerId {
        self.layer
    }
}

impl<B: Backend> Layer<B> for Relu6 {
    fn forward<'m>(&'m self, tape: &mut Tape<'m, B>, x: Value<B>) -> Result<Value<B>> {
        let x_id = x.id();
        let y = tape.executor().relu6(x.tensor)?;
        let output = y.clone();
        Ok(tape.record(self.layer, x_id.is_some(), output, move |back, dy| {
            let dx = back.executor().relu6_grad(&y, dy)?;
            drop(y);
            match x_id {
                Some(id) => back.give(id, dx),
                None => Ok(()),
            }
        }))
    }

    fn layer(&self) -> LayerId {
        self.layer
    }
}
