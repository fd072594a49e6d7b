//! The sum of squares of all elements.

use crate::backend::cuda::{
    DType, Operands, Source, Types, args,
    launch::{Grid, THREADS},
    threads::is_wide,
};
use crate::{
    backend::{Kernel, scratch::parts},
    error::Result,
};

/// The kernels.
pub(in crate::backend::cuda) const SOURCE: Source = Source {
    name: "sum_squares",
    text: concat!(include_str!("../vectors.cuh"), "#line 1 \"sum_squares.cu\"\n", include_str!("sum_squares.cu")),
    types: Types::Element,
};

/// Launches one of them.
pub(in crate::backend::cuda) fn launch(kernel: &Kernel, o: &Operands<'_>) -> Result<()> {
    if *kernel != Kernel::SumSquares || o.output_type(0) != DType::F64 {
        return o.unsupported();
    }
    let (dtype, x, n, sum) = (o.input_type(0), o.input(0), o.input_elements(0), o.output(0));
    let (parts, wide) = (parts::of_elements(n), is_wide(&[(x, dtype)], &[]));
    let args = args![x, n, o.scratch(), sum, wide];
    o.launch_for(&SOURCE, dtype, c"sum_squares", Grid::blocks(parts, THREADS), args)?;
    if parts == 1 {
        return Ok(());
    }
    o.launch_for(&SOURCE, dtype, c"add_parts", Grid::blocks(1, THREADS), args![o.scratch(), parts, sum])
}
