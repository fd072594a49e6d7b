//! Layer norm, RMS norm, and their gradients.

use crate::backend::cuda::{
    DType, Operands, Source, Types, args,
    launch::{Grid, Pointer, THREADS},
    threads::{Tiles, is_wide, totals},
};
use crate::{
    backend::{
        ops::Rows,
        scratch::split_reduction::{ROW_NORM_COLUMNS, ROW_NORM_PARTS, row_norm_splits, row_splits},
    },
    error::Result,
};

/// The most columns whose sums a block keeps, as a literal for the source.
macro_rules! summed {
    () => {
        2048
    };
}
/// Parts whose sums one block adds up.
macro_rules! group {
    () => {
        16
    };
}
/// Groups of parts, and the one of their sums.
macro_rules! groups {
    () => {
        13
    };
}
const _: () = assert!(summed!() == ROW_NORM_COLUMNS && group!() * (groups!() - 1) == ROW_NORM_PARTS);

/// The kernels.
pub(in crate::backend::cuda) const SOURCE: Source = Source {
    name: "row_norm",
    text: concat!(
        "#define SUMMED ",
        summed!(),
        "\n#define GROUP ",
        group!(),
        "\n#define GROUPS ",
        groups!(),
        "\n",
        include_str!("../last.cuh"),
        include_str!("../vectors.cuh"),
        include_str!("../columns.cuh"),
        include_str!("rows.cuh"),
        "#line 1 \"row.cu\"\n",
        include_str!("row.cu")
    ),
    types: Types::ElementAndWeight,
};

/// Rows that are longer than this have a block each, shorter ones a warp.
const WARP_COLUMNS: usize = 1024;
/// Rows that a block's warps have.
const WARPS: usize = THREADS as usize / 32;

/// How rows are shared out, and whether each has a block.
pub(in crate::backend::cuda) fn grid(e: &Rows) -> (Grid, bool) {
    let by_block = e.columns > WARP_COLUMNS;
    (Grid::blocks(if by_block { e.rows } else { e.rows.div_ceil(WARPS) }, THREADS), by_block)
}

/// The forward pass.
pub(super) fn forward(o: &Operands<'_>, extents: Rows, epsilon: f64, has_mean: bool) -> Result<()> {
    let Rows { rows, columns } = extents;
    let types @ [t, w] = [o.input_type(0), o.input_type(1)];
    let statistics = (1..o.outputs()).all(|i| o.output_type(i) == t.accumulator());
    if !statistics || o.output_type(0) != t || (has_mean && o.input_type(2) != w) {
        return o.unsupported();
    }
    let (x, y, weight) = (o.input(0), o.output(0), o.input(1));
    let (bias, mean, inverse) = if has_mean {
        (o.input(2), o.output(1), o.output(2))
    } else {
        (Pointer::default(), Pointer::default(), o.output(1))
    };
    let wide = is_wide(&[(x, t), (y, t), (weight, w), (bias, w)], &[columns]);
    let (grid, by_block) = grid(&extents);
    let args = args![x, weight, bias, y, mean, inverse, rows, columns, epsilon, by_block, wide];
    o.launch(&SOURCE, types, c"row_norm", grid, args)
}

/// Launches the gradient.
pub(super) fn gradient(o: &Operands<'_>, extents: Rows, accumulate: bool, has_mean: bool) -> Result<()> {
    let Rows { rows, columns } = extents;
    let last = if has_mean { 3 } else { 2 };
    let types @ [t, w]: [DType; 2] = [o.input_type(0), o.input_type(last)];
    let statistics = (1..last).all(|i| o.input_type(i) == t.accumulator());
    let gradients = (1..o.outputs()).all(|i| o.output_type(i) == w);
    if !statistics || !gradients || o.output_type(0) != t {
        return o.unsupported();
    }
    // Null where nothing is added to the gradient.
    let other = o.input(last + 1);
    if o.inputs() > last + 1 && o.input_type(last + 1) != t {
        return o.unsupported();
    }
    let (x, dy, weight, inverse) = (o.input(0), o.output(0), o.input(last), o.input(last - 1));
    let mean = if has_mean { o.input(1) } else { Pointer::default() };
    let wide = is_wide(&[(x, t), (dy, t), (weight, w), (other, t)], &[columns]);
    if let Some(parts) = row_norm_splits(&extents).filter(|_| o.outputs() > 1) {
        let (sums, [dweight, dbias]) = (o.scratch(), [1, 2].map(|i| o.output(i)));
        let args = args![x, dy, mean, inverse, weight, other, rows, columns, sums, dweight, dbias, accumulate, wide];
        return o.launch(&SOURCE, types, c"row_norm_gradients", Grid::blocks(parts, THREADS), args);
    }
    // Of long rows, gradients of parameters first: they need the output gradient, which the input gradient overwrites.
    if o.outputs() > 1 {
        let (sums, parts) = (o.scratch(), row_splits(&extents));
        let tiles = Tiles::new(columns, is_wide(&[(x, t), (dy, t)], &[columns]));
        let args = args![x, dy, mean, inverse, rows, columns, sums, tiles.width, tiles.wide];
        o.launch(&SOURCE, types, c"row_norm_gradient_parts", tiles.parts(parts), args)?;
        let args = args![sums, parts, columns, o.output(1), o.output(2), accumulate];
        o.launch(&SOURCE, types, c"row_norm_gradient_total", totals(columns), args)?;
    }
    let (grid, by_block) = grid(&extents);
    let args = args![x, dy, mean, inverse, weight, other, rows, columns, by_block, wide];
    o.launch(&SOURCE, types, c"row_norm_gradient", grid, args)
}
