//! Dense layers: products of matrices by cuBLAS, and the bias; both in one kernel where cuBLASLt serves it.

use super::{
    Operands, Source, Types, activation, args,
    epilogue::{self, Epilogue},
    fused::bias::of_product,
    gemm,
    threads::{Tiles, is_wide, totals},
};
use crate::{
    backend::{
        ops::{ActivationFunction, Linear, Rows},
        scratch::split_reduction::bias_splits,
    },
    error::Result,
};

/// The kernels.
pub(super) const SOURCE: Source = Source {
    name: "linear",
    text: concat!(
        include_str!("vectors.cuh"),
        include_str!("columns.cuh"),
        "#line 1 \"linear.cu\"\n",
        include_str!("linear.cu")
    ),
    types: Types::ElementAndWeight,
};

/// Launches a kernel of this family.
pub(super) fn launch(kernel: &Linear, o: &Operands<'_>) -> Result<()> {
    match *kernel {
        Linear::MatMul(product) => gemm::launch(&product, o),
        Linear::AddBias => add_bias(o, 0),
        Linear::BiasGrad { accumulate } => bias_gradient(o, 0, accumulate),
        Linear::Biased(product) => epilogue::run(&product, Epilogue::Bias, o, || {
            gemm::launch(&product, o)?;
            add_bias(o, 2)
        }),
        Linear::BiasedGelu(product) => epilogue::run(&product, Epilogue::BiasGelu, o, || {
            gemm::launch(&product, o)?;
            of_product(o, ActivationFunction::GeluTanh)
        }),
        Linear::GeluGrad(product) => epilogue::run(&product, Epilogue::GeluGradient, o, || {
            gemm::launch(&product, o)?;
            activation::gradient(o, ActivationFunction::GeluTanh, 2)
        }),
        Linear::WeightGrads(product) => epilogue::run(&product, Epilogue::BiasGradient, o, || {
            bias_gradient(o, 1, false)?;
            gemm::launch(&product, o)
        }),
    }
}

/// Adds a bias, the input of that number, to the first output.
fn add_bias(o: &Operands<'_>, input: usize) -> Result<()> {
    let (dtype, bias, y) = (o.output_type(0), o.input(input), o.output(0));
    if o.input_type(input) != dtype {
        return o.unsupported();
    }
    let columns = o.input_elements(input);
    let rows = o.output_elements(0) / columns;
    let tiles = Tiles::new(columns, is_wide(&[(bias, dtype), (y, dtype)], &[columns]));
    let args = args![bias, y, rows, columns, tiles.width, tiles.wide];
    o.launch_for(&SOURCE, dtype, c"add_bias", tiles.rows(rows), args)
}

/// Sums the rows of the first input into the output of that number.
fn bias_gradient(o: &Operands<'_>, output: usize, accumulate: bool) -> Result<()> {
    let (dtype, dy, db) = (o.input_type(0), o.input(0), o.output(output));
    let types = [dtype, o.output_type(output)];
    let columns = o.output_elements(output);
    let rows = o.input_elements(0) / columns;
    let parts = bias_splits(&Rows { rows, columns });
    let tiles = Tiles::new(columns, is_wide(&[(dy, dtype)], &[columns]));
    let args = args![dy, rows, columns, o.scratch(), db, tiles.width, accumulate, tiles.wide];
    o.launch(&SOURCE, types, c"bias_gradient", tiles.parts(parts), args)?;
    if parts == 1 {
        return Ok(());
    }
    let args = args![o.scratch(), parts, columns, db, accumulate];
    o.launch(&SOURCE, types, c"bias_gradient_total", totals(columns), args)
}
