//! Convolutions by minimal filtering against their definition, and how they round.

use super::{super::*, *};
use crate::rng::Rng;

/// `[batch, height, width], [channels, filters]`: odd sides, lines of more tiles than a piece has at once, weights that are kept
/// and those that are not, blocks that are not whole, and sides of one or two pixels.
const WINDOWS: [([usize; 3], [usize; 2]); 12] = [
    ([13, 5, 7], [64, 64]),
    ([3, 9, 8], [96, 64]),
    ([1, 13, 16], [96, 160]),
    ([1, 16, 14], [160, 96]),
    ([2, 3, 141], [64, 96]),
    ([1, 2, 260], [96, 64]),
    ([60, 1, 1], [64, 96]),
    ([30, 2, 3], [64, 96]),
    ([50, 3, 1], [96, 64]),
    ([12, 4, 4], [128, 128]),
    ([2, 17, 31], [64, 64]),
    ([8, 6, 6], [64, 224]),
];

fn window(([batch, height, width], [channels, filters]): ([usize; 3], [usize; 2])) -> Window {
    Window { batch, height, width, channels, filters, size: 3, stride: 1, padding: 1 }
}

/// Numbers of a normal distribution, or small whole ones, whose sums are exact in any order.
fn filled(key: u64, count: usize, is_whole: bool) -> Vec<f32> {
    let rng = Rng::from_key(key);
    let of = |i: u64| if is_whole { rng.below(i, 5) as f32 - 2.0 } else { rng.normal(i) as f32 };
    (0..count as u64).map(of).collect()
}

/// The input, the weights and the gradient of the output.
fn operands(w: &Window, is_whole: bool) -> [Vec<f32>; 3] {
    let sizes = [w.elements(), w.filters * w.taps(), w.out_elements()];
    std::array::from_fn(|i| filled(17 + i as u64, sizes[i], is_whole))
}

/// The output, and the gradients by the input and by the weights, as they are computed.
struct Path {
    forward: fn(&Window, &[f32], &[f32], &mut [f32]),
    by_input: fn(&Window, &[f32], &[f32], &mut [f32]),
    by_weight: fn(&Window, bool, &[f32], &[f32], &mut [f32]),
}

/// Minimal filtering, where it is chosen.
const CHOSEN: Path = Path { forward, by_input: input_gradient, by_weight: weight_gradient };
const PRODUCTS: Path = Path { forward: products_forward, by_input: products_by_input, by_weight: products_by_weight };

impl Path {
    /// The results; the gradient by the weights is added to threes.
    fn results(&self, w: &Window, [x, weights, dy]: &[Vec<f32>; 3]) -> [Vec<f32>; 3] {
        let mut found = [vec![9.0; dy.len()], vec![9.0; x.len()], vec![3.0; weights.len()]];
        (self.forward)(w, x, weights, &mut found[0]);
        (self.by_input)(w, dy, weights, &mut found[1]);
        (self.by_weight)(w, true, x, dy, &mut found[2]);
        found
    }
}

/// The same by definition, in f64.
fn by_definition(w: &Window, [x, weights, dy]: &[Vec<f32>; 3]) -> [Vec<f64>; 3] {
    let mut wanted = [vec![0.0; dy.len()], vec![0.0; x.len()], vec![3.0; weights.len()]];
    let wide = |x: &[f32]| x.iter().map(|x| f64::from(*x)).collect::<Vec<_>>();
    let (x, weights, dy) = (wide(x), wide(weights), wide(dy));
    crate::backend::cpu::convolution::tests::each_product(w, |x_at, weight, y_at| {
        wanted[0][y_at] += x[x_at] * weights[weight];
        wanted[1][x_at] += dy[y_at] * weights[weight];
        wanted[2][weight] += dy[y_at] * x[x_at];
    });
    wanted
}

fn is_here() -> bool {
    Arithmetic::of_type::<f32>() == Arithmetic::Singles
}

#[test]
fn convolutions_of_any_extent_are_the_sums_of_products() {
    for pass in [Pass::Forward, Pass::InputGrad, Pass::WeightGrad] {
        let is_so = |w: &Window| winograd_plan(w, pass, Arithmetic::of_type::<f32>()).is_some();
        let count = WINDOWS.map(window).iter().filter(|w| is_so(w)).count();
        // Forward, weights that do not stay transformed are left to products of patches where images are small.
        assert!(if is_here() { count >= 8 } else { count == 0 }, "{count} for {pass:?}");
    }
    for window in WINDOWS.map(window) {
        let operands = operands(&window, true);
        for (found, wanted) in CHOSEN.results(&window, &operands).iter().zip(by_definition(&window, &operands)) {
            for (at, (found, wanted)) in found.iter().zip(wanted).enumerate() {
                assert_eq!(f64::from(*found), wanted, "{window:?} at {at}");
            }
        }
    }
}

#[test]
fn a_result_is_the_same_on_any_number_of_threads() {
    for window in WINDOWS.map(window) {
        let operands = operands(&window, false);
        let on = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
            pool.install(|| CHOSEN.results(&window, &operands).concat().iter().map(|x| x.to_bits()).collect::<Vec<_>>())
        };
        let alone = on(1);
        assert!([2, 3, 8].into_iter().all(|threads| on(threads) == alone), "{window:?}");
    }
}

/// The root of the mean square of the differences, in relation to that of the numbers.
fn error(found: &[f32], wanted: &[f64]) -> f64 {
    let squares = |of: &mut dyn Iterator<Item = f64>| of.map(|x| x * x).sum::<f64>();
    let differences = squares(&mut found.iter().zip(wanted).map(|(found, wanted)| f64::from(*found) - wanted));
    (differences / squares(&mut wanted.iter().copied())).sqrt()
}

#[test]
fn a_result_rounds_by_at_most_a_few_times_that_of_products() {
    for window in WINDOWS.map(window) {
        let operands = operands(&window, false);
        let (found, products) = (CHOSEN.results(&window, &operands), PRODUCTS.results(&window, &operands));
        for (i, wanted) in by_definition(&window, &operands).iter().enumerate() {
            let [error, of_products] = [&found[i], &products[i]].map(|found| error(found, wanted));
            println!("{window:?}, result {i}: {:.2} times the error of products", error / of_products);
            assert!(error < 4.0 * of_products && error < 1e-6, "{window:?}: {error:e} and {of_products:e}");
        }
    }
}
