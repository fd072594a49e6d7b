//! Coded weights: their codes, and products that decode a part of the weight at a time for cuBLAS.

use super::{
    Operands, Source, Types, args, gemm,
    launch::{Grid, Pointer, THREADS},
};
use crate::{
    backend::{
        DType,
        ops::{Code, Coded, CodedProduct, MatMul},
    },
    error::Result,
};

/// The kernels.
pub(super) const SOURCE: Source = Source {
    name: "coded",
    text: concat!(include_str!("dynamic_code.cuh"), "#line 1 \"coded.cu\"\n", include_str!("coded.cu")),
    types: Types::Element,
};

/// Blocks of codes that a block of threads takes at once: a warp one.
const WARPS: usize = THREADS as usize / 32;
/// The most blocks of threads.
const BLOCKS: usize = 1 << 14;

/// Launches a kernel of this family.
pub(super) fn launch(kernel: &Coded, o: &Operands<'_>) -> Result<()> {
    match kernel {
        Coded::Encode(code) => encode(*code, o),
        Coded::EncodeScales => encode_scales(o),
        Coded::Decode(code) => {
            let weight = Weight::new(o, 0, *code)?;
            let n = o.output_elements(0);
            weight.decode(o, Part { first: 0, stride: n, rows: 1, columns: n }, o.output(0), o.output_type(0))
        }
        Coded::Product(product) => multiply(product, o),
    }
}

fn warps(blocks: usize) -> Grid {
    Grid::blocks(blocks.div_ceil(WARPS).min(BLOCKS), THREADS)
}

fn encode(code: Code, o: &Operands<'_>) -> Result<()> {
    if [o.output_type(0), o.output_type(1)] != [DType::U8, DType::F32] {
        return o.unsupported();
    }
    let n = o.input_elements(0);
    let name = match code {
        Code::Int8 => c"encode_int8",
        Code::Nf4 => c"encode_nf4",
        Code::Int4 => c"encode_int4",
    };
    o.launch_for(&SOURCE, o.input_type(0), name, warps(code.blocks(n)), args![o.input(0), n, o.output(0), o.output(1)])
}

fn encode_scales(o: &Operands<'_>) -> Result<()> {
    let types = [o.input_type(0), o.output_type(0), o.output_type(1), o.output_type(2)];
    if types != [DType::F32, DType::U8, DType::F32, DType::F32] {
        return o.unsupported();
    }
    let (scales, n, mean) = (o.input(0), o.input_elements(0), o.output(2));
    o.launch_for(&SOURCE, DType::F32, c"mean_of_scales", Grid::blocks(1, 1024), args![scales, n, mean])?;
    let args = args![scales, n, o.output(0), o.output(1), mean];
    o.launch_for(&SOURCE, DType::F32, c"encode_scales", warps(o.output_elements(1)), args)
}

/// A coded weight on the device.
struct Weight {
    /// The code's number in `coded.cu`.
    kind: usize,
    codes: Pointer,
    /// Null where they are coded.
    scales: Pointer,
    /// Codes, scales of those, and the mean; null where they are not.
    coded: [Pointer; 3],
}

/// Some columns of some rows of a weight.
struct Part {
    first: usize,
    stride: usize,
    rows: usize,
    columns: usize,
}

impl Weight {
    /// The weight whose operands begin with the input `first`.
    fn new(o: &Operands<'_>, first: usize, code: Code) -> Result<Self> {
        let is_plain = o.inputs() == first + 2;
        let types = |i: usize| o.input_type(first + i);
        let are_right = match is_plain {
            true => [types(0), types(1)] == [DType::U8, DType::F32],
            false => [types(0), types(1), types(2), types(3)] == [DType::U8, DType::U8, DType::F32, DType::F32],
        };
        if !are_right {
            return o.unsupported();
        }
        let null = Pointer::default();
        let (scales, coded) = match is_plain {
            true => (o.input(first + 1), [null; 3]),
            false => (null, [1, 2, 3].map(|i| o.input(first + i))),
        };
        let kind = match code {
            Code::Int8 => 0,
            Code::Nf4 => 1,
            Code::Int4 => 2,
        };
        Ok(Self { kind, codes: o.input(first), scales, coded })
    }

    /// Writes a part of it to `to`, without a gap.
    fn decode(&self, o: &Operands<'_>, part: Part, to: Pointer, dtype: DType) -> Result<()> {
        let Part { first, stride, rows, columns } = part;
        let [codes, tops, mean] = self.coded;
        let args = args![self.codes, self.scales, codes, tops, mean, self.kind, first, stride, rows, columns, to];
        o.launch_for(&SOURCE, dtype, c"decode", Grid::elements(rows * columns), args)
    }
}

/// [`Coded::Product`]: some columns of the result at a time, each summed at once.
fn multiply(p: &CodedProduct, o: &Operands<'_>) -> Result<()> {
    let (weight, dtype) = (Weight::new(o, 1, p.code)?, o.input_type(0));
    if o.output_type(0) != dtype {
        return o.unsupported();
    }
    let ([depth, columns], room) = (p.columns(), o.scratch());
    for from in (0..columns).step_by(p.part().max(1)) {
        let count = p.part().min(columns - from);
        let part = match p.by_input {
            true => Part { first: from, stride: p.inner, rows: p.out, columns: count },
            false => Part { first: from * p.inner, stride: p.inner, rows: count, columns: p.inner },
        };
        weight.decode(o, part, room, dtype)?;
        let product =
            MatMul { m: p.rows, n: count, k: depth, transpose_a: false, transpose_b: !p.by_input, accumulate: false };
        let to = Pointer(o.output(0).0 + (from * dtype.size()) as u64);
        gemm::product_in(&product, o, [o.input(0), room], dtype, to, dtype, columns)?;
    }
    Ok(())
}
