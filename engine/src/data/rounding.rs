//! Images that are rounded before they are handed over.
//!
//! Owns [`round`]. A loader rounds the images of a batch to the type in which a model computes, in the room that they have as
//! f32, so that the thread that launches kernels copies bytes and converts nothing. Always holds: each number becomes what the
//! upload of its f32 would have made of it, to the last bit, and nothing is allocated.

use half::{f16, slice::HalfFloatSliceExt};

use crate::tensor::DType;

/// Numbers that are rounded at once.
const BLOCK: usize = 1024;

/// Rounds `numbers` to bf16 or f16, as bytes in the first half of their room. Leaves other types as they are.
pub(super) fn round(numbers: &mut [f32], dtype: DType) {
    match dtype {
        DType::Bf16 => by_blocks(numbers, |from, to| to.iter_mut().zip(from).for_each(|(to, from)| *to = bf16(*from))),
        DType::F16 => by_blocks(numbers, |from, to| {
            bytemuck::cast_slice_mut::<u16, f16>(to).convert_from_f32_slice(from);
        }),
        DType::F64 | DType::F32 | DType::U32 | DType::U8 => {}
    }
}

/// Calls `round` with a block of numbers and the place of as many rounded ones, block by block. A place is written only once
/// what lay there was read.
fn by_blocks(numbers: &mut [f32], round: impl Fn(&[f32], &mut [u16])) {
    let mut block = [0.0; BLOCK];
    for first in (0..numbers.len()).step_by(BLOCK) {
        let place = first..numbers.len().min(first + BLOCK);
        let block = &mut block[..place.len()];
        block.copy_from_slice(&numbers[place.clone()]);
        round(block, &mut bytemuck::cast_slice_mut(numbers)[place]);
    }
}

/// The bits of the nearest number of bf16, of two as near the even one. Without a branch, so that the compiler makes
/// instructions of it that round many at once, which `half` does not have for this type.
fn bf16(number: f32) -> u16 {
    let bits = number.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    let of_nan = bits >> 16 | 0x40;
    (if number.is_nan() { of_nan } else { rounded }) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::DType::{Bf16, F16};

    #[test]
    fn numbers_are_rounded_in_their_own_room_as_one_by_one() {
        // Every sign, exponent and upper bit of the fraction, at a tie, and at either side of one.
        let numbers: Vec<f32> = (0..=u16::MAX)
            .flat_map(|upper| [0x7fff, 0x8000, 0x8001].map(|low| (u32::from(upper) << 16) | low))
            .map(f32::from_bits)
            .collect();
        // And ends that no block has.
        for len in [0, 1, 2, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 7, numbers.len()] {
            let numbers = &numbers[numbers.len() - len..];
            let rounded = |dtype| {
                let mut own = numbers.to_vec();
                round(&mut own, dtype);
                bytemuck::cast_slice::<f32, u16>(&own)[..len].to_vec()
            };
            for ((number, bf), half) in numbers.iter().zip(rounded(Bf16)).zip(rounded(F16)) {
                assert_eq!(bf, half::bf16::from_f32(*number).to_bits(), "{number} to bf16");
                let one = f16::from_f32(*number);
                assert!(half == one.to_bits() || (one.is_nan() && f16::from_bits(half).is_nan()), "{number} to f16");
            }
        }
    }

    #[test]
    fn other_types_are_left_alone() {
        for dtype in [DType::F64, DType::F32, DType::U32, DType::U8] {
            let mut numbers = [1.0, -0.1, 3e-40];
            round(&mut numbers, dtype);
            assert_eq!(numbers, [1.0, -0.1, 3e-40]);
        }
    }
}
