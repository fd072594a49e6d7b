//! 8-bit integers: their codes, products of them, and numbers that are rounded as codes would be.

use super::{
    DType, Operands, Source, Types, args,
    launch::{Grid, THREADS},
};
use crate::{
    backend::{
        ops::{Follow, Int8, Window},
        scratch::int8::CUDA_RANGES,
    },
    error::Result,
};

/// The kernels.
pub(super) const SOURCE: Source = Source { name: "int8", text: include_str!("int8.cu"), types: Types::Element };

/// Rows that a block of threads takes at once: a warp one.
const WARPS: usize = THREADS as usize / 32;
/// The most blocks of threads.
const BLOCKS: usize = 1 << 14;

/// Launches a kernel of this family.
pub(super) fn launch(kernel: &Int8, o: &Operands<'_>) -> Result<()> {
    if !is_typed(kernel, o) {
        return o.unsupported();
    }
    let n = o.output_elements(0);
    let elementwise = |name| {
        let args = args![o.input(0), o.input(1), o.output(0), n];
        o.launch_for(&SOURCE, o.input_type(0), name, Grid::elements(n), args)
    };
    match *kernel {
        Int8::Encode => {
            let (rows, columns) = (o.output_elements(1), o.input_elements(0) / o.output_elements(1));
            let args = args![o.input(0), rows, columns, o.output(0), o.output(1), o.output(2)];
            o.launch_for(&SOURCE, o.input_type(0), c"encode_rows", warps(rows), args)
        }
        Int8::FakeWeight { columns } => {
            let rows = n / columns;
            let args = args![o.input(0), rows, columns, o.output(0)];
            o.launch_for(&SOURCE, o.input_type(0), c"round_rows", warps(rows), args)
        }
        Int8::Observe(follow) => observe(follow, o),
        Int8::Code => elementwise(c"encode_input"),
        Int8::Fake => elementwise(c"round_input"),
        Int8::FakeGrad => elementwise(c"round_input_gradient"),
        Int8::Product(window) => product(&window, o),
    }
}

fn warps(rows: usize) -> Grid {
    Grid::blocks(rows.div_ceil(WARPS).clamp(1, BLOCKS), THREADS)
}

/// Launches [`Int8::Observe`]: a range for each block of threads, then the range of all of them.
fn observe(follow: Follow, o: &Operands<'_>) -> Result<()> {
    let (n, ranges) = (o.input_elements(0), o.scratch());
    let blocks = n.div_ceil(THREADS as usize).clamp(1, CUDA_RANGES);
    let args = args![o.input(0), n, ranges];
    o.launch_for(&SOURCE, o.input_type(0), c"find_ranges", Grid::blocks(blocks, THREADS), args)?;
    let share = match follow {
        Follow::Widest => 0.0,
        Follow::Narrowing(share) => share,
    };
    // It knows no type: it is in every module.
    let args = args![ranges, blocks, o.output(0), share];
    o.launch_for(&SOURCE, o.input_type(0), c"follow_ranges", Grid::blocks(1, 1), args)
}

/// Launches [`Int8::Product`].
fn product(w: &Window, o: &Operands<'_>) -> Result<()> {
    let [x, range, weight, scales, sums, bias] = [0, 1, 2, 3, 4, 5].map(|i| o.input(i));
    // A part of a buffer may begin anywhere.
    let in_fours = w.channels.is_multiple_of(4) && x.0.is_multiple_of(4) && weight.0.is_multiple_of(4);
    let args = args![
        x,
        range,
        weight,
        scales,
        sums,
        bias,
        o.output(0),
        w.batch,
        w.filters,
        w.height,
        w.width,
        w.channels,
        w.size,
        w.stride,
        w.padding,
        in_fours
    ];
    o.launch_for(&SOURCE, o.output_type(0), c"int8_product", Grid::elements(w.out_elements()), args)
}

/// Whether the operands are of the types that the kernels know.
fn is_typed(kernel: &Int8, o: &Operands<'_>) -> bool {
    let outputs = [0, 1, 2].map(|i| o.output_type(i));
    match kernel {
        Int8::Encode => outputs == [DType::U8, DType::F32, DType::U32],
        Int8::Observe(_) => outputs[0] == DType::F32,
        Int8::Code => (o.input_type(1), outputs[0]) == (DType::F32, DType::U8),
        Int8::FakeWeight { .. } => outputs[0] == o.input_type(0),
        Int8::Fake | Int8::FakeGrad => (o.input_type(1), outputs[0]) == (DType::F32, o.input_type(0)),
        Int8::Product(_) => {
            let types = [0, 1, 2, 3, 4].map(|i| o.input_type(i));
            types == [DType::U8, DType::F32, DType::U8, DType::F32, DType::U32]
                && (o.inputs() == 5 || o.input_type(5) == outputs[0])
        }
    }
}
