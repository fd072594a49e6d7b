//! Softmax cross entropy and its gradient; squared errors and theirs.
//!
//! A label outside the classes cannot be refused here, because only the kernel reads it. It makes the loss NaN, and the
//! gradient of its row zero.

use super::{
    DType, Operands, Source, Types, args,
    launch::{Grid, THREADS},
};
use crate::{
    backend::ops::{CUDA_LOSS_PARTS, Lesson, Loss},
    error::Result,
};

/// The kernels.
pub(super) const SOURCE: Source = Source {
    name: "loss",
    text: concat!(include_str!("last.cuh"), "#line 1 \"loss.cu\"\n", include_str!("loss.cu")),
    types: Types::Element,
};

/// Classes from which on a block takes a row; below, a warp does.
const WIDE: usize = 1025;
/// The most columns: a row's elements are counted in 32 bits.
const MOST: usize = 1 << 30;
/// Threads of a warp.
const WARP: usize = 32;

/// Launches a kernel of this family.
pub(super) fn launch(kernel: &Loss, o: &Operands<'_>) -> Result<()> {
    let (classes, logits, taught) = match *kernel {
        Loss::SquaredError | Loss::SquaredErrorGrad { .. } => return values(kernel, o),
        Loss::CrossEntropy { classes } => (classes, o.input_elements(0), 0),
        Loss::Distil { classes, .. } => (classes, o.input_elements(0), o.input_elements(1)),
        Loss::CrossEntropyGrad { classes, .. } => (classes, o.output_elements(0), 0),
        Loss::DistilGrad { classes, .. } => (classes, o.output_elements(0), o.input_elements(0)),
    };
    let rows = o.input_elements(o.inputs() - 1);
    // A row may be longer than its classes.
    let [columns, of_taught] = [logits, taught].map(|all| all / rows);
    let (is_of_sums, is_taught) = match kernel {
        Loss::CrossEntropy { .. } => (true, true),
        Loss::Distil { .. } => (true, o.input_type(0) == o.input_type(1)),
        // A gradient may be of f64 as well.
        Loss::DistilGrad { .. } => (false, o.input_type(0) == o.output_type(0)),
        Loss::CrossEntropyGrad { .. } | Loss::SquaredError | Loss::SquaredErrorGrad { .. } => (false, true),
    };
    let is_typed =
        o.input_type(o.inputs() - 1) == DType::U32 && (!is_of_sums || o.output_type(0) == DType::F64) && is_taught;
    if columns > MOST || !is_typed {
        return o.unsupported();
    }
    let is_wide = classes >= WIDE;
    let blocks = if is_wide { rows } else { rows.div_ceil(THREADS as usize / WARP) };
    match *kernel {
        Loss::CrossEntropy { .. } => {
            let parts = blocks.min(CUDA_LOSS_PARTS);
            let (dtype, name) = (o.input_type(0), if is_wide { c"cross_entropy_wide" } else { c"cross_entropy" });
            let args = args![o.input(0), o.input(1), rows, columns, classes, o.scratch(), o.output(0)];
            o.launch_for(&SOURCE, dtype, name, Grid::blocks(parts, THREADS), args)
        }
        Loss::CrossEntropyGrad { scale, .. } => {
            let name = if is_wide { c"cross_entropy_gradient_wide" } else { c"cross_entropy_gradient" };
            let args = args![o.input(0), o.output(0), rows, columns, classes, scale];
            o.launch_for(&SOURCE, o.output_type(0), name, Grid::blocks(blocks, THREADS), args)
        }
        Loss::Distil { lesson: Lesson { temperature, weight }, .. } => {
            let parts = blocks.min(CUDA_LOSS_PARTS);
            let (dtype, name) = (o.input_type(0), if is_wide { c"distil_wide" } else { c"distil" });
            let (own, taught) = (o.input(0), o.input(1));
            let (labels, sums, stats) = (o.input(2), o.scratch(), o.output(0));
            let args = args![own, taught, labels, rows, columns, of_taught, classes, temperature, weight, sums, stats];
            o.launch_for(&SOURCE, dtype, name, Grid::blocks(parts, THREADS), args)
        }
        Loss::DistilGrad { lesson: Lesson { temperature, weight }, scale, .. } => {
            let name = if is_wide { c"distil_gradient_wide" } else { c"distil_gradient" };
            let (taught, labels) = (o.input(0), o.input(1));
            let args =
                args![taught, labels, o.output(0), rows, columns, of_taught, classes, temperature, weight, scale];
            o.launch_for(&SOURCE, o.output_type(0), name, Grid::blocks(blocks, THREADS), args)
        }
        Loss::SquaredError | Loss::SquaredErrorGrad { .. } => o.unsupported(),
    }
}

/// The most blocks of an elementwise kernel here: their threads take several values each where there are more.
const BLOCKS: usize = 1024;

/// Launches a kernel of squared errors.
fn values(kernel: &Loss, o: &Operands<'_>) -> Result<()> {
    let labels = o.inputs() - 1;
    let rows = o.input_elements(labels);
    if o.input_type(labels) != DType::F32 {
        return o.unsupported();
    }
    match *kernel {
        Loss::SquaredError if o.output_type(0) == DType::F64 => {
            let args = args![o.input(0), o.input(1), rows, o.output(0)];
            o.launch_for(&SOURCE, o.input_type(0), c"squared_error", Grid::blocks(1, THREADS), args)
        }
        Loss::SquaredErrorGrad { scale } => {
            let blocks = rows.div_ceil(THREADS as usize).min(BLOCKS);
            let args = args![o.input(0), o.output(0), rows, scale];
            o.launch_for(&SOURCE, o.output_type(0), c"squared_error_gradient", Grid::blocks(blocks, THREADS), args)
        }
        _ => o.unsupported(),
    }
}
