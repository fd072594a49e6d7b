//! Convolutions and their gradients.

use super::{Case, Extent, kernel_names, sliding, sum_types};
use crate::{
    backend::{DType, Window, ops::Convolution},
    selftest::draw::Draw,
};

kernel_names! {
    Convolution;
    Convolution::Forward(_) => "convolution",
    Convolution::InputGrad(_) => "convolution-input-gradient",
    Convolution::WeightGrad { .. } => "convolution-weight-gradient",
}

/// A convolution and its gradients, that by the weight of type `sum`.
pub fn convolution(draw: &mut Draw, dtype: DType, window: Window, accumulate: bool, sum: DType) -> Vec<Case> {
    let weight = Convolution::WeightGrad { window, accumulate };
    let kernels = [Convolution::Forward(window), Convolution::InputGrad(window), weight];
    sliding(draw, dtype, window, kernels, window.taps() * window.filters, sum)
}

/// `[batch, height, width], [channels, filters], [size, stride, padding]`.
const WINDOWS: [([usize; 3], [usize; 2], [usize; 3]); 12] = [
    ([2, 5, 7], [3, 5], [3, 1, 1]),
    ([1, 9, 8], [5, 7], [3, 2, 1]),
    ([1, 1, 1], [1, 1], [1, 1, 0]),
    // A product of rows and filters.
    ([2, 8, 8], [8, 16], [1, 1, 0]),
    ([3, 7, 7], [17, 19], [1, 2, 0]),
    ([1, 11, 6], [13, 9], [5, 2, 2]),
    // Windows that do not meet, as of patches.
    ([2, 8, 12], [3, 24], [4, 4, 0]),
    ([1, 19, 33], [3, 11], [7, 2, 3]),
    // A step beyond the window: pixels that nothing reads.
    ([2, 7, 8], [4, 6], [2, 3, 1]),
    ([1, 17, 16], [33, 65], [3, 1, 1]),
    // Enough pixels for a device to take sums apart.
    ([2, 33, 20], [6, 9], [3, 1, 1]),
    // Enough tiles and channels for minimal filtering.
    ([4, 7, 9], [64, 64], [3, 1, 1]),
];

pub(super) fn cases(draw: &mut Draw, dtype: DType, extent: Extent) -> Vec<Case> {
    let mut cases = Vec::new();
    let windows = extent.of(&WINDOWS).iter().map(|(image, [channels, filters], slide)| {
        let [[batch, height, width], [size, stride, padding]] = [*image, *slide];
        Window { batch, height, width, channels: *channels, filters: *filters, size, stride, padding }
    });
    for (i, window) in windows.enumerate() {
        for (j, sum) in sum_types(dtype).iter().enumerate() {
            cases.extend(convolution(draw, dtype, window, (i + j) % 2 == 1, *sum));
        }
    }
    cases
}
