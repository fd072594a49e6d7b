//! The gated unit of Llama (Shazeer 2020, "GLU variants improve transformer").

use crate::{
    autograd::{Tape, Value},
    backend::{Backend, Executor},
    error::Result,
    memory::timeline::LayerId,
    nn::Layer,
};

/// `silu(gate) * value`: from gates beside values, `[rows, 2 hidden]`, to `[rows, hidden]`. Saves its input, from which
/// its output can be made again.
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
        let y = tape.executor().swiglu(&x.tensor)?; // [rows, hidden]
        let source = tape.recomputable(self.layer, &x, |executor, gu| executor.swiglu(&gu));
        let (x_id, saved) = (x.id(), x.save());
        drop(x);
        let y = tape.record(self.layer, x_id.is_some(), y, move |back, dy| {
            let gu = saved.tensor(back.executor())?;
            let dgu = back.executor().swiglu_grad(&gu, &dy)?;
            drop((gu, dy));
            back.release(saved.into_kept());
            back.accumulate_grad(x_id, dgu)
        });
        Ok(y.with_source(source))
    }

    fn layer(&self) -> LayerId {
        self.layer
    }
}
