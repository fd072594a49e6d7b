//! The depthwise-separable network (the block of MobileNet, Howard et al. 2017): `depth` times (depthwise convolution,
//! 1 x 1 convolution, a 2 x 2 max-pool between blocks, ReLU), width doubling, then the head of the plain network.

use super::{Block, Layers, Parts, activation, cnn::head};
use crate::{
    backend::Backend,
    data::DatasetInfo,
    error::Result,
    experiment::Model,
    layer_path::{LayerPath, Scope},
    nn::{Conv2d, Depthwise, Init, Linear, MaxPool},
};

pub(super) fn build<B: Backend>(init: &mut Init<'_, B>, model: &Model, info: &DatasetInfo) -> Result<Parts<B>> {
    let executor = init.executor();
    let [mut height, mut width, mut channels] = info.image()?;
    let mut blocks = Vec::with_capacity(model.depth);
    for i in 1..=model.depth {
        let filters = init.channels(model.width << (i - 1));
        let depthwise = Depthwise::new(init, &Scope::Block(i).at("depthwise"), channels, model.kernel)?;
        let mut layers: Layers<B> = Vec::with_capacity(2);
        layers.push(Box::new(depthwise));
        layers.extend(Conv2d::layers(init, &Scope::Block(i).at("pointwise"), channels, filters, 1)?);
        if i < model.depth {
            layers.push(Box::new(MaxPool::new(executor, &Scope::Block(i).at("pool"), 2, 2)));
            (height, width) = (height / 2, width / 2);
        }
        // After the pool: a quarter of the pixels, and ReLU gives the same numbers there as before it.
        layers.push(activation(executor, Scope::Block(i), model.activation));
        channels = filters;
        blocks.push(Block::new(layers));
    }
    let head = head(init, height * width * channels, model)?;
    let features = init.channels(model.dense);
    let classes = Linear::new(init, &LayerPath::classes(), features, info.classes)?;
    Ok(Parts { blocks, head, classes })
}
