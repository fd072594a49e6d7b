//! Decoders: GPT-2 (Radford et al. 2019) and Llama (Touvron et al. 2023, with the grouped queries of Ainslie et al. 2023).
//!
//! Each position predicts the next token from itself and the positions before it. GPT-2 has learned positions, layer norm, GELU
//! and biases; Llama has rotary positions, RMS norm, a gated unit and no biases. The embedding belongs to the first block, so
//! that checkpointing keeps the tokens in place of its output.

use super::{
    Block, Layers, Parts,
    transformer::{Form, NORMAL, Style},
};
use crate::{
    backend::Backend,
    data::DatasetInfo,
    error::Result,
    experiment::Model,
    layer_path::{LayerPath, Scope},
    nn::{Embedding, Init, Linear, Positions},
};

pub(super) fn build<B: Backend>(
    init: &mut Init<'_, B>,
    model: &Model,
    info: &DatasetInfo,
    form: Form,
) -> Result<Parts<B>> {
    let [length, vocabulary] = info.tokens()?;
    let style = Style { model, form, length };
    let make = |init: &mut Init<'_, B>| Embedding::new(init, &LayerPath::embedding(), vocabulary, model.width, NORMAL);
    let embedding = if model.tied { init.padded(make) } else { make(init) }?;
    let table = embedding.table().clone();
    let mut layers: Layers<B> = vec![Box::new(embedding)]; // [batch * length, width]
    if form == Form::Gpt2 {
        layers.push(Box::new(Positions::new(init, "positions", length, model.width, NORMAL)?));
    }
    layers.extend(style.dropout(init, "dropout"));
    let mut blocks = Vec::with_capacity(model.depth);
    for i in 1..=model.depth {
        layers.extend(style.block(init, &Scope::Block(i).path())?); // [batch * length, width]
        blocks.push(Block::new(std::mem::take(&mut layers)));
    }
    let head = style.norm(init, &Scope::Head.at("norm"))?;
    let classes = if model.tied {
        Linear::tied(init.executor(), &LayerPath::classes(), &table)
    } else {
        init.padded(|init| Linear::with(init, &LayerPath::classes(), [model.width, info.classes], NORMAL, false))?
    }; // [batch * length, vocabulary]
    Ok(Parts { blocks, head, classes })
}
