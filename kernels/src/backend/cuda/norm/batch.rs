//! Batch normalisation: by the batch's own statistics, recomputed from those, its gradient, and by running estimates.

use crate::backend::cuda::{
    DType, Operands, Source, Types, args,
    launch::Pointer,
    threads::{Tiles, is_wide, totals},
};
use crate::{
    backend::{ops::Rows, scratch::split_reduction::row_splits},
    error::Result,
};

/// The kernels.
pub(in crate::backend::cuda) const SOURCE: Source = Source {
    name: "batch_norm",
    text: concat!(
        include_str!("../vectors.cuh"),
        include_str!("../columns.cuh"),
        include_str!("channels.cuh"),
        "#line 1 \"batch.cu\"\n",
        include_str!("batch.cu")
    ),
    types: Types::ElementAndWeight,
};

/// The tiles of a matrix that lies at each of `at`.
fn tiles(columns: usize, at: &[Pointer], dtype: DType) -> Tiles {
    let firsts: Vec<_> = at.iter().map(|pointer| (*pointer, dtype)).collect();
    Tiles::new(columns, is_wide(&firsts, &[columns]))
}

/// The forward pass.
pub(super) fn forward(o: &Operands<'_>, extents: Rows, epsilon: f64, momentum: f64) -> Result<()> {
    let Rows { rows, columns } = extents;
    let types = [o.input_type(0), o.input_type(1)];
    let statistics = (1..o.outputs()).all(|i| o.output_type(i) == types[0].accumulator());
    if !statistics || o.output_type(0) != types[0] || o.input_type(2) != types[1] {
        return o.unsupported();
    }
    measure(o, types, extents, [epsilon, momentum])?;
    let [mean, inverse] = [o.output(1), o.output(2)];
    let parameters = [mean, inverse, o.input(1), o.input(2)];
    write(o, types, [o.input(0), o.output(0)], parameters, [rows, columns], false)
}

/// The statistics of the batch, towards which the running ones move.
pub(in crate::backend::cuda) fn measure(
    o: &Operands<'_>,
    types: [DType; 2],
    extents: Rows,
    [epsilon, momentum]: [f64; 2],
) -> Result<()> {
    let Rows { rows, columns } = extents;
    let (x, y, sums, parts) = (o.input(0), o.output(0), o.scratch(), row_splits(&extents));
    let tiles = tiles(columns, &[x, y], types[0]);
    let args = args![x, rows, columns, sums, tiles.width, tiles.wide];
    o.launch(&SOURCE, types, c"batch_norm_parts", tiles.parts(parts), args)?;
    let [mean, inverse] = [o.output(1), o.output(2)];
    let args = args![x, sums, parts, rows, columns, mean, inverse, o.output(3), o.output(4), epsilon, momentum];
    o.launch(&SOURCE, types, c"batch_norm_statistics", totals(columns), args)
}

/// The output, recomputed from its input and statistics.
pub(super) fn apply(o: &Operands<'_>, adds: bool) -> Result<()> {
    // Without an input, the output is normalised in place.
    let first = o.inputs() - 4;
    let types = [o.output_type(0), o.input_type(first + 2)];
    let statistics = [first, first + 1].into_iter().all(|i| o.input_type(i) == types[0].accumulator());
    if !statistics || o.input_type(first + 3) != types[1] || (first > 0 && o.input_type(0) != types[0]) {
        return o.unsupported();
    }
    let columns = o.input_elements(first);
    let (y, rows) = (o.output(0), o.output_elements(0) / columns);
    let x = if first > 0 { o.input(0) } else { y };
    let parameters = [0, 1, 2, 3].map(|i| o.input(first + i));
    write(o, types, [x, y], parameters, [rows, columns], adds)
}

/// Makes the same launch for the forward pass and for its recomputation, so that every bit is the same.
fn write(
    o: &Operands<'_>,
    types: [DType; 2],
    [x, y]: [Pointer; 2],
    [mean, inverse, weight, bias]: [Pointer; 4],
    [rows, columns]: [usize; 2],
    adds: bool,
) -> Result<()> {
    let tiles = tiles(columns, &[x, y], types[0]);
    let args = args![x, y, mean, inverse, weight, bias, rows, columns, tiles.width, adds, tiles.wide];
    o.launch(&SOURCE, types, c"batch_norm_apply", tiles.rows(rows), args)
}

/// Launches the gradient.
pub(super) fn gradient(o: &Operands<'_>, extents: Rows, accumulate: bool) -> Result<()> {
    let Rows { rows, columns } = extents;
    let types = [o.input_type(0), o.input_type(3)];
    let statistics = [1, 2].into_iter().all(|i| o.input_type(i) == types[0].accumulator());
    let gradients = (1..o.outputs()).all(|i| o.output_type(i) == types[1]);
    if !statistics || !gradients || o.output_type(0) != types[0] {
        return o.unsupported();
    }
    let (x, dy, sums, parts) = (o.input(0), o.output(0), o.scratch(), row_splits(&extents));
    let [mean, inverse, weight] = [1, 2, 3].map(|i| o.input(i));
    let tiles = tiles(columns, &[x, dy], types[0]);
    let args = args![x, dy, mean, rows, columns, sums, tiles.width, tiles.wide];
    o.launch(&SOURCE, types, c"batch_norm_gradient_parts", tiles.parts(parts), args)?;
    let args = args![sums, parts, rows, columns, inverse, o.output(1), o.output(2), accumulate];
    o.launch(&SOURCE, types, c"batch_norm_gradient_total", totals(columns), args)?;
    let args = args![x, dy, mean, inverse, weight, sums, rows, columns, tiles.width, tiles.wide];
    o.launch(&SOURCE, types, c"batch_norm_gradient", tiles.rows(rows), args)
}

/// Normalisation by running estimates.
pub(super) fn fixed(o: &Operands<'_>, epsilon: f64) -> Result<()> {
    let types = [o.output_type(0), o.input_type(2)];
    let estimates = [0, 1].into_iter().all(|i| o.input_type(i) == types[0].accumulator());
    if !estimates || o.input_type(3) != types[1] {
        return o.unsupported();
    }
    let columns = o.input_elements(0);
    let (y, rows) = (o.output(0), o.output_elements(0) / columns);
    let tiles = tiles(columns, &[y], types[0]);
    let [mean, variance, weight, bias] = [0, 1, 2, 3].map(|i| o.input(i));
    let args = args![y, mean, variance, weight, bias, epsilon, rows, columns, tiles.width, tiles.wide];
    o.launch(&SOURCE, types, c"batch_norm_fixed", tiles.rows(rows), args)
}
