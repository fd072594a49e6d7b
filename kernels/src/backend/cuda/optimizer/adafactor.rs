//! Adafactor's update (Shazeer & Stern 2018). The rule is the CPU's; see its file. The extents alone decide the
//! parts of sums.

use crate::backend::cuda::{
    Operands, Source, Types, args,
    launch::{Arg, Grid, Pointer, THREADS},
    optimizer,
};
use crate::{
    backend::{
        ops::{Rows, Update, UpdateRule},
        scratch::split_reduction::{UPDATE_SPLITS, UPDATE_TILE, update_row_splits},
    },
    error::Result,
};

/// The kernels.
pub(in crate::backend::cuda) const SOURCE: Source =
    Source { name: "adafactor", text: include_str!("adafactor.cu"), types: Types::ElementAndWeight };

/// Launches the update.
pub(super) fn launch(update: &Update, e: &Rows, step: u64, copies: [Pointer; 2], o: &Operands<'_>) -> Result<()> {
    let types = optimizer::types(o);
    let means = types[0].accumulator();
    if o.output_type(1) != means || (e.rows > 1 && o.output_type(2) != means) {
        return o.unsupported();
    }
    let run = |name, grid, args: &[_]| o.launch(&SOURCE, types, name, grid, args);
    let take = UpdateRule::adafactor_take(step);
    let (g, w, n) = (o.input(0), o.output(0), e.rows * e.columns);
    let Update { rate, grad_scale, weight_decay, .. } = *update;
    let decay = 1.0 - rate * weight_decay;
    let squares = o.scratch();
    if e.rows == 1 {
        let blocks = n.div_ceil(THREADS as usize).clamp(1, UPDATE_SPLITS);
        let parts = Grid::blocks(blocks, THREADS);
        let args = args![g, o.output(1), n, squares, take, grad_scale, o.input(1), UpdateRule::ADAFACTOR_EPSILON];
        run(c"adafactor_moments", parts, args)?;
        let args =
            args![g, w, copies[0], copies[1], n, o.output(1), squares, blocks, rate, decay, grad_scale, o.input(1)];
        return run(c"adafactor_vector", Grid::elements(n), args);
    }
    // A warp has a row.
    let blocks = e.rows.div_ceil(THREADS as usize / 32).min(UPDATE_SPLITS);
    let parts = Grid::blocks(blocks, THREADS);
    let at = |elements: usize| Pointer(o.scratch().0 + (elements * size_of::<f64>()) as u64);
    let (row_sums, column_sums) = (at(UPDATE_SPLITS), at(2 * UPDATE_SPLITS));
    let (row_means, column_means) = (o.output(1), o.output(2));
    let epsilon = UpdateRule::ADAFACTOR_EPSILON;
    let args = args![g, row_means, e.rows, e.columns, row_sums, take, grad_scale, o.input(1), epsilon];
    run(c"adafactor_rows", parts, args)?;
    let strips = e.columns.div_ceil(UPDATE_TILE[0]);
    let threads = UPDATE_TILE.map(|extent| extent as u32);
    let tiles = Grid::plane([strips, update_row_splits(e)], threads);
    run(c"adafactor_column_parts", tiles, args![g, e.rows, e.columns, column_sums])?;
    let args = args![
        column_sums,
        update_row_splits(e),
        column_means,
        e.rows,
        e.columns,
        take,
        grad_scale,
        o.input(1),
        epsilon
    ];
    run(c"adafactor_columns", Grid::elements(e.columns), args)?;
    let args = args![g, e.rows, e.columns, row_means, column_means, row_sums, blocks, squares];
    run(c"adafactor_squares", parts, args)?;
    let operands: &[Arg] = args![g, w, copies[0], copies[1], e.rows, e.columns];
    let sums = args![row_means, column_means, row_sums, squares, blocks, rate, decay, grad_scale, o.input(1)];
    let args = [operands, sums].concat();
    let down = e.rows.div_ceil(4 * UPDATE_TILE[1]).min(1 << 15);
    run(c"adafactor_matrix", Grid::plane([strips, down], threads), &args)
}
