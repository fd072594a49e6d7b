//! Residual networks (He et al. 2015, "Deep residual learning for image recognition", table 1), 18 to 101 layers.
//!
//! In bottleneck blocks the 3 x 3 convolution has the stride, as in every later implementation. The first block is the
//! stem: 7 x 7, stride 2, and an overlapping max-pool for large images; 3 x 3, stride 1, without a pool for small ones
//! (the paper's section 4.2).

use super::{Block, Layers, Parts};
use crate::{
    backend::Backend,
    data::DatasetInfo,
    error::Result,
    experiment::{Model, Stem},
    layer_path::{LayerPath, Scope},
    nn::{BatchNorm, Conv2d, ConvShape, GlobalPool, Init, Linear, MaxPool, Relu, Residual},
};

/// Filters of the stem and of the first stage; each later stage has twice as many.
const FILTERS: usize = 64;
/// The ratio of the filters of a bottleneck's output to the filters of its 3 x 3 convolution.
const EXPANSION: usize = 4;

pub(super) fn build<B: Backend>(init: &mut Init<'_, B>, model: &Model, info: &DatasetInfo) -> Result<Parts<B>> {
    let mut blocks = vec![stem(init, model.stem, info.image()?[2])?];
    let is_bottleneck = model.layers >= 50;
    let mut channels = init.channels(FILTERS);
    for (stage, count) in model.stages().iter().enumerate() {
        let inner = init.channels(FILTERS << stage);
        let out = if is_bottleneck { init.channels((FILTERS << stage) * EXPANSION) } else { inner };
        for i in 0..*count {
            let stride = if stage > 0 && i == 0 { 2 } else { 1 };
            let path = Scope::Block(blocks.len() + 1).path();
            let main = if is_bottleneck {
                bottleneck(init, &path, [channels, inner, out], stride)?
            } else {
                basic(init, &path, channels, inner, stride)?
            };
            // A bottleneck's first stage has more channels than the stem.
            let shortcut = if stride > 1 || (is_bottleneck && stage == 0 && i == 0) {
                conv_norm(init, &path.join("shortcut"), shape(channels, out, 1, stride))?
            } else {
                Vec::new()
            };
            let executor = init.executor();
            blocks.push(Block::new(vec![
                Box::new(Residual::new(executor, &path.join("add"), main, shortcut)),
                Box::new(Relu::new(executor, &path.join("relu"))),
            ]));
            channels = out;
        }
    }
    let executor = init.executor();
    let head: Layers<B> = vec![Box::new(GlobalPool::new(executor, &Scope::Head.at("pool")))];
    let classes = Linear::new(init, &LayerPath::classes(), channels, info.classes)?;
    Ok(Parts { blocks, head, classes })
}

fn stem<B: Backend>(init: &mut Init<'_, B>, stem: Stem, channels: usize) -> Result<Block<B>> {
    let executor = init.executor();
    let of = match stem {
        Stem::Small => shape(channels, init.channels(FILTERS), 3, 1),
        Stem::Imagenet => shape(channels, init.channels(FILTERS), 7, 2),
    };
    let mut layers = conv_norm(init, &Scope::Block(1).path(), of)?;
    layers.push(Box::new(Relu::new(executor, &Scope::Block(1).at("relu"))));
    if stem == Stem::Imagenet {
        layers.push(Box::new(MaxPool::with(executor, &Scope::Block(1).at("pool"), 3, 2, 1)));
    }
    Ok(Block::new(layers))
}

/// Two 3 x 3 convolutions.
fn basic<B: Backend>(
    init: &mut Init<'_, B>,
    path: &LayerPath,
    channels: usize,
    filters: usize,
    stride: usize,
) -> Result<Layers<B>> {
    let mut layers = conv_norm(init, &path.join("a"), shape(channels, filters, 3, stride))?;
    layers.push(Box::new(Relu::new(init.executor(), &path.join("a/relu"))));
    layers.extend(conv_norm(init, &path.join("b"), shape(filters, filters, 3, 1))?);
    Ok(layers)
}

/// 1 x 1 to fewer channels, 3 x 3, 1 x 1 to more.
fn bottleneck<B: Backend>(
    init: &mut Init<'_, B>,
    path: &LayerPath,
    [channels, filters, out]: [usize; 3],
    stride: usize,
) -> Result<Layers<B>> {
    let mut layers = conv_norm(init, &path.join("a"), shape(channels, filters, 1, 1))?;
    layers.push(Box::new(Relu::new(init.executor(), &path.join("a/relu"))));
    layers.extend(conv_norm(init, &path.join("b"), shape(filters, filters, 3, stride))?);
    layers.push(Box::new(Relu::new(init.executor(), &path.join("b/relu"))));
    layers.extend(conv_norm(init, &path.join("c"), shape(filters, out, 1, 1))?);
    Ok(layers)
}

/// A convolution without bias that pads by half its kernel.
pub(super) fn shape(channels: usize, filters: usize, size: usize, stride: usize) -> ConvShape {
    ConvShape { channels, filters, size, stride, padding: size / 2, bias: false }
}

/// A convolution and its batch norm.
pub(super) fn conv_norm<B: Backend>(init: &mut Init<'_, B>, path: &LayerPath, shape: ConvShape) -> Result<Layers<B>> {
    let mut layers: Layers<B> = Vec::with_capacity(2);
    layers.extend(Conv2d::layers_with(init, &path.join("conv"), shape)?);
    layers.push(Box::new(BatchNorm::new(init, &path.join("norm"), shape.filters)?));
    Ok(layers)
}
