//! The sum of squares of all elements, the factor that clips gradients, and a tensor brought to a norm of one.

use crate::backend::cuda::{
    DType, Operands, Source, Types, args,
    launch::{Grid, THREADS, Table},
    threads::{is_wide, runs},
};
use crate::{
    backend::{ops::Optimizer, scratch::split_reduction::element_splits},
    error::Result,
};

/// Tensors of a launch at the most, as a literal for the source.
macro_rules! most {
    () => {
        192
    };
}
const _: () = assert!(most!() == Optimizer::SUMMED, "the contract's number");

/// The kernels.
pub(in crate::backend::cuda) const SOURCE: Source = Source {
    name: "gradient_norm",
    text: concat!(
        "#define MOST ",
        most!(),
        "\n",
        include_str!("../vectors.cuh"),
        include_str!("../tables.cuh"),
        "#line 1 \"gradient_norm.cu\"\n",
        include_str!("gradient_norm.cu")
    ),
    types: Types::Element,
};

/// Warps of the block that adds up the parts of several tensors.
const WARPS: u32 = 32;

/// Launches [`Optimizer::SumSquares`].
pub(super) fn sum_squares(o: &Operands<'_>) -> Result<()> {
    if o.output_type(0) != DType::F64 {
        return o.unsupported();
    }
    let (dtype, x, n, sum) = (o.input_type(0), o.input(0), o.input_elements(0), o.output(0));
    let (parts, wide) = (element_splits(n), is_wide(&[(x, dtype)], &[]));
    let args = args![x, n, o.scratch(), sum, wide];
    o.launch_for(&SOURCE, dtype, c"sum_squares", Grid::blocks(parts, THREADS), args)?;
    if parts == 1 {
        return Ok(());
    }
    o.launch_for(&SOURCE, dtype, c"add_parts", Grid::blocks(1, THREADS), args![o.scratch(), parts, sum])
}

/// Launches [`Optimizer::SumAllSquares`]: the parts of every tensor by one launch, and their sums by another.
pub(super) fn sum_all_squares(parts: usize, accumulate: bool, o: &Operands<'_>) -> Result<()> {
    let (dtype, count) = (o.input_type(0), o.inputs());
    if o.output_type(0) != DType::F64 || (0..count).any(|i| o.input_type(i) != dtype) {
        return o.unsupported();
    }
    let row = |i: usize| ([o.input(i).0, o.input_elements(i) as u64], element_splits(o.input_elements(i)));
    let table = Table::new(Optimizer::SUMMED, &(0..count).map(row).collect::<Vec<_>>());
    let grid = Grid::blocks(parts, THREADS);
    o.launch_table(&SOURCE, [dtype; 2], c"sum_all_squares", (grid, table.clone()), args![o.scratch()])?;
    // As many tensors at once as a block has warps.
    let grid = Grid::blocks(1, WARPS * 32);
    let args = args![o.scratch(), count, o.output(0), accumulate];
    o.launch_table(&SOURCE, [dtype; 2], c"add_all_parts", (grid, table), args)
}

/// Launches [`Optimizer::Clip`].
pub(super) fn clip(limit: f64, o: &Operands<'_>) -> Result<()> {
    if [o.input_type(0), o.output_type(0)] != [DType::F64; 2] {
        return o.unsupported();
    }
    let args = args![o.input(0), o.output(0), limit];
    o.launch_for(&SOURCE, DType::F64, c"clip", Grid::blocks(1, 32), args)
}

/// Launches [`Optimizer::Normalise`].
pub(super) fn normalise(epsilon: f64, o: &Operands<'_>) -> Result<()> {
    if o.input_type(0) != DType::F64 {
        return o.unsupported();
    }
    let (dtype, x, n) = (o.output_type(0), o.output(0), o.output_elements(0));
    let wide = is_wide(&[(x, dtype)], &[]);
    o.launch_for(&SOURCE, dtype, c"normalise", runs(n, wide), args![o.input(0), x, n, epsilon, wide])
}
