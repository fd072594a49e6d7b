//! Codes of 4 bits: the place of a number's nearest among sixteen values that rise.

/// The middle between each value and the next.
pub(super) const fn middles(values: &[f32; 16]) -> [f32; 15] {
    let (mut middles, mut i) = ([0.0; 15], 0);
    while i < 15 {
        middles[i] = ((values[i] as f64 + values[i + 1] as f64) / 2.0) as f32;
        i += 1;
    }
    middles
}

/// The place of the nearest value, by the middles between values: at a middle the lower one, for NaN the place of any.
#[inline(always)]
pub(super) fn nearest(middles: &[f32; 15], share: f32) -> u8 {
    let mut at = if share > middles[7] { 8 } else { 0 };
    at += if share > middles[at + 3] { 4 } else { 0 };
    at += if share > middles[at + 1] { 2 } else { 0 };
    at += usize::from(share > middles[at]);
    at as u8
}
