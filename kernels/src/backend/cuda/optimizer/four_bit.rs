//! AdamW whose moments are 4-bit codes between updates (Li, Chen & Zhu 2023). The codes are the CPU's; see its file.

use crate::backend::cuda::{
    DType, Operands, Source, Types, args,
    launch::{Arg, Grid, Pointer, THREADS},
    optimizer,
};
use crate::{
    backend::{
        ops::{Moments, Rows, Update},
        scratch::split_reduction::{UPDATE_TILE, update_row_splits},
    },
    error::Result,
};

/// The kernels.
pub(in crate::backend::cuda) const SOURCE: Source =
    Source { name: "four_bit", text: include_str!("four_bit.cu"), types: Types::ElementAndWeight };

/// Blocks of codes that a block of threads takes at once: a warp one.
const WARPS: usize = THREADS as usize / 32;

/// Launches the update.
pub(super) fn launch(
    update: &Update,
    (moments, e): (&Moments, &Rows),
    copies: [Pointer; 2],
    o: &Operands<'_>,
) -> Result<()> {
    let states = [1, 2, 3, 4].map(|i| o.output_type(i));
    let is_matrix = e.rows > 1;
    if states != [DType::U8, DType::F32, DType::U8, DType::F32] || (is_matrix && o.output_type(5) != DType::F32) {
        return o.unsupported();
    }
    let types = optimizer::types(o);
    let run = |name, grid, args: &[_]| o.launch(&SOURCE, types, name, grid, args);
    let (n, blocks, extents) = (o.output_elements(0), o.output_elements(2), e.rows + e.columns);
    let (by_row, by_column) = (o.output(4), if is_matrix { o.output(5) } else { Pointer::default() });
    let new = o.scratch();
    if is_matrix {
        run(c"clear_tops", Grid::elements(extents), args![new, extents])?;
        let tiles = [e.columns.div_ceil(UPDATE_TILE[0]), update_row_splits(e)];
        let args = args![
            o.input(0),
            e.rows,
            e.columns,
            o.output(3),
            by_row,
            by_column,
            new,
            moments.beta2,
            update.grad_scale,
            o.input(1)
        ];
        run(c"largest_squares", Grid::plane(tiles, UPDATE_TILE.map(|extent| extent as u32)), args)?;
    }
    let c = update.adam(moments, true);
    let operands: &[Arg] =
        args![o.input(0), o.output(0), copies[0], copies[1], n, o.output(1), o.output(2), o.output(3)];
    let scales = args![by_row, by_column, new, e.rows, e.columns];
    let constants = args![c.rate, c.decay, moments.beta1, moments.beta2, c.epsilon, update.grad_scale, o.input(1)];
    run(c"adamw_four_bit", Grid::blocks(blocks.div_ceil(WARPS), THREADS), &[operands, scales, constants].concat())?;
    if is_matrix {
        run(c"keep_tops", Grid::elements(extents), args![new, e.rows, e.columns, by_row, by_column])?;
    }
    Ok(())
}
