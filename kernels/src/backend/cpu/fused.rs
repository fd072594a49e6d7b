//! Chains of ops in one pass over memory.
//!
//! Always holds: every element is rounded where the ops apart would store it, and every sum has their order.

mod bias;
mod channels;
mod sum;

use std::cell::RefMut;

use channels::Added;

use super::{by_type::by_sum, float::Float, norm::batch, operands::Operands};
use crate::{
    backend::ops::{Function, Fused, Over, Rectifier},
    error::Result,
};

/// Runs a kernel of this family.
pub(super) fn launch(kernel: &Fused, o: &Operands<'_>) -> Result<()> {
    let data = o.output_type(0);
    let other = match *kernel {
        Fused::Bias(_) => data,
        Fused::BiasGrad { .. } => {
            if o.outputs() > 1 {
                o.output_type(1)
            } else {
                data
            }
        }
        Fused::Sum { biased, norm, .. } => {
            if norm.is_some() {
                o.input_type(1 + usize::from(biased))
            } else {
                data
            }
        }
        Fused::BatchNorm { .. } => o.input_type(1),
        Fused::BatchApply { over, .. } => o.input_type(if over == Over::X { 2 } else { 3 }),
        Fused::BatchGrad { .. } => o.input_type(3),
    };
    by_sum!(data, other, T, W => typed::<T, W>(kernel, o), else o.unsupported())
}

/// An output that may be missing.
fn given<'a, W: Float>(o: &Operands<'a>, i: usize) -> Result<Option<RefMut<'a, [W]>>> {
    (i < o.outputs()).then(|| o.output::<W>(i)).transpose()
}

fn apply_batch_norm<T: Float, W: Float<Acc = T::Acc>>(
    o: &Operands<'_>,
    sums: bool,
    end: Option<Rectifier>,
    over: Over,
) -> Result<()> {
    let first = usize::from(over != Over::X);
    let x = (first > 0).then(|| o.input::<T>(0)).transpose()?;
    let other = (o.inputs() > first + 4).then(|| o.input::<T>(first + 4)).transpose()?;
    let added = match other.as_deref() {
        Some(other) => Added::Other(other),
        None if sums => Added::Standing,
        None => Added::Nothing,
    };
    let statistics = [&*o.input::<T::Acc>(first)?, &*o.input::<T::Acc>(first + 1)?];
    let parameters = [&*o.input::<W>(first + 2)?, &*o.input::<W>(first + 3)?];
    channels::apply(x.as_deref(), added, end, statistics, parameters, &mut o.output(0)?);
    Ok(())
}

fn typed<T: Float, W: Float<Acc = T::Acc>>(kernel: &Fused, o: &Operands<'_>) -> Result<()> {
    match *kernel {
        Fused::Bias(Function::Rectifier(rectifier)) => bias::rectified::<T>(rectifier, &o.input(0)?, &mut o.output(0)?),
        Fused::Bias(Function::Smooth(function)) => {
            bias::smooth::<T>(function, &o.input(0)?, &o.input(1)?, &mut o.output(0)?);
        }
        Fused::BiasGrad { function: Function::Rectifier(rectifier), accumulate } => {
            let (y, mut db) = (o.input::<T>(0)?, o.output::<W>(1)?);
            let (y, columns) = (&*y, db.len());
            let mask = |strip: bias::Strip<'_, T>| bias::mask(rectifier, y, strip);
            bias::gradient(accumulate, columns, &mut o.output(0)?, &mut db, mask);
        }
        Fused::BiasGrad { function: Function::Smooth(function), accumulate } => {
            let (x, added, mut db) = (o.input::<T>(0)?, o.input::<T>(1)?, given::<W>(o, 1)?);
            let (x, added) = (&*x, &*added);
            let slope = |strip: bias::Strip<'_, T>| bias::slope(function, x, added, strip);
            let db = db.as_deref_mut().unwrap_or_default();
            bias::gradient(accumulate, added.len(), &mut o.output(0)?, db, slope);
        }
        Fused::Sum { extents, biased, dropout, norm } => sum::launch::<T, W>(o, extents, biased, dropout, norm)?,
        Fused::BatchNorm { extents, epsilon, momentum, end, .. } => {
            let (mut moving_mean, mut moving_variance) = (given::<T::Acc>(o, 3)?, given::<T::Acc>(o, 4)?);
            let running =
                [moving_mean.as_deref_mut().unwrap_or_default(), moving_variance.as_deref_mut().unwrap_or_default()];
            let (x, mut mean, mut inverse) = (o.input::<T>(0)?, o.output::<T::Acc>(1)?, o.output::<T::Acc>(2)?);
            batch::Norm { extents, epsilon, momentum }.measure::<T>(&x, [&mut mean, &mut inverse], running);
            let other = (o.inputs() > 3).then(|| o.input::<T>(3)).transpose()?;
            let added = other.as_deref().map_or(Added::Nothing, Added::Other);
            let parameters = [&*o.input::<W>(1)?, &*o.input::<W>(2)?];
            channels::apply(Some(&x), added, end, [&mean, &inverse], parameters, &mut o.output(0)?);
        }
        Fused::BatchApply { sums, end, over } => apply_batch_norm::<T, W>(o, sums, end, over)?,
        Fused::BatchGrad { extents, accumulate, end } => {
            let statistics = [&*o.input::<T::Acc>(1)?, &*o.input::<T::Acc>(2)?];
            let parameters = [&*o.input::<W>(3)?, &*o.input::<W>(4)?];
            let (mut dweight, mut dbias) = (given::<W>(o, 1)?, given::<W>(o, 2)?);
            let gradients = [dweight.as_deref_mut().unwrap_or_default(), dbias.as_deref_mut().unwrap_or_default()];
            let of = channels::Masked { extents, accumulate, x: &o.input::<T>(0)?, statistics, parameters };
            let (from, mut dx) = ((o.inputs() > 5).then(|| o.input::<T>(5)).transpose()?, o.output::<T>(0)?);
            match end {
                None => of.gradient(from.as_deref(), &mut dx, gradients, |_, dy| dy),
                Some(Rectifier::Relu) => of.gradient(from.as_deref(), &mut dx, gradients, bias::passes_relu),
                Some(Rectifier::Relu6) => of.gradient(from.as_deref(), &mut dx, gradients, bias::passes_relu6),
            }
        }
    }
    Ok(())
}
