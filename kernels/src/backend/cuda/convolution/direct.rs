//! Convolution by the engine's own kernels, where cuDNN is missing or refuses and the workspace is too small for patches.

use crate::backend::cuda::{
    Operands, Source, Types, args,
    launch::{Grid, THREADS},
};
use crate::{
    backend::ops::{Convolution, Window},
    error::Result,
};

/// The kernels.
pub(in crate::backend::cuda) const SOURCE: Source = Source {
    name: "direct_convolution",
    text: concat!(
        include_str!("../vectors.cuh"),
        include_str!("../windows.cuh"),
        "#line 1 \"direct.cu\"\n",
        include_str!("direct.cu")
    ),
    types: Types::ElementAndWeight,
};

/// Side of a block's square of the result, as `SIDE` of `direct.cu`.
const SIDE: usize = 64;
/// Blocks that keep a card busy: a gradient by the weights takes its pixels apart until there are as many.
const BLOCKS: usize = 256;
/// The most blocks along y, and along z.
const LAYERS: usize = 65535;
/// Pixels that a part has at least.
const GRAIN: usize = 256;

/// Launches one of them.
pub(in crate::backend::cuda) fn launch(kernel: &Convolution, o: &Operands<'_>) -> Result<()> {
    let types = [o.input_type(0), o.output_type(0)];
    if o.input_type(1) != types[0] {
        return o.unsupported();
    }
    match kernel {
        Convolution::WeightGrad { window, accumulate } => weight_gradient(o, window, *accumulate),
        Convolution::Forward(_) | Convolution::InputGrad(_) if types[0] != types[1] => o.unsupported(),
        Convolution::Forward(w) => {
            let grid = Grid::plane([squares(w.out_pixels(), w.filters), 1], [THREADS, 1]);
            product(o, w, c"convolution", grid)
        }
        Convolution::InputGrad(w) => {
            // Of the residue with the most pixels.
            let pixels = w.batch * w.height.div_ceil(w.stride) * w.width.div_ceil(w.stride);
            // Only those that a pixel has.
            let residues = [w.width, w.height].map(|extent| extent.min(w.stride));
            if residues.iter().any(|residues| *residues > LAYERS) {
                return o.unsupported();
            }
            let grid = Grid::space([squares(pixels, w.channels), residues[0], residues[1]], THREADS);
            product(o, w, c"convolution_input_gradient", grid)
        }
    }
}

/// How many squares a result of this many rows and columns has.
fn squares(rows: usize, columns: usize) -> usize {
    rows.div_ceil(SIDE) * columns.div_ceil(SIDE)
}

fn product(o: &Operands<'_>, w: &Window, name: &'static std::ffi::CStr, grid: Grid) -> Result<()> {
    let [a, b, to] = [o.input(0), o.input(1), o.output(0)];
    let args = args![a, b, to, w.batch, w.filters, w.height, w.width, w.channels, w.size, w.stride, w.padding];
    o.launch_for(&SOURCE, o.input_type(0), name, grid, args)
}

fn weight_gradient(o: &Operands<'_>, w: &Window, accumulate: bool) -> Result<()> {
    let types = [o.input_type(0), o.output_type(0)];
    let (x, dy, dw) = (o.input(0), o.input(1), o.output(0));
    // The sums of parts lie in the workspace, as cuDNN's would: as many as have room there.
    let (n, (sums, room)) = (w.filters * w.taps(), o.backend().workspace());
    let squares = squares(w.filters, w.taps());
    let most = (BLOCKS / squares).min(w.out_pixels().div_ceil(GRAIN)).min(room / (n * types[0].accumulator().size()));
    let parts = most.max(1);
    let args = args![
        x, dy, sums, dw, w.batch, w.filters, w.height, w.width, w.channels, w.size, w.stride, w.padding, accumulate
    ];
    let grid = Grid::plane([squares, parts], [THREADS, 1]);
    o.launch(&SOURCE, types, c"convolution_weight_gradient", grid, args)?;
    if parts == 1 {
        return Ok(());
    }
    let args = args![sums, parts, n, dw, accumulate];
    o.launch(&SOURCE, types, c"convolution_weight_gradient_total", Grid::elements(n), args)
}
