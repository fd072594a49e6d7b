//! Layers as products of smaller ones. They replace a dense layer or a convolution whose ranks are chosen.
//!
//! Always holds: the factors are plain layers, one after another, under names below the whole layer's, so that gradients,
//! updates, memory and files need no special case. If nothing is factored, the layers and their random numbers are the same
//! as without this file.

use crate::{
    backend::Backend,
    error::Result,
    experiment::{Factor, LowRank, Projection, RankTable, Ranks, WholeLayer},
    nn::{Conv2d, ConvShape, Init, Layer, Linear, Start},
};

/// A layer of a model that may be factored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Factorable {
    /// The layer's path, such as `block1/conv`.
    pub path: String,
    /// The layer's kind and extents if it is whole.
    pub whole: WholeLayer,
    /// The layer's ranks; `None` if it stays whole.
    pub ranks: Option<Ranks>,
}

impl Factorable {
    /// The layer's name in a file, such as `block1.conv`.
    pub fn name(&self) -> String {
        self.path.replace('/', ".")
    }

    /// The name in a file of one of its factors.
    pub fn name_of(&self, factor: Factor) -> String {
        format!("{}.{}", self.name(), factor.name())
    }

    /// Weights, without the bias, as it stands.
    pub fn weights(&self) -> usize {
        self.ranks.map_or(self.whole.weights(), |ranks| self.whole.factored_weights(ranks))
    }
}

/// How the layers of a model are factored, and which could be. It is empty if none are.
#[derive(Default)]
pub(super) struct Factoring {
    rank: usize,
    found: Option<RankTable>,
    layers: Vec<Factorable>,
}

impl Factoring {
    pub(super) fn new(choice: &LowRank) -> Self {
        Self { rank: choice.rank, found: choice.is_sought().then(|| choice.table()), layers: Vec::new() }
    }

    /// The ranks of a layer that may be factored.
    pub(super) fn ranks(&mut self, path: &str, whole: WholeLayer) -> Option<Ranks> {
        let layer = Factorable { path: path.to_owned(), whole, ranks: None };
        let ranks = match &self.found {
            None if self.rank == 0 => return None,
            None => Some(Ranks::both(self.rank)),
            Some(table) => table.of(&layer.name()),
        };
        let ranks = ranks.and_then(|ranks| whole.ranks(ranks));
        self.layers.push(Factorable { ranks, ..layer });
        ranks
    }

    pub(super) fn into_layers(self) -> Vec<Factorable> {
        self.layers
    }
}

impl<B: Backend> Init<'_, B> {
    /// The same initialisation, with layers as products of smaller ones.
    #[must_use]
    pub fn factoring(mut self, choice: &LowRank) -> Self {
        self.factoring = Factoring::new(choice);
        self
    }

    /// The ranks of the layer at `path`, which may be factored; `None` if it stays whole.
    pub(super) fn ranks(&mut self, path: &str, whole: WholeLayer) -> Option<Ranks> {
        self.factoring.ranks(path, whole)
    }

    /// The layers that could be factored, in the order in which they were made; none if nothing is to be.
    pub fn into_factorable(self) -> Vec<Factorable> {
        self.factoring.into_layers()
    }
}

type Layers<B> = Vec<Box<dyn Layer<B>>>;

fn path_of(path: &str, factor: Factor) -> String {
    format!("{path}/{}", factor.name())
}

/// The initial values of two factors whose product is to be as large as one layer that starts as `whole`.
fn starts(whole: Start, inner: usize, rank: usize) -> [Start; 2] {
    match whole {
        Start::Uniform { .. } => [Start::Uniform { fan_in: inner }, Start::Uniform { fan_in: rank }],
        // A sum of as many products as the rank.
        Start::Normal { std } => [Start::Normal { std: (std / (rank as f64).sqrt()).sqrt() }; 2],
        Start::Zero => [Start::Uniform { fan_in: inner }, Start::Zero],
    }
}

impl<B: Backend> Linear<B> {
    /// [`Linear::new`], as one layer or as two of a low rank.
    ///
    /// # Errors
    /// The errors of [`Init::param`]: a parameter crosses the budget, or the device fails.
    pub fn layers(init: &mut Init<'_, B>, path: &str, inner: usize, out: usize) -> Result<Layers<B>> {
        let start = Start::Uniform { fan_in: inner };
        Self::as_layers(init, path, [inner, out], start, Some(start), &[])
    }

    /// [`Linear::of_projections`], as one layer or as two of a low rank.
    ///
    /// # Errors
    /// The errors of [`Init::param`]: a parameter crosses the budget, or the device fails.
    pub fn layers_of_projections(
        init: &mut Init<'_, B>,
        path: &str,
        sizes: [usize; 2],
        start: Start,
        has_bias: bool,
        parts: &[(Projection, usize)],
    ) -> Result<Layers<B>> {
        Self::as_layers(init, path, sizes, start, has_bias.then_some(Start::Zero), parts)
    }

    /// The layers if it is factored: `[rows, inner]` to `[rows, rank]`, then to `[rows, out]`, with the bias at the second.
    fn as_layers(
        init: &mut Init<'_, B>,
        path: &str,
        [inner, out]: [usize; 2],
        start: Start,
        bias: Option<Start>,
        parts: &[(Projection, usize)],
    ) -> Result<Layers<B>> {
        let Some(ranks) = init.ranks(path, WholeLayer { inner, out, size: 1 }) else {
            return Ok(vec![Box::new(Self::starting(init, path, [inner, out], start, bias, parts)?)]);
        };
        let rank = ranks.inner;
        let [first, last] = starts(start, inner, rank);
        let narrow = Self::starting(init, &path_of(path, Factor::In), [inner, rank], first, None, &[])?;
        let wide = Self::starting(init, &path_of(path, Factor::Out), [rank, out], last, bias, &[])?;
        Ok(vec![Box::new(narrow), Box::new(wide)])
    }
}

impl<B: Backend> Conv2d<B> {
    /// [`Conv2d::new`], as one layer or as up to three of low ranks.
    ///
    /// # Errors
    /// The errors of [`Init::uniform`]: a parameter crosses the budget, or the device fails.
    pub fn layers(
        init: &mut Init<'_, B>,
        path: &str,
        channels: usize,
        filters: usize,
        size: usize,
    ) -> Result<Layers<B>> {
        Self::layers_with(init, path, ConvShape::same(channels, filters, size))
    }

    /// [`Conv2d::with`], as one layer or as up to three of low ranks. Zeros around an image stay zeros where channels are
    /// mixed without a bias, so that the kernel may pad after the first factor.
    ///
    /// # Errors
    /// The errors of [`Init::uniform`]: a parameter crosses the budget, or the device fails.
    pub fn layers_with(init: &mut Init<'_, B>, path: &str, shape: ConvShape) -> Result<Layers<B>> {
        let whole = WholeLayer { inner: shape.channels, out: shape.filters, size: shape.size };
        let Some(ranks) = init.ranks(path, whole) else {
            return Ok(vec![Box::new(Self::with(init, path, shape)?)]);
        };
        let factors: Vec<Factor> = whole.factors(ranks).collect();
        // The layer that steps over the image and pads it: the kernel, or the first of two matrices.
        let steps = if whole.is_matrix() { Factor::In } else { Factor::Core };
        let mut layers: Layers<B> = Vec::with_capacity(factors.len());
        for factor in &factors {
            let [filters, size, _, channels] = whole.extents_of(*factor, ranks);
            let (stride, padding) = if *factor == steps { (shape.stride, shape.padding) } else { (1, 0) };
            let bias = shape.bias && factors.last() == Some(factor);
            let own = ConvShape { channels, filters, size, stride, padding, bias };
            layers.push(Box::new(Self::with(init, &path_of(path, *factor), own)?));
        }
        Ok(layers)
    }
}
