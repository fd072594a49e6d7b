//! Dropout.

use super::{COUNTS, Case, Extent, kernel_names};
use crate::{
    backend::{DType, ops::Dropout},
    selftest::draw::Draw,
};

kernel_names! {
    Dropout;
    _ => "dropout",
}

/// Elements that are dropped or not.
pub fn dropout(draw: &mut Draw, dtype: DType, count: usize) -> Case {
    let kernel = Dropout { probability: 0.25, key: count as u64 };
    Case::new(kernel, vec![], vec![(draw.numbers(count), dtype)], 2)
}

pub(super) fn cases(draw: &mut Draw, dtype: DType, extent: Extent) -> Vec<Case> {
    extent.of(&COUNTS).iter().map(|count| dropout(draw, dtype, *count)).collect()
}
