//! The factors of a model whose weights lie whole in files, and whole weights of one whose factors lie there.

use std::collections::HashMap;

use super::decompose::{decomposed, multiplied};
use crate::{
    error::{Error, Result},
    experiment::{Ranks, WholeLayer},
    interop::{export::as_it_is, mapped::Mapped},
    nn::Factorable,
    tensor::DType,
};

/// A layer that is factored as it is loaded.
struct Layer {
    /// The tensor of its whole weight.
    weight: String,
    whole: WholeLayer,
    ranks: Ranks,
}

/// Tensors of a factored model by their parts in the whole one.
pub(in crate::interop) struct Factors {
    layers: Vec<Layer>,
    /// The layer and the place of a factor's weight.
    weights: HashMap<String, (usize, usize)>,
    /// The tensor that a factor has as it is: its bias.
    biases: HashMap<String, String>,
    /// The factors of the layer that was asked for last.
    made: Option<(usize, Vec<Vec<f64>>)>,
}

impl Factors {
    /// Prepares the factors of these layers, which all have ranks.
    pub(in crate::interop) fn new(factored: &[Factorable]) -> Self {
        let mut own = Self { layers: Vec::new(), weights: HashMap::new(), biases: HashMap::new(), made: None };
        for layer in factored {
            let Some(ranks) = layer.ranks else { continue };
            let (whole, name) = (layer.whole, layer.name());
            for (place, factor) in whole.factors(ranks).enumerate() {
                let factor = layer.name_of(factor);
                own.weights.insert(format!("{factor}.weight"), (own.layers.len(), place));
                own.biases.insert(format!("{factor}.bias"), format!("{name}.bias"));
            }
            own.layers.push(Layer { weight: format!("{name}.weight"), whole, ranks });
        }
        own
    }

    /// The tensor of the whole model that the tensor `name` is, or is made of.
    pub(in crate::interop) fn whole_of<'a>(&'a self, name: &'a str) -> &'a str {
        match self.weights.get(name) {
            Some((layer, _)) => &self.layers[*layer].weight,
            None => self.biases.get(name).map_or(name, String::as_str),
        }
    }

    /// Whether the tensor `name` is a factor of a layer whose factors are to be made; the weight that they are made of, and
    /// how many numbers it has.
    pub(in crate::interop) fn lacks(&self, name: &str) -> Option<(String, usize)> {
        let (layer, _) = self.weights.get(name)?;
        let is_made = self.made.as_ref().is_some_and(|(made, _)| made == layer);
        let Layer { weight, whole, .. } = &self.layers[*layer];
        (!is_made).then(|| (weight.clone(), whole.weights()))
    }

    /// Drops the factors that were made.
    pub(in crate::interop) fn clear(&mut self) {
        self.made = None;
    }

    /// Makes the factors of the layer of the factor `name` from its whole weight.
    pub(in crate::interop) fn make(&mut self, name: &str, weight: &[f64], mapped: &Mapped) -> Result<()> {
        let Some((at, _)) = self.weights.get(name) else { return Ok(()) };
        let Layer { weight: from, whole, ranks } = &self.layers[*at];
        let made = decomposed(*whole, *ranks, weight).ok_or_else(|| {
            let message = "has no singular values that could be found; choose other weights";
            Error::file_at(&mapped.path, format!("tensor {from}"), message)
        })?;
        self.made = Some((*at, made));
        Ok(())
    }

    /// The numbers of the factor `name`, where they are made.
    pub(in crate::interop) fn numbers(&self, name: &str) -> Option<&[f64]> {
        let ((own, place), (made, factors)) = (self.weights.get(name)?, self.made.as_ref()?);
        if own == made { factors.get(*place).map(Vec::as_slice) } else { None }
    }
}

/// Numbers of f64 in another type, from number `at` on, as many as fit.
pub(in crate::interop) fn convert(numbers: &[f64], at: usize, to: &mut [u8], dtype: DType) {
    let numbers = &numbers[at..][..to.len() / dtype.size()];
    as_it_is(&[numbers.len()], 0).convert(bytemuck::cast_slice(numbers), DType::F64, 0, to, dtype);
}

/// A factored layer of a checkpoint as the whole weight that it multiplies by.
#[derive(Clone)]
pub(in crate::interop) struct Merged<'a> {
    whole: WholeLayer,
    ranks: Ranks,
    /// The elements of its factors, from the inputs to the outputs.
    factors: Vec<(&'a [u8], DType)>,
}

impl<'a> Merged<'a> {
    /// The product of a layer with these factors.
    pub(in crate::interop) fn new(whole: WholeLayer, ranks: Ranks, factors: Vec<(&'a [u8], DType)>) -> Self {
        Self { whole, ranks, factors }
    }

    /// Its elements in the type `dtype`: multiplied in f64, rounded once.
    pub(in crate::interop) fn elements(&self, dtype: DType) -> Vec<u8> {
        let wide = |(elements, own): &(&[u8], DType)| -> Vec<f64> {
            let count = elements.len() / own.size();
            let mut numbers = vec![0.0; count];
            as_it_is(&[count], 0).convert(elements, *own, 0, bytemuck::cast_slice_mut(&mut numbers), DType::F64);
            numbers
        };
        let factors: Vec<Vec<f64>> = self.factors.iter().map(wide).collect();
        let numbers = multiplied(self.whole, self.ranks, &factors);
        let mut elements = vec![0; numbers.len() * dtype.size()];
        convert(&numbers, 0, &mut elements, dtype);
        elements
    }
}
