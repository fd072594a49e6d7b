//! The sum of squares of all elements, the factor that clips gradients, and a tensor brought to a norm of one.

use crate::backend::cuda::{
    DType, Operands, Source, Types, args,
    launch::{Grid, THREADS},
    threads::{is_wide, runs},
};
use crate::{backend::scratch::split_reduction::element_splits, error::Result};

/// The kernels.
pub(in crate::backend::cuda) const SOURCE: Source = Source {
    name: "gradient_norm",
    text: concat!(include_str!("../vectors.cuh"), "#line 1 \"gradient_norm.cu\"\n", include_str!("gradient_norm.cu")),
    types: Types::Element,
};

/// Launches [`Optimizer::SumSquares`](crate::backend::ops::Optimizer::SumSquares).
pub(super) fn sum_squares(o: &Operands<'_>) -> Result<()> {
    if o.output_type(0) != DType::F64 {
        return o.unsupported();
    }
    let (dtype, x, n, sum) = (o.input_type(0), o.input(0), o.input_elements(0), o.output(0));
    let (parts, wide) = (element_splits(n), is_wide(&[(x, dtype)], &[]));
    let args = args![x, n, o.scratch(), sum, wide];
    o.launch_for(&SOURCE, dtype, c"sum_squares", Grid::blocks(parts, THREADS), args)?;
    if parts == 1 {
        return Ok(());
    }
    o.launch_for(&SOURCE, dtype, c"add_parts", Grid::blocks(1, THREADS), args![o.scratch(), parts, sum])
}

/// Launches [`Optimizer::Clip`](crate::backend::ops::Optimizer::Clip).
pub(super) fn clip(limit: f64, o: &Operands<'_>) -> Result<()> {
    if [o.input_type(0), o.output_type(0)] != [DType::F64; 2] {
        return o.unsupported();
    }
    let args = args![o.input(0), o.output(0), limit];
    o.launch_for(&SOURCE, DType::F64, c"clip", Grid::blocks(1, 32), args)
}

/// Launches [`Optimizer::Normalise`](crate::backend::ops::Optimizer::Normalise).
pub(super) fn normalise(epsilon: f64, o: &Operands<'_>) -> Result<()> {
    if o.input_type(0) != DType::F64 {
        return o.unsupported();
    }
    let (dtype, x, n) = (o.output_type(0), o.output(0), o.output_elements(0));
    let wide = is_wide(&[(x, dtype)], &[]);
    o.launch_for(&SOURCE, dtype, c"normalise", runs(n, wide), args![o.input(0), x, n, epsilon, wide])
}
