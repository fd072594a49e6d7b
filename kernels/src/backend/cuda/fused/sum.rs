//! Sums of rows with the bias and the dropout before them and the norm after them.

use crate::{
    backend::{
        cuda::{
            Operands, Source, Types, args,
            launch::Pointer,
            norm::row::grid,
            threads::{Tiles, is_wide},
        },
        ops::{Dropout, RowNorm, Rows},
    },
    error::Result,
};

/// The kernels.
pub(in crate::backend::cuda) const SOURCE: Source = Source {
    name: "sum",
    text: concat!(
        include_str!("../vectors.cuh"),
        include_str!("../columns.cuh"),
        include_str!("../norm/rows.cuh"),
        "#line 1 \"sum.cu\"\n",
        include_str!("sum.cu")
    ),
    types: Types::ElementAndWeight,
};

/// Launches the sum, and the norm with it.
pub(super) fn launch(
    o: &Operands<'_>,
    extents: Rows,
    biased: bool,
    dropout: Option<Dropout>,
    norm: Option<RowNorm>,
) -> Result<()> {
    let Rows { rows, columns } = extents;
    let (t, first) = (o.output_type(0), 1 + usize::from(biased));
    let types @ [_, w] = [t, if norm.is_some() { o.input_type(first) } else { t }];
    let matrices = if norm.is_some() { 2 } else { 1 };
    let fits = (0..first).all(|i| o.input_type(i) == t)
        && (first..o.inputs()).all(|i| o.input_type(i) == w)
        && (0..matrices).all(|i| o.output_type(i) == t)
        && (matrices..o.outputs()).all(|i| o.output_type(i) == t.accumulator());
    if !fits {
        return o.unsupported();
    }
    let (other, bias, y) = (o.input(0), if biased { o.input(1) } else { Pointer::default() }, o.output(0));
    // The probability as a bound of 64 random bits; nothing is below 0.
    let Dropout { probability, key } = dropout.unwrap_or(Dropout { probability: 0.0, key: 0 });
    let (bound, scale) = ((probability * 2f64.powi(64)) as u64, 1.0 / (1.0 - probability));
    let Some(norm) = norm else {
        let tiles = Tiles::new(columns, is_wide(&[(other, t), (bias, t), (y, t)], &[columns]));
        let args = args![other, bias, y, rows, columns, bound, scale, key, tiles.width, tiles.wide];
        return o.launch(&SOURCE, types, c"sum", tiles.rows(rows), args);
    };
    let (epsilon, offset, mean) = match norm {
        RowNorm::Layer(epsilon) => (epsilon, o.input(first + 1), o.output(2)),
        RowNorm::Rms(epsilon) => (epsilon, Pointer::default(), Pointer::default()),
    };
    let (normed, inverse, weight) = (o.output(1), o.output(o.outputs() - 1), o.input(first));
    let matrices = [other, bias, y, normed].map(|at| (at, t));
    let wide = is_wide(&[&matrices[..], &[(weight, w), (offset, w)]].concat(), &[columns]);
    let (grid, by_block) = grid(&extents);
    let args = args![
        other, bias, y, weight, offset, normed, mean, inverse, rows, columns, bound, scale, key, epsilon, by_block,
        wide
    ];
    o.launch(&SOURCE, types, c"sum_row_norm", grid, args)
}
