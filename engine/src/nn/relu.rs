//! The rectifier, and the one that stops at 6.

use crate::{
    autograd::{Saved, Source, Tape, Value},
    backend::{Backend, Executor, Tensor},
    error::Result,
    memory::timeline::LayerId,
    nn::Layer,
};

/// A rectifier, written over its input where nobody else holds it. Saves its output, which the next layer mostly saves too;
/// or, where that can be made again, nothing.
pub struct Rectifier<const STOPS: bool> {
    layer: LayerId,
}

/// `max(x, 0)`.
pub type Relu = Rectifier<false>;

/// `min(max(x, 0), 6)` (Howard et al. 2017).
pub type Relu6 = Rectifier<true>;

impl<const STOPS: bool> Rectifier<STOPS> {
    /// A layer at `path`.
    pub fn new<B: Backend>(executor: &Executor<B>, path: &str) -> Self {
        Self { layer: executor.ledger().layer_id(path) }
    }

    fn rectify<B: Backend>(executor: &Executor<B>, x: Tensor<B>) -> Result<Tensor<B>> {
        if STOPS { executor.relu6(x) } else { executor.relu(x) }
    }
}

impl<B: Backend, const STOPS: bool> Layer<B> for Rectifier<STOPS> {
    fn forward<'m>(&'m self, tape: &mut Tape<'m, B>, x: Value<B>) -> Result<Value<B>> {
        let x_id = x.id();
        let source = match x.source().then(self.layer, Self::rectify) {
            Source::Itself if x_id.is_some() && tape.is_recording() => Source::Maker,
            source => source,
        };
        let y = Self::rectify(tape.executor(), x.tensor)?;
        let saved = Saved::new(&y, &source);
        let y = tape.record(self.layer, x_id.is_some(), y, move |back, dy| {
            let executor = back.executor();
            let y = saved.tensor(executor)?;
            back.release(saved.into_kept());
            let dx = if STOPS { executor.relu6_grad(&y, dy)? } else { executor.relu_grad(&y, dy)? };
            drop(y);
            back.accumulate_grad(x_id, dx)
        });
        Ok(y.with_source(source))
    }

    fn layer(&self) -> LayerId {
        self.layer
    }
}
