//! Matrix products and convolutions.

use super::{Case, Extent, sum_types};
use crate::backend::ops::{Convolution, Depthwise, Linear};
use crate::{
    backend::{DType, Kernel, Window, ops::MatMul},
    selftest::draw::Draw,
};

/// A product into a result of type `sum`.
pub fn matmul(draw: &mut Draw, dtype: DType, product: MatMul, sum: DType) -> Case {
    let MatMul { m, n, k, .. } = product;
    let operands = vec![(draw.numbers(m * k), dtype), (draw.numbers(k * n), dtype)];
    Case::new(Linear::MatMul(product), operands, vec![(draw.numbers(m * n), sum)], k)
}

/// A convolution and its gradients, that by the weight of type `sum`.
pub fn convolution(draw: &mut Draw, dtype: DType, window: Window, accumulate: bool, sum: DType) -> Vec<Case> {
    let weight = Convolution::WeightGrad { window, accumulate };
    let kernels = [Convolution::Forward(window), Convolution::InputGrad(window), weight];
    sliding(draw, dtype, window, kernels, window.taps() * window.filters, sum)
}

/// A depthwise convolution and its gradients.
pub fn depthwise(draw: &mut Draw, dtype: DType, window: Window, accumulate: bool, sum: DType) -> Vec<Case> {
    let weight = Depthwise::WeightGrad { window, accumulate };
    let kernels = [Depthwise::Forward(window), Depthwise::InputGrad(window), weight];
    sliding(draw, dtype, window, kernels, window.taps(), sum)
}

fn sliding(
    draw: &mut Draw,
    dtype: DType,
    w: Window,
    kernels: [impl Into<Kernel>; 3],
    weights: usize,
    sum: DType,
) -> Vec<Case> {
    let [forward, input, weight] = kernels;
    let x = (draw.numbers(w.batch * w.height * w.width * w.channels), dtype);
    let y = (draw.numbers(w.out_pixels() * w.filters), dtype);
    let dw = (draw.numbers(weights), sum);
    let weights = (draw.numbers(weights), dtype);
    vec![
        Case::new(forward, vec![x.clone(), weights.clone()], vec![y.clone()], w.taps()),
        Case::new(input, vec![y.clone(), weights], vec![x.clone()], w.taps() * w.filters),
        Case::new(weight, vec![x, y], vec![dw], w.out_pixels()),
    ]
}

/// `m`, `n`, `k`.
const PRODUCTS: [[usize; 3]; 9] = [
    [7, 5, 3],
    [33, 65, 17],
    [1, 1, 1],
    [64, 64, 64],
    [1, 257, 31],
    [129, 1, 70],
    [5, 9, 1031],
    [131, 67, 129],
    [1, 1, 300],
];

/// `[batch, height, width], [channels, filters], [size, stride, padding]`.
const WINDOWS: [([usize; 3], [usize; 2], [usize; 3]); 11] = [
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
];

/// As [`WINDOWS`], with one number for channels.
const OWN: [([usize; 3], usize, [usize; 3]); 9] = [
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
    let sums = sum_types(dtype);
    for [m, n, k] in extent.of(&PRODUCTS).iter().copied() {
        for turn in 0..4 {
            let (transpose_a, transpose_b) = (turn % 2 == 1, turn / 2 == 1);
            for (i, sum) in sums.iter().enumerate() {
                let product = MatMul { m, n, k, transpose_a, transpose_b, accumulate: (turn + i) % 2 == 1 };
                cases.push(matmul(draw, dtype, product, *sum));
            }
        }
    }
    let windows = extent.of(&WINDOWS).iter().map(|(image, [channels, filters], slide)| {
        let [[batch, height, width], [size, stride, padding]] = [*image, *slide];
        Window { batch, height, width, channels: *channels, filters: *filters, size, stride, padding }
    });
    for (i, window) in windows.enumerate() {
        for (j, sum) in sums.iter().enumerate() {
            cases.extend(convolution(draw, dtype, window, (i + j) % 2 == 1, *sum));
        }
    }
    let windows = extent.of(&OWN).iter().map(|(image, channels, slide)| {
        let [[batch, height, width], [size, stride, padding]] = [*image, *slide];
        Window { batch, height, width, channels: *channels, filters: *channels, size, stride, padding }
    });
    for (i, window) in windows.enumerate() {
        for (j, sum) in sums.iter().enumerate() {
            cases.extend(depthwise(draw, dtype, window, (i + j) % 2 == 1, *sum));
        }
    }
    cases
}
