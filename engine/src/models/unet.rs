//! U-Net (Ronneberger et al. 2015) with padding, so that every pixel has a class: `depth` levels down, the bottom, and
//! `depth` levels up, and each level up also reads the output of its level on the way down.
//!
//! Level `i` from the top has `width * 2^i` filters. Blocks 1 to `depth` go down, the next is the bottom, the others go up.
//! A level's skip is the output of its block on the way down; the pool that follows belongs to the next block, so that
//! one tensor serves both.

use super::{Block, Layers, Parts};
use crate::{
    backend::Backend,
    data::DatasetInfo,
    error::Result,
    experiment::Model,
    layer_path::{LayerPath, Scope},
    nn::{Concat, Conv2d, Init, Linear, MaxPool, Relu, UpConv2d},
};

pub(super) fn build<B: Backend>(init: &mut Init<'_, B>, model: &Model, info: &DatasetInfo) -> Result<Parts<B>> {
    let executor = init.executor();
    let mut channels = info.image()?[2];
    let mut blocks = Vec::with_capacity(model.blocks());
    for level in 0..=model.depth {
        let (path, filters) = (Scope::Block(level + 1).path(), model.width << level);
        let mut layers: Layers<B> = Vec::new();
        if level > 0 {
            layers.push(Box::new(MaxPool::new(executor, &path.join("pool"), 2, 2)));
        }
        layers.extend(convolutions(init, &path, channels, filters)?); // [batch, side / 2^level, side / 2^level, filters]
        blocks.push(if level < model.depth { Block::giving(layers) } else { Block::new(layers) });
        channels = filters;
    }
    for level in (0..model.depth).rev() {
        let (path, filters) = (Scope::Block(blocks.len() + 1).path(), model.width << level);
        let up: Layers<B> = vec![Box::new(UpConv2d::new(init, &path.join("up"), channels, filters)?)];
        let concat = Concat::new(executor, &path.join("concat"));
        let rest = convolutions(init, &path, 2 * filters, filters)?;
        blocks.push(Block::taking(up, concat, rest));
        channels = filters;
    }
    // A 1 x 1 convolution is a dense layer over pixels: [batch * height * width, classes].
    let classes = Linear::new(init, &LayerPath::classes(), channels, info.classes)?;
    Ok(Parts { blocks, head: Vec::new(), classes })
}

/// Two 3 x 3 convolutions, each with ReLU.
fn convolutions<B: Backend>(
    init: &mut Init<'_, B>,
    path: &LayerPath,
    channels: usize,
    filters: usize,
) -> Result<Layers<B>> {
    let executor = init.executor();
    let mut layers: Layers<B> = Vec::with_capacity(4);
    layers.extend(Conv2d::layers(init, &path.join("a/conv"), channels, filters, 3)?);
    layers.push(Box::new(Relu::new(executor, &path.join("a/relu"))));
    layers.extend(Conv2d::layers(init, &path.join("b/conv"), filters, filters, 3)?);
    layers.push(Box::new(Relu::new(executor, &path.join("b/relu"))));
    Ok(layers)
}
