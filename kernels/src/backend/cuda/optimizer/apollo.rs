//! APOLLO-Mini's update (Zhu et al. 2024). The rule is the CPU's; see its file. The extents alone decide the parts of sums.

use crate::backend::cuda::{
    Operands, Source, Types, args,
    launch::{Arg, Grid, Pointer, THREADS},
    optimizer,
};
use crate::{
    backend::{
        ops::{Moments, Rows, Update, UpdateRule},
        scratch::split_reduction::{UPDATE_TILE, apollo_squares, update_row_splits},
    },
    error::Result,
};

/// The kernels.
pub(in crate::backend::cuda) const SOURCE: Source =
    Source { name: "apollo", text: include_str!("apollo.cu"), types: Types::ElementAndWeight };

/// Launches the update.
pub(super) fn launch(
    update: &Update,
    (moments, e, key): (&Moments, &Rows, u64),
    copies: [Pointer; 2],
    o: &Operands<'_>,
) -> Result<()> {
    let types = optimizer::types(o);
    if [1, 2, 3].iter().any(|i| o.output_type(*i) != types[0].accumulator()) {
        return o.unsupported();
    }
    let run = |name, grid, args: &[_]| o.launch(&SOURCE, types, name, grid, args);
    let (g, n, short, long) = (o.input(0), o.output_elements(0), e.rows.min(e.columns), e.rows.max(e.columns));
    let at = |elements: usize| Pointer(o.scratch().0 + (elements * size_of::<f64>()) as u64);
    // The factor, the direction, the parts of the sum of squares, those of the gradient's part in the direction.
    let (factor, direction, squares) = (o.scratch(), at(1), at(1 + short));
    let (parts, sums) = (apollo_squares(e), at(1 + short + apollo_squares(e)));
    run(c"apollo_direction", Grid::elements(short), args![direction, short, key])?;
    let splits = if e.rows > e.columns {
        let args = args![g, direction, e.rows, e.columns, sums, squares];
        run(c"apollo_rows", Grid::blocks(parts, THREADS), args)?;
        1
    } else {
        let tiles = [e.columns.div_ceil(UPDATE_TILE[0]), update_row_splits(e)];
        let args = args![g, direction, e.rows, e.columns, sums, squares];
        run(c"apollo_columns", Grid::plane(tiles, UPDATE_TILE.map(|extent| extent as u32)), args)?;
        tiles[1]
    };
    // Of a rate of one: what corrects the moments' bias.
    let c = Update { rate: 1.0, ..*update }.adam(moments, true);
    let states: &[Arg] = args![o.output(1), o.output(2), o.output(3)];
    let of_sums = args![sums, splits, long, squares, parts, factor];
    let constants = args![
        update.rate,
        c.rate,
        UpdateRule::APOLLO_SCALE,
        moments.beta1,
        moments.beta2,
        c.epsilon,
        UpdateRule::APOLLO_EPSILON,
        UpdateRule::APOLLO_GROWTH,
        update.grad_scale,
        o.input(1)
    ];
    run(c"apollo_moments", Grid::blocks(1, THREADS), &[states, of_sums, constants].concat())?;
    let decay = 1.0 - update.rate * update.weight_decay;
    let args = args![g, o.output(0), copies[0], copies[1], n, factor, decay];
    run(c"apollo_step", Grid::elements(n), args)
}
