//! Depthwise convolutions and their gradients.

use super::{Case, Extent, kernel_names, sliding, sum_types};
use crate::{
    backend::{DType, Window, ops::Depthwise},
    selftest::draw::Draw,
};

kernel_names! {
    Depthwise;
    Depthwise::Forward(_) => "depthwise",
    Depthwise::InputGrad(_) => "depthwise-input-gradient",
    Depthwise::WeightGrad { .. } => "depthwise-weight-gradient",
}

/// A depthwise convolution and its gradients.
pub fn depthwise(draw: &mut Draw, dtype: DType, window: Window, accumulate: bool, sum: DType) -> Vec<Case> {
    let weight = Depthwise::WeightGrad { window, accumulate };
    let kernels = [Depthwise::Forward(window), Depthwise::InputGrad(window), weight];
    sliding(draw, dtype, window, kernels, window.taps(), sum)
}

/// `[batch, height, width], channels, [size, stride, padding]`.
const WINDOWS: [([usize; 3], usize, [usize; 3]); 9] = [
    ([2, 5, 7], 3, [3, 1, 1]),
    ([1, 9, 8], 7, [3, 2, 1]),
    ([1, 1, 1], 1, [1, 1, 0]),
    ([1, 6, 5], 65, [5, 1, 2]),
    ([2, 4, 4], 257, [3, 1, 1]),
    ([3, 7, 6], 16, [3, 2, 0]),
    ([1, 33, 31], 2, [5, 4, 2]),
    ([2, 7, 8], 12, [2, 3, 1]),
    ([3, 31, 30], 20, [3, 1, 1]),
];

pub(super) fn cases(draw: &mut Draw, dtype: DType, extent: Extent) -> Vec<Case> {
    let mut cases = Vec::new();
    let windows = extent.of(&WINDOWS).iter().map(|(image, channels, slide)| {
        let [[batch, height, width], [size, stride, padding]] = [*image, *slide];
        Window { batch, height, width, channels: *channels, filters: *channels, size, stride, padding }
    });
    for (i, window) in windows.enumerate() {
        for (j, sum) in sum_types(dtype).iter().enumerate() {
            cases.extend(depthwise(draw, dtype, window, (i + j) % 2 == 1, *sum));
        }
    }
    cases
}
