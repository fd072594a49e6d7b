//! Dropout.

use super::{activation, by_type::by_float, operands::Operands};
use crate::{backend::ops::Dropout, error::Result};

/// Runs it.
pub(super) fn launch(kernel: &Dropout, o: &Operands<'_>) -> Result<()> {
    by_float!(o.output_type(0), T => {
        activation::dropout::<T>(kernel.probability, kernel.key, &mut o.output(0)?);
        Ok(())
    }, else o.unsupported())
}
