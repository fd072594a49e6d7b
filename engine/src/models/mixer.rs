//! MLP-Mixer (Tolstikhin et al. 2021): dense layers over patches, then over channels.
//!
//! S and B of the paper are widths 512 and 768, 8 and 12 deep, with a channel-mixing layer four times as wide; the
//! token-mixing layer has half as many units as the width, as in every size of the paper. The patches belong to the first
//! block.

use super::{
    Block, Layers, Parts,
    transformer::{Form, Style, patches},
    vit::patch_shape,
};
use crate::{
    backend::{Backend, ops::ActivationFunction},
    data::DatasetInfo,
    error::Result,
    experiment::Model,
    layer_path::{LayerPath, Scope},
    nn::{Conv2d, GlobalPool, Init, Linear, Residual, Sequences, Smooth, Start, Transpose},
};

pub(super) fn build<B: Backend>(init: &mut Init<'_, B>, model: &Model, info: &DatasetInfo) -> Result<Parts<B>> {
    let executor = init.executor();
    let [down, across] = patches(model, info)?;
    let (length, width) = (down * across, model.width);
    let style = Style { model, form: Form::Vit, length };
    // [batch, down, across, width]
    let mut layers: Layers<B> = vec![Box::new(Conv2d::with(init, "patches", patch_shape(model, info)?)?)];
    let mut blocks = Vec::with_capacity(model.depth);
    for i in 1..=model.depth {
        let path = Scope::Block(i).path();
        let mut tokens = style.norm(init, &path.join("tokens/norm"))?; // [batch * length, width]
        tokens.push(Box::new(Transpose::new(executor, &path.join("tokens/transpose"), length)));
        tokens.extend(mlp(init, &path.join("tokens"), length, width / 2)?); // [batch * width, length]
        tokens.push(Box::new(Transpose::new(executor, &path.join("tokens/back"), width)));
        tokens.extend(style.dropout(init, &path.join("tokens/dropout")));
        let mut channels = style.norm(init, &path.join("channels/norm"))?;
        channels.extend(mlp(init, &path.join("channels"), width, model.hidden)?); // [batch * length, width]
        channels.extend(style.dropout(init, &path.join("channels/dropout")));
        layers.push(Box::new(Residual::new(executor, &path.join("tokens/add"), tokens, Vec::new())));
        layers.push(Box::new(Residual::new(executor, &path.join("channels/add"), channels, Vec::new())));
        blocks.push(Block::new(std::mem::take(&mut layers)));
    }
    let mut head = style.norm(init, &Scope::Head.at("norm"))?;
    head.push(Box::new(Sequences::new(executor, &Scope::Head.at("sequences"), length))); // [batch, length, width]
    head.push(Box::new(GlobalPool::new(executor, &Scope::Head.at("pool")))); // [batch, width]
    let classes = Linear::with(init, &LayerPath::classes(), [width, info.classes], Start::Zero, true)?;
    Ok(Parts { blocks, head, classes })
}

/// Dense, GELU, dense, over the last extent.
fn mlp<B: Backend>(init: &mut Init<'_, B>, path: &LayerPath, width: usize, hidden: usize) -> Result<Layers<B>> {
    let mut layers: Layers<B> = Vec::with_capacity(3);
    layers.extend(Linear::layers(init, &path.join("up"), width, hidden)?);
    layers.push(Box::new(Smooth::new(init.executor(), &path.join("gelu"), ActivationFunction::Gelu)));
    layers.extend(Linear::layers(init, &path.join("down"), hidden, width)?);
    Ok(layers)
}
