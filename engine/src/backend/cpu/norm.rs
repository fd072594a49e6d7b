//! Normalisations: by the statistics of a batch and by those of each row.

pub(in crate::backend) mod batch;
mod row;

use std::cell::RefMut;

use half::{bf16, f16};

use super::{dispatch::by_sum, float::Float, operands::Operands};
use crate::{
    backend::{DType, Kernel},
    error::Result,
};

/// Runs one of them.
pub(super) fn launch(kernel: &Kernel, o: &Operands<'_>) -> Result<()> {
    match kernel {
        Kernel::BatchNorm { .. }
        | Kernel::BatchNormAgain { .. }
        | Kernel::BatchNormGrad { .. }
        | Kernel::BatchNormFixed { .. } => batch_norms(kernel, o),
        _ => row_norms(kernel, o),
    }
}

/// The buffer of a parameter's gradient; none where the parameter is frozen.
fn gradient<'a, W: Float>(o: &Operands<'a>, i: usize) -> Result<Option<RefMut<'a, [W]>>> {
    (i < o.outputs()).then(|| o.output::<W>(i)).transpose()
}

fn batch_norms(kernel: &Kernel, o: &Operands<'_>) -> Result<()> {
    let (data, weight) = match kernel {
        Kernel::BatchNorm { .. } => (o.input_type(0), o.input_type(1)),
        Kernel::BatchNormAgain { .. } => (o.output_type(0), o.input_type(o.inputs() - 1)),
        Kernel::BatchNormGrad { .. } => (o.input_type(0), o.input_type(3)),
        _ => (o.output_type(0), o.input_type(2)),
    };
    by_sum!(data, weight, T, W => {
        type A = <T as Float>::Acc;
        match *kernel {
            Kernel::BatchNorm { extents, epsilon, momentum } => {
                let running = |i: usize| (i < o.outputs()).then(|| o.output::<A>(i)).transpose();
                let (mut mean, mut variance) = (running(3)?, running(4)?);
                let statistics = [&mut *o.output::<A>(1)?, &mut *o.output::<A>(2)?];
                let running = [mean.as_deref_mut().unwrap_or_default(), variance.as_deref_mut().unwrap_or_default()];
                let norm = batch::Norm { extents, epsilon, momentum };
                let parameters = [&*o.input::<W>(1)?, &*o.input::<W>(2)?];
                norm.forward::<T, W>(&o.input(0)?, parameters, &mut o.output(0)?, statistics, running);
            }
            Kernel::BatchNormGrad { extents, accumulate } => {
                let statistics = [&*o.input::<A>(1)?, &*o.input::<A>(2)?];
                let (mut dweight, mut dbias) = (gradient::<W>(o, 1)?, gradient::<W>(o, 2)?);
                let gradients = [dweight.as_deref_mut().unwrap_or_default(), dbias.as_deref_mut().unwrap_or_default()];
                let (x, weight) = (o.input::<T>(0)?, o.input::<W>(3)?);
                batch::gradient::<T, W>(&extents, accumulate, &x, statistics, &weight, &mut o.output(0)?, gradients);
            }
            Kernel::BatchNormAgain { adds } => {
                // Without an input, the output is normalised where it stands.
                let from = o.inputs() - 4;
                let x = (from > 0).then(|| o.input::<T>(0)).transpose()?;
                let statistics = [&*o.input::<A>(from)?, &*o.input::<A>(from + 1)?];
                let parameters = [&*o.input::<W>(from + 2)?, &*o.input::<W>(from + 3)?];
                batch::again::<T, W>(x.as_deref(), adds, statistics, parameters, &mut o.output(0)?);
            }
            Kernel::BatchNormFixed { epsilon } => {
                let estimates = [&*o.input::<A>(0)?, &*o.input::<A>(1)?];
                let parameters = [&*o.input::<W>(2)?, &*o.input::<W>(3)?];
                batch::fixed::<T, W>(epsilon, estimates, parameters, &mut o.output(0)?);
            }
            _ => return o.unsupported(),
        }
        Ok(())
    }, else o.unsupported())
}

fn row_norms(kernel: &Kernel, o: &Operands<'_>) -> Result<()> {
    let weight = match kernel {
        Kernel::LayerNorm { .. } | Kernel::RmsNorm { .. } => 1,
        Kernel::RmsNormGrad { .. } => 2,
        _ => 3,
    };
    by_sum!(o.input_type(0), o.input_type(weight), T, W => {
        type A = <T as Float>::Acc;
        let (x, weight) = (o.input::<T>(0)?, o.input::<W>(weight)?);
        let mut y = o.output::<T>(0)?;
        match *kernel {
            Kernel::LayerNorm { epsilon, .. } => {
                let statistics = [&mut *o.output::<A>(1)?, &mut *o.output::<A>(2)?];
                row::forward::<T, W>(epsilon, &x, [&weight, &o.input::<W>(2)?], &mut y, statistics);
            }
            Kernel::RmsNorm { epsilon, .. } => {
                row::forward::<T, W>(epsilon, &x, [&weight, &[]], &mut y, [&mut [], &mut o.output::<A>(1)?]);
            }
            Kernel::LayerNormGrad { extents, accumulate } => {
                let statistics = [&*o.input::<A>(1)?, &*o.input::<A>(2)?];
                let (mut dweight, mut dbias) = (gradient::<W>(o, 1)?, gradient::<W>(o, 2)?);
                let gradients = [dweight.as_deref_mut().unwrap_or_default(), dbias.as_deref_mut().unwrap_or_default()];
                row::gradient::<T, W>(&extents, accumulate, &x, statistics, &weight, &mut y, gradients);
            }
            Kernel::RmsNormGrad { extents, accumulate } => {
                let (inverse, mut dweight) = (o.input::<A>(1)?, gradient::<W>(o, 1)?);
                let gradients: [&mut [W]; 2] = [dweight.as_deref_mut().unwrap_or_default(), &mut []];
                row::gradient::<T, W>(&extents, accumulate, &x, [&[], &inverse], &weight, &mut y, gradients);
            }
            _ => return o.unsupported(),
        }
        Ok(())
    }, else o.unsupported())
}
