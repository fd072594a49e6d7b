//! AdamW whose moments are 8-bit codes between updates, and whose weights of 16 bits have 8-bit corrections in place of a wider
//! copy (Gonzalez Ortiz et al. 2026, "FlashOptim: Optimizers for memory efficient training", arXiv 2602.23349).
//!
//! A group is decoded, updated in the type of arithmetic, and coded again. With `x` a share of the group's largest, a first
//! moment has the code `127 * 2x / (1 + |x|)`, which is finer near zero, and a second one `255 x` of its root. A weight's
//! correction is its rounding error, in 127ths of half the gap to the next weight.
//!
//! Three departures. What is kept of a scale is its root, in f16: the scale itself may be below the smallest number of f16. The
//! root is rounded up or down by chance, so that it is right on average: in an update without gradients a second moment's scale
//! falls by a two thousandth, and the nearest of 16 bits would fall by another share or not at all. The chance follows from the
//! update and the group. And a second moment that is not zero is never coded as zero, because the update divides by its root.

use half::f16;

use super::{Adam, unit, write_copy};
use crate::backend::{
    cpu::{
        float::{Accumulator, Float},
        lanes::largest_magnitude,
        parallel,
        simd::simd,
    },
    ops::{Moments, NarrowWeight, Update, UpdateRule},
};
use crate::rng::Rng;

const GROUP: usize = UpdateRule::GROUP;
/// Steps from zero to the end of a code with a sign, and of one without.
const STEPS: [f32; 2] = [127.0, 255.0];
/// Parts of a gap of f16 that f32 can tell apart.
const DITHERS: u32 = 1 << 13;

/// The state that is kept between updates.
pub(super) struct States<'a> {
    /// Codes of the first moment, and the root of each group's scale.
    pub(super) first: (&'a mut [u8], &'a mut [f16]),
    /// Codes of the root of the second, and the root of each group's scale.
    pub(super) second: (&'a mut [u8], &'a mut [f16]),
    /// Corrections of weights of 16 bits.
    pub(super) corrections: Option<(NarrowWeight, &'a mut [u8])>,
}

/// Runs [`UpdateRule::FlashAdamW`].
pub(super) fn adamw<W: Float, G: Float<Acc = W::Acc>, C: Float<Acc = W::Acc>>(
    update: &Update,
    moments: &Moments,
    grad: &[G],
    weight: &mut [W],
    states: States<'_>,
    copy: Option<&mut [C]>,
) {
    let (constants, chance) = (Adam::<W::Acc>::new(update, moments, true), moments.rounding());
    let (length, count) = (grad.len(), states.first.1.len());
    let elements = |group: usize| (group * GROUP).min(length);
    let parts = |(codes, scales)| (parallel::parts(codes, &elements), parallel::rows(scales, 1));
    let narrow = states.corrections.as_ref().map(|(narrow, _)| *narrow);
    let corrections = states.corrections.map(|(_, codes)| parallel::parts(codes, &elements));
    let weights = (parallel::parts(weight, &elements), copy.map(|copy| parallel::parts(copy, &elements)));
    let of = (weights, (corrections, [parts(states.first), parts(states.second)]));
    parallel::ranges(count, GROUP, of, |range, ((weight, copy), (corrections, [first, second]))| {
        let grad = &grad[elements(range.start)..elements(range.end)];
        groups((constants, chance, range.start), grad, weight, first, second, narrow.zip(corrections));
        if let Some(copy) = copy {
            write_copy(weight, copy);
        }
    });
}

/// Half the gap between a weight of 16 bits, in f32, and its neighbour away from zero: a power of two.
#[inline(always)]
fn half_gap(narrow: NarrowWeight, weight: f32) -> f32 {
    let (least_exponent, fraction_bits) = match narrow {
        NarrowWeight::Bf16 => (1, 7),
        NarrowWeight::F16 => (113, 10),
    };
    let exponent = ((weight.to_bits() >> 23) & 255).max(least_exponent);
    f32::from_bits(exponent << 23) * f32::from_bits((127 - fraction_bits - 1) << 23)
}

/// The code of a number between -1 and 1; for NaN, the code of zero.
#[inline(always)]
fn code(share: f32) -> u8 {
    (share.clamp(-1.0, 1.0) * STEPS[0] + 0.5f32.copysign(share)) as i8 as u8
}

/// The value of a code.
#[inline(always)]
fn decode(code: u8) -> f32 {
    f32::from(code as i8) / STEPS[0]
}

/// The code of a share of the group's largest first moment.
#[inline(always)]
fn compand(share: f32) -> u8 {
    code(2.0 * share / (1.0 + share.abs()))
}

/// The value of a code.
#[inline(always)]
fn expand(code: u8) -> f32 {
    let companded = decode(code);
    companded / (2.0 - companded.abs())
}

/// The code of a share of the root of the group's largest second moment: zero for zero only, and for NaN.
#[inline(always)]
fn root_code(share: f32) -> u8 {
    ((share * STEPS[1] + 0.5) as u8).max(u8::from(share > 0.0))
}

/// What is kept of a group's scale. The share of a gap that `dither` adds decides between the two roots around its own.
#[inline(always)]
fn kept(scale: f32, dither: f32) -> f16 {
    let root = (UpdateRule::ROOT_FACTOR * scale.sqrt()).min(f16::MAX.to_f32_const());
    let gap = 2.0 * half_gap(NarrowWeight::F16, root);
    // No group becomes one of zeros.
    let place = ((root / gap + dither) as u32).max(u32::from(root > 0.0));
    f16::down(place as f32 * gap)
}

/// The scale of which `root` is kept: exact.
#[inline(always)]
fn scale_of(root: f16) -> f32 {
    let root = root.up() / UpdateRule::ROOT_FACTOR;
    root * root
}

/// What is added to the roots of a group's two scales, in gaps: as many bits as f32 has more than f16.
#[inline(always)]
fn dithers(chance: Rng, group: usize) -> [f32; 2] {
    let bits = chance.bits(group as u64);
    [bits, bits >> 32].map(|bits| (bits as u32 & (DITHERS - 1)) as f32 / DITHERS as f32)
}

/// Steps the weights of a group and codes its moments again.
#[inline(always)]
fn step<A: Accumulator, G: Float<Acc = A>>(
    constants: Adam<A>,
    grad: &[G],
    weight: &mut [A],
    first: (&mut [u8], &mut f16),
    second: (&mut [u8], &mut f16),
    dithers: [f32; 2],
) {
    let Adam { rate, decay, beta1, beta2, epsilon, grad_scale, .. } = constants;
    let up = |x: f32| A::from_f64(f64::from(x));
    let (mut means, mut roots) = ([0.0f32; GROUP], [0.0f32; GROUP]);
    let scales = [scale_of(*first.1), scale_of(*second.1)];
    for ((mean, root), (m, r)) in means.iter_mut().zip(&mut roots).zip(first.0.iter().zip(&*second.0)) {
        *mean = scales[0] * expand(*m);
        *root = scales[1] * (f32::from(*r) / STEPS[1]);
    }
    for (((w, g), mean), root) in weight.iter_mut().zip(grad).zip(&mut means).zip(&mut roots) {
        let g = grad_scale * g.up();
        let m = beta1[0] * up(*mean) + beta1[1] * g;
        let v = beta2[0] * (up(*root) * up(*root)) + beta2[1] * (g * g);
        let deviation = v.sqrt();
        *mean = m.to_f64() as f32;
        *root = deviation.to_f64() as f32;
        *w = decay * *w - rate * m / (deviation + epsilon);
    }
    *first.1 = kept(largest_magnitude(&means), dithers[0]);
    *second.1 = kept(largest_magnitude(&roots), dithers[1]);
    let units = [unit(scale_of(*first.1)), unit(scale_of(*second.1))];
    for ((mean, root), (m, r)) in means.iter().zip(&roots).zip(first.0.iter_mut().zip(second.0)) {
        *m = compand(*mean / units[0]);
        *r = root_code(*root / units[1]);
    }
}

simd! {
    /// Updates some groups; the last one may be shorter.
    fn groups [W: Float, G: Float<Acc = W::Acc>] (
        of: (Adam<W::Acc>, Rng, usize), grad: &[G], weight: &mut [W], first: (&mut [u8], &mut [f16]),
        second: (&mut [u8], &mut [f16]), corrections: Option<(NarrowWeight, &mut [u8])>,
    ) {
        let (constants, chance, begin) = of;
        let first = first.0.chunks_mut(GROUP).zip(first.1);
        let second = second.0.chunks_mut(GROUP).zip(second.1);
        let mut corrections = corrections.map(|(narrow, codes)| (narrow, codes.chunks_mut(GROUP)));
        let moments = first.zip(second).zip(begin..);
        for ((weight, grad), ((first, second), group)) in weight.chunks_mut(GROUP).zip(grad.chunks(GROUP)).zip(moments) {
            let mut room = [W::Acc::ZERO; GROUP];
            let whole = &mut room[..weight.len()];
            let own = corrections.as_mut().and_then(|(narrow, codes)| Some((*narrow, codes.next()?)));
            for (whole, w) in whole.iter_mut().zip(&*weight) {
                *whole = w.up();
            }
            if let Some((narrow, codes)) = &own {
                for (whole, code) in whole.iter_mut().zip(&**codes) {
                    let half = half_gap(*narrow, whole.to_f64() as f32);
                    *whole += W::Acc::from_f64(f64::from(half * decode(*code)));
                }
            }
            step(constants, grad, whole, first, second, dithers(chance, group));
            for (w, whole) in weight.iter_mut().zip(&*whole) {
                *w = W::down(*whole);
            }
            if let Some((narrow, codes)) = own {
                for ((to, whole), w) in codes.iter_mut().zip(&*whole).zip(&*weight) {
                    let lost = (*whole - w.up()).to_f64() as f32;
                    *to = code(lost / half_gap(narrow, w.up().to_f64() as f32));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use half::bf16;

    use super::*;
    use crate::rng::Stream;

    /// For every weight of 16 bits, and for numbers between it and its neighbours.
    #[test]
    fn half_a_gap_is_what_rounding_takes_at_the_most() {
        let bf16s = |bits: u16| (bf16::from_bits(bits).to_f32(), bf16::from_bits(bits + 1).to_f32());
        let f16s = |bits: u16| (f16::from_bits(bits).to_f32(), f16::from_bits(bits + 1).to_f32());
        for bits in 0..0x7f7f {
            let (here, next) = bf16s(bits);
            assert_eq!(half_gap(NarrowWeight::Bf16, here), (next - here) / 2.0, "{here:e}");
            assert_eq!(half_gap(NarrowWeight::Bf16, -here), (next - here) / 2.0, "{here:e}");
        }
        for bits in 0..0x7bff {
            let (here, next) = f16s(bits);
            assert_eq!(half_gap(NarrowWeight::F16, here), (next - here) / 2.0, "{here:e}");
        }
    }

    #[test]
    fn codes_are_read_as_they_were_written() {
        for byte in 0..=255u8 {
            // -128 is never written.
            let written = if byte == 128 { 129 } else { byte };
            assert_eq!(code(decode(byte)), written);
            assert_eq!(compand(expand(byte)), written);
            assert_eq!(root_code(f32::from(byte) / 255.0), byte);
        }
        assert_eq!([code(f32::NAN), root_code(f32::NAN), code(0.0), root_code(0.0)], [0; 4]);
        assert_eq!([root_code(1e-30), root_code(1.0), code(2.0), code(-2.0)], [1, 255, 127, 129]);
    }

    #[test]
    fn a_kept_scale_is_right_on_average_and_one_of_the_two_around_it() {
        for scale in [1e-15f32, 3e-9, 1e-6, 0.25, 0.9995, 1.0, 3.7, 12_345.6, 1e7] {
            let root = UpdateRule::ROOT_FACTOR * scale.sqrt();
            let gap = 2.0 * half_gap(NarrowWeight::F16, root);
            let all = (0..DITHERS).map(|dither| kept(scale, dither as f32 / DITHERS as f32).to_f32());
            let mean = all.map(f64::from).inspect(|here| assert!((here - f64::from(root)).abs() < f64::from(gap)));
            let mean = mean.sum::<f64>() / f64::from(DITHERS);
            let part = f64::from(gap) / f64::from(DITHERS);
            assert!((mean - f64::from(root)).abs() <= part, "{scale:e}: {mean:e} of {root:e}");
        }
        assert_eq!([kept(0.0, 0.999), kept(f32::INFINITY, 0.999), kept(1e20, 0.0)], [f16::ZERO, f16::MAX, f16::MAX]);
        assert_eq!(kept(f32::MIN_POSITIVE, 0.0), f16::from_bits(1));
        let drawn: Vec<f32> = (0..4096).flat_map(|group| dithers(Rng::new(3, Stream::Rounding, 0), group)).collect();
        let mean = drawn.iter().sum::<f32>() / drawn.len() as f32;
        assert!((mean - 0.5).abs() < 0.02 && drawn.iter().all(|x| (0.0..1.0).contains(x)), "{mean}");
    }

    #[test]
    fn a_scale_is_the_largest_magnitude_of_those_that_are_numbers() {
        let mut group = [0.0; GROUP];
        assert_eq!((largest_magnitude(&group), unit(largest_magnitude(&group))), (0.0, 1.0));
        (group[3], group[9], group[10]) = (0.25, -0.75, f32::NAN);
        assert_eq!((largest_magnitude(&group), unit(largest_magnitude(&group))), (0.75, 0.75));
    }
}
