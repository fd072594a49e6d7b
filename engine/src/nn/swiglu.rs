//! The gated unit of Llama (Shazeer 2020, "GLU variants improve transformer").

use crate::{
    autograd::{Tape, Value},
    backend::{Backend, Executor},
    error::Result,
    memory::timeline::LayerId,
    nn::Layer,
};

/// `silu(gate) * value`: from gates beside values, `[rows, 2 hidden]`, to `[rows, hidden]`. Saves its input.
#[derive(Debug)]
pub struct SwiGlu {
    layer: LayerId,
}

impl SwiGlu {
    /// A layer at `path`.
    pub fn new<B: Backend>(executor: &Executor<B>, path: &str) -> Self {
        Self { layer: executor.ledger().layer_id(path) }
    }
}

impl<B: Backend> Layer<B> for SwiGlu {
    fn forward<'m>(&'m self, tape: &mut Tape<'m, B>, x: Value<B>) -> Result<Value<B>> {
        let (x_id, gu) = (x.id(), x.tensor);
        let y = tape.executor().swiglu(&gu)?; // [rows, hidden]
        Ok(tape.record(self.layer, x_id.is_some(), y, move |back, dy| {
            let dgu = back.executor().swiglu_grad(&gu, &dy)?;
            drop((gu, dy));
            x_id.map_or(Ok(()), |id| back.give(id, dgu))
        }))
    }

    fn layer(&self) -> LayerId {
        self.layer
    }
}
