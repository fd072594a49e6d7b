//! Batches gathered from a training set on the device.

use super::{Case, Extent, Operand, kernel_names};
use crate::backend::ops::Gather;
use crate::{backend::DType, selftest::draw::Draw};

kernel_names! {
    Gather;
    Gather::Images => "gather-images",
    Gather::Labels => "gather-labels",
    Gather::Tokens { .. } => "gather-tokens",
}

/// The extents of a set, and of a batch gathered from it.
#[derive(Debug, Clone, Copy)]
pub struct Set {
    /// Samples of the set.
    pub samples: usize,
    /// Samples of the batch.
    pub batch: usize,
    /// Rows of an image.
    pub rows: usize,
    /// Numbers of a row, over all channels.
    pub row: usize,
    /// Labels of a sample.
    pub targets: usize,
    /// Tokens of a sample.
    pub length: usize,
    /// The number of them that are scored.
    pub scored: usize,
}

/// Images, labels and tokens, those as bytes or as u32.
pub fn set(draw: &mut Draw, dtype: DType, set: Set, is_wide: bool) -> Vec<Case> {
    let Set { samples, batch, rows, row, targets, length, scored } = set;
    let places: Operand = (draw.integers(batch, samples - 1), DType::U32);
    let pixels = (draw.integers(samples * row * rows, 255), DType::U8);
    let scaling = (draw.numbers(2 * row), DType::F32);
    let (integers, most) = if is_wide { (DType::U32, 100_000) } else { (DType::U8, 255) };
    let labels = (draw.integers(samples * targets, most), integers);
    let tokens = (draw.integers(samples + length, most), integers);
    let out = |count: usize| (vec![7.0; count], DType::U32);
    let (images, inputs) = ((vec![7.0; batch * row * rows], dtype), batch * length);
    vec![
        Case::new(Gather::Images, vec![pixels, scaling, places.clone()], vec![images], 2),
        Case::new(Gather::Labels, vec![labels, places.clone()], vec![out(batch * targets)], 1),
        Case::new(Gather::Tokens { scored }, vec![tokens, places], vec![out(inputs), out(inputs)], 1),
    ]
}

/// `[samples, batch], [rows, row], [targets, length, scored]`.
const SETS: [([usize; 2], [usize; 2], [usize; 3]); 6] = [
    ([11, 5], [3, 7], [1, 9, 9]),
    ([70, 33], [5, 15], [25, 17, 5]),
    ([1, 1], [1, 1], [1, 1, 1]),
    ([3, 257], [2, 9], [1, 3, 2]),
    ([9, 3], [33, 32], [257, 300, 1]),
    ([600, 40], [8, 8], [3, 31, 30]),
];

pub(super) fn cases(draw: &mut Draw, dtype: DType, extent: Extent) -> Vec<Case> {
    let mut cases = Vec::new();
    for ([samples, batch], [rows, row], [targets, length, scored]) in extent.of(&SETS).iter().copied() {
        for is_wide in [false, true] {
            let of = Set { samples, batch, rows, row, targets, length, scored };
            cases.extend(set(draw, dtype, of, is_wide));
        }
    }
    cases
}
