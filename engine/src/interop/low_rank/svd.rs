//! Singular values and vectors of a matrix, in f64.
//!
//! Always holds: one thread computes them, in an order that depends on the extents alone, so that a machine finds the same
//! bits with any number of threads. Their host memory is what is allocated here, so it is known beforehand.

use faer::{
    Accum, MatMut, MatRef, Par,
    diag::DiagMut,
    dyn_stack::{MemBuffer, MemStack, StackReq},
    linalg::{
        matmul::matmul,
        svd::{ComputeSvdVectors, svd_scratch},
    },
};

/// Bytes that the products of the library work in, in addition to the documented memory of a matrix: parts of both factors,
/// packed, as large as a processor's caches make them. Measured where this was written; an estimate elsewhere.
pub(super) const PACKED_BYTES: usize = 4 << 20;
/// Those of the bytes that a decomposition writes to, whose products are with few columns at a time. Of matrices and kernels of 60 to
/// 4096 rows they were up to 1.0 MB, and no more than the weight has.
pub(super) const PACKED_WRITTEN: usize = 5 << 18;

/// Columns from which on the library divides a matrix to find its vectors.
const BY_HALVES: usize = 128;

/// Which singular vectors are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Vectors {
    None,
    /// Rotates rows: as long as a column.
    Left,
    /// Rotates columns: as long as a row.
    Right,
    Both,
}

/// A matrix `[rows, columns]` by its singular values, from the largest down.
#[derive(Debug, Default)]
pub(super) struct Svd {
    pub(super) values: Vec<f64>,
    /// The left vectors one after another, `rows` numbers each; empty where they were not wanted.
    pub(super) left: Vec<f64>,
    /// The right ones, `columns` numbers each.
    pub(super) right: Vec<f64>,
}

impl Vectors {
    /// How much is computed of the left and of the right vectors.
    fn wanted(self) -> [ComputeSvdVectors; 2] {
        let thin = |is_wanted| if is_wanted { ComputeSvdVectors::Thin } else { ComputeSvdVectors::No };
        [thin(matches!(self, Self::Left | Self::Both)), thin(matches!(self, Self::Right | Self::Both))]
    }

    /// How many numbers of left and of right vectors a matrix has.
    fn numbers(self, [rows, columns]: [usize; 2]) -> [usize; 2] {
        let least = rows.min(columns);
        let [left, right] = self.wanted().map(|wanted| wanted != ComputeSvdVectors::No);
        [if left { rows * least } else { 0 }, if right { columns * least } else { 0 }]
    }
}

fn workspace([rows, columns]: [usize; 2], vectors: Vectors) -> StackReq {
    let [left, right] = vectors.wanted();
    svd_scratch::<f64>(rows, columns, left, right, Par::Seq, Default::default())
}

/// Bytes that [`svd`] allocates for a matrix of these extents, its result included.
pub(super) fn svd_bytes(extents: [usize; 2], vectors: Vectors) -> usize {
    let numbers: usize = vectors.numbers(extents).into_iter().sum::<usize>() + extents[0].min(extents[1]);
    numbers * size_of::<f64>() + workspace(extents, vectors).unaligned_bytes_required()
}

/// Those of the bytes that it writes to: where it finds the vectors of both sides by halves, the library leaves a square of its
/// workspace as it is.
pub(super) fn svd_written(extents: [usize; 2], vectors: Vectors) -> usize {
    let least = extents[0].min(extents[1]);
    let left =
        if matches!(vectors, Vectors::Both) && least >= BY_HALVES { least * least * size_of::<f64>() } else { 0 };
    svd_bytes(extents, vectors) - left
}

/// The singular values of a matrix `[rows, columns]`, which lies row by row, and the vectors that are wanted. `None` if the
/// iteration does not end, as for numbers that are not finite.
pub(super) fn svd(matrix: &[f64], extents: [usize; 2], vectors: Vectors) -> Option<Svd> {
    let [rows, columns] = extents;
    let least = rows.min(columns);
    let [left, right] = vectors.numbers(extents);
    let mut found = Svd { values: vec![0.0; least], left: vec![0.0; left], right: vec![0.0; right] };
    let mut memory = MemBuffer::new(workspace(extents, vectors));
    let u = (left > 0).then(|| MatMut::from_column_major_slice_mut(&mut found.left, rows, least));
    let v = (right > 0).then(|| MatMut::from_column_major_slice_mut(&mut found.right, columns, least));
    let matrix = MatRef::from_row_major_slice(matrix, rows, columns);
    let values = DiagMut::from_slice_mut(&mut found.values);
    let stack = MemStack::new(&mut memory);
    faer::linalg::svd::svd(matrix, values, u, v, Par::Seq, stack, Default::default()).ok()?;
    found.values.iter().all(|value| value.is_finite()).then_some(found)
}

/// The first `count` of vectors of `length` numbers that lie one after another.
pub(super) fn first(mut vectors: Vec<f64>, length: usize, count: usize) -> Vec<f64> {
    vectors.truncate(length * count);
    vectors.shrink_to_fit();
    vectors
}

/// `matrix [rows, columns]` times the `count` vectors of `columns` numbers: `[rows, count]`.
pub(super) fn times(matrix: &[f64], [rows, columns]: [usize; 2], vectors: &[f64], count: usize) -> Vec<f64> {
    let mut product = vec![0.0; rows * count];
    let to = MatMut::from_row_major_slice_mut(&mut product, rows, count);
    let matrix = MatRef::from_row_major_slice(matrix, rows, columns);
    let vectors = MatRef::from_column_major_slice(vectors, columns, count);
    matmul(to, Accum::Replace, matrix, vectors, 1.0, Par::Seq);
    product
}

/// The `count` vectors of `rows` numbers, turned, times `matrix [rows, columns]`: `[count, columns]`.
pub(super) fn turned_times(vectors: &[f64], count: usize, matrix: &[f64], [rows, columns]: [usize; 2]) -> Vec<f64> {
    let mut product = vec![0.0; count * columns];
    let to = MatMut::from_row_major_slice_mut(&mut product, count, columns);
    let matrix = MatRef::from_row_major_slice(matrix, rows, columns);
    // Vectors one after another are the rows of the turned matrix.
    let vectors = MatRef::from_row_major_slice(vectors, count, rows);
    matmul(to, Accum::Replace, vectors, matrix, 1.0, Par::Seq);
    product
}

/// Turns a matrix `[rows, columns]`.
pub(super) fn turned(matrix: &[f64], [rows, columns]: [usize; 2]) -> Vec<f64> {
    (0..rows * columns).map(|at| matrix[at % rows * columns + at / rows]).collect()
}

#[cfg(test)]
mod tests {
    use std::mem::MaybeUninit;

    use super::*;
    use crate::{
        memory::tally,
        rng::{Rng, Stream},
    };

    fn drawn(count: usize, seed: u64) -> Vec<f64> {
        let rng = Rng::new(seed, Stream::Weights, 0);
        (0..count).map(|at| rng.range(at as u64, -1.0, 1.0)).collect()
    }

    #[test]
    fn the_parts_of_a_matrix_make_it_again() {
        for (at, extents) in [[7, 5], [5, 7], [1, 9], [300, 140], [8, 8]].into_iter().enumerate() {
            let [rows, columns] = extents;
            let matrix = drawn(rows * columns, at as u64);
            let Svd { values, left, right } = svd(&matrix, extents, Vectors::Both).expect("finite");
            assert!(values.is_sorted_by(|a, b| a >= b) && values.iter().all(|value| *value >= 0.0));
            let worst = (0..rows * columns).map(|at| {
                let (row, column) = (at / columns, at % columns);
                let sum: f64 = values
                    .iter()
                    .enumerate()
                    .map(|(k, s)| left[k * rows + row] * s * right[k * columns + column])
                    .sum();
                (sum - matrix[at]).abs()
            });
            let worst = worst.fold(0.0, f64::max);
            assert!(worst < 1e-12, "{extents:?}: {worst}");
            let alone = svd(&matrix, extents, Vectors::None).expect("finite").values;
            assert!(values.iter().zip(&alone).all(|(a, b)| (a - b).abs() < 1e-12 * values[0]));
            let again = svd(&matrix, extents, Vectors::Both).expect("finite");
            assert!(again.left == left && again.right == right && again.values == values);
        }
        assert!(svd(&[1.0, f64::NAN, 0.0, 2.0], [2, 2], Vectors::Both).is_none());
    }

    #[test]
    fn what_is_allocated_is_what_was_said() {
        for extents in [[64, 48], [48, 200], [300, 40], [256, 256]] {
            for vectors in [Vectors::None, Vectors::Left, Vectors::Right, Vectors::Both] {
                let matrix = drawn(extents[0] * extents[1], 3);
                let held = tally::peak_of(|| drop(svd(&matrix, extents, vectors)));
                let said = svd_bytes(extents, vectors) as u64;
                let most = said + PACKED_BYTES as u64;
                assert!(held.live <= most, "{extents:?}, {vectors:?}: {} held, {most} said", held.live);
                assert!(held.live * 10 >= said * 9, "{extents:?}, {vectors:?}: {} held, {said} said", held.live);
            }
        }
    }

    #[test]
    fn products_with_vectors_are_those_of_a_loop() {
        let (matrix, extents) = (drawn(6 * 4, 1), [6, 4]);
        let vectors = drawn(4 * 3, 2);
        let product = times(&matrix, extents, &vectors, 3);
        for (at, found) in product.iter().enumerate() {
            let (row, of) = (at / 3, at % 3);
            let sum: f64 = (0..4).map(|k| matrix[row * 4 + k] * vectors[of * 4 + k]).sum();
            assert!((sum - found).abs() < 1e-14);
        }
        let vectors = drawn(6 * 2, 5);
        let product = turned_times(&vectors, 2, &matrix, extents);
        for (at, found) in product.iter().enumerate() {
            let (of, column) = (at / 4, at % 4);
            let sum: f64 = (0..6).map(|k| vectors[of * 6 + k] * matrix[k * 4 + column]).sum();
            assert!((sum - found).abs() < 1e-14);
        }
        assert_eq!(turned(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3]), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    }

    #[test]
    fn what_is_written_is_what_was_said() {
        const UNTOUCHED: u64 = 0xA5A5_A5A5_A5A5_A5A5;
        for [rows, columns] in [[100, 100], [128, 128], [278, 278], [300, 140], [150, 400]] {
            let (extents, least) = ([rows, columns], rows.min(columns));
            let matrix = drawn(rows * columns, 3);
            let numbers = workspace(extents, Vectors::Both).unaligned_bytes_required() / 8 + 1;
            let mut memory = vec![MaybeUninit::new(UNTOUCHED); numbers];
            let stack = MemStack::new_any(&mut memory);
            let [mut left, mut right] = Vectors::Both.numbers(extents).map(|numbers| vec![0.0; numbers]);
            let mut values = vec![0.0; least];
            let matrix = MatRef::from_row_major_slice(&matrix, rows, columns);
            let u = MatMut::from_column_major_slice_mut(&mut left, rows, least);
            let v = MatMut::from_column_major_slice_mut(&mut right, columns, least);
            let values = DiagMut::from_slice_mut(&mut values);
            faer::linalg::svd::svd(matrix, values, Some(u), Some(v), Par::Seq, stack, Default::default())
                .expect("finite");
            // SAFETY: all of it had a value before, and the library writes numbers.
            let is_written = |number: &&MaybeUninit<u64>| unsafe { number.assume_init() } != UNTOUCHED;
            let written = memory.iter().filter(is_written).count() * 8;
            let all = memory.len() * 8;
            let said = all - (svd_bytes(extents, Vectors::Both) - svd_written(extents, Vectors::Both));
            assert!(written <= said + 64, "{extents:?}: {written} of {all} written, {said} said");
            assert!(written * 10 >= said * 9, "{extents:?}: {written} of {all} written, {said} said");
        }
    }
}
