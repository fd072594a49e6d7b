//! Pooling, by the largest and by the mean, and its gradients.

use crate::backend::ops::Pool;
use std::ops::Range;

use super::{Case, Extent, kernel_names};
use crate::{
    backend::{DType, Window},
    selftest::draw::Draw,
};

kernel_names! {
    Pool;
    Pool::Max(_) => "max-pool",
    Pool::MaxGrad(_) => "max-pool-gradient",
    Pool::Average(_) => "average-pool",
    Pool::AverageGrad(_) => "average-pool-gradient",
    Pool::Global { .. } => "global-average",
    Pool::GlobalGrad { .. } => "global-average-gradient",
}

/// Poolings of `x`, whose elements are `numbers`.
pub fn windows(draw: &mut Draw, dtype: DType, w: Window, numbers: Vec<f64>) -> Vec<Case> {
    let outputs = w.out_pixels() * w.channels;
    let (x, y) = ((numbers, dtype), (vec![7.0; outputs], dtype));
    let (dx, dy) = ((draw.numbers(x.0.len()), dtype), (draw.numbers(outputs), dtype));
    let (index, winners) = ((vec![9.0; outputs], DType::U8), (winners(draw, &w), DType::U8));
    let area = w.size * w.size;
    vec![
        Case::new(Pool::Max(w), vec![x.clone()], vec![y.clone()], 1),
        Case::new(Pool::Max(w), vec![x.clone()], vec![y.clone(), index], 1),
        Case::new(Pool::MaxGrad(w), vec![dy.clone(), winners], vec![dx.clone()], area),
        Case::new(Pool::Average(w), vec![x], vec![y], area),
        Case::new(Pool::AverageGrad(w), vec![dy], vec![dx], area),
    ]
}

/// Any place of each window that is inside the image.
fn winners(draw: &mut Draw, w: &Window) -> Vec<f64> {
    let inside = |at: usize, extent: usize| -> Range<usize> {
        let start = at * w.stride;
        w.padding.saturating_sub(start)..(extent + w.padding - start).min(w.size)
    };
    let mut winners = Vec::new();
    for pixel in 0..w.out_pixels() {
        let (rows, columns) =
            (inside(pixel / w.out_width() % w.out_height(), w.height), inside(pixel % w.out_width(), w.width));
        for _ in 0..w.channels {
            let row = draw.between(rows.start, rows.end - 1);
            winners.push((row * w.size + draw.between(columns.start, columns.end - 1)) as f64);
        }
    }
    winners
}

/// The mean over all pixels, and its gradient.
pub fn global(draw: &mut Draw, dtype: DType, [images, pixels, channels]: [usize; 3]) -> Vec<Case> {
    let x = (draw.numbers(images * pixels * channels), dtype);
    let y = (draw.numbers(images * channels), dtype);
    vec![
        Case::new(Pool::Global { pixels, channels }, vec![x.clone()], vec![y.clone()], pixels),
        Case::new(Pool::GlobalGrad { pixels, channels }, vec![y], vec![x], 1),
    ]
}

/// `[batch, height, width], channels, [size, stride, padding]`.
const WINDOWS: [([usize; 3], usize, [usize; 3]); 8] = [
    ([2, 7, 5], 3, [3, 2, 1]),
    ([1, 8, 8], 17, [2, 2, 0]),
    ([1, 1, 1], 1, [1, 1, 0]),
    ([3, 5, 6], 65, [3, 1, 1]),
    ([1, 6, 9], 257, [2, 1, 0]),
    ([2, 9, 11], 4, [5, 4, 2]),
    // A step beyond the window: pixels that nothing reads.
    ([1, 10, 7], 6, [2, 3, 0]),
    ([1, 17, 16], 1, [16, 16, 8]),
];
const GLOBAL: [[usize; 3]; 6] = [[2, 35, 7], [1, 257, 3], [1, 1, 1], [3, 16, 65], [2, 9, 1031], [5, 1025, 2]];

pub(super) fn cases(draw: &mut Draw, dtype: DType, extent: Extent) -> Vec<Case> {
    let mut cases = Vec::new();
    for (image, channels, slide) in extent.of(&WINDOWS) {
        let [[batch, height, width], [size, stride, padding]] = [*image, *slide];
        let w = Window { batch, height, width, channels: *channels, filters: *channels, size, stride, padding };
        // Numbers of five values, so that there are ties.
        let numbers = draw.integers(batch * height * width * channels, 4);
        cases.extend(windows(draw, dtype, w, numbers.iter().map(|x| x / 4.0 - 0.5).collect()));
    }
    let w = Window { batch: 1, height: 3, width: 3, channels: 1, filters: 1, size: 3, stride: 1, padding: 0 };
    let with_nan = vec![1.0, 2.0, 3.0, 9.0, f64::NAN, 9.0, 5.0, f64::NAN, 9.0];
    cases.extend(windows(draw, dtype, w, with_nan).into_iter().take(2));
    for sizes in extent.of(&GLOBAL) {
        cases.extend(global(draw, dtype, *sizes));
    }
    cases
}
