//! Kernels that fill a tensor, and kernels that change its elements one by one.

use super::{COUNTS, Case, Extent, kernel_names};
use crate::{
    backend::{DType, ops::Elementwise},
    selftest::draw::Draw,
};

kernel_names! {
    Elementwise;
    Elementwise::Fill(_) => "fill",
    Elementwise::Uniform { .. } => "uniform",
    Elementwise::Normal { .. } => "normal",
    Elementwise::Add => "add",
    Elementwise::Scale(_) => "scale",
}

/// The cases of kernels that write numbers without reading any, and of kernels that change them one by one.
pub fn elements(draw: &mut Draw, dtype: DType, count: usize) -> Vec<Case> {
    let (x, y) = ((draw.numbers(count), dtype), (draw.numbers(count), dtype));
    let key = count as u64;
    vec![
        Case::new(Elementwise::Fill(0.25), vec![], vec![y.clone()], 1),
        Case::new(Elementwise::Fill(9.0), vec![], vec![(vec![1.0; count], DType::U32)], 1),
        Case::new(Elementwise::Fill(255.0), vec![], vec![(vec![1.0; count], DType::U8)], 1),
        Case::new(Elementwise::Uniform { bound: 0.7, key }, vec![], vec![y.clone()], 1),
        Case::new(Elementwise::Normal { std: 0.5, key }, vec![], vec![y.clone()], 1),
        Case::new(Elementwise::Add, vec![x], vec![y.clone()], 2),
        Case::new(Elementwise::Scale(-0.375), vec![], vec![y], 1),
    ]
}

pub(super) fn cases(draw: &mut Draw, dtype: DType, extent: Extent) -> Vec<Case> {
    extent.of(&COUNTS).iter().flat_map(|count| elements(draw, dtype, *count)).collect()
}
