//! Normalisation of queries and keys before attention.

use crate::{
    autograd::{Tape, Value},
    backend::{AttentionShape, Backend},
    error::Result,
    layer_path::LayerPath,
    memory::timeline::LayerId,
    nn::{Init, Layer, Param, ParamRole, param::accumulate_all},
};

/// RMS norm of each head's queries and of each head's keys (Henry et al. 2020, as in Qwen3), in packed queries, keys and
/// values. All heads share the queries' weight, and all the keys'. Writes over its input when nothing else holds it.
/// Saves the queries and keys of its input, and one number a head and row.
pub struct QueryKeyNorm<B: Backend> {
    layer: LayerId,
    shape: AttentionShape,
    epsilon: f64,
    queries: Param<B>, // [head_dim]
    keys: Param<B>,    // [head_dim]
}

impl<B: Backend> QueryKeyNorm<B> {
    /// A layer at `path`, before the attention of `shape`.
    ///
    /// # Errors
    /// Fails when the two weights would cross the budget, or when the device fails.
    pub fn new(init: &mut Init<'_, B>, path: &LayerPath, shape: AttentionShape, epsilon: f64) -> Result<Self> {
        let ids = ["", "queries", "keys"].map(|name| match name {
            "" => init.executor().ledger().layer_id(path),
            name => init.executor().ledger().layer_id(&path.join(name)),
        });
        let [layer, queries, keys] = ids;
        let queries = init.constant(queries, ParamRole::Weight, [shape.head_dim], 1.0)?;
        let keys = init.constant(keys, ParamRole::Weight, [shape.head_dim], 1.0)?;
        Ok(Self { layer, shape, epsilon, queries, keys })
    }
}

impl<B: Backend> Layer<B> for QueryKeyNorm<B> {
    fn forward<'m>(&'m self, tape: &mut Tape<'m, B>, x: Value<B>) -> Result<Value<B>> {
        let AttentionShape { heads, kv_heads, head_dim, .. } = self.shape;
        let (executor, x_id, rows) = (tape.executor().clone(), x.id(), x.tensor.shape().rows());
        let (queries, keys) = (0..heads * head_dim, heads * head_dim..(heads + kv_heads) * head_dim);
        let parts = [(&self.queries, queries, heads), (&self.keys, keys, kv_heads)];
        let mut y = x.tensor; // [rows, (heads + 2 kv_heads) * head_dim]
        let mut saved = Vec::with_capacity(parts.len());
        for (weight, columns, heads) in parts {
            let before = executor.take_columns(&y, columns.clone())?.reshape([rows * heads, head_dim]);
            let (normed, inverse) = executor.rms_norm(&before, weight.weight(), self.epsilon)?; // [rows * heads, head_dim]
            y = executor.put_columns(&normed.reshape([rows, columns.len()]), y, columns.start)?;
            saved.push((weight, columns, before, inverse));
        }
        let requires_grad = x_id.is_some() || self.queries.is_trained();
        Ok(tape.record(self.layer, requires_grad, y, move |back, dy| {
            let executor = back.executor();
            let mut dx = dy; // [rows, (heads + 2 kv_heads) * head_dim]
            for (weight, columns, before, inverse) in saved {
                let part = executor.take_columns(&dx, columns.clone())?.reshape(before.shape());
                let part = accumulate_all(&[weight], executor, |into| {
                    executor.rms_norm_grad(&before, &inverse, weight.weight(), (part, None), into)
                })?;
                dx = executor.put_columns(&part.reshape([rows, columns.len()]), dx, columns.start)?;
                back.release([before, inverse]);
            }
            back.accumulate_grad(x_id, dx)
        }))
    }

    fn layer(&self) -> LayerId {
        self.layer
    }

    fn each_param<'a>(&'a self, see: &mut dyn FnMut(&'a Param<B>)) {
        [&self.queries, &self.keys].into_iter().for_each(see);
    }
}
