//! Embedding lookup, and the gradient of the table.
//!
//! The gradient's tokens are sorted first, with their places (Batcher 1968), so that one block sums
//! all rows of a token in one order. A token outside the table reads as NaN, and its gradient is dropped.

use super::{
    DType, Operands, Source, Types, args,
    launch::{Grid, THREADS},
    threads::{is_wide, runs_of_rows},
};
use crate::{backend::ops::Embedding, error::Result};

/// The kernels.
pub(super) const SOURCE: Source = Source {
    name: "embedding",
    text: concat!(include_str!("vectors.cuh"), "#line 1 \"embedding.cu\"\n", include_str!("embedding.cu")),
    types: Types::ElementAndWeight,
};

/// The kernels that sort tokens.
pub(super) const SORT: Source = Source { name: "sort", text: include_str!("sort.cu"), types: Types::One };

/// Pairs of token and place that a block sorts by itself.
const CHUNK: usize = 4096;
/// Its threads, where it has more pairs than these.
const SORTERS: u32 = 1024;
/// Sorted places that a block of the gradient looks at, and columns that it sums.
const TILE: [usize; 2] = [32, 128];

/// Launches a kernel of this family.
pub(super) fn launch(kernel: &Embedding, o: &Operands<'_>) -> Result<()> {
    if o.input_type(0) != DType::U32 {
        return o.unsupported();
    }
    match *kernel {
        Embedding::Forward => {
            if o.input_type(1) != o.output_type(0) {
                return o.unsupported();
            }
            let rows = o.input_elements(0);
            let width = o.output_elements(0) / rows;
            let dtype = o.output_type(0);
            let wide = is_wide(&[(o.input(1), dtype), (o.output(0), dtype)], &[width]);
            let args = args![o.input(0), o.input(1), o.output(0), rows, width, o.input_elements(1) / width, wide];
            o.launch_for(&SOURCE, dtype, c"embedding", runs_of_rows(rows, width, wide), args)
        }
        Embedding::Grad { rows, accumulate } => gradient(rows, accumulate, o),
    }
}

fn gradient(rows: usize, accumulate: bool, o: &Operands<'_>) -> Result<()> {
    if u32::try_from(rows).is_err() {
        return o.unsupported();
    }
    let run = |name, grid, args: &[_]| o.launch(&SOURCE, [o.input_type(1), o.output_type(0)], name, grid, args);
    let (sorted, elements) = (o.scratch(), o.output_elements(0));
    let width = o.input_elements(1) / rows;
    if !accumulate {
        run(c"embedding_clear", Grid::elements(elements), args![o.output(0), elements])?;
    }
    sort(rows, o)?;
    let grid = Grid::plane([rows.div_ceil(TILE[0]), width.div_ceil(TILE[1]).min(1 << 15)], [32, 8]);
    let args = args![sorted, o.input(1), o.output(0), rows, width, elements / width, accumulate];
    run(c"embedding_gradient", grid, args)
}

/// Pairs of every token and its place, in order.
fn sort(rows: usize, o: &Operands<'_>) -> Result<()> {
    let run = |name, grid, args: &[_]| o.launch_for(&SORT, DType::F32, name, grid, args);
    let sorted = o.scratch();
    let threads = if rows > SORTERS as usize { SORTERS } else { THREADS };
    let (chunks, pairs) = (Grid::blocks(rows.div_ceil(CHUNK), threads), Grid::elements(rows.div_ceil(2)));
    run(c"sort_chunks", chunks, args![o.input(0), sorted, rows])?;
    let mut size = 2 * CHUNK;
    while size < 2 * rows {
        run(c"sort_flip", pairs, args![sorted, rows, size])?;
        let mut stride = size / 4;
        while stride >= CHUNK {
            run(c"sort_stride", pairs, args![sorted, rows, stride])?;
            stride /= 2;
        }
        run(c"sort_merge", chunks, args![sorted, rows])?;
        size *= 2;
    }
    Ok(())
}
