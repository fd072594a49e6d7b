//! The floating-point types of tensors, and the types sums are carried in.
//!
//! Conversions of the 16-bit types are written without branches, so that loops over them become vector code. They
//! round to nearest, ties to even, as IEEE 754 does; a NaN stays a NaN.

use std::ops::{Add, AddAssign, Div, Mul, MulAssign, Sub};

use candle_core::CpuStorage;
use half::{bf16, f16};

use crate::backend::cpu::Plain;

/// A type of arithmetic: f32, or f64 for f64.
pub(in crate::backend) trait Accumulator:
    Float<Acc = Self>
    + Plain
    + Default
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + AddAssign
    + MulAssign
{
    /// The number 1.
    const ONE: Self;
    /// The numbers themselves, if they are f32.
    fn singles_mut(elements: &mut [Self]) -> Option<&mut [f32]>;
    /// The square root.
    fn sqrt(self) -> Self;
    /// The exponential; without branches for f32, so that loops over it become vector code, within 2 units in the
    /// last place.
    fn exp(self) -> Self;
    /// The error function, within 2e-7 for f32.
    fn erf(self) -> Self;
}

/// A type of tensor elements.
pub(in crate::backend) trait Float: Copy + Send + Sync + 'static {
    /// The type of arithmetic on it.
    type Acc: Accumulator;
    /// The number 0.
    const ZERO: Self;
    /// Converts to the type of arithmetic, exactly.
    fn up(self) -> Self::Acc;
    /// Converts from the type of arithmetic, rounded once.
    fn down(value: Self::Acc) -> Self;
    /// Converts from f64, rounded through the type of arithmetic.
    fn from_f64(value: f64) -> Self;
    /// Converts to f64, exactly.
    fn to_f64(self) -> f64;
    /// The elements of a tensor, when they are of this type.
    fn of(storage: &CpuStorage) -> Option<&[Self]>;
    /// The same elements, to write.
    fn of_mut(storage: &mut CpuStorage) -> Option<&mut [Self]>;
    /// The elements themselves as operands of arithmetic, if no conversion is needed.
    fn direct(elements: &[Self]) -> Option<&[Self::Acc]>;
    /// The same elements, to write.
    fn direct_mut(elements: &mut [Self]) -> Option<&mut [Self::Acc]>;
    /// Whether [`Float::direct`] is `Some`.
    const DIRECT: bool;
    /// The elements themselves, if they are f32.
    fn singles(_: &[Self]) -> Option<&[f32]> {
        None
    }
    /// The elements themselves, if they are bf16: processors have instructions that multiply pairs of them.
    fn pairs(_: &[Self]) -> Option<&[bf16]> {
        None
    }
}

macro_rules! accumulator {
    ($type:ty, $variant:ident, $exp:path, $erf:path, $to_singles:expr, $singles:expr) => {
        impl Accumulator for $type {
            const ONE: Self = 1.0;
            fn singles_mut(elements: &mut [Self]) -> Option<&mut [f32]> {
                $to_singles(elements)
            }
            #[inline(always)]
            fn sqrt(self) -> Self {
                <$type>::sqrt(self)
            }
            #[inline(always)]
            fn exp(self) -> Self {
                $exp(self)
            }
            #[inline(always)]
            fn erf(self) -> Self {
                $erf(self)
            }
        }

        impl Float for $type {
            type Acc = Self;
            const ZERO: Self = 0.0;
            const DIRECT: bool = true;
            #[inline(always)]
            fn up(self) -> Self {
                self
            }
            #[inline(always)]
            fn down(value: Self) -> Self {
                value
            }
            #[inline(always)]
            fn from_f64(value: f64) -> Self {
                value as Self
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                f64::from(self)
            }
            fn of(storage: &CpuStorage) -> Option<&[Self]> {
                if let CpuStorage::$variant(v) = storage { Some(v) } else { None }
            }
            fn of_mut(storage: &mut CpuStorage) -> Option<&mut [Self]> {
                if let CpuStorage::$variant(v) = storage { Some(v) } else { None }
            }
            #[inline(always)]
            fn direct(elements: &[Self]) -> Option<&[Self]> {
                Some(elements)
            }
            #[inline(always)]
            fn direct_mut(elements: &mut [Self]) -> Option<&mut [Self]> {
                Some(elements)
            }
            #[inline(always)]
            fn singles(elements: &[Self]) -> Option<&[f32]> {
                $singles(elements)
            }
        }
    };
}
accumulator!(f64, F64, f64::exp, candle_core::cpu::erf::erf_f64, |_| None, |_| None);
accumulator!(f32, F32, exp_f32, erf_f32, Some, Some);

/// The exponential of Cephes (Moshier 1989, `expf`): a power of two times a polynomial on [-ln 2 / 2, ln 2 / 2]. Zero
/// below the smallest normal number, infinite above the largest.
#[inline(always)]
fn exp_f32(x: f32) -> f32 {
    /// Adding it leaves an integer in the low bits.
    const MAGIC: f32 = 12_582_912.0;
    let clamped = x.clamp(-87.3, 88.7);
    let shifted = clamped * std::f32::consts::LOG2_E + MAGIC;
    let n = shifted - MAGIC;
    let r = clamped - n * 0.693_359_4 + n * 2.121_944_4e-4;
    let p = 1.987_569_1e-4;
    let p = p * r + 1.398_199_9e-3;
    let p = p * r + 8.333_452e-3;
    let p = p * r + 4.166_579_6e-2;
    let p = p * r + 1.666_666_5e-1;
    let p = p * r + 0.5;
    let p = p * r * r + r + 1.0;
    // In two factors, because 2^128 is not an f32.
    let half = f32::from_bits((shifted.to_bits() << 23).wrapping_add(126 << 23));
    let power = p * half * 2.0;
    let low = if x < -87.3 { 0.0 } else { power };
    if x > 88.7 { f32::INFINITY } else { low }
}

/// Abramowitz & Stegun 1964, formula 7.1.26.
#[inline(always)]
fn erf_f32(x: f32) -> f32 {
    let magnitude = x.abs();
    let t = 1.0 / (1.0 + 0.327_591_1 * magnitude);
    let p = 1.061_405_4;
    let p = p * t - 1.453_152;
    let p = p * t + 1.421_413_7;
    let p = p * t - 0.284_496_74;
    let p = p * t + 0.254_829_6;
    (1.0 - p * t * exp_f32(-magnitude * magnitude)).copysign(x)
}

macro_rules! narrow {
    ($type:ty, $variant:ident, $up:ident, $down:ident, $($pairs:item)?) => {
        impl Float for $type {
            $($pairs)?
            type Acc = f32;
            const ZERO: Self = <$type>::ZERO;
            const DIRECT: bool = false;
            #[inline(always)]
            fn up(self) -> f32 {
                $up(self.to_bits())
            }
            #[inline(always)]
            fn down(value: f32) -> Self {
                Self::from_bits($down(value))
            }
            #[inline(always)]
            fn from_f64(value: f64) -> Self {
                Self::down(value as f32)
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                f64::from(self.up())
            }
            fn of(storage: &CpuStorage) -> Option<&[Self]> {
                if let CpuStorage::$variant(v) = storage { Some(v) } else { None }
            }
            fn of_mut(storage: &mut CpuStorage) -> Option<&mut [Self]> {
                if let CpuStorage::$variant(v) = storage { Some(v) } else { None }
            }
            #[inline(always)]
            fn direct(_: &[Self]) -> Option<&[f32]> {
                None
            }
            #[inline(always)]
            fn direct_mut(_: &mut [Self]) -> Option<&mut [f32]> {
                None
            }
        }
    };
}
narrow!(
    bf16,
    BF16,
    bf16_up,
    bf16_down,
    fn pairs(elements: &[bf16]) -> Option<&[bf16]> {
        Some(elements)
    }
);
narrow!(f16, F16, f16_up, f16_down,);

#[inline(always)]
fn bf16_up(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

#[inline(always)]
fn bf16_down(value: f32) -> u16 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
    let nan = (bits >> 16) | 0x40;
    (if bits & 0x7fff_ffff > 0x7f80_0000 { nan } else { rounded }) as u16
}

#[inline(always)]
fn f16_up(bits: u16) -> f32 {
    let sign = (u32::from(bits) & 0x8000) << 16;
    let body = (u32::from(bits) & 0x7fff) << 13;
    // Moves the exponent from f16's bias to f32's by a product with 2^112, which also makes subnormals normal.
    let finite = (f32::from_bits(body) * f32::from_bits(0x7780_0000)).to_bits();
    let magnitude = if body >= 0x0f80_0000 { body | 0x7f80_0000 } else { finite };
    f32::from_bits(sign | magnitude)
}

/// Giesen, "float->half variants" (2012), `float_to_half_fast3_rtne`.
#[inline(always)]
fn f16_down(value: f32) -> u16 {
    const SUBNORMAL_MAGIC: u32 = (127 - 15 + 23 - 10 + 1) << 23;
    let bits = value.to_bits();
    let (sign, body) = ((bits >> 16) & 0x8000, bits & 0x7fff_ffff);
    let special = if body > 0x7f80_0000 { 0x7e00 } else { 0x7c00 };
    let subnormal = (f32::from_bits(body) + f32::from_bits(SUBNORMAL_MAGIC)).to_bits().wrapping_sub(SUBNORMAL_MAGIC);
    let normal = body.wrapping_add(0xc800_0fff).wrapping_add((body >> 13) & 1) >> 13;
    let magnitude = if body >= (127 + 16) << 23 {
        special
    } else if body < (127 - 14) << 23 {
        subnormal
    } else {
        normal
    };
    (sign | magnitude) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn every_16_bit_value_goes_up_and_comes_back() {
        for bits in 0..=u16::MAX {
            let (b, f) = (bf16::from_bits(bits), f16::from_bits(bits));
            assert!(b.up().to_bits() == b.to_f32().to_bits() || (b.is_nan() && b.up().is_nan()), "bf16 {bits:#x}");
            assert!(f.up().to_bits() == f.to_f32().to_bits() || (f.is_nan() && f.up().is_nan()), "f16 {bits:#x}");
            assert!(bf16::down(b.up()) == b || b.is_nan(), "bf16 {bits:#x}");
            assert!(f16::down(f.up()) == f || f.is_nan(), "f16 {bits:#x}");
        }
    }

    #[test]
    fn rounding_is_that_of_the_half_crate() {
        let rng = Rng::from_key(1);
        let edges = [65504.0, 65519.99, 65520.0, 65536.0, 6e-8, 2.9e-8, 3e-8, 6.1e-5, f32::MAX, f32::INFINITY];
        for i in 0..2_000_000 {
            let value = match edges.get(i as usize / 2) {
                Some(edge) if i % 2 == 0 => *edge,
                Some(edge) => -edge,
                None => f32::from_bits(rng.bits(i) as u32),
            };
            let (b, f) = (bf16::from_f32(value), f16::from_f32(value));
            assert!(
                bf16::down(value).to_bits() == b.to_bits() || (b.is_nan() && bf16::down(value).is_nan()),
                "{value}"
            );
            assert!(f16::down(value).to_bits() == f.to_bits() || (f.is_nan() && f16::down(value).is_nan()), "{value}");
        }
    }
}
