//! The making of parameters, in order.

use std::cell::RefCell;

use super::Param;
use crate::{
    backend::{Backend, Executor, Shape, Tensor, ops::Elementwise},
    error::Result,
    experiment::{BaseWeights, Frozen, Lora, Precision, Projection, Prune, Quantise, QuantiseKind},
    layer_path::Scope,
    memory::{Category, timeline::LayerId},
    nn::{CodedParam, IntegerLayer, ParamRole, ParamUse, Start, adapter::AdapterPlan, factored::Factoring},
    rng::{Rng, Stream},
};

/// Whether a parameter takes other values before anything reads those that it begins with.
pub type Replaced<'a> = dyn Fn(LayerId, ParamRole) -> bool + 'a;

/// A padded weight has a multiple of this many rows, the last of them zeros. cuBLAS is fastest where each extent of a product
/// that lies in a row, and each row, is a multiple of 16 bytes ("Tensor Core Usage" in its manual). 64 rows are also a whole tile.
const ROWS: usize = 64;
/// A weight of fewer rows is not padded: the rows of zeros would be many for it, and its product is short.
const FEWEST: usize = 1024;

/// Makes parameters in order, each from a random stream of its own, so a seed gives the same model on every device.
pub struct Init<'a, B: Backend> {
    executor: &'a Executor<B>,
    precision: Precision,
    seed: u64,
    count: u64,
    frozen: Frozen,
    lora: Lora,
    base: BaseWeights,
    is_correcting: bool,
    quantised: QuantiseKind,
    replaced: Option<&'a Replaced<'a>>,
    thinned: Option<Prune>,
    /// Whether weights get rows behind them.
    is_padding: bool,
    pub(in crate::nn) factoring: Factoring,
}

impl<'a, B: Backend> Init<'a, B> {
    /// A maker for one model.
    pub fn new(executor: &'a Executor<B>, precision: Precision, seed: u64) -> Self {
        Self {
            executor,
            precision,
            seed,
            count: 0,
            frozen: Frozen::None,
            lora: Lora::default(),
            base: BaseWeights::None,
            is_correcting: false,
            quantised: QuantiseKind::None,
            replaced: None,
            thinned: None,
            is_padding: false,
            factoring: Factoring::default(),
        }
    }

    /// The same initialisation, with frozen parameters and adapters of dense layers.
    #[must_use]
    pub fn training(self, frozen: Frozen, lora: Lora) -> Self {
        Self { frozen, lora, ..self }
    }

    /// The same initialisation, with the frozen weights of blocks held as codes, or with layers that become 8-bit integers
    /// later.
    #[must_use]
    pub fn quantising(self, choice: Quantise) -> Self {
        Self { base: choice.base, quantised: choice.kind, ..self }
    }

    /// The state with which the layer `layer`, whose sums have `taps` terms, can become one of 8-bit integers.
    ///
    /// # Errors
    /// Fails when it would cross the budget ([`Error::Budget`](crate::error::Error::Budget)) or when the device fails.
    pub fn integers(&self, layer: LayerId, taps: usize) -> Result<Option<Box<IntegerLayer<B>>>> {
        IntegerLayer::new(self.executor, layer, self.quantised, taps)
    }

    /// The same initialisation, without master copies if the optimizer corrects narrow weights.
    #[must_use]
    pub fn correcting(self, is_correcting: bool) -> Self {
        Self { is_correcting, ..self }
    }

    /// The same initialisation, for a model some of whose parameters take other values from the start: these are not drawn.
    #[must_use]
    pub fn replacing(self, replaced: Option<&'a Replaced<'a>>) -> Self {
        Self { replaced, ..self }
    }

    /// The same initialisation, for a model whose channels were taken out as `thinned` says.
    #[must_use]
    pub fn thinned(self, thinned: Option<Prune>) -> Self {
        Self { thinned, ..self }
    }

    /// Runs `make`. The weights that it makes are padded with rows of zeros where products on a GPU are faster with them. This is
    /// for a layer that gives many classes. Its logits then have columns behind the classes.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn padded<T>(&mut self, make: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        // An adapter adds to logits without such columns, and so do kernels of integers.
        self.is_padding = self.executor.joins_ops() && self.lora.rank == 0 && self.quantised == QuantiseKind::None;
        let made = make(self);
        self.is_padding = false;
        made
    }

    /// Rows of a weight of this shape, with those behind it.
    fn rows(&self, role: ParamRole, shape: Shape) -> usize {
        let is_padded = self.is_padding && role == ParamRole::Weight && shape.first() >= FEWEST;
        if is_padded { shape.first().next_multiple_of(ROWS) } else { shape.first() }
    }

    /// How many of the `channels` that a layer was designed with it has.
    pub fn channels(&self, channels: usize) -> usize {
        self.thinned.map_or(channels, |prune| prune.kept(channels))
    }

    /// The kernel that writes the first values of a parameter, from a random source of this key.
    fn fill(&self, layer: LayerId, role: ParamRole, start: Start, key: u64) -> Elementwise {
        let is_replaced = self.replaced.is_some_and(|replaced| replaced(layer, role));
        if is_replaced { Elementwise::Fill(0.0) } else { start.fill(key) }
    }

    /// The adapter for the dense layer at `layer`, whose `out` rows consist of `parts`. `None` without adapters, for a layer
    /// that is not a target, and for a head that is trained itself. An adapter of the head drops no inputs, because the loss
    /// may work on it in chunks.
    pub fn adapter(&self, layer: LayerId, parts: &[(Projection, usize)], out: usize) -> Option<AdapterPlan> {
        let Lora { rank, targets, dropout, .. } = self.lora;
        let is_head = self.scope(layer) == Scope::Head;
        if rank == 0 || (is_head && self.frozen != Frozen::All) {
            return None;
        }
        let rows = targets.rows(parts, out);
        let dropout = if is_head { 0.0 } else { dropout };
        (!rows.is_empty()).then(|| AdapterPlan { rank, scale: self.lora.scale(), rows, dropout })
    }

    /// The device.
    pub fn executor(&self) -> &'a Executor<B> {
        self.executor
    }

    /// The types of computation and of storage.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// A random stream of its own for a layer that draws numbers while it runs: a seed for [`Rng::new`].
    pub fn stream(&mut self, stream: Stream) -> u64 {
        self.count += 1;
        Rng::new(self.seed, stream, self.count).key()
    }

    /// A parameter of `layer` that starts as `value` everywhere. It has the optimizer's precision and no narrower copy.
    /// Normalisations use it, because they have few parameters.
    ///
    /// # Errors
    /// Fails when it would cross the budget ([`Error::Budget`](crate::error::Error::Budget)) or when the device fails.
    pub fn constant(
        &mut self,
        layer: LayerId,
        role: ParamRole,
        shape: impl Into<Shape>,
        value: f64,
    ) -> Result<Param<B>> {
        self.count += 1;
        let is_trained = self.is_trained(layer);
        let _layer = self.executor.enter(layer);
        let dtype = self.precision.master();
        let weight = self.executor.filled(value, shape, dtype, Category::Parameters, role.name())?;
        Ok(self.made(layer, role, is_trained, weight, None))
    }

    /// A parameter of `layer`, uniform in ±1/sqrt(fan_in): see [`Start::Uniform`].
    ///
    /// # Errors
    /// Fails when it would cross the budget ([`Error::Budget`](crate::error::Error::Budget)) or when the device fails.
    pub fn uniform(
        &mut self,
        layer: LayerId,
        role: ParamRole,
        shape: impl Into<Shape>,
        fan_in: usize,
    ) -> Result<Param<B>> {
        self.param(layer, role, shape, Start::Uniform { fan_in })
    }

    /// A parameter of `layer` with the initial values `start`. It has the type of computation, and a master copy of the
    /// optimizer's type where the two differ and the optimizer has no corrections.
    ///
    /// # Errors
    /// Fails when it would cross the budget ([`Error::Budget`](crate::error::Error::Budget)) or when the device fails.
    pub fn param(
        &mut self,
        layer: LayerId,
        role: ParamRole,
        shape: impl Into<Shape>,
        start: Start,
    ) -> Result<Param<B>> {
        let is_trained = self.is_trained(layer);
        self.param_that(layer, role, shape, start, is_trained)
    }

    /// A parameter that is trained or frozen as `is_trained` says, regardless of the choice for its layer.
    ///
    /// # Errors
    /// Fails when it would cross the budget ([`Error::Budget`](crate::error::Error::Budget)) or when the device fails.
    pub fn param_that(
        &mut self,
        layer: LayerId,
        role: ParamRole,
        shape: impl Into<Shape>,
        start: Start,
        is_trained: bool,
    ) -> Result<Param<B>> {
        let (shape, executor) = (shape.into(), self.executor);
        let _layer = executor.enter(layer);
        let key = Rng::new(self.seed, Stream::Weights, self.count).key();
        self.count += 1;
        let fill = self.fill(layer, role, start, key);
        let (own, rows) = (shape.first(), self.rows(role, shape));
        let of_whole = if rows > own { Shape::from([rows, shape.last()]) } else { shape };
        let name = if rows > own { "weight, with rows of zeros" } else { role.name() };
        let whole = executor.allocate(of_whole, self.precision.compute(), Category::Parameters, name)?;
        let weight = if rows > own { whole.rows_view(0..own) } else { whole.clone() };
        let padded = (rows > own).then(|| Box::new(whole));
        if let Some(padded) = &padded {
            executor.launch(Elementwise::Fill(0.0), &[], &[&padded.rows_view(own..rows)])?;
        }
        let master = if self.precision.has_master_weights() && is_trained && !self.is_correcting {
            let master = executor.allocate(shape, self.precision.master(), Category::MasterWeights, role.name())?;
            executor.launch(fill, &[], &[&master])?;
            executor.cast_into(&master, &weight)?;
            Some(master)
        } else {
            executor.launch(fill, &[], &[&weight])?;
            None
        };
        Ok(Param { padded, ..self.made(layer, role, is_trained, weight, master) })
    }

    /// The weight `[out, inner]` of the dense layer `layer` as codes, with the initial values `start`. `None` if it is not
    /// to be held so: where it learns, or is not one of a block's.
    ///
    /// # Errors
    /// Fails when it would cross the budget ([`Error::Budget`](crate::error::Error::Budget)) or when the device fails.
    pub fn coded(
        &mut self,
        layer: LayerId,
        sizes: [usize; 2],
        start: Start,
        is_adapted: bool,
    ) -> Result<Option<CodedParam<B>>> {
        let is_in_block = matches!(self.scope(layer), Scope::Block(_));
        if !is_in_block || (self.is_trained(layer) && !is_adapted) {
            return Ok(None);
        }
        let executor = self.executor;
        let _layer = executor.enter(layer);
        let made = |role, tensor, numbers| Param { numbers, ..self.made(layer, role, false, tensor, None) };
        let Some(coded) = CodedParam::new(executor, self.base, sizes, made)? else { return Ok(None) };
        // The first part has the source that the weight would have.
        let first = Rng::new(self.seed, Stream::Weights, self.count).key();
        self.count += 1;
        let key = |part: usize| if part == 0 { first } else { Rng::new(first, Stream::Weights, part as u64).key() };
        let fill = |part: usize| self.fill(layer, ParamRole::Weight, start, key(part));
        coded.write(executor, |room, part| executor.launch(fill(part), &[], &[room]))?;
        Ok(Some(coded))
    }

    /// A parameter of existing tensors, without a gradient and without state.
    fn made(
        &self,
        layer: LayerId,
        role: ParamRole,
        is_trained: bool,
        weight: Tensor<B>,
        master: Option<Tensor<B>>,
    ) -> Param<B> {
        let (gradient, state, numbers) = (RefCell::default(), RefCell::default(), weight.elements());
        let (used_as, precision) = (ParamUse::Other, self.precision);
        let key = Rng::new(self.seed, Stream::Projection, self.count).key();
        let padded = None;
        Param { role, used_as, key, layer, precision, is_trained, numbers, weight, padded, master, gradient, state }
    }

    /// The part of the model that `layer` belongs to.
    fn scope(&self, layer: LayerId) -> Scope {
        let _layer = self.executor.enter(layer);
        self.executor.ledger().layer_scope()
    }

    /// Whether the parameters of `layer` are trained, unless the layer decides otherwise.
    fn is_trained(&self, layer: LayerId) -> bool {
        !self.frozen.contains(self.scope(layer))
    }
}
