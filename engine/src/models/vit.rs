//! Vision transformers (Dosovitskiy et al. 2021): patches as a sequence, with a class token before them.
//!
//! Ti, S and B of Touvron et al. 2021 are widths 192, 384 and 768, with 3, 6 and 12 heads and a hidden layer four times as
//! wide, 12 deep. The patches belong to the first block.

use super::{
    Block, Layers, Parts,
    transformer::{Form, NORMAL, Style, patches},
};
use crate::{
    backend::Backend,
    data::DatasetInfo,
    error::Result,
    experiment::Model,
    layer_path::{LayerPath, Scope},
    nn::{ClassToken, Conv2d, ConvShape, Init, Linear, Positions, Start, TakeFirst},
};

pub(super) fn build<B: Backend>(init: &mut Init<'_, B>, model: &Model, info: &DatasetInfo) -> Result<Parts<B>> {
    let executor = init.executor();
    let [down, across] = patches(model, info)?;
    let length = down * across + 1;
    let style = Style { model, form: Form::Vit, length };
    let patch = patch_shape(model, info)?;
    let mut layers: Layers<B> = vec![
        Box::new(Conv2d::with(init, "patches", patch)?), // [batch, down, across, width]
        Box::new(ClassToken::new(init, "class-token", length - 1, model.width, NORMAL)?), // [batch * length, width]
        Box::new(Positions::new(init, "positions", length, model.width, NORMAL)?),
    ];
    layers.extend(style.dropout(init, "dropout"));
    let mut blocks = Vec::with_capacity(model.depth);
    for i in 1..=model.depth {
        layers.extend(style.block(init, &Scope::Block(i).path())?); // [batch * length, width]
        blocks.push(Block::new(std::mem::take(&mut layers)));
    }
    // The norm works row by row, so only the rows that are read need it.
    let mut head: Layers<B> = vec![Box::new(TakeFirst::new(executor, &Scope::Head.at("first"), length))]; // [batch, width]
    head.extend(style.norm(init, &Scope::Head.at("norm"))?);
    let classes = Linear::with(init, &LayerPath::classes(), [model.width, info.classes], Start::Zero, true)?;
    Ok(Parts { blocks, head, classes })
}

/// A convolution whose windows are the patches.
pub(super) fn patch_shape(model: &Model, info: &DatasetInfo) -> Result<ConvShape> {
    let (channels, size) = (info.image()?[2], model.patch);
    Ok(ConvShape { channels, filters: model.width, size, stride: size, padding: 0, bias: true })
}
