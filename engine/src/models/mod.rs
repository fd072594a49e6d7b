//! Models: each file builds one family; all are a chain of blocks, a head and the classes.

mod block;
mod cnn;
mod decoder;
mod factored;
mod mixer;
mod mlp;
mod mobilenet;
mod resnet;
mod segments;
mod sepcnn;
mod transformer;
mod unet;
mod vit;

use crate::{
    autograd::{Tape, Value},
    backend::{Backend, Executor, Tensor, ops::ActivationFunction},
    data::DatasetInfo,
    error::Result,
    experiment::{ActivationKind, Experiment, ModelKind, Prune},
    layer_path::Scope,
    nn::{ChannelMap, Factorable, Init, Layer, Linear, Param, Relu, Replaced, Smooth, Visit, chain, visited_chain},
};
pub use factored::FactoredSize;

use block::{Block, run_blocks, skips_taken};
use segments::Segment;
use transformer::Form;

type Layers<B> = Vec<Box<dyn Layer<B>>>;

/// The function after a hidden layer, at a path that ends in its word.
fn activation<B: Backend>(executor: &Executor<B>, scope: Scope, kind: ActivationKind) -> Box<dyn Layer<B>> {
    let path = scope.at(kind.key());
    let smooth = |function| Box::new(Smooth::new(executor, &path, function));
    match kind {
        ActivationKind::Relu => Box::new(Relu::new(executor, &path)),
        ActivationKind::Gelu => smooth(ActivationFunction::Gelu),
        ActivationKind::Silu => smooth(ActivationFunction::Silu),
        ActivationKind::Mish => smooth(ActivationFunction::Mish),
    }
}

/// The layers that a family builds.
struct Parts<B: Backend> {
    /// The units that checkpointing keeps or computes again, numbered from 1.
    blocks: Vec<Block<B>>,
    /// The layers between the last block and the classes.
    head: Layers<B>,
    classes: Linear<B>,
}

/// A model: blocks, then a head and the classes, which are never checkpointed.
pub struct Model<B: Backend> {
    parts: Parts<B>,
    segments: Vec<Segment>,
    factorable: Vec<Factorable>,
}

impl<B: Backend> Model<B> {
    /// Builds the experiment's model for data of this kind.
    ///
    /// # Errors
    /// Data of another kind than the family learns from; [`Error::Budget`](crate::error::Error::Budget) if the parameters do
    /// not fit the budget; the errors of a launch.
    pub fn build(executor: &Executor<B>, experiment: &Experiment, info: &DatasetInfo) -> Result<Self> {
        Self::replaced(executor, experiment, info, None)
    }

    /// Builds the same model, with other values for some parameters from the start: no numbers are drawn for these.
    ///
    /// # Errors
    /// The errors of [`Model::build`].
    pub fn replaced(
        executor: &Executor<B>,
        experiment: &Experiment,
        info: &DatasetInfo,
        replaced: Option<&Replaced<'_>>,
    ) -> Result<Self> {
        Self::built(executor, experiment, info, replaced, None)
    }

    /// The model after channels were taken out of it, its parameters zeros.
    ///
    /// # Errors
    /// The errors of [`Model::build`].
    pub fn thinned(executor: &Executor<B>, experiment: &Experiment, info: &DatasetInfo) -> Result<Self> {
        Self::built(executor, experiment, info, Some(&|_, _| true), Some(experiment.prune))
    }

    fn built(
        executor: &Executor<B>,
        experiment: &Experiment,
        info: &DatasetInfo,
        replaced: Option<&Replaced<'_>>,
        thinned: Option<Prune>,
    ) -> Result<Self> {
        let init = Init::new(executor, experiment.precision, experiment.run.seed).replacing(replaced).thinned(thinned);
        let init = init.training(experiment.frozen, experiment.lora).quantising(experiment.quantise);
        let mut own = init.correcting(experiment.optimizer.kind.corrects_weights()).factoring(&experiment.low_rank);
        let init = &mut own;
        let parts = match experiment.model.kind {
            ModelKind::Mlp => mlp::build(init, &experiment.model, info),
            ModelKind::Cnn => cnn::build(init, &experiment.model, info),
            ModelKind::Sepcnn => sepcnn::build(init, &experiment.model, info),
            ModelKind::Resnet => resnet::build(init, &experiment.model, info),
            ModelKind::Mobilenetv1 => mobilenet::build_v1(init, &experiment.model, info),
            ModelKind::Mobilenetv2 => mobilenet::build_v2(init, &experiment.model, info),
            ModelKind::Vit => vit::build(init, &experiment.model, info),
            ModelKind::Mixer => mixer::build(init, &experiment.model, info),
            ModelKind::Gpt2 => decoder::build(init, &experiment.model, info, Form::Gpt2),
            ModelKind::Llama => decoder::build(init, &experiment.model, info, Form::Llama),
            ModelKind::Unet => unet::build(init, &experiment.model, info),
        }?;
        // Checks and menus ask for the blocks of a model that is not built.
        debug_assert_eq!(parts.blocks.len(), experiment.model.blocks(), "blocks of {:?}", experiment.model);
        let segments = segments::of(experiment, info, parts.blocks.len())?;
        let parts = Parts { classes: parts.classes.giving_classes(), ..parts };
        Ok(Self { parts, segments, factorable: own.into_factorable() })
    }

    /// Logits `[batch * labels, classes]` of images `[batch, height, width, channels]` or tokens `[batch, length]`. On a GPU a row
    /// may have columns behind its classes.
    ///
    /// # Errors
    /// The errors of the layers: [`Error::Budget`](crate::error::Error::Budget), or a launch that fails.
    pub fn forward<'m>(&'m self, tape: &mut Tape<'m, B>, inputs: Tensor<B>) -> Result<Value<B>> {
        let features = self.features(tape, inputs)?;
        let _layer = tape.executor().enter(self.parts.classes.layer());
        self.parts.classes.forward(tape, features)
    }

    /// The features that the last layer turns into logits: `[batch * labels, features]`, or the same rows in more dimensions.
    ///
    /// # Errors
    /// Fails if [`Model::forward`] does.
    pub fn features<'m>(&'m self, tape: &mut Tape<'m, B>, inputs: Tensor<B>) -> Result<Value<B>> {
        let mut values = vec![Value::constant(inputs)];
        for segment in &self.segments {
            let blocks = &self.parts.blocks[segment.blocks.clone()];
            // The inputs of the segment: the last value and the skips it takes. It does not see the others.
            let own = values.split_off(values.len() - 1 - skips_taken(blocks));
            values.extend(if segment.is_checkpointed {
                tape.checkpoint(own, move |tape, own| run_blocks(blocks, tape, own, None, None))?
            } else {
                let is_last = segment.blocks.end == self.parts.blocks.len();
                let after = self.parts.head.first().filter(|_| is_last).map(AsRef::as_ref);
                run_blocks(blocks, tape, own, None, after)?
            });
        }
        chain(&self.parts.head, tape, block::last(values))
    }

    /// A forward pass that calls `visit` after each layer; a layer with layers inside counts as one.
    pub(crate) fn trace<'m>(
        &'m self,
        tape: &mut Tape<'m, B>,
        inputs: Tensor<B>,
        visit: &mut Visit<'_, B>,
    ) -> Result<()> {
        let values = run_blocks(&self.parts.blocks, tape, vec![Value::constant(inputs)], Some(&mut *visit), None)?;
        let features = visited_chain(&self.parts.head, tape, block::last(values), Some(&mut *visit))?;
        let _layer = tape.executor().enter(self.parts.classes.layer());
        let logits = self.parts.classes.forward(tape, features)?;
        visit(&self.parts.classes, &logits.tensor)
    }

    /// The last layer, which gives the logits.
    pub fn classes(&self) -> &Linear<B> {
        &self.parts.classes
    }

    /// Every layer with its path, those inside others before them.
    pub fn leaves(&self) -> Vec<&dyn Layer<B>> {
        fn walk<'a, B: Backend>(layer: &'a dyn Layer<B>, found: &mut Vec<&'a dyn Layer<B>>) {
            layer.inner().into_iter().for_each(|inner| walk(inner, found));
            found.push(layer);
        }
        let mut found = Vec::new();
        self.layers().into_iter().for_each(|layer| walk(layer, &mut found));
        found
    }

    /// Every layer in forward order; a layer with layers inside counts as one.
    pub fn layers(&self) -> Vec<&dyn Layer<B>> {
        let Parts { blocks, head, classes } = &self.parts;
        let inner = blocks.iter().flat_map(Block::layers).chain(head);
        let mut layers: Vec<&dyn Layer<B>> = inner.map(AsRef::as_ref).collect();
        layers.push(classes);
        layers
    }

    /// Every parameter in forward order.
    pub fn params(&self) -> Vec<&Param<B>> {
        let layers = self.layers();
        // Most layers with parameters have a weight and a bias, and activations between them have none.
        let mut params = Vec::with_capacity(layers.len());
        layers.into_iter().for_each(|layer| layer.each_param(&mut |param| params.push(param)));
        params
    }

    /// The layers that could be factored, in forward order, each with its ranks; none if nothing is to be.
    pub fn factorable(&self) -> &[Factorable] {
        &self.factorable
    }

    /// The weights that pruning may set to zero, in forward order: trained weights of products.
    pub fn prunable(&self) -> Vec<&Param<B>> {
        let is_trained = |param: &&Param<B>| param.is_trained();
        self.leaves().into_iter().filter_map(Layer::prunable).filter(is_trained).collect()
    }

    /// Which channels of the model are the same, for an input of `channels` each.
    pub fn channels(&self, channels: usize) -> ChannelMap {
        let mut map = ChannelMap::default();
        let input = map.fixed(channels);
        let chain = self.parts.blocks.iter().flat_map(Block::layers).chain(&self.parts.head);
        let features = chain.fold(input, |group, layer| layer.channels(&mut map, group));
        let classes = self.parts.classes.channels(&mut map, features);
        map.fix(classes);
        map
    }

    /// How many numbers the model has, adapters included.
    pub fn parameters(&self) -> u64 {
        self.params().iter().map(|p| p.numbers()).sum()
    }

    /// How many of them it learns.
    pub fn trained(&self) -> u64 {
        self.params().iter().filter(|p| p.is_trained()).map(|p| p.numbers()).sum()
    }
}
