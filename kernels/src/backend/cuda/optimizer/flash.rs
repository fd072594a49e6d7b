//! AdamW with companded moments of 8 bits and corrections of narrow weights (Gonzalez Ortiz et al. 2026, "FlashOptim"). The
//! codes are the CPU's; see its file.

use crate::backend::cuda::{
    DType, Operands, Source, Types, args,
    launch::{Grid, Pointer, THREADS},
    optimizer,
};
use crate::{
    backend::ops::{Moments, NarrowWeight, Update, UpdateRule},
    error::Result,
};

/// The kernels.
pub(in crate::backend::cuda) const SOURCE: Source =
    Source { name: "flash", text: include_str!("flash.cu"), types: Types::Gradient };

/// Groups of codes that a block of threads takes at once: a warp one.
const WARPS: usize = THREADS as usize / UpdateRule::GROUP;

/// Launches the update.
pub(super) fn launch(
    update: &Update,
    (moments, narrow): (&Moments, Option<NarrowWeight>),
    copies: [Pointer; 2],
    o: &Operands<'_>,
) -> Result<()> {
    let states = [1, 2, 3, 4].map(|i| o.output_type(i));
    let is_corrected = narrow.is_some();
    let has_room = !is_corrected || (NarrowWeight::of(o.output_type(0)) == narrow && o.output_type(5) == DType::U8);
    if states != [DType::U8, DType::F16, DType::U8, DType::F16] || !has_room {
        return o.unsupported();
    }
    let (c, n, groups) = (update.adam(moments, true), o.output_elements(0), o.output_elements(2));
    let corrections = if is_corrected { o.output(5) } else { Pointer::default() };
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
        corrections,
        moments.rounding().key(),
        c.rate,
        c.decay,
        moments.beta1,
        moments.beta2,
        c.epsilon,
        update.grad_scale,
        o.input(1)
    ];
    o.launch(&SOURCE, optimizer::types(o), c"adamw_flash", Grid::blocks(groups.div_ceil(WARPS), THREADS), args)
}
