//! Models: each file builds one family; all are a chain of blocks and a head.

mod cnn;
mod mlp;
mod mobilenet;
mod resnet;
mod segments;
mod sepcnn;

use crate::{
    autograd::{Tape, Value},
    backend::{Backend, Executor, Tensor},
    data::Facts,
    error::Result,
    experiment::{Experiment, ModelKind},
    nn::{Init, Layer, Param},
};
use segments::Segment;

/// Layers that checkpointing keeps or computes again as one.
pub struct Block<B: Backend> {
    layers: Vec<Box<dyn Layer<B>>>,
}

/// A model: blocks, then a head that is never checkpointed.
pub struct Model<B: Backend> {
    blocks: Vec<Block<B>>,
    head: Block<B>,
    segments: Vec<Segment>,
}

impl<B: Backend> Block<B> {
    fn new(layers: Vec<Box<dyn Layer<B>>>) -> Self {
        Self { layers }
    }

    fn forward<'m>(&'m self, tape: &mut Tape<'m, B>, mut x: Value<B>) -> Result<Value<B>> {
        for layer in &self.layers {
            let _layer = tape.executor().enter(layer.layer());
            x = layer.forward(tape, x)?;
        }
        Ok(x)
    }
}

fn chain<'m, B: Backend>(blocks: &'m [Block<B>], tape: &mut Tape<'m, B>, x: Value<B>) -> Result<Value<B>> {
    blocks.iter().try_fold(x, |x, block| block.forward(tape, x))
}

impl<B: Backend> Model<B> {
    /// Builds the experiment's model for data of these facts.
    pub fn build(executor: &Executor<B>, experiment: &Experiment, facts: &Facts) -> Result<Self> {
        let (blocks, head) = Self::parts(executor, experiment, facts)?;
        let segments = segments::of(experiment, facts, blocks.len())?;
        Ok(Self { blocks, head, segments })
    }

    fn parts(executor: &Executor<B>, experiment: &Experiment, facts: &Facts) -> Result<(Vec<Block<B>>, Block<B>)> {
        let init = &mut Init::new(executor, experiment.precision, experiment.run.seed);
        match experiment.model.kind {
            ModelKind::Mlp => mlp::build(init, &experiment.model, facts),
            ModelKind::Cnn => cnn::build(init, &experiment.model, facts),
            ModelKind::Sepcnn => sepcnn::build(init, &experiment.model, facts),
            ModelKind::Resnet => resnet::build(init, &experiment.model, facts),
            ModelKind::Mobilenetv1 => mobilenet::build_v1(init, &experiment.model, facts),
            ModelKind::Mobilenetv2 => mobilenet::build_v2(init, &experiment.model, facts),
        }
    }

    /// Logits `[batch * targets, classes]` of images `[batch, height, width, channels]` or tokens `[batch, length]`.
    pub fn forward<'m>(&'m self, tape: &mut Tape<'m, B>, inputs: Tensor<B>) -> Result<Value<B>> {
        let x = self.segments.iter().try_fold(Value::constant(inputs), |x, segment| {
            let blocks = &self.blocks[segment.blocks.clone()];
            if segment.is_checkpointed {
                tape.checkpoint(x, move |tape, x| chain(blocks, tape, x))
            } else {
                chain(blocks, tape, x)
            }
        })?;
        self.head.forward(tape, x)
    }

    /// Every layer with its path, those inside others before them.
    pub fn leaves(&self) -> Vec<&dyn Layer<B>> {
        fn walk<'a, B: Backend>(layer: &'a dyn Layer<B>, found: &mut Vec<&'a dyn Layer<B>>) {
            layer.inner().into_iter().for_each(|inner| walk(inner, found));
            found.push(layer);
        }
        let mut found = Vec::new();
        self.layers().for_each(|layer| walk(layer, &mut found));
        found
    }

    /// Every layer in forward order; those inside others are not told apart.
    pub fn layers(&self) -> impl Iterator<Item = &dyn Layer<B>> {
        self.blocks.iter().chain([&self.head]).flat_map(|block| block.layers.iter().map(AsRef::as_ref))
    }

    /// Every parameter in forward order.
    pub fn params(&self) -> Vec<&Param<B>> {
        self.layers().flat_map(Layer::params).collect()
    }

    /// How many numbers the model learns.
    pub fn parameters(&self) -> u64 {
        self.params().iter().map(|p| p.weight().elements() as u64).sum()
    }
}
