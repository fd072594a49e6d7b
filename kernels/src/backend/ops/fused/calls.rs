//! The executor's calls of chains.

use super::{Function, Fused, Over, Rectifier, RowNorm};
use crate::{
    backend::{
        Backend, Executor, Tensor,
        ops::{Affine, Dropout, GradInto, Rows, Running, Statistics},
    },
    error::Result,
    memory::Category,
};

/// What is added up, next to the product that a sum is written over.
#[derive(Debug)]
pub struct Summands<'a, B: Backend> {
    /// Added to each row of the product.
    pub bias: Option<&'a Tensor<B>>,
    /// What is dropped of the product, with its bias.
    pub dropout: Option<Dropout>,
    /// Added to that.
    pub other: &'a Tensor<B>,
}

/// A norm of rows, with what is learned of it.
#[derive(Debug)]
pub struct RowScale<'a, B: Backend> {
    /// Which it is.
    pub norm: RowNorm,
    /// The factor.
    pub weight: &'a Tensor<B>,
    /// The summand; none of an RMS norm.
    pub offset: Option<&'a Tensor<B>>,
}

/// What a norm of rows gives.
#[derive(Debug)]
pub struct NormedRows<B: Backend> {
    /// The normalised rows.
    pub y: Tensor<B>,
    /// The mean of each row; none of an RMS norm.
    pub mean: Option<Tensor<B>>,
    /// What each row was multiplied by.
    pub inverse: Tensor<B>,
}

impl<B: Backend> Clone for NormedRows<B> {
    fn clone(&self) -> Self {
        Self { y: self.y.clone(), mean: self.mean.clone(), inverse: self.inverse.clone() }
    }
}

impl<B: Backend> Executor<B> {
    /// A function of `x` plus `bias`; of a rectifier in place when nothing else holds `x`.
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn bias_then(&self, function: Function, x: Tensor<B>, bias: &Tensor<B>) -> Result<Tensor<B>> {
        let kernel = Fused::Bias(function);
        self.expect("bias", bias.elements() == x.shape().last(), || format!("{bias:?} to {x:?}"))?;
        match function {
            Function::Rectifier(_) => {
                let y = self.own(x, "bias")?;
                self.launch(kernel, &[bias], &[&y])?;
                Ok(y)
            }
            Function::Smooth(_) => {
                let y = self.output(x.shape(), x.dtype(), "bias")?;
                self.launch(kernel, &[&x, bias], &[&y])?;
                Ok(y)
            }
        }
    }

    /// Gradient of [`Executor::bias_then`], in place when nothing else holds `dy`, and of the bias where `into` has its
    /// buffer. `saved`: the output of a rectifier, or the input of a smooth function.
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn bias_then_grad(
        &self,
        function: Function,
        saved: &Tensor<B>,
        bias: &Tensor<B>,
        dy: Tensor<B>,
        into: Option<&GradInto<'_, B>>,
    ) -> Result<Tensor<B>> {
        let parts = into.map(GradInto::parts);
        let inputs: &[&Tensor<B>] = match (function, parts) {
            (Function::Rectifier(Rectifier::Relu), None) => return self.relu_grad(saved, dy),
            (Function::Rectifier(Rectifier::Relu6), None) => return self.relu6_grad(saved, dy),
            (Function::Rectifier(_), Some(_)) => &[saved],
            (Function::Smooth(_), _) => &[saved, bias],
        };
        let dx = self.own(dy, "bias gradient")?;
        let kernel = Fused::BiasGrad { function, accumulate: parts.is_some_and(|(_, accumulate)| accumulate) };
        let outputs: Vec<&Tensor<B>> = [&dx].into_iter().chain(parts.map(|(db, _)| db)).collect();
        self.launch(kernel, inputs, &outputs)?;
        Ok(dx)
    }

    /// The sum of `y` with its bias and what is added to it, in `y` when nothing else holds it, and its norm.
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn sum_normed(
        &self,
        y: Tensor<B>,
        of: &Summands<'_, B>,
        scale: Option<&RowScale<'_, B>>,
    ) -> Result<(Tensor<B>, Option<NormedRows<B>>)> {
        let (y, extents) = (self.own(y, "add")?, Rows::of(of.other.shape()));
        let norm = scale.map(|scale| scale.norm);
        let kernel = Fused::Sum { extents, biased: of.bias.is_some(), dropout: of.dropout, norm };
        let vectors = scale.into_iter().flat_map(|scale| [Some(scale.weight), scale.offset]);
        let inputs: Vec<&Tensor<B>> = [Some(of.other), of.bias].into_iter().chain(vectors).flatten().collect();
        let normed = scale.map(|scale| self.normed_rows(&y, extents, scale.norm)).transpose()?;
        let rows = normed.iter().flat_map(|rows| [Some(&rows.y), rows.mean.as_ref(), Some(&rows.inverse)]);
        let outputs: Vec<&Tensor<B>> = [&y].into_iter().chain(rows.flatten()).collect();
        self.launch(kernel, &inputs, &outputs)?;
        Ok((y, normed))
    }

    /// Room for the norm of `x`.
    fn normed_rows(&self, x: &Tensor<B>, extents: Rows, norm: RowNorm) -> Result<NormedRows<B>> {
        let y = self.output(x.shape(), x.dtype(), "add")?;
        let make = |label| self.allocate([extents.rows], x.dtype().accumulator(), Category::Activations, label);
        let (mean, label) = match norm {
            RowNorm::Layer(_) => (Some(make("mean")?), "inverse deviation"),
            RowNorm::Rms(_) => (None, "inverse root mean square"),
        };
        Ok(NormedRows { y, mean, inverse: make(label)? })
    }

    /// [`Executor::batch_norm`], with `other` added and a rectifier at the `end`. `moves`: epsilon, momentum.
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn batch_norm_then(
        &self,
        x: &Tensor<B>,
        affine: &Affine<'_, B>,
        [epsilon, momentum]: [f64; 2],
        running: Option<&Running<'_, B>>,
        (other, end): (Option<&Tensor<B>>, Option<Rectifier>),
    ) -> Result<(Tensor<B>, Statistics<B>)> {
        let extents = Rows::of(x.shape());
        let y = self.output(x.shape(), x.dtype(), "batch norm")?;
        let statistics = self.statistics(extents.columns, x.dtype())?;
        let outputs: Vec<&Tensor<B>> = [&y, &statistics.mean, &statistics.inverse]
            .into_iter()
            .chain(running.into_iter().flat_map(|running| [running.mean, running.variance]))
            .collect();
        let inputs: Vec<&Tensor<B>> = [x, affine.weight, affine.bias].into_iter().chain(other).collect();
        self.launch(Fused::BatchNorm { extents, epsilon, momentum, sums: other.is_some(), end }, &inputs, &outputs)?;
        Ok((y, statistics))
    }

    /// Recomputes the output of [`Executor::batch_norm_then`] from its input and statistics, to the last bit; in `x` or `other`
    /// when nothing else holds it.
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn batch_norm_then_again(
        &self,
        x: Tensor<B>,
        statistics: &Statistics<B>,
        affine: &Affine<'_, B>,
        (other, end): (Option<Tensor<B>>, Option<Rectifier>),
    ) -> Result<Tensor<B>> {
        let sums = other.is_some();
        let (y, over, x, other) = match (x, other) {
            (x, other) if self.may_overwrite(&x) => (x, Over::X, None, other),
            (x, Some(other)) if self.may_overwrite(&other) => (other, Over::Other, Some(x), None),
            (x, other) => (self.output(x.shape(), x.dtype(), "batch norm apply")?, Over::Nothing, Some(x), other),
        };
        let vectors = [&statistics.mean, &statistics.inverse, affine.weight, affine.bias];
        let inputs: Vec<&Tensor<B>> = x.iter().chain(vectors).chain(&other).collect();
        self.launch(Fused::BatchApply { sums, end, over }, &inputs, &[&y])?;
        Ok(y)
    }

    /// Gradient of [`Executor::batch_norm_then`] without a sum: by its input in place when nothing else holds `dy`, and by
    /// weight and bias where `into` has their buffers.
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn batch_norm_then_grad(
        &self,
        x: &Tensor<B>,
        statistics: &Statistics<B>,
        affine: &Affine<'_, B>,
        dy: Tensor<B>,
        (end, into): (Option<Rectifier>, &[GradInto<'_, B>]),
    ) -> Result<Tensor<B>> {
        let accumulate = into.first().is_some_and(|into| into.parts().1);
        // Read from where it lies, if something else still needs it.
        let (dx, from) = match self.may_overwrite(&dy) {
            true => (dy, None),
            false => (self.output(dy.shape(), dy.dtype(), "batch norm gradient")?, Some(dy)),
        };
        let outputs: Vec<&Tensor<B>> = [&dx].into_iter().chain(into.iter().map(|into| into.parts().0)).collect();
        let inputs = [x, &statistics.mean, &statistics.inverse, affine.weight, affine.bias];
        let inputs: Vec<&Tensor<B>> = inputs.into_iter().chain(&from).collect();
        self.launch(Fused::BatchGrad { extents: Rows::of(x.shape()), accumulate, end }, &inputs, &outputs)?;
        Ok(dx)
    }
}
