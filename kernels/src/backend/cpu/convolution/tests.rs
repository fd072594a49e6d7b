//! Convolutions against their definition.

use half::bf16;

use super::*;
use crate::rng::Rng;

/// `y[image, row, column, filter]` by definition.
fn by_definition(w: &Window, x: &[f32], weights: &[f32]) -> Vec<f32> {
    let mut y = vec![0.0; w.out_elements()];
    each_product(w, |x_at, weight, y_at| y[y_at] += x[x_at] * weights[weight]);
    y
}

/// Calls `take` with the places of every input, weight and output that belong together.
pub(super) fn each_product(w: &Window, mut take: impl FnMut(usize, usize, usize)) {
    let [rows, columns] = [w.out_height(), w.out_width()];
    for window in 0..w.out_pixels() {
        let (image, row, column) = (window / (rows * columns), window / columns % rows, window % columns);
        for tap in 0..w.size * w.size {
            let y = (row * w.stride + tap / w.size).wrapping_sub(w.padding);
            let x = (column * w.stride + tap % w.size).wrapping_sub(w.padding);
            if y >= w.height || x >= w.width {
                continue;
            }
            for filter in 0..w.filters {
                for channel in 0..w.channels {
                    take(
                        ((image * w.height + y) * w.width + x) * w.channels + channel,
                        (filter * w.size * w.size + tap) * w.channels + channel,
                        window * w.filters + filter,
                    );
                }
            }
        }
    }
}

#[test]
fn convolutions_of_any_extent_are_the_sums_of_products() {
    let rng = Rng::from_key(12);
    for case in 0..60 {
        let draw = |i: u64, of: &[usize]| of[rng.below(case * 100 + i, of.len())];
        let (batch, channels, filters) =
            (draw(0, &[1, 3, 8, 13]), draw(1, &[3, 16, 32, 48]), draw(2, &[5, 16, 24, 64]));
        let (height, width) = (draw(3, &[1, 2, 4, 7]), draw(4, &[1, 3, 4, 9]));
        let (size, stride, padding) = (draw(5, &[1, 3, 3, 5]), draw(6, &[1, 1, 2]), draw(7, &[0, 1, 2]));
        let w = Window { batch, height, width, channels, filters, size, stride, padding };
        if height + 2 * padding < size || width + 2 * padding < size {
            continue;
        }
        compare_all(&w, &rng, case);
    }
}

#[test]
fn sums_that_are_cut_into_segments_keep_the_terms_of_a_word_together() {
    // 5,184 terms for a small result, in five segments: a fifth of them is an odd number.
    let w = Window { batch: 1, height: 4, width: 4, channels: 576, filters: 48, size: 3, stride: 1, padding: 1 };
    let swapped = Window { channels: w.filters, filters: w.channels, ..w };
    for (case, w) in (0..).zip([w, swapped]) {
        compare_all(&w, &Rng::from_key(13), case);
    }
}

/// Compares a convolution and its gradients with their definitions, for both kinds of words.
fn compare_all(w: &Window, rng: &Rng, case: u64) {
    // Small whole numbers, whose sums are exact in any order.
    let filled = |key: u64, count: usize| -> Vec<f32> {
        (0..count).map(|i| rng.below(case ^ key << 32 ^ i as u64, 5) as f32 - 2.0).collect()
    };
    let (x, weights, dy) = (filled(1, w.elements()), filled(2, w.filters * w.taps()), filled(3, w.out_elements()));
    let (mut dx_wanted, mut dw_wanted) = (vec![0.0; x.len()], vec![3.0; weights.len()]);
    each_product(w, |x_at, weight, y_at| {
        dx_wanted[x_at] += dy[y_at] * weights[weight];
        dw_wanted[weight] += dy[y_at] * x[x_at];
    });
    let (operands, wanted) = ([&*x, &weights, &dy], [&*by_definition(w, &x, &weights), &dx_wanted, &dw_wanted]);
    check::<f32>(w, operands, wanted);
    check::<bf16>(w, operands, wanted);
}

fn check<T: Float>(w: &Window, [x, weights, dy]: [&[f32]; 3], [y_wanted, dx_wanted, dw_wanted]: [&[f32]; 3])
where
    f32: Float<Acc = T::Acc>,
{
    let of = |x: &[f32]| x.iter().map(|x| T::from_f64(f64::from(*x))).collect::<Vec<_>>();
    // A result of 16 bits is rounded.
    let compare = |found: &[T], wanted: &[f32], what: &str| {
        for (at, (found, wanted)) in found.iter().zip(of(wanted)).enumerate() {
            assert_eq!(found.to_f64(), wanted.to_f64(), "{what} of {w:?} at {at}");
        }
    };
    let (x, weights, dy) = (of(x), of(weights), of(dy));
    let (mut y, mut dx) = (vec![T::from_f64(9.0); dy.len()], vec![T::from_f64(9.0); x.len()]);
    let mut dw = vec![3.0_f32; weights.len()];
    forward(w, &x, &weights, &mut y);
    compare(&y, y_wanted, "output");
    input_gradient(w, &dy, &weights, &mut dx);
    compare(&dx, dx_wanted, "input gradient");
    weight_gradient::<T, f32>(w, true, &x, &dy, &mut dw);
    assert_eq!(dw, dw_wanted, "weight gradient of {w:?}");
}
