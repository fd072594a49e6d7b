//! The convolutional network: `depth` times (convolution, activation, 2 x 2 max-pool), width doubling, then a hidden dense
//! layer and the classes.

use super::{Block, Layers, Parts, activation};
use crate::{
    backend::Backend,
    data::DatasetInfo,
    error::Result,
    experiment::Model,
    layer_path::{LayerPath, Scope},
    nn::{Conv2d, Flatten, Init, Linear, MaxPool},
};

pub(super) fn build<B: Backend>(init: &mut Init<'_, B>, model: &Model, info: &DatasetInfo) -> Result<Parts<B>> {
    let executor = init.executor();
    let [mut height, mut width, mut channels] = info.image()?;
    let mut blocks = Vec::with_capacity(model.depth);
    for i in 1..=model.depth {
        let filters = init.channels(model.width << (i - 1));
        let mut layers: Layers<B> = Vec::with_capacity(3);
        layers.extend(Conv2d::layers(init, &Scope::Block(i).at("conv"), channels, filters, model.kernel)?);
        layers.push(activation(executor, Scope::Block(i), model.activation));
        layers.push(Box::new(MaxPool::new(executor, &Scope::Block(i).at("pool"), 2, 2)));
        blocks.push(Block::new(layers));
        (height, width, channels) = (height / 2, width / 2, filters);
    }
    let head = head(init, height * width * channels, model)?;
    let features = init.channels(model.dense);
    let classes = Linear::new(init, &LayerPath::classes(), features, info.classes)?;
    Ok(Parts { blocks, head, classes })
}

/// Flatten, and a hidden dense layer.
pub(super) fn head<B: Backend>(init: &mut Init<'_, B>, features: usize, model: &Model) -> Result<Layers<B>> {
    let executor = init.executor();
    let dense = init.channels(model.dense);
    let mut layers: Layers<B> = Vec::with_capacity(3);
    layers.push(Box::new(Flatten::new(executor, &Scope::Head.at("flatten"))));
    layers.extend(Linear::layers(init, &Scope::Head.at("dense"), features, dense)?);
    layers.push(activation(executor, Scope::Head, model.activation));
    Ok(layers)
}
