//! Residual networks (He et al. 2015, "Deep residual learning for image recognition", table 1), 18 to 101 layers.
//!
//! In bottleneck blocks the 3 x 3 convolution has the stride, as in every later implementation. The first block is the
//! stem: 7 x 7, stride 2, and an overlapping max-pool for large images; 3 x 3, stride 1, without a pool for small ones
//! (the paper's section 4.2).

use super::{Block, Layers, Parts};
use crate::{
    backend::Backend,
    data::Facts,
    error::Result,
    experiment::{Model, Stem},
    nn::{BatchNorm, Conv2d, ConvShape, GlobalPool, Init, Linear, MaxPool, Relu, Residual},
};

/// Filters of the stem and of the first stage; each later stage has twice as many.
const FILTERS: usize = 64;
/// Filters of a bottleneck's output to those of its 3 x 3 convolution.
const EXPANSION: usize = 4;

pub(super) fn build<B: Backend>(init: &mut Init<'_, B>, model: &Model, facts: &Facts) -> Result<Parts<B>> {
    let mut blocks = vec![stem(init, model.stem, facts.image()?[2])?];
    let is_bottleneck = model.layers >= 50;
    let mut channels = FILTERS;
    for (stage, count) in model.stages().iter().enumerate() {
        let filters = FILTERS << stage;
        for i in 0..*count {
            let stride = if stage > 0 && i == 0 { 2 } else { 1 };
            let path = format!("block{}", blocks.len() + 1);
            let out = if is_bottleneck { filters * EXPANSION } else { filters };
            let main = if is_bottleneck {
                bottleneck(init, &path, channels, filters, stride)?
            } else {
                basic(init, &path, channels, filters, stride)?
            };
            let shortcut = if stride > 1 || channels != out {
                conv_norm(init, &format!("{path}/shortcut"), shape(channels, out, 1, stride))?
            } else {
                Vec::new()
            };
            let executor = init.executor();
            blocks.push(Block::new(vec![
                Box::new(Residual::new(executor, &format!("{path}/add"), main, shortcut)),
                Box::new(Relu::new(executor, &format!("{path}/relu"))),
            ]));
            channels = out;
        }
    }
    let executor = init.executor();
    let head: Layers<B> = vec![Box::new(GlobalPool::new(executor, "head/pool"))];
    let classes = Linear::new(init, "head/classes", channels, facts.classes)?;
    Ok(Parts { blocks, head, classes })
}

fn stem<B: Backend>(init: &mut Init<'_, B>, stem: Stem, channels: usize) -> Result<Block<B>> {
    let executor = init.executor();
    let of = match stem {
        Stem::Small => shape(channels, FILTERS, 3, 1),
        Stem::Imagenet => shape(channels, FILTERS, 7, 2),
    };
    let mut layers = conv_norm(init, "block1", of)?;
    layers.push(Box::new(Relu::new(executor, "block1/relu")));
    if stem == Stem::Imagenet {
        layers.push(Box::new(MaxPool::with(executor, "block1/pool", 3, 2, 1)));
    }
    Ok(Block::new(layers))
}

/// Two 3 x 3 convolutions.
fn basic<B: Backend>(
    init: &mut Init<'_, B>,
    path: &str,
    channels: usize,
    filters: usize,
    stride: usize,
) -> Result<Layers<B>> {
    let mut layers = conv_norm(init, &format!("{path}/a"), shape(channels, filters, 3, stride))?;
    layers.push(Box::new(Relu::new(init.executor(), &format!("{path}/a/relu"))));
    layers.extend(conv_norm(init, &format!("{path}/b"), shape(filters, filters, 3, 1))?);
    Ok(layers)
}

/// 1 x 1 to fewer channels, 3 x 3, 1 x 1 to more.
fn bottleneck<B: Backend>(
    init: &mut Init<'_, B>,
    path: &str,
    channels: usize,
    filters: usize,
    stride: usize,
) -> Result<Layers<B>> {
    let mut layers = conv_norm(init, &format!("{path}/a"), shape(channels, filters, 1, 1))?;
    layers.push(Box::new(Relu::new(init.executor(), &format!("{path}/a/relu"))));
    layers.extend(conv_norm(init, &format!("{path}/b"), shape(filters, filters, 3, stride))?);
    layers.push(Box::new(Relu::new(init.executor(), &format!("{path}/b/relu"))));
    layers.extend(conv_norm(init, &format!("{path}/c"), shape(filters, filters * EXPANSION, 1, 1))?);
    Ok(layers)
}

/// A convolution without bias that pads by half its kernel.
pub(super) fn shape(channels: usize, filters: usize, size: usize, stride: usize) -> ConvShape {
    ConvShape { channels, filters, size, stride, padding: size / 2, bias: false }
}

/// A convolution and its batch norm.
pub(super) fn conv_norm<B: Backend>(init: &mut Init<'_, B>, path: &str, shape: ConvShape) -> Result<Layers<B>> {
    Ok(vec![
        Box::new(Conv2d::with(init, &format!("{path}/conv"), shape)?),
        Box::new(BatchNorm::new(init, &format!("{path}/norm"), shape.filters)?),
    ])
}
