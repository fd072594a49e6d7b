//! Dropout.

use super::{
    Operands, Source, Types, args,
    threads::{is_wide, runs},
};
use crate::{backend::ops::Dropout, error::Result};

/// The kernel.
pub(super) const SOURCE: Source = Source {
    name: "dropout",
    text: concat!(include_str!("vectors.cuh"), "#line 1 \"dropout.cu\"\n", include_str!("dropout.cu")),
    types: Types::Element,
};

/// Launches the kernel.
pub(super) fn launch(kernel: &Dropout, o: &Operands<'_>) -> Result<()> {
    let Dropout { probability, key } = *kernel;
    let (y, n, dtype) = (o.output(0), o.output_elements(0), o.output_type(0));
    let wide = is_wide(&[(y, dtype)], &[]);
    // The probability as a bound of 64 random bits.
    let bound = (probability * 2f64.powi(64)) as u64;
    let args = args![y, n, bound, 1.0 / (1.0 - probability), key, wide];
    o.launch_for(&SOURCE, dtype, c"dropout", runs(n, wide), args)
}
