//! A bias and the function after it, and their gradients.

use std::ffi::CStr;

use crate::{
    backend::{
        cuda::{
            Operands, Source, Types, activation, args,
            launch::Pointer,
            threads::{Tiles, is_wide, totals},
        },
        ops::{ActivationFunction, Function, Rectifier, Rows},
        scratch::split_reduction::bias_splits,
    },
    error::Result,
};

/// The kernels.
pub(in crate::backend::cuda) const SOURCE: Source = Source {
    name: "bias",
    text: concat!(
        include_str!("../vectors.cuh"),
        include_str!("../columns.cuh"),
        include_str!("../functions.cuh"),
        "#line 1 \"bias.cu\"\n",
        include_str!("bias.cu")
    ),
    types: Types::ElementAndWeight,
};

/// The kernels of a function: it, and its gradient.
fn names(function: Function) -> [&'static CStr; 2] {
    match function {
        Function::Rectifier(Rectifier::Relu) => [c"bias_relu", c"bias_relu_gradient"],
        Function::Rectifier(Rectifier::Relu6) => [c"bias_relu6", c"bias_relu6_gradient"],
        Function::Smooth(function) => {
            let names = activation::names(function);
            [names.biased, names.biased_gradient]
        }
    }
}

/// The function of the sum with the bias.
pub(super) fn forward(o: &Operands<'_>, function: Function) -> Result<()> {
    let (dtype, y, last) = (o.output_type(0), o.output(0), o.inputs() - 1);
    if (0..=last).any(|i| o.input_type(i) != dtype) {
        return o.unsupported();
    }
    // A rectifier works in place.
    let (x, bias, columns) = (if last > 0 { o.input(0) } else { y }, o.input(last), o.input_elements(last));
    let rows = o.output_elements(0) / columns;
    let tiles = Tiles::new(columns, is_wide(&[(x, dtype), (y, dtype), (bias, dtype)], &[columns]));
    let args = args![x, bias, y, Pointer::default(), rows, columns, tiles.width, tiles.wide];
    o.launch_for(&SOURCE, dtype, names(function)[0], tiles.rows(rows), args)
}

/// Of a product that is output 0: adds the bias that is input 2, in place, and makes the function of the sum output 1.
pub(in crate::backend::cuda) fn of_product(o: &Operands<'_>, function: ActivationFunction) -> Result<()> {
    let (dtype, sum, bias, y, columns) = (o.output_type(0), o.output(0), o.input(2), o.output(1), o.input_elements(2));
    if o.input_type(2) != dtype || o.output_type(1) != dtype {
        return o.unsupported();
    }
    let rows = o.output_elements(0) / columns;
    let tiles = Tiles::new(columns, is_wide(&[(sum, dtype), (y, dtype), (bias, dtype)], &[columns]));
    let args = args![sum, bias, y, sum, rows, columns, tiles.width, tiles.wide];
    o.launch_for(&SOURCE, dtype, activation::names(function).biased, tiles.rows(rows), args)
}

/// Launches the gradient.
pub(super) fn gradient(o: &Operands<'_>, function: Function, accumulate: bool) -> Result<()> {
    let dtype = o.output_type(0);
    let types = [dtype, if o.outputs() > 1 { o.output_type(1) } else { dtype }];
    if (0..o.inputs()).any(|i| o.input_type(i) != dtype) {
        return o.unsupported();
    }
    let (saved, dy, db) = (o.input(0), o.output(0), o.output(1));
    let (bias, columns) = match function {
        Function::Rectifier(_) => (Pointer::default(), o.output_elements(1)),
        Function::Smooth(_) => (o.input(1), o.input_elements(1)),
    };
    let rows = o.output_elements(0) / columns;
    let parts = bias_splits(&Rows { rows, columns });
    // As runs of the gradient alone are, so that sums have the same order.
    let is_wide = is_wide(&[(dy, dtype), (saved, dtype), (bias, dtype)], &[columns]);
    let tiles = Tiles::new(columns, is_wide);
    let args = args![saved, bias, dy, rows, columns, o.scratch(), db, tiles.width, accumulate, tiles.wide];
    o.launch(&SOURCE, types, names(function)[1], tiles.parts(parts), args)?;
    if parts == 1 || o.outputs() == 1 {
        return Ok(());
    }
    let args = args![o.scratch(), parts, columns, db, accumulate];
    o.launch(&SOURCE, types, c"bias_function_gradient_total", totals(columns), args)
}
