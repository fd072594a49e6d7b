//! Pruning by magnitude.

use super::{COUNTS, Case, Extent, kernel_names};
use crate::{
    backend::{
        DType,
        ops::{KeyBits, Prune},
    },
    selftest::draw::Draw,
};

kernel_names! {
    Prune;
    Prune::Count(_) => "prune-count",
    Prune::Pick { .. } => "prune-pick",
    Prune::Mask => "prune-mask",
    Prune::Groups { .. } => "prune-groups",
    Prune::Apply => "prune-apply",
}

/// Every kernel on `elements` weights; rows of `columns` keep a few of every group.
pub fn pruning(draw: &mut Draw, dtype: DType, [rows, columns]: [usize; 2], [kept, of]: [usize; 2]) -> Vec<Case> {
    let elements = rows * columns;
    let weight = (draw.numbers(elements), dtype);
    let mask = || (vec![7.0; Prune::mask_bytes(elements)], DType::U8);
    let counts = || (vec![0.0; Prune::BUCKETS], DType::U32);
    let mut cases = Vec::new();
    // The highest bits of 0.5, and all of them.
    for (bits, prefix) in KeyBits::ALL.into_iter().zip([0, 0x3f0, 0x3f00_0000 >> 9]) {
        let bound = || (vec![f64::from(prefix), (elements / 3) as f64], DType::U32);
        cases.push(Case::new(Prune::Count(bits), vec![weight.clone(), bound()], vec![counts()], 1));
        let counted = (draw.integers(Prune::BUCKETS, 3), DType::U32);
        let rank = (elements / 2) as u32;
        cases.push(Case::new(Prune::Pick { bits, rank }, vec![], vec![counted, bound()], 1));
    }
    let bound = (vec![f64::from(0x3f00_0000), 0.0], DType::U32);
    cases.push(Case::new(Prune::Mask, vec![weight.clone(), bound], vec![mask()], 1));
    cases.push(Case::new(Prune::Groups { columns, kept, of }, vec![weight.clone()], vec![mask()], 1));
    let bits = (draw.integers(Prune::mask_bytes(elements), 255), DType::U8);
    cases.push(Case::new(Prune::Apply, vec![bits.clone()], vec![weight.clone()], 1));
    cases.push(Case::new(Prune::Apply, vec![bits], vec![weight.clone(), (weight.0, DType::Bf16)], 1));
    cases
}

/// Kept, and of how many.
const GROUPS: [[usize; 2]; 4] = [[2, 4], [1, 4], [4, 8], [3, 5]];

pub(super) fn cases(draw: &mut Draw, dtype: DType, extent: Extent) -> Vec<Case> {
    let of = |(i, columns): (usize, &usize)| pruning(draw, dtype, [1 + i % 3, *columns], GROUPS[i % GROUPS.len()]);
    extent.of(&COUNTS).iter().enumerate().flat_map(of).collect()
}
