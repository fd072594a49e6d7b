//! Activation functions and their gradients.

pub(super) mod swiglu;

use std::ffi::CStr;

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

/// Names of the kernels of one smooth function, as the sources make them of the list in `functions.cuh`.
pub(super) struct Names {
    pub(super) value: &'static CStr,
    pub(super) gradient: &'static CStr,
    /// With a bias added first.
    pub(super) biased: &'static CStr,
    pub(super) biased_gradient: &'static CStr,
}

macro_rules! names {
    ($name:literal) => {
        const {
            Names {
                value: name(concat!($name, "\0")),
                gradient: name(concat!($name, "_gradient\0")),
                biased: name(concat!("bias_", $name, "\0")),
                biased_gradient: name(concat!("bias_", $name, "_gradient\0")),
            }
        }
    };
}

const fn name(text: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(name) => name,
        Err(_) => panic!("a name ends with its only zero"),
    }
}

/// The names of a function's kernels.
pub(super) fn names(function: ActivationFunction) -> Names {
    match function {
        ActivationFunction::Gelu => names!("gelu"),
        ActivationFunction::GeluTanh => names!("gelu_tanh"),
        ActivationFunction::Silu => names!("silu"),
        ActivationFunction::Mish => names!("mish"),
    }
}

/// Multiplies output 0 by the derivative of a smooth function at the input of that number.
pub(super) fn gradient(o: &Operands<'_>, function: ActivationFunction, input: usize) -> Result<()> {
    let (x, y, n, dtype) = (o.input(input), o.output(0), o.output_elements(0), o.output_type(0));
    if o.input_type(input) != dtype {
        return o.unsupported();
    }
    let wide = is_wide(&[(x, dtype), (y, dtype)], &[]);
    o.launch_for(&SOURCE, dtype, names(function).gradient, runs(n, wide), args![x, y, n, wide])
}

/// Launches a kernel of this family.
pub(super) fn launch(kernel: &Activation, o: &Operands<'_>) -> Result<()> {
    let name = match kernel {
        Activation::Relu => c"relu",
        Activation::ReluGrad => c"relu_gradient",
        Activation::Relu6 => c"relu6",
        Activation::Relu6Grad => c"relu6_gradient",
        Activation::Apply(function) => names(*function).value,
        Activation::ApplyGrad(function) => names(*function).gradient,
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
