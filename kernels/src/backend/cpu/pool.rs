//! Pooling of windows and of whole images, and the gradients.

mod average;
mod max;

use super::{by_type::by_float, operands::Operands};
use crate::{backend::ops::Pool, error::Result};

/// Runs a kernel of this family.
pub(super) fn launch(kernel: &Pool, o: &Operands<'_>) -> Result<()> {
    by_float!(o.input_type(0), T => {
        match kernel {
            Pool::Max(w) if o.outputs() == 2 => {
                max::forward::<T>(w, &o.input(0)?, &mut o.output(0)?, Some(&mut o.bytes(1)?));
            }
            Pool::Max(w) => max::forward::<T>(w, &o.input(0)?, &mut o.output(0)?, None),
            Pool::MaxGrad(w) => {
                max::gradient::<T>(w, &o.input(0)?, &o.input_bytes(1)?, &mut o.output(0)?);
            }
            Pool::Average(w) => average::forward::<T>(w, &o.input::<T>(0)?, &mut o.output(0)?),
            Pool::AverageGrad(w) => average::gradient::<T>(w, &o.input::<T>(0)?, &mut o.output(0)?),
            Pool::Global { pixels, channels } => average::global::<T>(*pixels, *channels, &o.input::<T>(0)?, &mut o.output(0)?),
            Pool::GlobalGrad { pixels, channels } => {
                average::global_gradient::<T>(*pixels, *channels, &o.input::<T>(0)?, &mut o.output(0)?)
            }
        }
        Ok(())
    }, else o.unsupported())
}
