//! Attention over packed queries, keys and values (Vaswani et al. 2017).

use crate::{
    autograd::{Cache, Tape, Value},
    backend::{AttentionShape, Backend, Executor, Tensor, ops::CachedAttention},
    error::Result,
    experiment::AttentionKind,
    memory::{Category, timeline::LayerId},
    nn::Layer,
};

/// `softmax(q k^T / sqrt(head_dim)) v` for each head: from `qkv [batch * length, (heads + 2 kv_heads) * head_dim]` to
/// `[batch * length, heads * head_dim]`. Saves its input, and either the probabilities, of the size length x length
/// (plain), or its output and a number for each row of each head (efficient). In a pass that continues a sequence, keys and
/// values are kept in the cache and read from there.
#[derive(Debug)]
pub struct Attention {
    layer: LayerId,
    kind: AttentionKind,
    shape: AttentionShape,
}

impl Attention {
    /// Makes a layer at `path`. The batch of the shape comes from each input.
    pub fn new<B: Backend>(executor: &Executor<B>, path: &str, kind: AttentionKind, shape: AttentionShape) -> Self {
        Self { layer: executor.ledger().layer_id(path), kind, shape }
    }

    /// The result without a gradient.
    fn output<B: Backend>(&self, executor: &Executor<B>, qkv: &Tensor<B>, shape: AttentionShape) -> Result<Tensor<B>> {
        Ok(match self.kind {
            AttentionKind::Plain => executor.attention_plain(qkv, shape)?.0,
            AttentionKind::Efficient => executor.attention(qkv, shape)?.0,
        })
    }

    /// Computes positions that follow the positions of `cache`, which then has the new ones too. The first pass over a sequence
    /// is a pass without a cache.
    fn continued<B: Backend>(&self, executor: &Executor<B>, cache: &Cache<B>, qkv: &Tensor<B>) -> Result<Tensor<B>> {
        let shape = AttentionShape { batch: 1, length: qkv.shape().rows(), ..self.shape };
        let cached = CachedAttention { shape, seen: cache.seen(), places: cache.places() };
        let kept = cache.of(self.layer, || {
            executor.ledger().set_op("keep keys and values");
            executor.allocate([cached.places, cached.row()], qkv.dtype(), Category::Buffers, "keys and values")
        })?;
        executor.keep_keys_and_values(qkv, &kept, cached)?;
        if cached.seen == 0 { self.output(executor, qkv, shape) } else { executor.attention_cached(qkv, &kept, cached) }
    }
}

impl<B: Backend> Layer<B> for Attention {
    fn forward<'m>(&'m self, tape: &mut Tape<'m, B>, x: Value<B>) -> Result<Value<B>> {
        let (executor, x_id, qkv) = (tape.executor(), x.id(), x.tensor);
        if let Some(cache) = tape.cache() {
            return self.continued(executor, cache, &qkv).map(Value::constant);
        }
        let shape = self.shape.over(qkv.shape().rows());
        match self.kind {
            AttentionKind::Plain => {
                let (y, p) = executor.attention_plain(&qkv, shape)?;
                Ok(tape.record(self.layer, x_id.is_some(), y, move |back, dy| {
                    let dqkv = back.executor().attention_plain_grad(&qkv, &p, &dy, shape)?;
                    back.release([qkv, p]);
                    drop(dy);
                    x_id.map_or(Ok(()), |id| back.accumulate_grad(id, dqkv))
                }))
            }
            AttentionKind::Efficient => {
                let (y, lse) = executor.attention(&qkv, shape)?;
                let kept = y.clone();
                Ok(tape.record(self.layer, x_id.is_some(), y, move |back, dy| {
                    let dqkv = back.executor().attention_grad(&qkv, [&kept, &lse], &dy, shape)?;
                    back.release([qkv, kept, lse]);
                    drop(dy);
                    x_id.map_or(Ok(()), |id| back.accumulate_grad(id, dqkv))
                }))
            }
        }
    }

    fn layer(&self) -> LayerId {
        self.layer
    }
}
