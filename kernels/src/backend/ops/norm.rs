//! Normalisations: of a batch's channels, and of each row.

mod vectors;

pub use self::vectors::{Affine, Running, Statistics};
use super::{Contract, GradInto, OperandBytes, Rows};
use crate::{
    backend::{
        Backend, DType, Executor, Tensor,
        scratch::{on_cpu, split_reduction},
    },
    device::Processor,
    error::Result,
    memory::Category,
};

/// Kernels of normalisations. Statistics are f32, or f64 for f64.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Norm {
    /// in: `x [rows, channels]`, `weight [channels]`, `bias [channels]` (type of `x` or f32); out: `y`, `mean [channels]`,
    /// `inverse [channels]`, and, when given, `running_mean`, `running_variance`, updated.
    /// `y = (x - mean) * inverse * weight + bias` with `inverse = 1 / sqrt(variance + epsilon)` (Ioffe & Szegedy 2015): of
    /// the biased variance, while the running estimate moves by `momentum` towards the unbiased one.
    Batch {
        /// Rows, and channels as columns.
        extents: Rows,
        /// Added to the variance.
        epsilon: f64,
        /// How far the running estimates move towards the batch's.
        momentum: f64,
    },
    /// in: `x`, `mean`, `inverse`, `weight`, `bias`, as of [`Norm::Batch`]; out: `y`, to the last bit as it was, added
    /// to what stands there when `adds`. Without `x`, out: `y`, updated: the `x` that stands there becomes `y`.
    BatchApply {
        /// Add to `y` rather than overwrite it.
        adds: bool,
    },
    /// in: `x`, `mean`, `inverse`, `weight`, as of [`Norm::Batch`]; out: `dy`, updated: becomes `dx`; when given, `dweight`,
    /// `dbias` (type of `weight`), added to when `accumulate`.
    BatchGrad {
        /// Rows, and channels as columns.
        extents: Rows,
        /// Add to the parameters' gradients rather than overwrite them.
        accumulate: bool,
    },
    /// in: `mean`, `variance`, `weight`, `bias`, all `[channels]`; out: `y [rows, channels]`, updated:
    /// `(y - mean) / sqrt(variance + epsilon) * weight + bias`. Batch normalisation by running estimates.
    BatchFixed {
        /// Added to the variance.
        epsilon: f64,
    },
    /// in: `x [rows, columns]`, `weight [columns]`, `bias [columns]` (type of `x` or f32); out: `y`, `mean [rows]`,
    /// `inverse [rows]`. `y = (x - mean) * inverse * weight + bias` with `inverse = 1 / sqrt(variance + epsilon)`, of the
    /// biased variance (Ba, Kiros & Hinton 2016).
    Layer {
        /// Rows and columns.
        extents: Rows,
        /// Added to the variance.
        epsilon: f64,
    },
    /// in: `x`, `mean`, `inverse`, `weight`, as of [`Norm::Layer`], and, when given, `other [rows, columns]`; out: `dy`,
    /// updated: becomes `dx`, rounded, plus `other`; when given, `dweight`, `dbias` (type of `weight`), added to when
    /// `accumulate`.
    LayerGrad {
        /// Rows and columns.
        extents: Rows,
        /// Add to the parameters' gradients rather than overwrite them.
        accumulate: bool,
    },
    /// in: `x [rows, columns]`, `weight [columns]` (type of `x` or f32); out: `y`, `inverse [rows]`.
    /// `y = x * inverse * weight` with `inverse = 1 / sqrt(mean of squares + epsilon)` (Zhang & Sennrich 2019).
    Rms {
        /// Rows and columns.
        extents: Rows,
        /// Added to the mean of squares.
        epsilon: f64,
    },
    /// in: `x`, `inverse`, `weight`, as of [`Norm::Rms`], and, when given, `other [rows, columns]`; out: `dy`, updated:
    /// becomes `dx`, rounded, plus `other`; when given, `dweight` (type of `weight`), added to when `accumulate`.
    RmsGrad {
        /// Rows and columns.
        extents: Rows,
        /// Add to the weight's gradient rather than overwrite it.
        accumulate: bool,
    },
}

impl Norm {
    /// The matrix whose parts are summed apart, for kernels that sum over rows.
    fn summed_over_rows(&self) -> Option<&Rows> {
        match self {
            Self::Batch { extents, .. }
            | Self::BatchGrad { extents, .. }
            | Self::LayerGrad { extents, .. }
            | Self::RmsGrad { extents, .. } => Some(extents),
            Self::BatchApply { .. } | Self::BatchFixed { .. } | Self::Layer { .. } | Self::Rms { .. } => None,
        }
    }
}

impl Contract for Norm {
    fn name(&self) -> &'static str {
        match self {
            Self::Batch { .. } => "batch norm",
            Self::BatchApply { .. } => "batch norm apply",
            Self::BatchGrad { .. } => "batch norm gradient",
            Self::BatchFixed { .. } => "batch norm by running estimates",
            Self::Layer { .. } => "layer norm",
            Self::LayerGrad { .. } => "layer norm gradient",
            Self::Rms { .. } => "rms norm",
            Self::RmsGrad { .. } => "rms norm gradient",
        }
    }

    fn takes(&self, inputs: &[usize], outputs: &[usize]) -> bool {
        let all = |of: &[usize], n: usize| of.iter().all(|i| *i == n);
        let counts = [inputs.len(), outputs.len()];
        let [x, y] = [inputs, outputs].map(|of| of.first().copied().unwrap_or_default());
        let is_matrix = |e: &Rows| e.elements() > 0 && [x, y] == [e.elements(); 2];
        let by_column = |e: &Rows| all(&inputs[1..], e.columns) && all(&outputs[1..], e.columns);
        match self {
            Self::Batch { extents: e, .. } => matches!(counts, [3, 3 | 5]) && is_matrix(e) && by_column(e),
            Self::BatchGrad { extents: e, .. } => matches!(counts, [4, 1 | 3]) && is_matrix(e) && by_column(e),
            Self::BatchApply { adds } => match (inputs, outputs) {
                ([x @ .., m, i, w, b], [y]) => {
                    let in_place = x.is_empty() && !adds;
                    *m > 0 && all(&[*i, *w, *b], *m) && y.is_multiple_of(*m) && (in_place || x == [*y])
                }
                _ => false,
            },
            Self::BatchFixed { .. } => counts == [4, 1] && x > 0 && all(inputs, x) && y.is_multiple_of(x),
            Self::Layer { extents: e, .. } => {
                counts == [3, 3] && is_matrix(e) && all(&inputs[1..], e.columns) && all(&outputs[1..], e.rows)
            }
            Self::LayerGrad { extents: e, .. } => {
                matches!(counts, [4 | 5, 1 | 3])
                    && is_matrix(e)
                    && all(&inputs[1..3], e.rows)
                    && inputs[3] == e.columns
                    && all(&inputs[4..], e.elements())
                    && all(&outputs[1..], e.columns)
            }
            Self::Rms { extents: e, .. } => {
                counts == [2, 2] && is_matrix(e) && inputs[1] == e.columns && outputs[1] == e.rows
            }
            Self::RmsGrad { extents: e, .. } => {
                matches!(counts, [3 | 4, 1 | 2])
                    && is_matrix(e)
                    && inputs[1] == e.rows
                    && inputs[2] == e.columns
                    && all(&inputs[3..], e.elements())
                    && all(&outputs[1..], e.columns)
            }
        }
    }

    fn flops(&self) -> u64 {
        0
    }

    fn traffic_bytes(&self, operands: &OperandBytes) -> u64 {
        operands.all()
    }

    fn cpu_scratch_bytes(&self, _dtype: DType, _: Processor) -> usize {
        self.summed_over_rows().map_or(0, |extents| on_cpu::row_sums(extents) * size_of::<f64>())
    }

    fn cuda_scratch_bytes(&self, dtype: DType) -> usize {
        match self {
            Self::LayerGrad { extents, .. } | Self::RmsGrad { extents, .. } => {
                split_reduction::row_norm_bytes(extents, dtype)
            }
            Self::Batch { .. }
            | Self::BatchApply { .. }
            | Self::BatchGrad { .. }
            | Self::BatchFixed { .. }
            | Self::Layer { .. }
            | Self::Rms { .. } => {
                self.summed_over_rows().map_or(0, |extents| split_reduction::row_sums(extents) * size_of::<f64>())
            }
        }
    }
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
    pub(super) fn statistics(&self, count: usize, dtype: DType) -> Result<Statistics<B>> {
        let make = |label| self.allocate([count], dtype.accumulator(), Category::Activations, label);
        Ok(Statistics { mean: make("mean")?, inverse: make("inverse deviation")? })
    }

    /// The gradient of a normalisation: by its input in place where nothing else holds `dy`, by its parameters `into`.
    fn norm_grad(
        &self,
        kernel: Norm,
        inputs: &[&Tensor<B>],
        dy: Tensor<B>,
        into: &[GradInto<'_, B>],
    ) -> Result<Tensor<B>> {
        let dx = self.own(dy, kernel.name())?;
        self.launch(kernel, inputs, &outputs(&dx, into))?;
        Ok(dx)
    }

    /// Normalises the channels of `x [..., channels]` by the batch's statistics; `running` estimates, when given, move.
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn batch_norm(
        &self,
        x: &Tensor<B>,
        affine: &Affine<'_, B>,
        epsilon: f64,
        momentum: f64,
        running: Option<&Running<'_, B>>,
    ) -> Result<(Tensor<B>, Statistics<B>)> {
        let extents = Rows::of(x.shape());
        let y = self.output(x.shape(), x.dtype(), "batch norm")?;
        let statistics = self.statistics(extents.columns, x.dtype())?;
        let mut outputs = vec![&y, &statistics.mean, &statistics.inverse];
        outputs.extend(running.iter().flat_map(|r| [r.mean, r.variance]));
        let kernel = Norm::Batch { extents, epsilon, momentum };
        self.launch(kernel, &[x, affine.weight, affine.bias], &outputs)?;
        Ok((y, statistics))
    }

    /// Recomputes the output of [`Executor::batch_norm`] from its input and statistics, to the last bit; in place when
    /// nothing else holds `x`.
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn batch_norm_apply(
        &self,
        x: Tensor<B>,
        statistics: &Statistics<B>,
        affine: &Affine<'_, B>,
    ) -> Result<Tensor<B>> {
        let (kernel, rest) =
            (Norm::BatchApply { adds: false }, [&statistics.mean, &statistics.inverse, affine.weight, affine.bias]);
        if self.may_overwrite(&x) {
            self.launch(kernel, &rest, &[&x])?;
            return Ok(x);
        }
        let y = self.output(x.shape(), x.dtype(), "batch norm apply")?;
        let [mean, inverse, weight, bias] = rest;
        self.launch(kernel, &[&x, mean, inverse, weight, bias], &[&y])?;
        Ok(y)
    }

    /// `sum` plus the output of [`Executor::batch_norm`], recomputed; in `sum` when nothing else holds it.
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn add_batch_norm_apply(
        &self,
        x: &Tensor<B>,
        statistics: &Statistics<B>,
        affine: &Affine<'_, B>,
        sum: Tensor<B>,
    ) -> Result<Tensor<B>> {
        let y = self.own(sum, "batch norm apply")?;
        let inputs = [x, &statistics.mean, &statistics.inverse, affine.weight, affine.bias];
        self.launch(Norm::BatchApply { adds: true }, &inputs, &[&y])?;
        Ok(y)
    }

    /// Gradient of [`Executor::batch_norm`] by its input, in place when nothing else holds `dy`, and by weight
    /// and bias where `into` has their buffers.
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn batch_norm_grad(
        &self,
        x: &Tensor<B>,
        statistics: &Statistics<B>,
        weight: &Tensor<B>,
        dy: Tensor<B>,
        into: &[GradInto<'_, B>],
    ) -> Result<Tensor<B>> {
        let kernel = Norm::BatchGrad { extents: Rows::of(x.shape()), accumulate: accumulates(into) };
        self.norm_grad(kernel, &[x, &statistics.mean, &statistics.inverse, weight], dy, into)
    }

    /// Normalises the rows of `x [..., columns]`, each by its own mean and variance.
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn layer_norm(
        &self,
        x: &Tensor<B>,
        affine: &Affine<'_, B>,
        epsilon: f64,
    ) -> Result<(Tensor<B>, Statistics<B>)> {
        let extents = Rows::of(x.shape());
        let y = self.output(x.shape(), x.dtype(), "layer norm")?;
        let statistics = self.statistics(extents.rows, x.dtype())?;
        let outputs = [&y, &statistics.mean, &statistics.inverse];
        self.launch(Norm::Layer { extents, epsilon }, &[x, affine.weight, affine.bias], &outputs)?;
        Ok((y, statistics))
    }

    /// Gradient of [`Executor::layer_norm`] by its input, in place when nothing else holds `dy`, and by weight
    /// and bias where `into` has their buffers. If another gradient of the input is given next to `dy`, the two are added.
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn layer_norm_grad(
        &self,
        x: &Tensor<B>,
        statistics: &Statistics<B>,
        weight: &Tensor<B>,
        (dy, other): (Tensor<B>, Option<&Tensor<B>>),
        into: &[GradInto<'_, B>],
    ) -> Result<Tensor<B>> {
        let kernel = Norm::LayerGrad { extents: Rows::of(x.shape()), accumulate: accumulates(into) };
        let inputs = [x, &statistics.mean, &statistics.inverse, weight].into_iter().chain(other);
        self.norm_grad(kernel, &inputs.collect::<Vec<_>>(), dy, into)
    }

    /// Divides the rows of `x [..., columns]` by their root mean square. Also returns its inverse.
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn rms_norm(&self, x: &Tensor<B>, weight: &Tensor<B>, epsilon: f64) -> Result<(Tensor<B>, Tensor<B>)> {
        let extents = Rows::of(x.shape());
        let y = self.output(x.shape(), x.dtype(), "rms norm")?;
        let label = "inverse root mean square";
        let inverse = self.allocate([extents.rows], x.dtype().accumulator(), Category::Activations, label)?;
        self.launch(Norm::Rms { extents, epsilon }, &[x, weight], &[&y, &inverse])?;
        Ok((y, inverse))
    }

    /// Gradient of [`Executor::rms_norm`] by its input, in place when nothing else holds `dy`, and by its weight where
    /// `into` has its buffer. If another gradient of the input is given next to `dy`, the two are added.
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn rms_norm_grad(
        &self,
        x: &Tensor<B>,
        inverse: &Tensor<B>,
        weight: &Tensor<B>,
        (dy, other): (Tensor<B>, Option<&Tensor<B>>),
        into: &[GradInto<'_, B>],
    ) -> Result<Tensor<B>> {
        let kernel = Norm::RmsGrad { extents: Rows::of(x.shape()), accumulate: accumulates(into) };
        let inputs = [x, inverse, weight].into_iter().chain(other);
        self.norm_grad(kernel, &inputs.collect::<Vec<_>>(), dy, into)
    }

    /// Normalises by running estimates, in place when nothing else holds `x`.
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn batch_norm_fixed(
        &self,
        x: Tensor<B>,
        affine: &Affine<'_, B>,
        epsilon: f64,
        running: &Running<'_, B>,
    ) -> Result<Tensor<B>> {
        let y = self.own(x, "batch norm by running estimates")?;
        let inputs = [running.mean, running.variance, affine.weight, affine.bias];
        self.launch(Norm::BatchFixed { epsilon }, &inputs, &[&y])?;
        Ok(y)
    }
}
