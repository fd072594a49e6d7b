//! The gated activation of Llama's dense layers (Shazeer 2020), and its gradient.

use super::{Operands, Source, Types, args, launch::Grid};
use crate::{backend::Kernel, error::Result};

/// The kernels.
pub(super) const SOURCE: Source = Source { name: "swiglu", text: include_str!("swiglu.cu"), types: Types::Element };

/// Launches one of them.
pub(super) fn launch(kernel: &Kernel, o: &Operands<'_>) -> Result<()> {
    let dtype = o.output_type(0);
    if (0..o.inputs()).any(|i| o.input_type(i) != dtype) {
        return o.unsupported();
    }
    match *kernel {
        Kernel::SwiGlu { extents: e } => {
            let args = args![o.input(0), o.output(0), e.rows, e.columns];
            o.launch_for(&SOURCE, dtype, c"swiglu", Grid::matrix(e.rows, e.columns), args)
        }
        Kernel::SwiGluGrad { extents: e } => {
            let args = args![o.input(0), o.input(1), o.output(0), e.rows, e.columns];
            o.launch_for(&SOURCE, dtype, c"swiglu_gradient", Grid::matrix(e.rows, e.columns), args)
        }
        _ => o.unsupported(),
    }
}
