//! Pruning by magnitude.

use super::{DType, Operands, Source, Types, args, launch::Grid};
use crate::{
    backend::ops::{KeyBits, Prune},
    error::Result,
};

/// The kernels.
pub(super) const SOURCE: Source = Source { name: "prune", text: include_str!("prune.cu"), types: Types::Element };

/// Blocks of a count: each adds its own counts to the common ones once.
const COUNTING_BLOCKS: usize = 256;
/// Threads of a block that counts.
const COUNTING_THREADS: usize = 256;

/// Launches a kernel of this family.
pub(super) fn launch(kernel: &Prune, o: &Operands<'_>) -> Result<()> {
    if !is_typed(kernel, o) {
        return o.unsupported();
    }
    let run = |name, grid, args: &[_]| o.launch_for(&SOURCE, o.input_type(0), name, grid, args);
    match *kernel {
        Prune::Count(bits) => {
            let (n, KeyBits { shift, count }) = (o.input_elements(0), bits);
            let blocks = n.div_ceil(COUNTING_THREADS).clamp(1, COUNTING_BLOCKS);
            let args =
                args![o.input(0), o.input(1), o.output(0), n, shift as usize, count as usize, bits.are_highest()];
            run(c"count_magnitudes", Grid::blocks(blocks, COUNTING_THREADS as u32), args)
        }
        Prune::Pick { bits, rank } => {
            let args = args![o.output(0), o.output(1), bits.count as usize, rank as usize, bits.are_highest()];
            // It knows no type: it is in every module.
            o.launch_for(&SOURCE, DType::F32, c"pick_threshold", Grid::blocks(1, 1), args)
        }
        Prune::Mask => {
            let n = o.input_elements(0);
            run(
                c"mask_by_magnitude",
                Grid::elements(o.output_elements(0)),
                args![o.input(0), o.input(1), o.output(0), n],
            )
        }
        Prune::Groups { columns, kept, of } => {
            let args = args![o.input(0), o.output(0), o.input_elements(0), columns, kept, of];
            run(c"mask_in_groups", Grid::elements(o.output_elements(0)), args)
        }
        Prune::Apply => (0..o.outputs()).try_for_each(|i| {
            let n = o.output_elements(i);
            let args = args![o.input(0), o.output(i), n];
            o.launch_for(&SOURCE, o.output_type(i), c"apply_mask", Grid::elements(n), args)
        }),
    }
}

/// Whether the integers among the operands are of the types that the kernels know.
fn is_typed(kernel: &Prune, o: &Operands<'_>) -> bool {
    match kernel {
        Prune::Count(_) => (o.input_type(1), o.output_type(0)) == (DType::U32, DType::U32),
        Prune::Pick { .. } => [o.output_type(0), o.output_type(1)] == [DType::U32; 2],
        Prune::Mask => (o.input_type(1), o.output_type(0)) == (DType::U32, DType::U8),
        Prune::Groups { .. } => o.output_type(0) == DType::U8,
        Prune::Apply => o.input_type(0) == DType::U8,
    }
}
