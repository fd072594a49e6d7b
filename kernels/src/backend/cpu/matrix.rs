//! Matrix views for products: elements, extents and strides, checked once when a view is made.
//!
//! Always holds: a view's elements lie inside its slice, and two live views for writing share none, so their products are safe.

use std::{any::TypeId, marker::PhantomData, ops::Range};

use super::{
    float::{Accumulator, Float},
    gemm::warm_up_to_lend,
    parallel::Cut,
};
use crate::memory::lent;

/// A matrix to read.
#[derive(Debug, Clone, Copy)]
pub(super) struct MatRef<'a, A> {
    elements: &'a [A],
    rows: usize,
    columns: usize,
    row_stride: usize,
    column_stride: usize,
}

impl<'a, A> MatRef<'a, A> {
    /// Row after row, `stride` elements apart.
    pub(super) fn new(elements: &'a [A], [rows, columns]: [usize; 2], stride: usize) -> Self {
        assert!(last(rows, columns, stride) <= elements.len(), "a matrix inside its elements");
        Self { elements, rows, columns, row_stride: stride, column_stride: 1 }
    }

    /// The transpose.
    pub(super) fn transposed(self) -> Self {
        Self {
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
            ..self
        }
    }

    /// Rows and columns.
    pub(super) fn extents(self) -> [usize; 2] {
        [self.rows, self.columns]
    }

    /// The elements from the first one on, and how far apart rows and columns are.
    pub(super) fn parts(self) -> (&'a [A], [usize; 2]) {
        (self.elements, [self.row_stride, self.column_stride])
    }

    /// Some of the rows.
    pub(super) fn rows(self, rows: Range<usize>) -> Self {
        assert!(rows.start <= rows.end && rows.end <= self.rows, "rows of the matrix");
        let start = (rows.start * self.row_stride).min(self.elements.len());
        Self { elements: &self.elements[start..], rows: rows.len(), ..self }
    }
}

/// One past the last element of a matrix.
fn last(rows: usize, columns: usize, stride: usize) -> usize {
    if rows == 0 || columns == 0 { 0 } else { (rows - 1) * stride + columns }
}

/// Where the rows of a matrix start.
#[derive(Debug, Clone, Copy)]
enum Lines {
    /// This many elements apart.
    Even(usize),
    /// At the pixels of images.
    Spread(Spread),
}

/// Pixels of images, as rows of channels: `down` lines of `across` pixels an image.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spread {
    pub(super) images: usize,
    pub(super) down: usize,
    pub(super) across: usize,
    /// Elements from an image, a line and a pixel to the next.
    pub(super) strides: [usize; 3],
    /// Where the first pixel starts.
    pub(super) offset: usize,
}

/// A matrix to write.
#[derive(Debug)]
pub(super) struct MatMut<'a, T> {
    /// The extents of the matrix that this is a part of.
    pointer: *mut T,
    lines: Lines,
    /// The first row and column.
    start: [usize; 2],
    rows: usize,
    columns: usize,
    life: PhantomData<&'a mut [T]>,
}

// SAFETY: it is the only way to its elements, as a `&mut [T]` is.
unsafe impl<T: Send> Send for MatMut<'_, T> {}

impl<'a, T> MatMut<'a, T> {
    /// Row after row, `stride` elements apart.
    pub(super) fn new(elements: &'a mut [T], [rows, columns]: [usize; 2], stride: usize) -> Self {
        assert!(columns <= stride && last(rows, columns, stride) <= elements.len(), "a matrix inside its elements");
        Self::of(elements, Lines::Even(stride), rows, columns)
    }

    /// Rows of `columns` elements at the pixels of images, in any order of images, lines and pixels.
    pub(super) fn spread(elements: &'a mut [T], s: Spread, columns: usize) -> Self {
        let [image, line, pixel] = s.strides;
        let mut axes = [(image, s.images), (line, s.down), (pixel, s.across)];
        axes.sort_unstable();
        let mut extent = columns;
        for (stride, count) in axes {
            assert!(count <= 1 || extent <= stride, "pixels that lie apart");
            extent = last(count, extent, stride);
        }
        assert!(s.offset + extent <= elements.len(), "a matrix inside its elements");
        Self::of(elements, Lines::Spread(s), s.images * s.down * s.across, columns)
    }

    fn of(elements: &'a mut [T], lines: Lines, rows: usize, columns: usize) -> Self {
        Self { pointer: elements.as_mut_ptr(), lines, start: [0, 0], rows, columns, life: PhantomData }
    }

    /// Rows and columns.
    pub(super) fn extents(&self) -> [usize; 2] {
        [self.rows, self.columns]
    }

    /// The same matrix, for a shorter lifetime.
    pub(super) fn again(&mut self) -> MatMut<'_, T> {
        MatMut { life: PhantomData, ..*self }
    }

    /// Some rows and columns, for a shorter lifetime.
    pub(super) fn part(&mut self, rows: Range<usize>, columns: Range<usize>) -> MatMut<'_, T> {
        let below = self.again().split_rows(rows.end).0.split_rows(rows.start).1;
        below.split_columns(columns.end).0.split_columns(columns.start).1
    }

    /// The rows before `row`, and the rest.
    pub(super) fn split_rows(self, row: usize) -> (Self, Self) {
        assert!(row <= self.rows, "a row of the matrix");
        let start = [self.start[0] + row, self.start[1]];
        (Self { rows: row, ..self }, Self { start, rows: self.rows - row, ..self })
    }

    /// The columns before `column`, and the rest.
    pub(super) fn split_columns(self, column: usize) -> (Self, Self) {
        assert!(column <= self.columns, "a column of the matrix");
        let start = [self.start[0], self.start[1] + column];
        (Self { columns: column, ..self }, Self { start, columns: self.columns - column, ..self })
    }

    /// Where a row's first element lies.
    fn place(&self, row: usize) -> *mut T {
        self.places(row)()
    }

    /// Where the first elements of a row and of those after it lie, one at each call.
    fn places(&self, row: usize) -> impl FnMut() -> *mut T + use<T> {
        let (pointer, first) = (self.pointer.wrapping_add(self.start[1]), self.start[0] + row);
        let s = match self.lines {
            Lines::Even(stride) => {
                Spread { images: 1, down: 1, across: usize::MAX, strides: [0, 0, stride], offset: 0 }
            }
            Lines::Spread(s) => s,
        };
        let (mut image, mut line, mut pixel) = match self.lines {
            Lines::Even(_) => (0, 0, first),
            Lines::Spread(_) => (first / (s.down * s.across), first / s.across % s.down, first % s.across),
        };
        move || {
            let start = s.offset + image * s.strides[0] + line * s.strides[1] + pixel * s.strides[2];
            pixel += 1;
            if pixel == s.across {
                (pixel, line) = (0, line + 1);
            }
            if line == s.down {
                (line, image) = (0, image + 1);
            }
            pointer.wrapping_add(start)
        }
    }

    /// One row.
    #[inline(always)]
    pub(super) fn row(&mut self, row: usize) -> &mut [T] {
        let [only] = self.some_rows(row);
        only
    }

    /// So many rows, from one on.
    #[inline(always)]
    pub(super) fn some_rows<const N: usize>(&mut self, row: usize) -> [&mut [T]; N] {
        assert!(row + N <= self.rows, "rows of the matrix");
        let mut rows = self.places(row);
        // SAFETY: the constructors found every row inside the elements and apart from the others, parts are cut off by whole
        // rows and columns, and `&mut self` is the only way to this part's.
        std::array::from_fn(|_| unsafe { std::slice::from_raw_parts_mut(rows(), self.columns) })
    }

    /// Pieces of `step` rows each.
    pub(super) fn by_rows(self, step: usize) -> By<'a, T> {
        By { matrix: self, step, first: 0, is_rows: true }
    }

    /// Pieces of `step` columns each.
    pub(super) fn by_columns(self, step: usize) -> By<'a, T> {
        By { matrix: self, step, first: 0, is_rows: false }
    }
}

impl<T: Float> MatMut<'_, T> {
    /// The matrix as a result of arithmetic, if no conversion is needed and rows lie evenly.
    pub(super) fn direct(&mut self) -> Option<MatMut<'_, T::Acc>> {
        let is_even = matches!(self.lines, Lines::Even(_));
        self.as_type().filter(|_| is_even)
    }

    /// The matrix, where its elements are f32.
    pub(super) fn singles(&mut self) -> Option<MatMut<'_, f32>> {
        self.as_type()
    }

    fn as_type<U: 'static>(&mut self) -> Option<MatMut<'_, U>> {
        (TypeId::of::<T>() == TypeId::of::<U>()).then(|| MatMut {
            pointer: self.pointer.cast(),
            lines: self.lines,
            start: self.start,
            rows: self.rows,
            columns: self.columns,
            life: PhantomData,
        })
    }
}

/// A matrix that is cut every so many rows or columns; the last part may have fewer.
#[derive(Debug)]
pub(super) struct By<'a, T> {
    matrix: MatMut<'a, T>,
    step: usize,
    /// The number of the first piece.
    first: usize,
    is_rows: bool,
}

impl<'a, T: Send> Cut for By<'a, T> {
    type Part = MatMut<'a, T>;

    fn cut(self, piece: usize) -> (Self, Self) {
        let Self { matrix, step, first, is_rows } = self;
        let extent = if is_rows { matrix.rows } else { matrix.columns };
        let at = ((piece - first) * step).min(extent);
        let (before, after) = if is_rows { matrix.split_rows(at) } else { matrix.split_columns(at) };
        (Self { matrix: before, step, first, is_rows }, Self { matrix: after, step, first: piece, is_rows })
    }

    fn part(self) -> MatMut<'a, T> {
        self.matrix
    }
}

/// Inner extents below which a small product is done here: the bookkeeping of the crate grows as they shrink.
const SMALL_DEPTH: usize = 16;
/// The most rows and columns of such a product.
const SMALL: usize = 64;

/// Whether a product of these rows, columns and terms, or fewer, is done here, in registers and on the stack.
pub(in crate::backend) fn is_small([rows, columns, terms]: [usize; 3]) -> bool {
    terms < SMALL_DEPTH && rows <= SMALL && columns <= SMALL
}

/// `c (+)= a b`. The rows of `c` lie evenly.
pub(super) fn multiply<A: Accumulator>(a: MatRef<'_, A>, b: MatRef<'_, A>, c: MatMut<'_, A>, add: bool) {
    let (m, n, k) = (a.rows, b.columns, a.columns);
    assert!(b.rows == k && c.extents() == [m, n], "extents of a product");
    if m == 0 || n == 0 {
        return;
    }
    if is_small([m, n, k]) {
        return multiply_small(a, b, c, add);
    }
    let Lines::Even(stride) = c.lines else { unreachable!("a product's rows lie evenly") };
    warm_up_to_lend();
    // SAFETY: the views hold the extents and strides that are given, checked when they were made; `c` is alone in its
    // elements, and they are only read to be added to.
    lent::during(|| unsafe {
        gemm::gemm(
            m,
            n,
            k,
            c.place(0),
            1,
            stride as isize,
            add,
            a.elements.as_ptr(),
            a.column_stride as isize,
            a.row_stride as isize,
            b.elements.as_ptr(),
            b.column_stride as isize,
            b.row_stride as isize,
            A::ONE,
            A::ONE,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    });
}

fn multiply_small<A: Accumulator>(a: MatRef<'_, A>, b: MatRef<'_, A>, mut c: MatMut<'_, A>, add: bool) {
    let n = b.columns;
    for i in 0..a.rows {
        let mut sums = [A::ZERO; SMALL];
        let sums = &mut sums[..n];
        for p in 0..a.columns {
            let left = a.elements[i * a.row_stride + p * a.column_stride];
            let right = &b.elements[p * b.row_stride..];
            if b.column_stride == 1 {
                for (sum, right) in sums.iter_mut().zip(&right[..n]) {
                    *sum += left * *right;
                }
            } else {
                for (sum, right) in sums.iter_mut().zip(right.iter().step_by(b.column_stride)) {
                    *sum += left * *right;
                }
            }
        }
        for (to, sum) in c.row(i).iter_mut().zip(&*sums) {
            *to = if add { *to + *sum } else { *sum };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(count: usize) -> Vec<f32> {
        (0..count).map(|i| (i * 7 % 11) as f32 - 5.0).collect()
    }

    #[test]
    fn a_product_of_any_layout_is_the_sum_of_products() {
        for (m, n, k) in [(1, 1, 1), (3, 5, 2), (65, 5, 3), (7, 70, 15), (9, 10, 40)] {
            let (a, b) = (filled(m * k), filled(n * k));
            for (turned_a, turned_b) in [(false, false), (true, false), (false, true), (true, true)] {
                let a_of = |i: usize, p: usize| if turned_a { a[p * m + i] } else { a[i * k + p] };
                let b_of = |p: usize, j: usize| if turned_b { b[j * k + p] } else { b[p * n + j] };
                let left = if turned_a { MatRef::new(&a, [k, m], m).transposed() } else { MatRef::new(&a, [m, k], k) };
                let right = if turned_b { MatRef::new(&b, [n, k], k).transposed() } else { MatRef::new(&b, [k, n], n) };
                let mut c = vec![1.0; m * (n + 2)];
                multiply(left, right, MatMut::new(&mut c, [m, n], n + 2), true);
                for (i, row) in c.chunks(n + 2).enumerate() {
                    for (j, c) in row[..n].iter().enumerate() {
                        assert_eq!(*c, 1.0 + (0..k).map(|p| a_of(i, p) * b_of(p, j)).sum::<f32>(), "{m} {n} {k}");
                    }
                    assert_eq!(row[n..], [1.0, 1.0], "outside the matrix");
                }
            }
        }
    }

    #[test]
    fn parts_of_a_matrix_are_written_apart() {
        let mut y = vec![0; 6 * 10];
        super::super::parallel::pieces(3, true, MatMut::new(&mut y, [6, 9], 10).by_rows(2), |i, half| {
            super::super::parallel::pieces(2, true, half.by_columns(5), |j, mut part| {
                assert_eq!(part.extents(), [2, [5, 4][j]]);
                (0..2).for_each(|row| part.row(row).fill(1 + i * 2 + j));
            });
        });
        for (i, y) in y.iter().enumerate() {
            let (row, column) = (i / 10, i % 10);
            assert_eq!(*y, if column == 9 { 0 } else { 1 + row / 2 * 2 + column / 5 });
        }
    }

    #[test]
    fn pixels_that_overlap_are_refused() {
        let spread = |across, stride| Spread { images: 2, down: 2, across, strides: [24, 12, stride], offset: 3 };
        let mut y = [0; 48];
        let mut matrix = MatMut::spread(&mut y, spread(2, 6), 3);
        matrix.row(7).fill(1);
        assert_eq!(y.iter().position(|y| *y == 1), Some(3 + 24 + 12 + 6));
        for (across, stride) in [(2, 2), (3, 6)] {
            assert!(std::panic::catch_unwind(|| MatMut::spread(&mut [0; 99], spread(across, stride), 3).rows).is_err());
        }
    }

    #[test]
    #[should_panic(expected = "inside its elements")]
    fn a_matrix_larger_than_its_elements_is_refused() {
        MatRef::new(&[0.0; 11], [3, 4], 4);
    }
}
