//! Activation functions and their gradients.

pub(super) mod swiglu;

use super::{
    Operands, Source, Types, args,
    threads::{is_wide, runs},
};
use crate::{
    backend::ops::{Activation, ActivationFunction},
    error::Result,
};

/// The kernels.
pub(super) const SOURCE: Source = Source {
    name: "activation",
    text: concat!(
        include_str!("vectors.cuh"),
        include_str!("functions.cuh"),
        "#line 1 \"activation.cu\"\n",
        include_str!("activation.cu")
    ),
    types: Types::Element,
};

/// Launches a kernel of this family.
pub(super) fn launch(kernel: &Activation, o: &Operands<'_>) -> Result<()> {
    use ActivationFunction::{Gelu, GeluTanh, Mish, Silu};
    let name = match kernel {
        Activation::Relu => c"relu",
        Activation::ReluGrad => c"relu_gradient",
        Activation::Relu6 => c"relu6",
        Activation::Relu6Grad => c"relu6_gradient",
        Activation::Apply(Gelu) => c"gelu",
        Activation::Apply(GeluTanh) => c"gelu_tanh",
        Activation::Apply(Silu) => c"silu",
        Activation::Apply(Mish) => c"mish",
        Activation::ApplyGrad(Gelu) => c"gelu_gradient",
        Activation::ApplyGrad(GeluTanh) => c"gelu_tanh_gradient",
        Activation::ApplyGrad(Silu) => c"silu_gradient",
        Activation::ApplyGrad(Mish) => c"mish_gradient",
        Activation::SwiGlu { extents } => return swiglu::forward(extents, o),
        Activation::SwiGluGrad { extents } => return swiglu::gradient(extents, o),
    };
    let (y, n, dtype) = (o.output(0), o.output_elements(0), o.output_type(0));
    if o.inputs() == 0 {
        let wide = is_wide(&[(y, dtype)], &[]);
        return o.launch_for(&SOURCE, dtype, name, runs(n, wide), args![y, n, wide]);
    }
    if o.input_type(0) != dtype {
        return o.unsupported();
    }
    let x = o.input(0);
    let wide = is_wide(&[(x, dtype), (y, dtype)], &[]);
    o.launch_for(&SOURCE, dtype, name, runs(n, wide), args![x, y, n, wide])
}
