//! AdamW whose moments are 8-bit codes between updates (Dettmers et al. 2022, "8-bit optimizers via block-wise
//! quantization"): a block is decoded, updated in the type of arithmetic, and coded again by the nearest value.
//!
//! The code is the paper's dynamic one: seven decades below the block's largest magnitude, each with twice as many values
//! as the one below, evenly apart, and 0 and 1. One departure: a second moment that is not zero is never coded as zero,
//! because the update divides by its root.

use super::{Adam, write_copy};
use crate::backend::{
    cpu::{
        float::{Accumulator, Float},
        lanes::largest_magnitude,
        parallel,
        simd::simd,
    },
    ops::{Moments, Update, UpdateRule},
};

const BLOCK: usize = UpdateRule::BLOCK;
/// Powers of ten that the code reaches down to.
const DECADES: usize = 7;

/// Bits of an f32 that a bucket stands for: sign, exponent and the highest bits of the fraction.
const BUCKET_SHIFT: u32 = 16;
/// The bucket of 2^-23, below half of the smallest value of either code.
const FIRST_BUCKET: usize = 104 << 7;
/// Buckets from there to the bucket of 1.
const BUCKETS: usize = (127 << 7) - FIRST_BUCKET + 1;

/// Values from 0 to 1, rising, and how to find the nearest.
pub(in crate::backend::cpu) struct Code {
    /// The values; those past the last are 1.
    values: [f32; 256],
    /// The middle between a value and the next; infinite after the last.
    middles: [f32; 256],
    /// For each bucket, the value nearest to its lowest number.
    nearest: [u8; BUCKETS],
}

/// The code of first moments: the magnitudes; 127 stands for zero, negative ones are below it.
pub(in crate::backend::cpu) static SIGNED: Code = Code::new(1);
/// The code of second moments.
static UNSIGNED: Code = Code::new(2);
/// The code of zero with a sign.
pub(in crate::backend::cpu) const ZERO: u8 = 127;

impl Code {
    /// Makes the code with `first` values in the lowest decade.
    const fn new(first: usize) -> Self {
        let (mut values, mut middles, mut count) = ([1.0f32; 256], [f32::INFINITY; 256], 1);
        values[0] = 0.0;
        let (mut decade, mut top, mut steps) = (0, 1e-6, first);
        while decade < DECADES {
            let mut i = 0;
            while i < steps {
                values[count] = (top * (0.1 + 0.9 * (i as f64 + 0.5) / steps as f64)) as f32;
                (count, i) = (count + 1, i + 1);
            }
            (decade, top, steps) = (decade + 1, top * 10.0, steps * 2);
        }
        // After the last comes 1, which fills the rest.
        let mut i = 0;
        while i < count {
            middles[i] = ((values[i] as f64 + values[i + 1] as f64) / 2.0) as f32;
            i += 1;
        }
        let (mut nearest, mut bucket, mut at) = ([0; BUCKETS], 0, 0);
        while bucket < BUCKETS {
            let low = f32::from_bits(((FIRST_BUCKET + bucket) as u32) << BUCKET_SHIFT);
            while low > middles[at] {
                at += 1;
            }
            nearest[bucket] = at as u8;
            bucket += 1;
        }
        Self { values, middles, nearest }
    }

    /// The value nearest to `share`, in [0, 1]. A bucket holds at most one middle.
    #[inline(always)]
    pub(in crate::backend::cpu) fn find(&self, share: f32) -> u8 {
        let bucket = (share.to_bits() >> BUCKET_SHIFT) as usize;
        let near = self.nearest[bucket.saturating_sub(FIRST_BUCKET).min(BUCKETS - 1)];
        near + u8::from(share > self.middles[near as usize])
    }
}

/// The first moment that a code stands for, as a share of the block's largest.
#[inline(always)]
pub(in crate::backend::cpu) fn signed(code: u8) -> f32 {
    let magnitude = SIGNED.values[code.abs_diff(ZERO) as usize];
    if code < ZERO { -magnitude } else { magnitude }
}

/// Runs [`UpdateRule::AdamW8`]. `states`: codes and largest magnitudes, of the first moment and of the second.
pub(super) fn adamw<W: Float, G: Float<Acc = W::Acc>, C: Float<Acc = W::Acc>>(
    update: &Update,
    moments: &Moments,
    grad: &[G],
    weight: &mut [W],
    states: [(&mut [u8], &mut [f32]); 2],
    copy: Option<&mut [C]>,
) {
    let constants = Adam::<W::Acc>::new(update, moments, true);
    let (length, blocks) = (grad.len(), states[0].1.len());
    let elements = |block: usize| (block * BLOCK).min(length);
    let states = states.map(|(codes, largest)| (parallel::parts(codes, &elements), parallel::rows(largest, 1)));
    let of = ((parallel::parts(weight, &elements), copy.map(|copy| parallel::parts(copy, &elements))), states);
    parallel::ranges(blocks, BLOCK, of, |blocks, ((weight, copy), states)| {
        let grads = grad[elements(blocks.start)..elements(blocks.end)].chunks(BLOCK);
        let [first, second] = states.map(|(codes, largest)| codes.chunks_mut(BLOCK).zip(largest));
        let mut copies = copy.map(|copy| copy.chunks_mut(BLOCK));
        for (((weight, grad), first), second) in weight.chunks_mut(BLOCK).zip(grads).zip(first).zip(second) {
            block(constants, grad, weight, first, second);
            if let Some(copy) = copies.as_mut().and_then(Iterator::next) {
                write_copy(weight, copy);
            }
        }
    });
}

simd! {
    /// Updates one block, of at most [`BLOCK`] elements.
    fn block [W: Float, G: Float<Acc = W::Acc>] (
        constants: Adam<W::Acc>, grad: &[G], weight: &mut [W], first: (&mut [u8], &mut f32), second: (&mut [u8], &mut f32),
    ) {
        let Adam { rate, decay, beta1, beta2, epsilon, grad_scale, .. } = constants;
        let up = |x: f32| W::Acc::from_f64(f64::from(x));
        let (mut means, mut squares) = ([0.0f32; BLOCK], [0.0f32; BLOCK]);
        for (mean, code) in means.iter_mut().zip(&*first.0) {
            *mean = *first.1 * signed(*code);
        }
        for (square, code) in squares.iter_mut().zip(&*second.0) {
            *square = *second.1 * UNSIGNED.values[*code as usize];
        }
        for (((w, g), mean), square) in weight.iter_mut().zip(grad).zip(&mut means).zip(&mut squares) {
            let g = grad_scale * g.up();
            let m = beta1[0] * up(*mean) + beta1[1] * g;
            let v = beta2[0] * up(*square) + beta2[1] * (g * g);
            *mean = m.to_f64() as f32;
            *square = v.to_f64() as f32;
            *w = W::down(decay * w.up() - rate * m / (v.sqrt() + epsilon));
        }
        let [top, root] = [largest_magnitude(&means), largest_magnitude(&squares)];
        (*first.1, *second.1) = (top, root);
        // In a block of zeros, every share is zero.
        let [top, root] = [top, root].map(|x| if x > 0.0 { x } else { 1.0 });
        for (code, mean) in first.0.iter_mut().zip(&means) {
            let near = SIGNED.find(mean.abs() / top);
            // There is no -1.
            *code = if *mean < 0.0 { ZERO - near.min(ZERO) } else { ZERO + near };
        }
        for (code, square) in second.0.iter_mut().zip(&squares) {
            *code = UNSIGNED.find(*square / root).max(u8::from(*square > 0.0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_has_the_values_of_the_paper() {
        for (code, count) in [(&SIGNED, 129), (&UNSIGNED, 256)] {
            assert!(code.values[..count].windows(2).all(|pair| pair[0] < pair[1]));
            assert_eq!((code.values[0], code.values[count - 1]), (0.0, 1.0));
        }
        assert_eq!((UNSIGNED.values[1], UNSIGNED.values[254]), (0.325e-6, 0.996_484_4));
        assert_eq!((signed(0), signed(ZERO), signed(255)), (-0.992_968_74, 0.0, 1.0));
    }

    #[test]
    fn the_nearest_value_is_found_from_everywhere() {
        for code in [&SIGNED, &UNSIGNED] {
            // Every number of 16 bits, the middles and their neighbours.
            let middles = code.middles.iter().flat_map(|m| [m.next_down(), *m, m.next_up()]);
            let shares = (0..0x3f80u32).map(|bits| f32::from_bits(bits << 16)).chain(middles).filter(|x| *x <= 1.0);
            for share in shares {
                let distance = |i: usize| (f64::from(code.values[i]) - f64::from(share)).abs();
                let least = (0..256).map(distance).fold(f64::INFINITY, f64::min);
                let found = distance(code.find(share) as usize);
                assert!(found <= least + 1e-6 * f64::from(share), "{share}: {found}, not {least}");
            }
        }
    }
}
