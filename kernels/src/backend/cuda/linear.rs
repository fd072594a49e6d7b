//! Dense layers: products of matrices by cuBLAS, and the bias.

use super::{
    Operands, Source, Types, args, gemm,
    threads::{Tiles, is_wide, totals},
};
use crate::{
    backend::{
        ops::{Linear, Rows},
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
    let (dtype, x, y) = (o.input_type(0), o.input(0), o.output(0));
    match *kernel {
        Linear::MatMul(product) => gemm::launch(&product, o),
        Linear::AddBias => {
            if o.output_type(0) != dtype {
                return o.unsupported();
            }
            let columns = o.input_elements(0);
            let rows = o.output_elements(0) / columns;
            let tiles = Tiles::new(columns, is_wide(&[(x, dtype), (y, dtype)], &[columns]));
            let args = args![x, y, rows, columns, tiles.width, tiles.wide];
            o.launch_for(&SOURCE, dtype, c"add_bias", tiles.rows(rows), args)
        }
        Linear::BiasGrad { accumulate } => {
            let types = [dtype, o.output_type(0)];
            let columns = o.output_elements(0);
            let rows = o.input_elements(0) / columns;
            let parts = bias_splits(&Rows { rows, columns });
            let tiles = Tiles::new(columns, is_wide(&[(x, dtype)], &[columns]));
            let args = args![x, rows, columns, o.scratch(), y, tiles.width, accumulate, tiles.wide];
            o.launch(&SOURCE, types, c"bias_gradient", tiles.parts(parts), args)?;
            if parts == 1 {
                return Ok(());
            }
            let args = args![o.scratch(), parts, columns, y, accumulate];
            o.launch(&SOURCE, types, c"bias_gradient_total", totals(columns), args)
        }
    }
}
