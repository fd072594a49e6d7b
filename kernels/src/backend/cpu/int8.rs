//! 8-bit integers: their codes, products of them, and numbers that are rounded as codes would be.

mod dots;
#[cfg(target_arch = "x86_64")]
mod panels;
mod product;

pub(in crate::backend) use self::product::Blocks;
use super::{
    by_type::by_float,
    float::Float,
    operands::Operands,
    parallel::{self, rows},
    simd::simd,
};
use crate::{
    backend::ops::{Follow, Int8},
    error::Result,
};

/// Runs a kernel of this family.
pub(super) fn launch(kernel: &Int8, o: &Operands<'_>) -> Result<()> {
    match kernel {
        Int8::Encode => by_float!(o.input_type(0), T => {
            encode::<T>(&o.input(0)?, &mut o.bytes(0)?, &mut o.output(1)?, &mut o.integers(2)?);
            Ok(())
        }, else o.unsupported()),
        Int8::Observe(follow) => by_float!(o.input_type(0), T => {
            observe::<T>(*follow, &o.input(0)?, &mut o.output(0)?);
            Ok(())
        }, else o.unsupported()),
        Int8::Code => by_float!(o.input_type(0), T => {
            let (x, steps) = (o.input::<T>(0)?, Steps::of(&o.input(1)?));
            let x: &[T] = &x;
            parallel::each(&mut o.bytes(0)?, |start, codes| code(&x[start..start + codes.len()], steps, codes));
            Ok(())
        }, else o.unsupported()),
        Int8::Product(window) => {
            by_float!(o.output_type(0), T => product::product::<T>(window, o), else o.unsupported())
        }
        Int8::FakeWeight { columns } => by_float!(o.input_type(0), T => {
            let (w, columns) = (o.input::<T>(0)?, *columns);
            let (w, mut y) = (&*w, o.output::<T>(0)?);
            parallel::ranges(w.len() / columns, columns, rows(&mut y, columns), |range, y| {
                let w = &w[range.start * columns..range.end * columns];
                w.chunks_exact(columns).zip(y.chunks_exact_mut(columns)).for_each(|(w, y)| fake_row(w, y));
            });
            Ok(())
        }, else o.unsupported()),
        Int8::Fake => by_float!(o.input_type(0), T => {
            let (x, steps) = (o.input::<T>(0)?, Steps::of(&o.input(1)?));
            let x: &[T] = &x;
            parallel::each(&mut o.output::<T>(0)?, |start, y| fake(&x[start..start + y.len()], steps, y));
            Ok(())
        }, else o.unsupported()),
        Int8::FakeGrad => by_float!(o.input_type(0), T => {
            let (x, steps) = (o.input::<T>(0)?, Steps::of(&o.input(1)?));
            let x: &[T] = &x;
            parallel::each(&mut o.output::<T>(0)?, |start, dx| fake_gradient(&x[start..start + dx.len()], steps, dx));
            Ok(())
        }, else o.unsupported()),
    }
}

/// The steps of an input's codes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Steps {
    /// The distance of two numbers that neighbouring codes stand for.
    pub(super) scale: f32,
    /// The code that stands for zero.
    pub(super) zero: f32,
    /// Whether there is a range: a range of zeros has seen nothing.
    is_known: bool,
}

impl Steps {
    /// Finds the scale and the zero point of the range `[low, high]`.
    fn of(range: &[f32]) -> Self {
        let scale = (range[1] - range[0]) / 255.0;
        // A range of zeros, or of NaN.
        if !scale.is_normal() {
            return Self { scale: 1.0, zero: 0.0, is_known: false };
        }
        Self { scale, zero: (-range[0] / scale).round_ties_even().clamp(0.0, 255.0), is_known: true }
    }

    /// The number of steps from zero, as far as there are codes.
    #[inline(always)]
    fn step_of<T: Float>(self, x: T) -> f32 {
        (single(x) / self.scale).round_ties_even().clamp(-self.zero, 255.0 - self.zero)
    }
}

/// 2^23: an f32 from here on has no fraction.
const WHOLE: f32 = 8_388_608.0;

#[inline(always)]
fn single<T: Float>(x: T) -> f32 {
    x.to_f64() as f32
}

/// The scale of a row, and its divisor.
#[inline(always)]
fn row_scale<T: Float>(row: &[T]) -> [f32; 2] {
    let [low, high] = extremes(row);
    let scale = high.max(-low) / 127.0;
    if scale.is_normal() { [scale, scale] } else { [0.0, 1.0] }
}

/// Runs [`Int8::Encode`].
fn encode<T: Float>(w: &[T], codes: &mut [u8], scales: &mut [f32], sums: &mut [u32]) {
    let columns = w.len() / scales.len().max(1);
    let of = (rows(codes, columns), (rows(scales, 1), rows(sums, 1)));
    parallel::ranges(w.len() / columns.max(1), columns, of, |range, (codes, (scales, sums))| {
        let w = &w[range.start * columns..range.end * columns];
        let each = w.chunks_exact(columns).zip(codes.chunks_exact_mut(columns)).zip(scales.iter_mut().zip(sums));
        for ((w, codes), (scale, sum)) in each {
            let [own, unit] = row_scale(w);
            *scale = own;
            *sum = encode_row(w, unit, codes) as u32;
        }
    });
}

/// Makes the codes of `w`, in two's complement, and a scale a row.
pub fn encode_f32(w: &[f32], codes: &mut [u8], scales: &mut [f32]) {
    let mut sums = vec![0; scales.len()];
    encode::<f32>(w, codes, scales, &mut sums);
}

/// The scale of the codes of inputs in the range `[low, high]`, and the code from 0 to 255 of zero.
pub fn steps_of(range: [f32; 2]) -> (f32, u8) {
    let Steps { scale, zero, .. } = Steps::of(&range);
    (scale, zero as u8)
}

/// Parts of a tensor whose ranges are found apart.
const PARTS: usize = 16;

/// Runs [`Int8::Observe`].
fn observe<T: Float>(follow: Follow, x: &[T], range: &mut [f32]) {
    let parts = if x.len() < 4 * parallel::GRAIN { 1 } else { PARTS };
    let mut found = [[0.0; 2]; PARTS];
    parallel::pieces(parts, parts > 1, rows(&mut found, 1), |p, found| {
        found[0] = extremes(&x[p * x.len() / parts..(p + 1) * x.len() / parts]);
    });
    let [low, high] = found.into_iter().fold([0.0_f32; 2], |all, own| [all[0].min(own[0]), all[1].max(own[1])]);
    let moved = |before: f32, seen: f32, wider: f32| match follow {
        Follow::Widest => wider,
        Follow::Narrowing(_) if wider == seen => seen,
        Follow::Narrowing(share) => before + share as f32 * (seen - before),
    };
    (range[0], range[1]) = (moved(range[0], low, low.min(range[0])), moved(range[1], high, high.max(range[1])));
}

simd! {
    /// The least and the largest number, and zero.
    fn extremes [T: Float] (x: &[T]) -> [f32; 2] {
        const LANES: usize = 16;
        let (mut low, mut high) = ([0.0_f32; LANES], [0.0_f32; LANES]);
        let blocks = x.chunks_exact(LANES);
        let rest = blocks.remainder();
        let mut see = |i: usize, x: T| {
            let x = single(x);
            low[i] = if x < low[i] { x } else { low[i] };
            high[i] = if x > high[i] { x } else { high[i] };
        };
        for block in blocks {
            for (i, x) in block.iter().enumerate() {
                see(i, *x);
            }
        }
        for (i, x) in rest.iter().enumerate() {
            see(i, *x);
        }
        [low.into_iter().fold(0.0, f32::min), high.into_iter().fold(0.0, f32::max)]
    }

    /// Writes the codes of a row of a weight; their sum.
    fn encode_row [T: Float] (w: &[T], unit: f32, codes: &mut [u8]) -> i32 {
        let mut sum = 0;
        for (code, w) in codes.iter_mut().zip(w) {
            let step = (single(*w) / unit).round_ties_even().clamp(-127.0, 127.0) as i32;
            *code = step as u8;
            sum += step;
        }
        sum
    }

    fn code [T: Float] (x: &[T], steps: Steps, codes: &mut [u8]) {
        for (code, x) in codes.iter_mut().zip(x) {
            // In a number from 2^23 on, the last bits are those of a whole number. `max` makes a zero of NaN.
            *code = ((steps.step_of(*x) + steps.zero).max(0.0) + WHOLE).to_bits() as u8;
        }
    }

    fn fake [T: Float] (x: &[T], steps: Steps, y: &mut [T]) {
        if !steps.is_known {
            return y.copy_from_slice(x);
        }
        for (y, x) in y.iter_mut().zip(x) {
            *y = T::from_f64(f64::from(steps.step_of(*x) * steps.scale));
        }
    }

    fn fake_gradient [T: Float] (x: &[T], steps: Steps, dx: &mut [T]) {
        if !steps.is_known {
            return;
        }
        for (dx, x) in dx.iter_mut().zip(x) {
            let step = (single(*x) / steps.scale).round_ties_even();
            if step < -steps.zero || step > 255.0 - steps.zero {
                *dx = T::ZERO;
            }
        }
    }

    fn fake_row [T: Float] (w: &[T], y: &mut [T]) {
        let [scale, unit] = row_scale(w);
        for (y, w) in y.iter_mut().zip(w) {
            let step = (single(*w) / unit).round_ties_even().clamp(-127.0, 127.0);
            *y = T::from_f64(f64::from(step * scale));
        }
    }
}
