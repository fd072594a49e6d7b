//! The gated activation of Llama's dense layers (Shazeer 2020), and its gradient.

use crate::backend::cuda::{
    Operands, Source, Types, args,
    threads::{is_wide, runs_of_rows},
};
use crate::{backend::Kernel, error::Result};

/// The kernels.
pub(in crate::backend::cuda) const SOURCE: Source = Source {
    name: "swiglu",
    text: concat!(include_str!("../vectors.cuh"), "#line 1 \"swiglu.cu\"\n", include_str!("swiglu.cu")),
    types: Types::Element,
};

/// Launches one of them.
pub(in crate::backend::cuda) fn launch(kernel: &Kernel, o: &Operands<'_>) -> Result<()> {
    let dtype = o.output_type(0);
    if (0..o.inputs()).any(|i| o.input_type(i) != dtype) {
        return o.unsupported();
    }
    match *kernel {
        Kernel::SwiGlu { extents: e } => {
            let wide = is_wide(&[(o.input(0), dtype), (o.output(0), dtype)], &[e.columns]);
            let args = args![o.input(0), o.output(0), e.rows, e.columns, wide];
            o.launch_for(&SOURCE, dtype, c"swiglu", runs_of_rows(e.rows, e.columns, wide), args)
        }
        Kernel::SwiGluGrad { extents: e } => {
            let wide = is_wide(&[(o.input(0), dtype), (o.input(1), dtype), (o.output(0), dtype)], &[e.columns]);
            let args = args![o.input(0), o.input(1), o.output(0), e.rows, e.columns, wide];
            o.launch_for(&SOURCE, dtype, c"swiglu_gradient", runs_of_rows(e.rows, e.columns, wide), args)
        }
        _ => o.unsupported(),
    }
}
