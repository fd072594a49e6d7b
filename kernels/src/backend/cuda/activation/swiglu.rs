//! The gated activation of Llama's dense layers (Shazeer 2020), and its gradient.

use crate::backend::cuda::{
    Operands, Source, Types, args,
    threads::{is_wide, runs_of_rows},
};
use crate::{backend::ops::Rows, error::Result};

/// The kernels.
pub(in crate::backend::cuda) const SOURCE: Source = Source {
    name: "swiglu",
    text: concat!(include_str!("../vectors.cuh"), "#line 1 \"swiglu.cu\"\n", include_str!("swiglu.cu")),
    types: Types::Element,
};

/// Launches [`Activation::SwiGlu`](crate::backend::ops::Activation::SwiGlu).
pub(super) fn forward(e: &Rows, o: &Operands<'_>) -> Result<()> {
    let dtype = o.output_type(0);
    if o.input_type(0) != dtype {
        return o.unsupported();
    }
    let wide = is_wide(&[(o.input(0), dtype), (o.output(0), dtype)], &[e.columns]);
    let args = args![o.input(0), o.output(0), e.rows, e.columns, wide];
    o.launch_for(&SOURCE, dtype, c"swiglu", runs_of_rows(e.rows, e.columns, wide), args)
}

/// Launches [`Activation::SwiGluGrad`](crate::backend::ops::Activation::SwiGluGrad).
pub(super) fn gradient(e: &Rows, o: &Operands<'_>) -> Result<()> {
    let dtype = o.output_type(0);
    if [o.input_type(0), o.input_type(1)] != [dtype; 2] {
        return o.unsupported();
    }
    let wide = is_wide(&[(o.input(0), dtype), (o.input(1), dtype), (o.output(0), dtype)], &[e.columns]);
    let args = args![o.input(0), o.input(1), o.output(0), e.rows, e.columns, wide];
    o.launch_for(&SOURCE, dtype, c"swiglu_gradient", runs_of_rows(e.rows, e.columns, wide), args)
}
