//! The rectifier.

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

impl Relu {
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
