//! MobileNetV1 (Howard et al. 2017, table 1) and MobileNetV2 (Sandler et al. 2018, table 2), with their width multiplier.
//!
//! The first block is the stem. With the stem for small images the stem and the first stride after it are 1, so that
//! 32 x 32 images end at 4 x 4.

use super::{
    Block, Layers, Parts,
    resnet::{conv_norm, shape},
};
use crate::{
    backend::Backend,
    data::DatasetInfo,
    error::Result,
    experiment::{Model, Stem},
    layer_path::{LayerPath, Scope},
    nn::{BatchNorm, ConvShape, Depthwise, GlobalPool, Init, Linear, Relu, Relu6, Residual},
};

/// V1: filters and stride of each depthwise-separable block.
pub(super) const V1: [(usize, usize); 13] = [
    (64, 1),
    (128, 2),
    (128, 1),
    (256, 2),
    (256, 1),
    (512, 2),
    (512, 1),
    (512, 1),
    (512, 1),
    (512, 1),
    (512, 1),
    (1024, 2),
    (1024, 1),
];

/// V2: expansion, filters, blocks and first stride of each stage.
pub(super) const V2: [(usize, usize, usize, usize); 7] =
    [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)];

/// Filters of the stem, and of V2's last convolution, at multiplier 1.
const STEM: usize = 32;
const LAST: usize = 1280;

pub(super) fn build_v1<B: Backend>(init: &mut Init<'_, B>, model: &Model, info: &DatasetInfo) -> Result<Parts<B>> {
    let executor = init.executor();
    let mut channels = scaled(init, STEM, model);
    let mut layers =
        conv_norm(init, &Scope::Block(1).path(), shape(info.image()?[2], channels, 3, stem_stride(model)))?;
    layers.push(Box::new(Relu::new(executor, &Scope::Block(1).at("relu"))));
    let mut blocks = vec![Block::new(layers)];
    for (i, (filters, stride)) in V1.into_iter().enumerate() {
        let path = Scope::Block(i + 2).path();
        let stride = if i == 1 { stem_stride(model) } else { stride };
        let mut layers = depthwise_norm(init, &path.join("depthwise"), channels, stride)?;
        layers.push(Box::new(Relu::new(executor, &path.join("depthwise/relu"))));
        layers.extend(conv_norm(init, &path.join("pointwise"), shape(channels, scaled(init, filters, model), 1, 1))?);
        layers.push(Box::new(Relu::new(executor, &path.join("pointwise/relu"))));
        blocks.push(Block::new(layers));
        channels = scaled(init, filters, model);
    }
    parts(init, blocks, channels, info)
}

pub(super) fn build_v2<B: Backend>(init: &mut Init<'_, B>, model: &Model, info: &DatasetInfo) -> Result<Parts<B>> {
    let mut design = divisible(STEM as f64 * model.multiplier);
    let channels = init.channels(design);
    let of_stem = shape(info.image()?[2], channels, 3, stem_stride(model));
    let mut blocks = vec![Block::new(conv_norm_relu6(init, &Scope::Block(1).path(), of_stem)?)];
    for (stage, (expansion, filters, count, first)) in V2.into_iter().enumerate() {
        let out = divisible(filters as f64 * model.multiplier);
        for i in 0..count {
            let stride = match (i, stage) {
                (0, 1) => stem_stride(model),
                (0, _) => first,
                _ => 1,
            };
            let path = Scope::Block(blocks.len() + 1).path();
            blocks.push(inverted(init, &path, [design, design * expansion, out], stride)?);
            design = out;
        }
    }
    let last = if model.multiplier > 1.0 { divisible(LAST as f64 * model.multiplier) } else { LAST };
    let path = Scope::Block(blocks.len() + 1).path();
    let (channels, last) = (init.channels(design), init.channels(last));
    blocks.push(Block::new(conv_norm_relu6(init, &path, shape(channels, last, 1, 1))?));
    parts(init, blocks, last, info)
}

/// An inverted residual: 1 x 1 to more channels, depthwise, 1 x 1 to fewer without an activation. The design gives the
/// channels.
fn inverted<B: Backend>(
    init: &mut Init<'_, B>,
    path: &LayerPath,
    design: [usize; 3],
    stride: usize,
) -> Result<Block<B>> {
    let executor = init.executor();
    let [channels, hidden, out] = design.map(|channels| init.channels(channels));
    let mut layers: Layers<B> = Vec::new();
    if design[1] != design[0] {
        layers.extend(conv_norm_relu6(init, &path.join("expand"), shape(channels, hidden, 1, 1))?);
    }
    layers.extend(depthwise_norm(init, &path.join("depthwise"), hidden, stride)?);
    layers.push(Box::new(Relu6::new(executor, &path.join("depthwise/relu6"))));
    layers.extend(conv_norm(init, &path.join("project"), shape(hidden, out, 1, 1))?);
    if stride == 1 && design[0] == design[2] {
        layers = vec![Box::new(Residual::new(executor, &path.join("add"), layers, Vec::new()))];
    }
    Ok(Block::new(layers))
}

fn conv_norm_relu6<B: Backend>(init: &mut Init<'_, B>, path: &LayerPath, shape: ConvShape) -> Result<Layers<B>> {
    let mut layers = conv_norm(init, path, shape)?;
    layers.push(Box::new(Relu6::new(init.executor(), &path.join("relu6"))));
    Ok(layers)
}

/// A 3 x 3 depthwise convolution and its batch norm.
fn depthwise_norm<B: Backend>(
    init: &mut Init<'_, B>,
    path: &LayerPath,
    channels: usize,
    stride: usize,
) -> Result<Layers<B>> {
    Ok(vec![
        Box::new(Depthwise::with(init, &path.join("conv"), shape(channels, channels, 3, stride))?),
        Box::new(BatchNorm::new(init, &path.join("norm"), channels)?),
    ])
}

/// The blocks, and after them the mean over pixels and the classes.
fn parts<B: Backend>(
    init: &mut Init<'_, B>,
    blocks: Vec<Block<B>>,
    channels: usize,
    info: &DatasetInfo,
) -> Result<Parts<B>> {
    let head: Layers<B> = vec![Box::new(GlobalPool::new(init.executor(), &Scope::Head.at("pool")))];
    let classes = Linear::new(init, &LayerPath::classes(), channels, info.classes)?;
    Ok(Parts { blocks, head, classes })
}

/// V1's filters at the model's multiplier.
fn scaled<B: Backend>(init: &Init<'_, B>, filters: usize, model: &Model) -> usize {
    init.channels(((filters as f64 * model.multiplier) as usize).max(1))
}

fn stem_stride(model: &Model) -> usize {
    match model.stem {
        Stem::Small => 1,
        Stem::Imagenet => 2,
    }
}

/// The nearest multiple of 8, never more than a tenth below (the authors' rounding).
fn divisible(channels: f64) -> usize {
    let rounded = ((channels + 4.0) as usize / 8 * 8).max(8);
    if (rounded as f64) < 0.9 * channels { rounded + 8 } else { rounded }
}
