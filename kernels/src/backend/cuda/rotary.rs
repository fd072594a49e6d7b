//! Rotary embedding of queries and keys (Su et al. 2021), with the pairs of Llama.

use super::{Operands, Source, Types, args, launch::Grid};
use crate::{backend::ops::Rotary, error::Result};

/// The kernels.
pub(super) const SOURCE: Source = Source { name: "rotary", text: include_str!("rotary.cu"), types: Types::Element };

/// Blocks that fill a large device.
const BLOCKS: usize = 1024;
/// Pairs of a head that a block turns at a time.
const PAIRS: usize = 128;
/// Threads of a block.
const THREADS: usize = 256;

/// Launches the kernel.
pub(super) fn launch(kernel: &Rotary, o: &Operands<'_>) -> Result<()> {
    let Rotary { shape: s, first, base, is_inverse } = *kernel;
    let half = s.head_dim / 2;
    let across = half.next_power_of_two().min(PAIRS);
    // A position's angles are made once a block: sequences are only split where positions are few.
    let splits = (BLOCKS / s.length).clamp(1, s.batch);
    let grid = Grid::plane([s.length, splits], [across as u32, (THREADS / across) as u32]);
    let heads = s.heads + s.kv_heads;
    // The base to the power -pair / half is 2 to the power pair times this.
    let rate = -base.log2() / half as f64;
    let args = args![o.output(0), s.batch, s.length, s.packed(), heads, half, first, rate, is_inverse];
    o.launch_for(&SOURCE, o.output_type(0), c"rotary", grid, args)
}
