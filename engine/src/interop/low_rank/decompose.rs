//! From a layer's weight to its factors, and back.
//!
//! For a matrix they are its truncated singular value decomposition, with the root of each value on either side. For a larger
//! kernel they are a Tucker-2 decomposition (Kim et al. 2016): bases of the inputs and of the outputs and the kernel between
//! them, by higher-order orthogonal iteration (De Lathauwer et al. 2000).

use super::svd::{Svd, Vectors, first, svd, svd_bytes, svd_written, times, turned, turned_times};
use crate::experiment::{Factor, Ranks, WholeLayer};

/// How often the bases of inputs and outputs are found again, each in the light of the other.
const ROUNDS: usize = 3;

/// The extents of a kernel as matrices: its outputs by everything else, and everything else by its inputs.
fn unfolded(whole: WholeLayer) -> [[usize; 2]; 2] {
    let taps = whole.size * whole.size;
    [[whole.out, taps * whole.inner], [whole.out * taps, whole.inner]]
}

/// The factors of a layer with `weight [out, size, size, in]`, from the inputs to the outputs, each as its layer has it. `None`
/// if the weight has no singular values, because its numbers are not finite.
pub(super) fn decomposed(whole: WholeLayer, ranks: Ranks, weight: &[f64]) -> Option<Vec<Vec<f64>>> {
    if whole.is_matrix() { halves(whole, ranks.inner, weight) } else { tucker(whole, ranks, weight) }
}

/// `[rank, in]` and `[out, rank]`.
fn halves(WholeLayer { inner, out, .. }: WholeLayer, rank: usize, weight: &[f64]) -> Option<Vec<Vec<f64>>> {
    let Svd { values, left, right } = svd(weight, [out, inner], Vectors::Both)?;
    let scaled = |vectors: Vec<f64>, length| {
        let mut vectors = first(vectors, length, rank);
        for (vector, value) in vectors.chunks_exact_mut(length).zip(&values) {
            let root = value.sqrt();
            vector.iter_mut().for_each(|number| *number *= root);
        }
        vectors
    };
    // Right vectors are rows of the first factor, left ones columns of the second.
    Some(vec![scaled(right, inner), turned(&scaled(left, out), [rank, out])])
}

fn tucker(whole: WholeLayer, ranks: Ranks, weight: &[f64]) -> Option<Vec<Vec<f64>>> {
    let [by_outputs, by_inputs] = unfolded(whole);
    let taps = whole.size * whole.size;
    let (narrows, widens) = (ranks.inner < whole.inner, ranks.out < whole.out);
    let of_inputs = |weight: &[f64], rows| {
        let found = svd(weight, [rows, whole.inner], Vectors::Right)?;
        Some(first(found.right, whole.inner, ranks.inner))
    };
    let of_outputs = |weight: &[f64], columns| {
        let found = svd(weight, [whole.out, columns], Vectors::Left)?;
        Some(first(found.left, whole.out, ranks.out))
    };
    let mut inputs = if narrows { Some(of_inputs(weight, by_inputs[0])?) } else { None };
    let mut outputs = if widens && !narrows { Some(of_outputs(weight, by_outputs[1])?) } else { None };
    if narrows && widens {
        for _ in 0..ROUNDS {
            let narrow = inputs.as_deref().map(|basis| times(weight, by_inputs, basis, ranks.inner))?;
            let basis = of_outputs(&narrow, taps * ranks.inner)?;
            drop(narrow);
            inputs = Some(of_inputs(&turned_times(&basis, ranks.out, weight, by_outputs), ranks.out * taps)?);
            outputs = Some(basis);
        }
    }
    let narrow = inputs.as_deref().map(|basis| times(weight, by_inputs, basis, ranks.inner));
    let narrow = narrow.as_deref().unwrap_or(weight); // [out, size, size, inner rank]
    let core = match &outputs {
        Some(basis) => turned_times(basis, ranks.out, narrow, [whole.out, taps * ranks.inner]),
        None => narrow.to_vec(),
    };
    let last = outputs.map(|basis| turned(&basis, [ranks.out, whole.out]));
    Some(inputs.into_iter().chain([core]).chain(last).collect())
}

/// The most host memory that [`decomposed`] takes in addition to the weight in f64, its result included.
pub(super) fn decomposed_bytes(whole: WholeLayer, ranks: Ranks) -> usize {
    bytes_of(svd_bytes, whole, ranks)
}

/// Those of the bytes that are written to.
pub(super) fn decomposed_written(whole: WholeLayer, ranks: Ranks) -> usize {
    bytes_of(svd_written, whole, ranks)
}

/// The same, where a decomposition of a matrix takes the bytes that `of_matrix` says.
fn bytes_of(of_matrix: fn([usize; 2], Vectors) -> usize, whole: WholeLayer, ranks: Ranks) -> usize {
    let bytes = |numbers: usize| numbers * size_of::<f64>();
    let factors = bytes(whole.factored_weights(ranks));
    if whole.is_matrix() {
        // The vectors are shortened and turned once the decomposition is over.
        let vectors = bytes((whole.out + whole.inner) * whole.out.min(whole.inner));
        return of_matrix([whole.out, whole.inner], Vectors::Both).max(vectors + factors);
    }
    let taps = whole.size * whole.size;
    let [by_outputs, by_inputs] = unfolded(whole);
    let [narrow, wide] = [whole.out * taps * ranks.inner, ranks.out * taps * whole.inner].map(bytes);
    let of_inputs = |rows| of_matrix([rows, whole.inner], Vectors::Right);
    let of_outputs = |columns| of_matrix([whole.out, columns], Vectors::Left);
    let most = match (ranks.inner < whole.inner, ranks.out < whole.out) {
        (true, true) => {
            let round = (narrow + of_outputs(taps * ranks.inner)).max(wide + of_inputs(ranks.out * taps));
            round.max(of_inputs(by_inputs[0]))
        }
        (true, false) => of_inputs(by_inputs[0]).max(narrow),
        (false, true) => of_outputs(by_outputs[1]),
        (false, false) => 0,
    };
    factors + most
}

/// The weight `[out, size, size, in]` that `factors` make, which stand from the inputs to the outputs.
pub(super) fn multiplied(whole: WholeLayer, ranks: Ranks, factors: &[Vec<f64>]) -> Vec<f64> {
    let taps = whole.size * whole.size;
    let of = |wanted| whole.factors(ranks).position(|factor| factor == wanted).and_then(|at| factors.get(at));
    // [out, taps * inner rank]
    let wide = match (of(Factor::Core), of(Factor::Out)) {
        // Rows of the last factor are vectors over the outputs of the kernel.
        (Some(core), Some(last)) => turned_times(last, whole.out, core, [ranks.out, taps * ranks.inner]),
        (Some(only), None) | (None, Some(only)) => only.clone(),
        (None, None) => Vec::new(),
    };
    match of(Factor::In) {
        // With the first factor as `[in, inner rank]`, rows are vectors over the rank.
        Some(first) => {
            let vectors = turned(first, [ranks.inner, whole.inner]);
            times(&wide, [whole.out * taps, ranks.inner], &vectors, whole.inner)
        }
        None => wide,
    }
}

#[cfg(test)]
mod tests {
    use super::{super::svd::PACKED_BYTES, *};
    use crate::{
        memory::tally,
        rng::{Rng, Stream},
    };

    fn drawn(whole: WholeLayer) -> Vec<f64> {
        let rng = Rng::new(7, Stream::Weights, whole.weights() as u64);
        (0..whole.weights()).map(|at| rng.range(at as u64, -1.0, 1.0)).collect()
    }

    fn distance(a: &[f64], b: &[f64]) -> f64 {
        assert_eq!(a.len(), b.len());
        a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
    }

    #[test]
    fn a_matrix_of_less_rank_is_as_far_as_the_values_that_were_left_out() {
        for whole in [[40, 30], [30, 40], [17, 90]].map(|[inner, out]| WholeLayer { inner, out, size: 1 }) {
            let weight = drawn(whole);
            let values = svd(&weight, [whole.out, whole.inner], Vectors::None).expect("finite").values;
            for rank in [1, 4, 11, values.len()] {
                let factors = decomposed(whole, Ranks::both(rank), &weight).expect("finite");
                assert_eq!(factors.iter().map(Vec::len).collect::<Vec<_>>(), [rank * whole.inner, whole.out * rank]);
                // Eckart & Young 1936.
                let left_out = values[rank..].iter().map(|value| value * value).sum::<f64>().sqrt();
                let found = distance(&multiplied(whole, Ranks::both(rank), &factors), &weight);
                assert!((found - left_out).abs() < 1e-11, "{whole:?} at {rank}: {found}, {left_out}");
                // The root of each value is on either side.
                let norms = factors.iter().map(|factor| factor.iter().map(|n| n * n).sum::<f64>());
                let sum: f64 = values[..rank].iter().sum();
                assert!(norms.into_iter().all(|norm| (norm - sum).abs() < 1e-10));
            }
        }
    }

    #[test]
    fn full_ranks_make_the_kernel_again_and_lower_ones_come_near() {
        let whole = WholeLayer { inner: 6, out: 9, size: 3 };
        let weight = drawn(whole);
        let norm = distance(&weight, &vec![0.0; weight.len()]);
        let mut before = norm;
        for (inner, out) in [(1, 1), (2, 3), (4, 6), (5, 8), (6, 8), (5, 9), (6, 9)] {
            let ranks = Ranks { inner, out };
            let factors = decomposed(whole, ranks, &weight).expect("finite");
            let extents = whole.factors(ranks).map(|factor| whole.extents_of(factor, ranks).iter().product::<usize>());
            assert_eq!(factors.iter().map(Vec::len).collect::<Vec<_>>(), extents.collect::<Vec<_>>());
            let found = distance(&multiplied(whole, ranks, &factors), &weight);
            assert!(found < norm, "{ranks}: {found} of {norm}");
            if inner < 6 && out < 9 {
                assert!(found < before, "{ranks}: {found}, {before}");
                before = found;
            }
            if (inner, out) == (6, 9) {
                assert!(found < 1e-12, "{found}");
            }
        }
        // One that has these ranks is found again to rounding.
        let ranks = Ranks { inner: 2, out: 3 };
        let factors = decomposed(whole, ranks, &weight).expect("finite");
        let low = multiplied(whole, ranks, &factors);
        let again = decomposed(whole, ranks, &low).expect("finite");
        assert!(distance(&multiplied(whole, ranks, &again), &low) < 1e-12);
    }

    #[test]
    fn what_a_decomposition_takes_is_what_was_said() {
        let layer = |inner, out, size| WholeLayer { inner, out, size };
        for (whole, ranks) in [
            (layer(200, 100, 1), Ranks::both(20)),
            (layer(60, 300, 1), Ranks::both(9)),
            (layer(24, 48, 3), Ranks { inner: 8, out: 12 }),
            (layer(3, 64, 5), Ranks { inner: 3, out: 8 }),
            (layer(64, 16, 3), Ranks { inner: 8, out: 16 }),
            (layer(276, 90, 1), Ranks::both(60)),
            (layer(16, 64, 7), Ranks { inner: 15, out: 40 }),
        ] {
            let weight = drawn(whole);
            let held = tally::peak_of(|| drop(decomposed(whole, ranks, &weight)));
            let said = decomposed_bytes(whole, ranks) as u64;
            let most = said + PACKED_BYTES as u64;
            assert!(held.live <= most, "{whole:?} at {ranks}: {} held, {most} said", held.live);
            assert!(held.live * 5 >= said * 4, "{whole:?} at {ranks}: {} held, {said} said", held.live);
        }
    }
}
