//! Embeddings of tokens.

use std::rc::Rc;

use crate::{
    autograd::{Tape, Value},
    backend::Backend,
    error::Result,
    memory::timeline::LayerId,
    nn::{Init, Layer, Param, ParamRole, Start},
};

/// Each token's row of a table. Saves its tokens.
pub struct Embedding<B: Backend> {
    layer: LayerId,
    table: Rc<Param<B>>, // [vocabulary, width]
}

impl<B: Backend> Embedding<B> {
    /// A layer at `path` for tokens below `vocabulary`.
    ///
    /// # Errors
    /// The errors of [`Init::param`]: a parameter crosses the budget, or the device fails.
    pub fn new(init: &mut Init<'_, B>, path: &str, vocabulary: usize, width: usize, start: Start) -> Result<Self> {
        let layer = init.executor().ledger().layer_id(path);
        Ok(Self { layer, table: Rc::new(init.param(layer, ParamRole::Weight, [vocabulary, width], start)?) })
    }

    /// The table, for a classes layer that is tied to it.
    pub fn table(&self) -> &Rc<Param<B>> {
        &self.table
    }
}

impl<B: Backend> Layer<B> for Embedding<B> {
    fn forward<'m>(&'m self, tape: &mut Tape<'m, B>, x: Value<B>) -> Result<Value<B>> {
        let tokens = x.tensor; // [batch, length]
        let y = tape.executor().embedding(&tokens, self.table.weight())?; // [batch * length, width]
        Ok(tape.record(self.layer, self.table.is_trained(), y, move |back, dy| {
            let executor = back.executor();
            self.table.accumulate(executor, |into| executor.embedding_grad(&tokens, &dy, into))?;
            back.release([tokens]);
            Ok(())
        }))
    }

    fn layer(&self) -> LayerId {
        self.layer
    }

    fn each_param<'a>(&'a self, see: &mut dyn FnMut(&'a Param<B>)) {
        see(&self.table);
    }
}
