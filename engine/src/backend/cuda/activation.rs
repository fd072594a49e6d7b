//! Smooth activation functions, their slopes, and dropout.

pub(super) mod swiglu;

use super::{
    Operands, Source, Types, args,
    threads::{is_wide, runs},
};
use crate::{
    backend::{Kernel, kernel::Curve},
    error::Result,
};

/// The kernels.
pub(super) const SOURCE: Source = Source {
    name: "activation",
    text: concat!(include_str!("vectors.cuh"), "#line 1 \"activation.cu\"\n", include_str!("activation.cu")),
    types: Types::Element,
};

/// Launches one of them.
pub(super) fn launch(kernel: &Kernel, o: &Operands<'_>) -> Result<()> {
    let (y, n, dtype) = (o.output(0), o.output_elements(0), o.output_type(0));
    if let Kernel::Dropout { share, key } = *kernel {
        let wide = is_wide(&[(y, dtype)], &[]);
        // The probability as a bound of 64 random bits.
        let bound = (share * 2f64.powi(64)) as u64;
        let args = args![y, n, bound, 1.0 / (1.0 - share), key, wide];
        return o.launch_for(&SOURCE, dtype, c"dropout", runs(n, wide), args);
    }
    let name = match kernel {
        Kernel::Curve(Curve::Gelu) => c"gelu",
        Kernel::Curve(Curve::GeluTanh) => c"gelu_tanh",
        Kernel::Curve(Curve::Silu) => c"silu",
        Kernel::CurveGrad(Curve::Gelu) => c"gelu_gradient",
        Kernel::CurveGrad(Curve::GeluTanh) => c"gelu_tanh_gradient",
        Kernel::CurveGrad(Curve::Silu) => c"silu_gradient",
        _ => return o.unsupported(),
    };
    if o.input_type(0) != dtype {
        return o.unsupported();
    }
    let x = o.input(0);
    let wide = is_wide(&[(x, dtype), (y, dtype)], &[]);
    o.launch_for(&SOURCE, dtype, name, runs(n, wide), args![x, y, n, wide])
}
