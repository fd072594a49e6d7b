//! Codes, scales and masks as the published layouts have them: integers that are packed into 32 bits, scales of groups that end
//! with their row, and a bit for every weight.

use crate::{
    backend::{cpu::coded::encode_f32, ops::Code},
    step::stored::{WORD, bits, group, words},
};

/// The codes of `w [.., inner]`, those of a row in words of their own, filled from the lowest bits on.
pub(super) fn packed(code: Code, w: &[f32], inner: usize) -> Vec<u8> {
    let (codes, _) = encoded(code, w);
    // Half of the steps are added, so that there is no sign.
    let of = |i: usize| match code {
        Code::Int8 => codes[i] ^ 0x80,
        // The first of two is in the higher half here.
        Code::Int4 | Code::Nf4 => codes[i / 2] >> (4 * (1 - i % 2)) & 15,
    };
    let mut words_of_all = vec![0; w.len() / inner.max(1) * words(code, inner) * WORD];
    let each = bits(code);
    for (row, to) in words_of_all.chunks_mut(words(code, inner) * WORD).enumerate() {
        for column in 0..inner {
            to[column * each / 8] |= of(row * inner + column) << (column * each % 8);
        }
    }
    words_of_all
}

/// The distance of neighbouring codes in each group of `w [.., inner]`.
pub(super) fn scales(code: Code, w: &[f32], inner: usize) -> Vec<f32> {
    let ((_, scales), group) = (encoded(code, w), group(code, inner));
    let most = if code == Code::Int8 { 127.0 } else { 7.0 };
    (0..w.len() / group).map(|at| scales[at * group / code.block()] / most).collect()
}

fn encoded(code: Code, w: &[f32]) -> (Vec<u8>, Vec<f32>) {
    let (mut codes, mut scales) = (vec![0; code.bytes(w.len())], vec![0.0; code.blocks(w.len())]);
    encode_f32(code, w, &mut codes, &mut scales);
    (codes, scales)
}

/// The mask of a weight, a bit an element from the lowest on.
#[derive(Clone, Copy)]
pub(super) struct Mask<'a> {
    pub(super) bits: &'a [u8],
    pub(super) elements: usize,
    /// Elements of a row, which is the last axis.
    pub(super) inner: usize,
}

impl Mask<'_> {
    fn stays(&self, at: usize) -> bool {
        self.bits[at / 8] >> (at % 8) & 1 == 1
    }

    fn rows(&self) -> usize {
        self.elements / self.inner.max(1)
    }

    /// How many elements stay.
    pub(super) fn kept(&self) -> usize {
        (0..self.elements).filter(|at| self.stays(*at)).count()
    }

    /// The elements that stay, of `all`, each of `size` bytes.
    pub(super) fn values(&self, all: &[u8], size: usize) -> Vec<u8> {
        let stays = all.chunks_exact(size).enumerate().filter(|(at, _)| self.stays(*at));
        stays.flat_map(|(_, element)| element).copied().collect()
    }

    /// Bytes of a row of bits.
    pub(super) fn row_bytes(&self) -> usize {
        self.inner.div_ceil(8)
    }

    /// The bits, with those of a row in bytes of their own.
    pub(super) fn by_row(&self) -> Vec<u8> {
        let mut all = vec![0; self.rows() * self.row_bytes()];
        for at in (0..self.elements).filter(|at| self.stays(*at)) {
            let (row, column) = (at / self.inner, at % self.inner);
            all[row * self.row_bytes() + column / 8] |= 1 << (column % 8);
        }
        all
    }

    /// How many values stand before each row.
    pub(super) fn row_offsets(&self) -> Vec<u8> {
        let mut before = 0_i64;
        let offsets = (0..self.rows()).map(|row| {
            let own = (row * self.inner..(row + 1) * self.inner).filter(|at| self.stays(*at)).count();
            before += own as i64;
            before - own as i64
        });
        offsets.flat_map(i64::to_le_bytes).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_a_row_fill_words_from_the_lowest_bits_on_and_scales_go_with_their_rows() {
        // Two rows of 9: the block of 128 holds both, so a group of one element repeats its scale.
        let w: Vec<f32> = (0..18).map(|i| (i as f32 - 7.0) / 7.0 * 0.5).collect();
        let words = packed(Code::Int4, &w, 9);
        assert_eq!((words.len(), group(Code::Int4, 9)), (2 * 2 * WORD, 1));
        let largest = 10.0 / 7.0 * 0.5;
        assert_eq!(scales(Code::Int4, &w, 9), vec![largest / 7.0; 18]);
        for (i, w) in w.iter().enumerate() {
            let (row, column) = (i / 9, i % 9);
            let word = u32::from_le_bytes(words[4 * (2 * row + column / 8)..][..4].try_into().expect("four"));
            let code = (word >> (4 * (column % 8)) & 15) as f32 - 8.0;
            assert_eq!(code, (w / largest * 7.0).round_ties_even(), "{i}");
        }
        assert_eq!(words[5..8], [0; 3], "nothing stands behind a row");
        let bytes = packed(Code::Int8, &[-1.0, 0.0, 1.0, 0.5, 1.0], 5);
        assert_eq!(bytes, [1, 128, 255, 192, 255, 0, 0, 0]);
        assert_eq!([group(Code::Int4, 256), group(Code::Int4, 192), group(Code::Int8, 896)], [128, 64, 128]);
    }

    #[test]
    fn a_mask_has_rows_of_whole_bytes_and_says_where_each_begins() {
        // Rows of 10: the first, the ninth and the tenth element of the first, the second of the second.
        let mask = Mask { bits: &[0b0000_0001, 0b0000_1011, 0], elements: 20, inner: 10 };
        assert_eq!(mask.kept(), 4);
        assert_eq!(mask.by_row(), [1, 0b11, 0b10, 0]);
        let offsets: Vec<i64> =
            mask.row_offsets().as_chunks().0.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect();
        assert_eq!(offsets, [0, 3]);
        let all: Vec<u8> = (0..40).collect();
        assert_eq!(mask.values(&all, 2), [0, 1, 16, 17, 18, 19, 22, 23]);
    }
}
