//! The multilayer perceptron: `depth` times (dense, activation), then the classes.

use super::{Block, Layers, Parts, activation};
use crate::{
    backend::Backend,
    data::DatasetInfo,
    error::Result,
    experiment::Model,
    layer_path::{LayerPath, Scope},
    nn::{Flatten, Init, Linear},
};

pub(super) fn build<B: Backend>(init: &mut Init<'_, B>, model: &Model, info: &DatasetInfo) -> Result<Parts<B>> {
    let executor = init.executor();
    let mut features = info.image()?.into_iter().product();
    let mut blocks = Vec::with_capacity(model.depth);
    let width = init.channels(model.width);
    for i in 1..=model.depth {
        let mut layers: Layers<B> = Vec::with_capacity(3);
        if i == 1 {
            layers.push(Box::new(Flatten::new(executor, "flatten")));
        }
        layers.extend(Linear::layers(init, &Scope::Block(i).at("dense"), features, width)?);
        layers.push(activation(executor, Scope::Block(i), model.activation));
        features = width;
        blocks.push(Block::new(layers));
    }
    let classes = Linear::new(init, &LayerPath::classes(), features, info.classes)?;
    Ok(Parts { blocks, head: Vec::new(), classes })
}
