//! Elements that are not finite numbers: a file that was damaged, or saved by a run that had diverged.

use crate::tensor::DType;

/// The first of these elements that is not a finite number: all bits of its exponent are set.
pub(super) fn first_not_finite(elements: &[u8], dtype: DType) -> Option<usize> {
    fn first<const SIZE: usize>(elements: &[u8], is_wrong: impl Fn(&[u8; SIZE]) -> bool) -> Option<usize> {
        let (elements, _) = elements.as_chunks::<SIZE>();
        // All of them at first, which takes no branch: hardly any file has one.
        let is_any = elements.iter().fold(false, |is_any, element| is_any | is_wrong(element));
        if is_any { elements.iter().position(is_wrong) } else { None }
    }
    match dtype {
        DType::Bf16 => first(elements, |bits| u16::from_le_bytes(*bits) & 0x7f80 == 0x7f80),
        DType::F16 => first(elements, |bits| u16::from_le_bytes(*bits) & 0x7c00 == 0x7c00),
        DType::F32 => first(elements, |bits| !f32::from_le_bytes(*bits).is_finite()),
        DType::F64 => first(elements, |bits| !f64::from_le_bytes(*bits).is_finite()),
        DType::U32 | DType::U8 => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_that_is_not_finite_is_found_in_every_type() {
        let wide = |values: &[f64]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>();
        let single = |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>();
        let half = |values: &[u16]| values.iter().flat_map(|bits| bits.to_le_bytes()).collect::<Vec<_>>();
        assert_eq!(first_not_finite(&wide(&[1.0, f64::MAX, f64::NEG_INFINITY]), DType::F64), Some(2));
        assert_eq!(first_not_finite(&single(&[f32::NAN, 0.0]), DType::F32), Some(0));
        assert_eq!(first_not_finite(&single(&[f32::MAX, -0.0, f32::MIN_POSITIVE / 2.0]), DType::F32), None);
        // One, the largest, and infinity.
        assert_eq!(first_not_finite(&half(&[0x3c00, 0x7bff, 0x7c00]), DType::F16), Some(2));
        assert_eq!(first_not_finite(&half(&[0x3f80, 0x7f7f, 0xff80]), DType::Bf16), Some(2));
        assert_eq!(first_not_finite(&[255; 8], DType::U32), None);
    }
}
