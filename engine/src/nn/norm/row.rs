//! Normalisation of each row by itself. Parameters are in the optimizer's precision, because there are few of them.

use crate::{
    autograd::{Tape, Value},
    backend::{
        Backend,
        ops::{Affine, NormedRows, RowNorm, RowScale, Statistics},
    },
    error::Result,
    memory::timeline::LayerId,
    nn::{Init, Layer, Param, ParamRole, norm::record},
};

/// Layer norm (Ba, Kiros & Hinton 2016) over the last extent. Saves its input, from which its output
/// can be recomputed, and two numbers a row.
pub struct LayerNorm<B: Backend> {
    layer: LayerId,
    epsilon: f64,
    weight: Param<B>, // [columns]
    bias: Param<B>,   // [columns]
}

/// RMS norm (Zhang & Sennrich 2019) over the last extent. Saves its input, from which its output can
/// be recomputed, and one number a row.
pub struct RmsNorm<B: Backend> {
    layer: LayerId,
    epsilon: f64,
    weight: Param<B>, // [columns]
}

impl<B: Backend> LayerNorm<B> {
    /// A layer at `path` over rows of `columns`.
    ///
    /// # Errors
    /// The errors of [`Init::constant`]: a parameter crosses the budget, or the device fails.
    pub fn new(init: &mut Init<'_, B>, path: &str, columns: usize, epsilon: f64) -> Result<Self> {
        let layer = init.executor().ledger().layer_id(path);
        let weight = init.constant(layer, ParamRole::Weight, [columns], 1.0)?;
        let bias = init.constant(layer, ParamRole::Bias, [columns], 0.0)?;
        Ok(Self { layer, epsilon, weight, bias })
    }
}

impl<B: Backend> RmsNorm<B> {
    /// A layer at `path` over rows of `columns`.
    ///
    /// # Errors
    /// The errors of [`Init::constant`]: a parameter crosses the budget, or the device fails.
    pub fn new(init: &mut Init<'_, B>, path: &str, columns: usize, epsilon: f64) -> Result<Self> {
        let layer = init.executor().ledger().layer_id(path);
        Ok(Self { layer, epsilon, weight: init.constant(layer, ParamRole::Weight, [columns], 1.0)? })
    }
}

impl<B: Backend> Layer<B> for LayerNorm<B> {
    fn forward<'m>(&'m self, tape: &mut Tape<'m, B>, mut x: Value<B>) -> Result<Value<B>> {
        let affine = Affine { weight: self.weight.weight(), bias: self.bias.weight() };
        let (y, statistics) = match x.take_normed(self.layer) {
            Some(NormedRows { y, mean: Some(mean), inverse }) => (y, Statistics { mean, inverse }),
            _ => tape.executor().layer_norm(&x.tensor, &affine, self.epsilon)?, // [..., columns]
        };
        let (epsilon, weight, bias) = (self.epsilon, affine.weight.clone(), affine.bias.clone());
        let source = tape.recomputable(self.layer, &x, move |executor, x| {
            let (y, _) = executor.layer_norm(&x, &Affine { weight: &weight, bias: &bias }, epsilon)?;
            Ok(y)
        });
        let params = [&self.weight, &self.bias];
        let of = (x, true);
        let y = record(tape, self.layer, of, y, params, statistics, |executor, x, statistics, (dy, other), into| {
            executor.layer_norm_grad(x, statistics, self.weight.weight(), (dy, other.as_ref()), into)
        });
        Ok(y.with_source(source))
    }

    fn row_norm(&self) -> Option<RowScale<'_, B>> {
        let norm = RowNorm::Layer(self.epsilon);
        Some(RowScale { norm, weight: self.weight.weight(), offset: Some(self.bias.weight()) })
    }

    fn opening(&self) -> Option<&dyn Layer<B>> {
        Some(self)
    }

    fn layer(&self) -> LayerId {
        self.layer
    }

    fn each_param<'a>(&'a self, see: &mut dyn FnMut(&'a Param<B>)) {
        [&self.weight, &self.bias].into_iter().for_each(see);
    }
}

impl<B: Backend> Layer<B> for RmsNorm<B> {
    fn forward<'m>(&'m self, tape: &mut Tape<'m, B>, mut x: Value<B>) -> Result<Value<B>> {
        let (y, inverse) = match x.take_normed(self.layer) {
            Some(NormedRows { y, inverse, .. }) => (y, inverse),
            None => tape.executor().rms_norm(&x.tensor, self.weight.weight(), self.epsilon)?, // [..., columns]
        };
        let (epsilon, weight) = (self.epsilon, self.weight.weight().clone());
        let source = tape.recomputable(self.layer, &x, move |executor, x| {
            let (y, _) = executor.rms_norm(&x, &weight, epsilon)?;
            Ok(y)
        });
        let (of, params) = ((x, true), [&self.weight]);
        let y = record(tape, self.layer, of, y, params, [inverse], |executor, x, [inverse], (dy, other), into| {
            executor.rms_norm_grad(x, inverse, self.weight.weight(), (dy, other.as_ref()), into)
        });
        Ok(y.with_source(source))
    }

    fn row_norm(&self) -> Option<RowScale<'_, B>> {
        let norm = RowNorm::Rms(self.epsilon);
        Some(RowScale { norm, weight: self.weight.weight(), offset: None })
    }

    fn opening(&self) -> Option<&dyn Layer<B>> {
        Some(self)
    }

    fn layer(&self) -> LayerId {
        self.layer
    }

    fn each_param<'a>(&'a self, see: &mut dyn FnMut(&'a Param<B>)) {
        see(&self.weight);
    }
}
