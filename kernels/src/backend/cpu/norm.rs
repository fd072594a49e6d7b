//! Normalisations: by the statistics of a batch and by those of each row.

pub(super) mod batch;
pub(super) mod row;

use std::cell::RefMut;

use super::{by_type::by_sum, elementwise, float::Float, operands::Operands};
use crate::{backend::ops::Norm, error::Result};

/// Runs a kernel of this family.
pub(super) fn launch(kernel: &Norm, o: &Operands<'_>) -> Result<()> {
    let (data, weight) = match kernel {
        Norm::Batch { .. } | Norm::Layer { .. } | Norm::Rms { .. } => (o.input_type(0), o.input_type(1)),
        Norm::BatchGrad { .. } | Norm::LayerGrad { .. } => (o.input_type(0), o.input_type(3)),
        Norm::RmsGrad { .. } => (o.input_type(0), o.input_type(2)),
        Norm::BatchApply { .. } => (o.output_type(0), o.input_type(o.inputs() - 1)),
        Norm::BatchFixed { .. } => (o.output_type(0), o.input_type(2)),
    };
    by_sum!(data, weight, T, W => typed::<T, W>(kernel, o), else o.unsupported())
}

/// The buffer of a parameter's gradient; none if the parameter is frozen.
fn gradient<'a, W: Float>(o: &Operands<'a>, i: usize) -> Result<Option<RefMut<'a, [W]>>> {
    (i < o.outputs()).then(|| o.output::<W>(i)).transpose()
}

/// Adds an input that may be missing.
fn add_given<T: Float>(o: &Operands<'_>, i: usize, y: &mut [T]) -> Result<()> {
    if i < o.inputs() {
        elementwise::add(&o.input::<T>(i)?, y);
    }
    Ok(())
}

fn typed<T: Float, W: Float<Acc = T::Acc>>(kernel: &Norm, o: &Operands<'_>) -> Result<()> {
    match *kernel {
        Norm::Batch { extents, epsilon, momentum } => {
            let running = |i: usize| (i < o.outputs()).then(|| o.output::<T::Acc>(i)).transpose();
            let (mut mean, mut variance) = (running(3)?, running(4)?);
            let statistics = [&mut *o.output::<T::Acc>(1)?, &mut *o.output::<T::Acc>(2)?];
            let running = [mean.as_deref_mut().unwrap_or_default(), variance.as_deref_mut().unwrap_or_default()];
            let norm = batch::Norm { extents, epsilon, momentum };
            let parameters = [&*o.input::<W>(1)?, &*o.input::<W>(2)?];
            norm.forward::<T, W>(&o.input(0)?, parameters, &mut o.output(0)?, statistics, running);
        }
        Norm::BatchApply { adds } => {
            // Without an input, the output is normalised in place.
            let from = o.inputs() - 4;
            let x = (from > 0).then(|| o.input::<T>(0)).transpose()?;
            let statistics = [&*o.input::<T::Acc>(from)?, &*o.input::<T::Acc>(from + 1)?];
            let parameters = [&*o.input::<W>(from + 2)?, &*o.input::<W>(from + 3)?];
            batch::apply::<T, W>(x.as_deref(), adds, statistics, parameters, &mut o.output(0)?);
        }
        Norm::BatchFixed { epsilon } => {
            let estimates = [&*o.input::<T::Acc>(0)?, &*o.input::<T::Acc>(1)?];
            let parameters = [&*o.input::<W>(2)?, &*o.input::<W>(3)?];
            batch::fixed::<T, W>(epsilon, estimates, parameters, &mut o.output(0)?);
        }
        Norm::BatchGrad { extents, accumulate } | Norm::LayerGrad { extents, accumulate } => {
            let statistics = [&*o.input::<T::Acc>(1)?, &*o.input::<T::Acc>(2)?];
            let (mut dweight, mut dbias) = (gradient::<W>(o, 1)?, gradient::<W>(o, 2)?);
            let gradients = [dweight.as_deref_mut().unwrap_or_default(), dbias.as_deref_mut().unwrap_or_default()];
            let (x, weight, mut dy) = (o.input::<T>(0)?, o.input::<W>(3)?, o.output::<T>(0)?);
            if matches!(kernel, Norm::BatchGrad { .. }) {
                batch::gradient::<T, W>(&extents, accumulate, &x, statistics, &weight, &mut dy, gradients);
            } else {
                row::gradient::<T, W>(&extents, accumulate, &x, statistics, &weight, &mut dy, gradients);
                add_given::<T>(o, 4, &mut dy)?;
            }
        }
        Norm::Layer { epsilon, .. } => {
            let statistics = [&mut *o.output::<T::Acc>(1)?, &mut *o.output::<T::Acc>(2)?];
            let parameters = [&*o.input::<W>(1)?, &*o.input::<W>(2)?];
            row::forward::<T, W>(epsilon, &o.input(0)?, parameters, &mut o.output(0)?, statistics);
        }
        Norm::Rms { epsilon, .. } => {
            let (weight, mut inverse) = (o.input::<W>(1)?, o.output::<T::Acc>(1)?);
            let statistics: [&mut [T::Acc]; 2] = [&mut [], &mut inverse];
            row::forward::<T, W>(epsilon, &o.input(0)?, [&weight, &[]], &mut o.output(0)?, statistics);
        }
        Norm::RmsGrad { extents, accumulate } => {
            let (inverse, mut dweight) = (o.input::<T::Acc>(1)?, gradient::<W>(o, 1)?);
            let gradients: [&mut [W]; 2] = [dweight.as_deref_mut().unwrap_or_default(), &mut []];
            let (x, weight, mut dy) = (o.input::<T>(0)?, o.input::<W>(2)?, o.output::<T>(0)?);
            row::gradient::<T, W>(&extents, accumulate, &x, [&[], &inverse], &weight, &mut dy, gradients);
            add_given::<T>(o, 3, &mut dy)?;
        }
    }
    Ok(())
}
