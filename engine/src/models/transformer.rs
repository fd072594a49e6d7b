//! The parts that decoders and vision transformers share: pre-norm blocks of attention and of a feed-forward layer.
//!
//! Everything works on rows, `[batch * length, width]`, for any batch.

use super::Layers;
use crate::{
    backend::{AttentionShape, Backend, Executor, ops::ActivationFunction},
    data::DatasetInfo,
    error::Result,
    experiment::Model,
    layer_path::LayerPath,
    nn::{Attention, Dropout, Init, LayerNorm, Linear, QueryKeyNorm, Residual, RmsNorm, Rotary, Smooth, Start, SwiGlu},
};

/// Standard deviation of weights before training, as GPT-2, Llama and ViT have it.
pub(super) const NORMAL: Start = Start::Normal { std: 0.02 };

/// The family whose norms, activations and projections the blocks have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Gpt2,
    Llama,
    /// The form of vision transformers; mixers have its norms.
    Vit,
}

/// The choices that are the same in every block.
#[derive(Clone, Copy)]
pub(super) struct Style<'a> {
    pub(super) model: &'a Model,
    pub(super) form: Form,
    /// Rows of one sample.
    pub(super) length: usize,
}

impl Style<'_> {
    /// The attention of every block; each input gives the batch.
    fn attention(&self) -> AttentionShape {
        let Model { kind, heads, kv_heads, window, .. } = *self.model;
        AttentionShape {
            batch: 0,
            length: self.length,
            heads,
            kv_heads: if self.is_llama() { kv_heads } else { heads },
            head_dim: self.model.head_width(),
            is_causal: kind.is_decoder(),
            window: if kind.is_decoder() { window } else { 0 },
        }
    }

    fn is_llama(&self) -> bool {
        self.form == Form::Llama
    }

    /// The weights of a projection onto the residual stream. GPT-2 (Radford et al. 2019) shrinks them, because the stream is a
    /// sum over two of them a block.
    fn onto_stream(&self) -> Start {
        match self.form {
            Form::Gpt2 => Start::Normal { std: 0.02 / (2.0 * self.model.depth as f64).sqrt() },
            Form::Llama | Form::Vit => NORMAL,
        }
    }

    /// A dense layer of a block, or its factors, whose rows are the projections of that name.
    fn dense<B: Backend>(
        &self,
        init: &mut Init<'_, B>,
        path: &LayerPath,
        sizes: [usize; 2],
        start: Start,
        has_bias: bool,
    ) -> Result<Layers<B>> {
        Linear::layers_of_projections(init, path, sizes, start, has_bias, &self.model.projections(path))
    }

    /// The norm of this family over `width`.
    pub(super) fn norm<B: Backend>(&self, init: &mut Init<'_, B>, path: &str) -> Result<Layers<B>> {
        let (width, epsilon) = (self.model.width, self.model.epsilon());
        Ok(match self.form {
            Form::Llama => vec![Box::new(RmsNorm::new(init, path, width, epsilon)?)],
            Form::Gpt2 | Form::Vit => vec![Box::new(LayerNorm::new(init, path, width, epsilon)?)],
        })
    }

    /// Dropout where it is chosen.
    pub(super) fn dropout<B: Backend>(&self, init: &mut Init<'_, B>, path: &str) -> Layers<B> {
        let share = self.model.dropout;
        if share > 0.0 { vec![Box::new(Dropout::new(init, path, share))] } else { Vec::new() }
    }

    /// One block: `x + attention(norm(x))`, then `x + feed_forward(norm(x))`.
    pub(super) fn block<B: Backend>(&self, init: &mut Init<'_, B>, path: &LayerPath) -> Result<Layers<B>> {
        let attention = self.attention_branch(init, &path.join("attention"))?;
        let feed_forward = self.feed_forward_branch(init, &path.join("feed-forward"))?;
        let add = |name: &str, main, executor: &Executor<B>| {
            Box::new(Residual::new(executor, &path.join(name).join("add"), main, Vec::new()))
        };
        let executor = init.executor();
        Ok(vec![add("attention", attention, executor), add("feed-forward", feed_forward, executor)])
    }

    fn attention_branch<B: Backend>(&self, init: &mut Init<'_, B>, path: &LayerPath) -> Result<Layers<B>> {
        let (model, shape, executor) = (self.model, self.attention(), init.executor());
        let has_bias = !self.is_llama();
        let mut layers = self.norm(init, &path.join("norm"))?;
        let sizes = [model.width, shape.packed()];
        // [rows, (heads + 2 kv_heads) * head_dim]
        let qkv = self.dense(init, &path.join("qkv"), sizes, NORMAL, has_bias || model.qkv_bias)?;
        layers.extend(qkv);
        if self.is_llama() {
            if model.qk_norm {
                layers.push(Box::new(QueryKeyNorm::new(
                    init,
                    &path.join("qk-norm"),
                    shape,
                    model.query_key_epsilon(),
                )?));
            }
            layers.push(Box::new(Rotary::new(executor, &path.join("rotary"), shape, model.rotary_base)));
        }
        // [rows, heads * head_dim]
        layers.push(Box::new(Attention::new(executor, &path.join("heads"), model.attention, shape)));
        let sizes = [shape.width(), model.width];
        let out = self.dense(init, &path.join("out"), sizes, self.onto_stream(), has_bias)?;
        layers.extend(out);
        layers.extend(self.dropout(init, &path.join("dropout")));
        Ok(layers)
    }

    fn feed_forward_branch<B: Backend>(&self, init: &mut Init<'_, B>, path: &LayerPath) -> Result<Layers<B>> {
        let (model, executor) = (self.model, init.executor());
        let (is_llama, width, hidden) = (self.is_llama(), model.width, model.hidden);
        let mut layers = self.norm(init, &path.join("norm"))?;
        // Gates next to values, or values alone: [rows, 2 hidden] or [rows, hidden].
        let sizes = [width, if is_llama { 2 * hidden } else { hidden }];
        layers.extend(self.dense(init, &path.join("up"), sizes, NORMAL, !is_llama)?);
        let activation = path.join("activation");
        layers.push(match self.form {
            Form::Llama => Box::new(SwiGlu::new(executor, &activation)),
            Form::Gpt2 => Box::new(Smooth::new(executor, &activation, ActivationFunction::GeluTanh)),
            Form::Vit => Box::new(Smooth::new(executor, &activation, ActivationFunction::Gelu)),
        });
        let down = self.dense(init, &path.join("down"), [hidden, width], self.onto_stream(), !is_llama)?;
        layers.extend(down);
        layers.extend(self.dropout(init, &path.join("dropout")));
        Ok(layers)
    }
}

/// The patches of an image: how many down and across.
pub(super) fn patches(model: &Model, info: &DatasetInfo) -> Result<[usize; 2]> {
    let [height, width, _] = info.image()?;
    Ok([height / model.patch.max(1), width / model.patch.max(1)])
}
