//! The same elements in another type or another order.

pub(super) mod transpose;

use super::{
    DType, Operands, Source, Types, args,
    launch::Pointer,
    threads::{Tiles, is_wide, runs},
};
use crate::{
    backend::ops::{CopyColumns, Layout},
    error::Result,
};

/// The kernels.
pub(super) const SOURCE: Source = Source {
    name: "layout",
    text: concat!(
        include_str!("vectors.cuh"),
        include_str!("columns.cuh"),
        "#line 1 \"layout.cu\"\n",
        include_str!("layout.cu")
    ),
    types: Types::Pair,
};

/// Launches a kernel of this family.
pub(super) fn launch(kernel: &Layout, o: &Operands<'_>) -> Result<()> {
    let types = [o.input_type(0), o.output_type(0)];
    let (x, y) = (o.input(0), o.output(0));
    let behind = |pointer: Pointer, elements: usize, dtype: DType| {
        (Pointer(pointer.0 + (elements * dtype.size()) as u64), dtype)
    };
    match *kernel {
        Layout::Cast => {
            let (n, wide) = (o.output_elements(0), is_wide(&[(x, types[0]), (y, types[1])], &[]));
            o.launch(&SOURCE, types, c"cast", runs(n, wide), args![x, y, n, wide])
        }
        Layout::CopyColumns(copy) => {
            let CopyColumns { rows, columns, from_stride, from_offset, to_stride, to_offset } = copy;
            let firsts = [behind(x, from_offset, types[0]), behind(y, to_offset, types[1])];
            let tiles = Tiles::new(columns, is_wide(&firsts, &[columns, from_stride, to_stride]));
            let args =
                args![x, y, rows, columns, from_stride, from_offset, to_stride, to_offset, tiles.width, tiles.wide];
            o.launch(&SOURCE, types, c"copy_columns", tiles.rows(rows), args)
        }
        Layout::Transpose { batch, rows, columns } => transpose::launch([batch, rows, columns], o),
    }
}
