//! Batch normalisation with a sum and a rectifier after it, and the gradient of both. Statistics and the sums of parts are
//! those of the norm's own kernels.

use crate::{
    backend::{
        cuda::{
            DType, Operands, Source, Types, args,
            launch::Pointer,
            norm::batch,
            threads::{Tiles, is_wide, totals},
        },
        ops::{Over, Rectifier, Rows},
        scratch::split_reduction::row_splits,
    },
    error::Result,
};

/// The kernels.
pub(in crate::backend::cuda) const SOURCE: Source = Source {
    name: "channels",
    text: concat!(
        include_str!("../vectors.cuh"),
        include_str!("../columns.cuh"),
        include_str!("../functions.cuh"),
        include_str!("../norm/channels.cuh"),
        "#line 1 \"channels.cu\"\n",
        include_str!("channels.cu")
    ),
    types: Types::ElementAndWeight,
};

/// What is at the end, as the kernels have it.
fn code(end: Option<Rectifier>) -> usize {
    match end {
        None => 0,
        Some(Rectifier::Relu) => 1,
        Some(Rectifier::Relu6) => 2,
    }
}

/// The forward pass.
pub(super) fn forward(
    o: &Operands<'_>,
    extents: Rows,
    [epsilon, momentum]: [f64; 2],
    end: Option<Rectifier>,
) -> Result<()> {
    let types = [o.input_type(0), o.input_type(1)];
    let statistics = (1..o.outputs()).all(|i| o.output_type(i) == types[0].accumulator());
    let others = (3..o.inputs()).all(|i| o.input_type(i) == types[0]);
    if !statistics || !others || o.output_type(0) != types[0] || o.input_type(2) != types[1] {
        return o.unsupported();
    }
    batch::measure(o, types, extents, [epsilon, momentum])?;
    let vectors = [o.output(1), o.output(2), o.input(1), o.input(2)];
    write(o, types, vectors, extents, [o.input(0), o.input(3), o.output(0)], end)
}

/// The output, recomputed from its input and statistics.
pub(super) fn again(o: &Operands<'_>, sums: bool, end: Option<Rectifier>, over: Over) -> Result<()> {
    let first = usize::from(over != Over::X);
    let types = [o.output_type(0), o.input_type(first + 2)];
    let statistics = [first, first + 1].into_iter().all(|i| o.input_type(i) == types[0].accumulator());
    let others = (0..first).chain(first + 4..o.inputs()).all(|i| o.input_type(i) == types[0]);
    if !statistics || !others || o.input_type(first + 3) != types[1] {
        return o.unsupported();
    }
    let (y, columns) = (o.output(0), o.input_elements(first));
    let extents = Rows { rows: o.output_elements(0) / columns, columns };
    let x = if over == Over::X { y } else { o.input(0) };
    let other = match over {
        Over::Other => y,
        Over::Nothing | Over::X if sums => o.input(first + 4),
        Over::Nothing | Over::X => Pointer::default(),
    };
    write(o, types, [0, 1, 2, 3].map(|i| o.input(first + i)), extents, [x, other, y], end)
}

/// Makes the same launch for the forward pass and for its recomputation.
fn write(
    o: &Operands<'_>,
    types: [DType; 2],
    [mean, inverse, weight, bias]: [Pointer; 4],
    Rows { rows, columns }: Rows,
    [x, other, y]: [Pointer; 3],
    end: Option<Rectifier>,
) -> Result<()> {
    let tiles = Tiles::new(columns, is_wide(&[x, other, y].map(|at| (at, types[0])), &[columns]));
    let args = args![x, other, y, mean, inverse, weight, bias, rows, columns, tiles.width, code(end), tiles.wide];
    o.launch(&SOURCE, types, c"batch_norm_then", tiles.rows(rows), args)
}

/// Launches the gradient.
pub(super) fn gradient(o: &Operands<'_>, extents: Rows, accumulate: bool, end: Option<Rectifier>) -> Result<()> {
    let Rows { rows, columns } = extents;
    let types = [o.input_type(0), o.input_type(3)];
    let statistics = [1, 2].into_iter().all(|i| o.input_type(i) == types[0].accumulator());
    let gradients = (1..o.outputs()).all(|i| o.output_type(i) == types[1]);
    let is_apart = o.inputs() > 5;
    let matrices = o.output_type(0) == types[0] && (!is_apart || o.input_type(5) == types[0]);
    if !statistics || !gradients || !matrices || o.input_type(4) != types[1] {
        return o.unsupported();
    }
    let (x, dx, sums, parts) = (o.input(0), o.output(0), o.scratch(), row_splits(&extents));
    // In place, where no gradient is read from elsewhere.
    let dy = if is_apart { o.input(5) } else { dx };
    let [mean, inverse, weight, bias] = [1, 2, 3, 4].map(|i| o.input(i));
    let tiles = Tiles::new(columns, is_wide(&[x, dy, dx].map(|at| (at, types[0])), &[columns]));
    let (width, end) = (tiles.width, code(end));
    let args = args![x, dy, mean, inverse, weight, bias, rows, columns, sums, width, end, tiles.wide];
    o.launch(&SOURCE, types, c"batch_norm_then_gradient_parts", tiles.parts(parts), args)?;
    let args = args![sums, parts, rows, columns, inverse, o.output(1), o.output(2), accumulate];
    o.launch(&batch::SOURCE, types, c"batch_norm_gradient_total", totals(columns), args)?;
    let args = args![x, dy, dx, mean, inverse, weight, bias, sums, rows, columns, width, end, tiles.wide];
    o.launch(&SOURCE, types, c"batch_norm_then_gradient", tiles.rows(rows), args)
}
