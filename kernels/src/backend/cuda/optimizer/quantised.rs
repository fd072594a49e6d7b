//! AdamW whose moments are 8-bit codes between updates (Dettmers et al. 2022). The code is the CPU's; see its file.

use crate::backend::cuda::{
    DType, Operands, Source, Types, args,
    launch::{Grid, Pointer, THREADS},
    optimizer,
};
use crate::{
    backend::ops::{Moments, Update},
    error::Result,
};

/// The kernels.
pub(in crate::backend::cuda) const SOURCE: Source = Source {
    name: "quantised",
    text: concat!(include_str!("../dynamic_code.cuh"), "#line 1 \"quantised.cu\"\n", include_str!("quantised.cu")),
    types: Types::ElementAndWeight,
};

/// Blocks of codes that a block of threads takes at once: a warp one.
const WARPS: usize = THREADS as usize / 32;
/// The most blocks of threads: each makes the code's values when it starts.
const BLOCKS: usize = 1024;

/// Launches the update.
pub(super) fn launch(update: &Update, moments: &Moments, copies: [Pointer; 2], o: &Operands<'_>) -> Result<()> {
    let states = [1, 2, 3, 4].map(|i| o.output_type(i));
    if states != [DType::U8, DType::F32, DType::U8, DType::F32] {
        return o.unsupported();
    }
    let (c, n, blocks) = (update.adam(moments, true), o.output_elements(0), o.output_elements(2));
    let args = args![
        o.input(0),
        o.output(0),
        copies[0],
        copies[1],
        n,
        o.output(1),
        o.output(2),
        o.output(3),
        o.output(4),
        c.rate,
        c.decay,
        moments.beta1,
        moments.beta2,
        c.epsilon,
        update.grad_scale,
        o.input(1)
    ];
    let grid = Grid::blocks(blocks.div_ceil(WARPS).min(BLOCKS), THREADS);
    o.launch(&SOURCE, optimizer::types(o), c"adamw_quantised", grid, args)
}
