//! Pooling of windows and of whole images, and the gradients.

mod average;
mod max;

use half::{bf16, f16};

use super::{dispatch::by_float, operands::Operands};
use crate::{
    backend::{DType, Kernel},
    error::Result,
};

/// Runs one of them.
pub(super) fn launch(kernel: &Kernel, o: &Operands<'_>) -> Result<()> {
    by_float!(o.input_type(0), T => {
        match kernel {
            Kernel::MaxPool(w) if o.outputs() == 2 => {
                max::forward::<T>(w, &o.input(0)?, &mut o.output(0)?, Some(&mut o.bytes(1)?));
            }
            Kernel::MaxPool(w) => max::forward::<T>(w, &o.input(0)?, &mut o.output(0)?, None),
            Kernel::MaxPoolGrad(w) => {
                max::gradient::<T>(w, &o.input(0)?, &o.input_bytes(1)?, &mut o.output(0)?);
            }
            Kernel::AvgPool(w) => average::forward::<T>(w, &o.input::<T>(0)?, &mut o.output(0)?),
            Kernel::AvgPoolGrad(w) => average::gradient::<T>(w, &o.input::<T>(0)?, &mut o.output(0)?),
            Kernel::GlobalPool { pixels, channels } => average::global::<T>(*pixels, *channels, &o.input::<T>(0)?, &mut o.output(0)?),
            Kernel::GlobalPoolGrad { pixels, channels } => {
                average::global_gradient::<T>(*pixels, *channels, &o.input::<T>(0)?, &mut o.output(0)?)
            }
            _ => return o.unsupported(),
        }
        Ok(())
    }, else o.unsupported())
}
