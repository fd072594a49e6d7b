//! Normalisations.

use super::GradInto;
use crate::{
    backend::{Backend, DType, Executor, Kernel, Tensor, kernel::Rows},
    error::Result,
    memory::Category,
};

/// The two vectors a normalisation is undone and differentiated with.
#[derive(Debug)]
pub struct Statistics<B: Backend> {
    /// Mean of each channel or row.
    pub mean: Tensor<B>,
    /// 1 / sqrt(variance + epsilon).
    pub inverse: Tensor<B>,
}

impl<B: Backend> Clone for Statistics<B> {
    fn clone(&self) -> Self {
        Self { mean: self.mean.clone(), inverse: self.inverse.clone() }
    }
}

impl<B: Backend> IntoIterator for Statistics<B> {
    type Item = Tensor<B>;
    type IntoIter = std::array::IntoIter<Tensor<B>, 2>;

    fn into_iter(self) -> Self::IntoIter {
        [self.mean, self.inverse].into_iter()
    }
}

/// The learned scale and offset of a normalisation.
#[derive(Debug)]
pub struct Affine<'a, B: Backend> {
    /// Multiplies.
    pub weight: &'a Tensor<B>,
    /// Is added.
    pub bias: &'a Tensor<B>,
}

/// Running estimates of a batch normalisation.
#[derive(Debug)]
pub struct Running<'a, B: Backend> {
    /// Of the mean.
    pub mean: &'a Tensor<B>,
    /// Of the unbiased variance.
    pub variance: &'a Tensor<B>,
}

/// The type of statistics beside tensors of `dtype`.
fn statistics_type(dtype: DType) -> DType {
    if dtype == DType::F64 { DType::F64 } else { DType::F32 }
}

/// Whether gradients are added to what their buffers hold.
fn accumulates<B: Backend>(into: &[GradInto<'_, B>]) -> bool {
    into.first().is_some_and(|into| into.parts().1)
}

/// A gradient by the input, and the buffers of those by parameters.
fn outputs<'a, B: Backend>(dx: &'a Tensor<B>, into: &'a [GradInto<'_, B>]) -> Vec<&'a Tensor<B>> {
    [dx].into_iter().chain(into.iter().map(|into| into.parts().0)).collect()
}

impl<B: Backend> Executor<B> {
    fn statistics(&self, count: usize, dtype: DType) -> Result<Statistics<B>> {
        let make = |label| self.allocate([count], statistics_type(dtype), Category::Activations, label);
        Ok(Statistics { mean: make("mean")?, inverse: make("inverse deviation")? })
    }

    /// The gradient of a normalisation: by its input in place where nobody else holds `dy`, by its parameters `into`.
    fn norm_grad(
        &self,
        label: &'static str,
        x: &Tensor<B>,
        others: &[&Tensor<B>],
        dy: Tensor<B>,
        into: &[GradInto<'_, B>],
        kernel: impl FnOnce(Rows, bool) -> Kernel,
    ) -> Result<Tensor<B>> {
        let extents = Rows { rows: x.shape().rows(), columns: x.shape().last() };
        let dx = self.own(dy, label)?;
        let inputs: Vec<&Tensor<B>> = [x].into_iter().chain(others.iter().copied()).collect();
        self.launch(kernel(extents, accumulates(into)), &inputs, &outputs(&dx, into))?;
        Ok(dx)
    }

    /// Normalises the channels of `x [..., channels]` by the batch's statistics; `running` estimates, when given, move.
    pub fn batch_norm(
        &self,
        x: &Tensor<B>,
        affine: &Affine<'_, B>,
        epsilon: f64,
        momentum: f64,
        running: Option<&Running<'_, B>>,
    ) -> Result<(Tensor<B>, Statistics<B>)> {
        let extents = Rows { rows: x.shape().rows(), columns: x.shape().last() };
        let y = self.activation(x.shape(), x.dtype(), "batch norm")?;
        let statistics = self.statistics(extents.columns, x.dtype())?;
        let mut outputs = vec![&y, &statistics.mean, &statistics.inverse];
        outputs.extend(running.iter().flat_map(|r| [r.mean, r.variance]));
        let kernel = Kernel::BatchNorm { extents, epsilon, momentum };
        self.launch(kernel, &[x, affine.weight, affine.bias], &outputs)?;
        Ok((y, statistics))
    }

    /// The output of [`Executor::batch_norm`] again, from its input and statistics, to the last bit; in place when nobody
    /// else holds `x`.
    pub fn batch_norm_again(
        &self,
        x: Tensor<B>,
        statistics: &Statistics<B>,
        affine: &Affine<'_, B>,
    ) -> Result<Tensor<B>> {
        let (kernel, rest) = (
            Kernel::BatchNormAgain { adds: false },
            [&statistics.mean, &statistics.inverse, affine.weight, affine.bias],
        );
        if x.is_unique() {
            self.launch(kernel, &rest, &[&x])?;
            return Ok(x);
        }
        let y = self.activation(x.shape(), x.dtype(), "batch norm again")?;
        let [mean, inverse, weight, bias] = rest;
        self.launch(kernel, &[&x, mean, inverse, weight, bias], &[&y])?;
        Ok(y)
    }

    /// `sum` and the output of [`Executor::batch_norm`] again, in `sum` when nobody else holds it.
    pub fn add_batch_norm_again(
        &self,
        x: &Tensor<B>,
        statistics: &Statistics<B>,
        affine: &Affine<'_, B>,
        sum: Tensor<B>,
    ) -> Result<Tensor<B>> {
        let y = self.own(sum, "batch norm again")?;
        let inputs = [x, &statistics.mean, &statistics.inverse, affine.weight, affine.bias];
        self.launch(Kernel::BatchNormAgain { adds: true }, &inputs, &[&y])?;
        Ok(y)
    }

    /// Gradient of [`Executor::batch_norm`] by its input, in place when nobody else holds `dy`, and by weight
    /// and bias where `into` has their buffers.
    pub fn batch_norm_grad(
        &self,
        x: &Tensor<B>,
        statistics: &Statistics<B>,
        weight: &Tensor<B>,
        dy: Tensor<B>,
        into: &[GradInto<'_, B>],
    ) -> Result<Tensor<B>> {
        let others = [&statistics.mean, &statistics.inverse, weight];
        self.norm_grad("batch norm gradient", x, &others, dy, into, |extents, accumulate| Kernel::BatchNormGrad {
            extents,
            accumulate,
        })
    }

    /// Normalises the rows of `x [..., columns]`, each by its own mean and variance.
    pub fn layer_norm(
        &self,
        x: &Tensor<B>,
        affine: &Affine<'_, B>,
        epsilon: f64,
    ) -> Result<(Tensor<B>, Statistics<B>)> {
        let extents = Rows { rows: x.shape().rows(), columns: x.shape().last() };
        let y = self.activation(x.shape(), x.dtype(), "layer norm")?;
        let statistics = self.statistics(extents.rows, x.dtype())?;
        let outputs = [&y, &statistics.mean, &statistics.inverse];
        self.launch(Kernel::LayerNorm { extents, epsilon }, &[x, affine.weight, affine.bias], &outputs)?;
        Ok((y, statistics))
    }

    /// Gradient of [`Executor::layer_norm`] by its input, in place when nobody else holds `dy`, and by weight
    /// and bias where `into` has their buffers.
    pub fn layer_norm_grad(
        &self,
        x: &Tensor<B>,
        statistics: &Statistics<B>,
        weight: &Tensor<B>,
        dy: Tensor<B>,
        into: &[GradInto<'_, B>],
    ) -> Result<Tensor<B>> {
        let others = [&statistics.mean, &statistics.inverse, weight];
        self.norm_grad("layer norm gradient", x, &others, dy, into, |extents, accumulate| Kernel::LayerNormGrad {
            extents,
            accumulate,
        })
    }

    /// Divides the rows of `x [..., columns]` by their root mean square; gives the inverse of it too.
    pub fn rms_norm(&self, x: &Tensor<B>, weight: &Tensor<B>, epsilon: f64) -> Result<(Tensor<B>, Tensor<B>)> {
        let extents = Rows { rows: x.shape().rows(), columns: x.shape().last() };
        let y = self.activation(x.shape(), x.dtype(), "rms norm")?;
        let label = "inverse root mean square";
        let inverse = self.allocate([extents.rows], statistics_type(x.dtype()), Category::Activations, label)?;
        self.launch(Kernel::RmsNorm { extents, epsilon }, &[x, weight], &[&y, &inverse])?;
        Ok((y, inverse))
    }

    /// Gradient of [`Executor::rms_norm`] by its input, in place when nobody else holds `dy`, and by its weight where
    /// `into` has its buffer.
    pub fn rms_norm_grad(
        &self,
        x: &Tensor<B>,
        inverse: &Tensor<B>,
        weight: &Tensor<B>,
        dy: Tensor<B>,
        into: &[GradInto<'_, B>],
    ) -> Result<Tensor<B>> {
        let others = [inverse, weight];
        self.norm_grad("rms norm gradient", x, &others, dy, into, |extents, accumulate| Kernel::RmsNormGrad {
            extents,
            accumulate,
        })
    }

    /// Normalises by running estimates, in place when nobody else holds `x`.
    pub fn batch_norm_fixed(
        &self,
        x: Tensor<B>,
        affine: &Affine<'_, B>,
        epsilon: f64,
        running: &Running<'_, B>,
    ) -> Result<Tensor<B>> {
        let y = self.own(x, "batch norm by running estimates")?;
        let inputs = [running.mean, running.variance, affine.weight, affine.bias];
        self.launch(Kernel::BatchNormFixed { epsilon }, &inputs, &[&y])?;
        Ok(y)
    }
}
