//! Coded weights: their codes, and products that decode a block of the weight at a time.

use std::{marker::PhantomData, ops::Range};

use super::{
    by_type::by_float,
    float::Float,
    gemm::{
        self, Matrix, Operand, Target,
        tiling::{GemmTiling, Layout, Multiplier, Product, TileLimits},
    },
    matrix::MatRef,
    operands::Operands,
    optimizer::quantised::{SIGNED, ZERO, signed},
    parallel,
    simd::simd,
    sixteen,
};
use crate::{
    backend::ops::{Code, Coded, CodedProduct, SCALE_BLOCK},
    error::Result,
};

/// The values of the 4-bit NormalFloat, as bitsandbytes has them: quantiles of the normal distribution, with a zero.
pub(crate) const NF4: [f32; 16] = [
    -1.0,
    -0.696_192_8,
    -0.525_073_05,
    -0.394_917_5,
    -0.284_441_38,
    -0.184_773_43,
    -0.091_050_036,
    0.0,
    0.079_580_3,
    0.160_930_2,
    0.246_112_3,
    0.337_915_24,
    0.440_709_83,
    0.562_617,
    0.722_956_84,
    1.0,
];
/// The middle between each value and the next.
const MIDDLES: [f32; 15] = sixteen::middles(&NF4);
/// The values of 4-bit integers. There is no -8.
const INT4: [f32; 16] = {
    let (mut values, mut i) = ([0.0; 16], 0);
    while i < 16 {
        values[i] = (i as i32 - 8) as f32 / 7.0;
        i += 1;
    }
    values
};
/// The two values of each byte, that of its higher half first.
type Pairs = [[f32; 2]; 256];

const fn pairs_of(values: &[f32; 16]) -> Pairs {
    let (mut pairs, mut byte) = ([[0.0; 2]; 256], 0);
    while byte < 256 {
        pairs[byte] = [values[byte >> 4], values[byte & 15]];
        byte += 1;
    }
    pairs
}

static NF4_PAIRS: Pairs = pairs_of(&NF4);
static INT4_PAIRS: Pairs = pairs_of(&INT4);
/// The value of each code of 8 bits.
static STEPS: [f32; 256] = {
    let (mut steps, mut byte) = ([0.0; 256], 0);
    while byte < 256 {
        steps[byte] = byte as u8 as i8 as f32 / 127.0;
        byte += 1;
    }
    steps
};

/// A coded weight, to read.
#[derive(Debug, Clone, Copy)]
pub struct Codes<'a> {
    /// How an element is coded.
    pub code: Code,
    /// The codes.
    pub bytes: &'a [u8],
    /// What a code is multiplied by.
    pub scales: Scales<'a>,
}

/// The scale of each block.
#[derive(Debug, Clone, Copy)]
pub enum Scales<'a> {
    /// The scales as they are.
    Plain(&'a [f32]),
    /// The scales as codes of 8 bits: `code / 127 * top + mean`.
    Coded {
        /// The code of each block.
        codes: &'a [u8],
        /// The largest distance from the mean, for each [`SCALE_BLOCK`] blocks.
        tops: &'a [f32],
        /// The mean of all scales.
        mean: f32,
    },
}

impl Scales<'_> {
    /// The scale of one block.
    fn of(&self, block: usize) -> f32 {
        match self {
            Self::Plain(scales) => scales[block],
            // In f64, so that every device rounds alike.
            Self::Coded { codes, tops, mean } => {
                let distance = f64::from(signed(codes[block])) * f64::from(tops[block / SCALE_BLOCK]);
                (f64::from(*mean) + distance) as f32
            }
        }
    }
}

/// Runs a kernel of this family.
pub(super) fn launch(kernel: &Coded, o: &Operands<'_>) -> Result<()> {
    match kernel {
        Coded::Encode(code) => by_float!(o.input_type(0), T => {
            encode::<T>(*code, &o.input(0)?, &mut o.bytes(0)?, &mut o.output(1)?);
            Ok(())
        }, else o.unsupported()),
        Coded::EncodeScales => {
            encode_scales(&o.input(0)?, &mut o.bytes(0)?, &mut o.output(1)?, &mut o.output(2)?);
            Ok(())
        }
        Coded::Decode(code) => by_float!(o.output_type(0), T => {
            let mut to = o.output::<T>(0)?;
            with_codes(o, 0, *code, |codes| parallel::each(&mut to, |start, to| decode_all::<T>(codes, start, to)))
        }, else o.unsupported()),
        Coded::Product(product) => by_float!(o.input_type(0), T => {
            let (x, mut y) = (o.input::<T>(0)?, o.output::<T>(0)?);
            with_codes(o, 1, product.code, |codes| multiply::<T>(product, &x, codes, &mut y))
        }, else o.unsupported()),
    }
}

/// Reads the codes and scales that begin with the input `first`.
fn with_codes(o: &Operands<'_>, first: usize, code: Code, read: impl FnOnce(Codes<'_>)) -> Result<()> {
    let bytes = o.input_bytes(first)?;
    if o.inputs() == first + 2 {
        let scales = o.input::<f32>(first + 1)?;
        read(Codes { code, bytes: &bytes, scales: Scales::Plain(&scales) });
    } else {
        let (codes, tops, mean) = (o.input_bytes(first + 1)?, o.input::<f32>(first + 2)?, o.input::<f32>(first + 3)?);
        read(Codes { code, bytes: &bytes, scales: Scales::Coded { codes: &codes, tops: &tops, mean: mean[0] } });
    }
    Ok(())
}

/// The tiles of a product with a coded weight: as many rows as have room, because each tile decodes its part of the weight.
pub(in crate::backend) fn plan(p: &CodedProduct, width: usize, narrow: bool) -> GemmTiling {
    let [k, n] = p.columns();
    let b = if p.by_input { Layout::CopiedRows } else { Layout::CopiedColumns };
    let a = Layout::of(!narrow, false);
    let product = Product { m: p.rows, n, k, width, a, b, staged: narrow, by: Multiplier::Crate };
    let depth = if width == 8 { 128 } else { 256 };
    GemmTiling::new(product, TileLimits { rows: if narrow { 192 } else { 480 }, columns: 64, depth })
}

/// Runs [`Coded::Product`].
fn multiply<T: Float>(p: &CodedProduct, x: &[T], weight: Codes<'_>, y: &mut [T]) {
    let plan = plan(p, size_of::<T::Acc>(), !T::DIRECT);
    let [depth, columns] = p.columns();
    let weight = Decoded::<T> { weight, stride: p.inner, is_transposed: !p.by_input, rounds: PhantomData };
    gemm::run(&plan, &Matrix::new(x, depth, false), &weight, Target::new(y, [p.rows, columns], false));
}

/// A coded weight or its transpose as one side of a product, rounded to `T`.
struct Decoded<'a, T> {
    weight: Codes<'a>,
    stride: usize,
    is_transposed: bool,
    rounds: PhantomData<T>,
}

impl<T: Float> Operand<T::Acc> for Decoded<'_, T> {
    fn layout(&self) -> Layout {
        if self.is_transposed { Layout::CopiedColumns } else { Layout::CopiedRows }
    }

    fn block<'s>(&'s self, rows: Range<usize>, columns: Range<usize>, room: &'s mut [T::Acc]) -> MatRef<'s, T::Acc> {
        let (outer, inner) = if self.is_transposed { (columns, rows) } else { (rows, columns) };
        let extents = [outer.len(), inner.len()];
        for (to, i) in room.chunks_exact_mut(inner.len()).zip(outer) {
            decode(self.weight, i * self.stride + inner.start, to, self.rounds);
        }
        let stored = MatRef::new(room, extents, extents[1]);
        if self.is_transposed { stored.transposed() } else { stored }
    }
}

/// Runs [`Coded::Encode`].
fn encode<T: Float>(code: Code, from: &[T], codes: &mut [u8], scales: &mut [f32]) {
    let block = code.block();
    let begin = |i: usize| (i * block).min(from.len());
    let first = |i| code.bytes(begin(i));
    let of = (parallel::parts(codes, &first), parallel::rows(scales, 1));
    parallel::ranges(code.blocks(from.len()), block, of, |blocks, (codes, scales)| {
        let from = from[begin(blocks.start)..begin(blocks.end)].chunks(block);
        for ((from, codes), scale) in from.zip(codes.chunks_mut(code.bytes(block))).zip(scales) {
            *scale = largest(from);
            // In a block of zeros, every share is zero.
            let unit = if *scale == 0.0 { 1.0 } else { *scale };
            match code {
                Code::Int8 => steps(from, unit, codes),
                Code::Nf4 => normal_halves(from, unit, codes),
                Code::Int4 => integer_halves(from, unit, codes),
            }
        }
    });
}

/// Runs [`Coded::EncodeScales`].
fn encode_scales(scales: &[f32], codes: &mut [u8], tops: &mut [f32], mean: &mut [f32]) {
    let sum: f64 = scales.iter().map(|scale| f64::from(*scale)).sum();
    let middle = (sum / scales.len().max(1) as f64) as f32;
    mean[0] = middle;
    for ((scales, codes), top) in scales.chunks(SCALE_BLOCK).zip(codes.chunks_mut(SCALE_BLOCK)).zip(tops) {
        *top = scales.iter().fold(0.0, |top, scale| larger(top, (scale - middle).abs()));
        let unit = if *top == 0.0 { 1.0 } else { *top };
        for (code, scale) in codes.iter_mut().zip(scales) {
            let distance = scale - middle;
            let near = SIGNED.find(distance.abs() / unit);
            // There is no -1.
            *code = if distance < 0.0 { ZERO - near.min(ZERO) } else { ZERO + near };
        }
    }
}

/// The larger of two; NaN wins.
#[inline(always)]
fn larger(a: f32, b: f32) -> f32 {
    if a.is_nan() || a > b { a } else { b }
}

#[inline(always)]
fn narrow<T: Float>(x: T) -> f32 {
    x.to_f64() as f32
}

#[inline(always)]
fn rounded<T: Float>(x: f32) -> T {
    T::from_f64(f64::from(x))
}

/// The number of the nearest value. For NaN it is the number of any value.
#[inline(always)]
fn nearest(share: f32) -> u8 {
    sixteen::nearest(&MIDDLES, share)
}

/// The number of the nearest 4-bit integer. For NaN it is the number of zero.
#[inline(always)]
fn four_bits(share: f32) -> u8 {
    ((share * 7.0).round_ties_even().clamp(-7.0, 7.0) as i8 + 8) as u8
}

#[inline(always)]
fn halves<T: Float>(from: &[T], unit: f32, codes: &mut [u8], near: impl Fn(f32) -> u8) {
    for (code, pair) in codes.iter_mut().zip(from.chunks(2)) {
        let low = pair.get(1).map_or(0, |x| near(narrow(*x) / unit));
        *code = near(narrow(pair[0]) / unit) << 4 | low;
    }
}

simd! {
    fn largest [T: Float] (from: &[T]) -> f32 {
        from.iter().fold(0.0, |top, x| larger(top, narrow(*x).abs()))
    }

    fn steps [T: Float] (from: &[T], unit: f32, codes: &mut [u8]) {
        for (code, x) in codes.iter_mut().zip(from) {
            *code = (narrow(*x) / unit * 127.0).round_ties_even().clamp(-127.0, 127.0) as i8 as u8;
        }
    }

    fn normal_halves [T: Float] (from: &[T], unit: f32, codes: &mut [u8]) {
        halves(from, unit, codes, nearest);
    }

    fn integer_halves [T: Float] (from: &[T], unit: f32, codes: &mut [u8]) {
        halves(from, unit, codes, four_bits);
    }

    /// Decodes the elements from number `start` on, rounded to `T`.
    fn decode [T: Float] (weight: Codes<'_>, start: usize, to: &mut [T::Acc], _rounds: PhantomData<T>) {
        each_block(weight, start, to, |x| rounded::<T>(x).up());
    }

    /// Decodes the same values in the order in which they are stored.
    fn decode_all [T: Float] (weight: Codes<'_>, start: usize, to: &mut [T]) {
        each_block(weight, start, to, rounded::<T>);
    }
}

/// Makes the codes of `from`, and a scale a block.
pub fn encode_f32(code: Code, from: &[f32], codes: &mut [u8], scales: &mut [f32]) {
    encode::<f32>(code, from, codes, scales);
}

/// Decodes the elements from number `start` on to `to`.
pub fn decode_f32(weight: Codes<'_>, start: usize, to: &mut [f32]) {
    decode_all::<f32>(weight, start, to);
}

#[inline(always)]
fn each_block<A>(weight: Codes<'_>, start: usize, to: &mut [A], made: impl Fn(f32) -> A + Copy) {
    let (block, mut at, mut rest) = (weight.code.block(), start, to);
    while !rest.is_empty() {
        let count = (block - at % block).min(rest.len());
        let (part, after) = rest.split_at_mut(count);
        let scale = weight.scales.of(at / block);
        match weight.code {
            Code::Int8 => {
                for (to, code) in part.iter_mut().zip(&weight.bytes[at..at + count]) {
                    *to = made(STEPS[*code as usize] * scale);
                }
            }
            Code::Nf4 => pairs((weight.bytes, &NF4_PAIRS), at, scale, part, made),
            Code::Int4 => pairs((weight.bytes, &INT4_PAIRS), at, scale, part, made),
        }
        (at, rest) = (at + count, after);
    }
}

#[inline(always)]
fn pairs<A>((bytes, values): (&[u8], &Pairs), start: usize, scale: f32, to: &mut [A], made: impl Fn(f32) -> A + Copy) {
    let (before, rest) = to.split_at_mut((start % 2).min(to.len()));
    if let [to] = before {
        *to = made(values[bytes[start / 2] as usize][1] * scale);
    }
    let bytes = &bytes[start.div_ceil(2)..];
    let (pairs, last) = rest.as_chunks_mut::<2>();
    if let [to] = last {
        *to = made(values[bytes[pairs.len()] as usize][0] * scale);
    }
    for (to, byte) in pairs.iter_mut().zip(bytes) {
        let [first, second] = values[*byte as usize];
        *to = [made(first * scale), made(second * scale)];
    }
}

#[cfg(test)]
mod tests;
