//! Dense layers: products of matrices by cuBLAS, and the bias; both in one kernel where cuBLASLt serves it.

use super::{
    DType, Operands, Source, Types, activation, args,
    epilogue::{self, Epilogue},
    fused::bias::of_product,
    gemm,
    launch::Pointer,
    threads::{Tiles, is_wide, totals},
};
use crate::{
    backend::{
        ops::{ActivationFunction, Linear, MatMul, Rows},
        scratch::split_reduction::{BIAS_SUMS, bias_splits},
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
        Linear::AddBias => bias_of(o, 0),
        Linear::BiasGrad { accumulate } => bias_gradient(o, o.output(0), 0, accumulate),
        Linear::Biased(product) => epilogue::run(&product, Epilogue::Bias, o, || {
            gemm::launch(&product, o)?;
            bias_of(o, 2)
        }),
        Linear::BiasedGelu(product) => epilogue::run(&product, Epilogue::BiasGelu, o, || {
            gemm::launch(&product, o)?;
            of_product(o, ActivationFunction::GeluTanh)
        }),
        Linear::GeluGrad(product) => epilogue::run(&product, Epilogue::GeluGradient, o, || {
            gemm::launch(&product, o)?;
            activation::gradient(o, ActivationFunction::GeluTanh, 2)
        }),
        Linear::WeightGrads(product) if product.accumulate => add_gradients(&product, o),
        Linear::WeightGrads(product) => epilogue::run(&product, Epilogue::BiasGradient, o, || {
            bias_gradient(o, o.output(1), 1, false)?;
            gemm::launch(&product, o)
        }),
    }
}

/// Where the gradient of a bias is that is to be added to an earlier one: behind the parts of its sum.
pub(super) fn gradient_to_add(o: &Operands<'_>) -> Pointer {
    Pointer(o.scratch().0 + (BIAS_SUMS * size_of::<f64>()) as u64)
}

/// Adds the gradients of a weight and its bias to those of earlier micro-batches. The library overwrites that of the bias, so it
/// is added by a kernel of our own.
fn add_gradients(product: &MatMul, o: &Operands<'_>) -> Result<()> {
    let own = gradient_to_add(o);
    let is_queued = epilogue::is_queued(product, Epilogue::BiasGradient, o, || {
        bias_gradient(o, own, 1, false)?;
        gemm::launch(product, o)
    })?;
    if is_queued {
        return add_bias(o, o.output_type(1), [own, o.output(1)], [1, o.output_elements(1)]);
    }
    bias_gradient(o, o.output(1), 1, true)?;
    gemm::launch(product, o)
}

/// Adds a bias, the input of that number, to the first output.
fn bias_of(o: &Operands<'_>, input: usize) -> Result<()> {
    let dtype = o.output_type(0);
    if o.input_type(input) != dtype {
        return o.unsupported();
    }
    let columns = o.input_elements(input);
    add_bias(o, dtype, [o.input(input), o.output(0)], [o.output_elements(0) / columns, columns])
}

/// Adds a bias to every row of `y`.
fn add_bias(o: &Operands<'_>, dtype: DType, [bias, y]: [Pointer; 2], [rows, columns]: [usize; 2]) -> Result<()> {
    let tiles = Tiles::new(columns, is_wide(&[(bias, dtype), (y, dtype)], &[columns]));
    let args = args![bias, y, rows, columns, tiles.width, tiles.wide];
    o.launch_for(&SOURCE, dtype, c"add_bias", tiles.rows(rows), args)
}

/// Sums the rows of the first input into `db`, which is as the output of that number.
fn bias_gradient(o: &Operands<'_>, db: Pointer, output: usize, accumulate: bool) -> Result<()> {
    let (dtype, dy) = (o.input_type(0), o.input(0));
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
