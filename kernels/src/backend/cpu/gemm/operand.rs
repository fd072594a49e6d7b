//! Operands of products: matrices in memory, read a block at a time.

use std::ops::Range;

use super::{
    tiling::{CHUNK, Layout},
    words::{Runs, Term},
};
use crate::backend::cpu::{
    convert::{turn, up},
    float::{Accumulator, Float},
    matrix::MatRef,
};

/// One side of a product: gives blocks, in place or copied into `room`, always in the same layout.
pub(in crate::backend::cpu) trait Operand<A>: Sync {
    /// The layout of blocks, with which the plan was made.
    fn layout(&self) -> Layout;
    /// The block of some rows and columns.
    fn block<'s>(&'s self, rows: Range<usize>, columns: Range<usize>, room: &'s mut [A]) -> MatRef<'s, A>;
    /// Where some rows, no more than a run has, have some terms: only left operands with [`Layout::Runs`].
    fn runs<'s>(&'s self, _rows: Range<usize>, _terms: Range<usize>, _to: &mut Runs<'s, A>) {
        unreachable!("a left operand in {:?}", self.layout())
    }
    /// Where the row of a term has some columns, chunk by chunk: only right operands with [`Layout::Runs`].
    fn chunks<'s>(&'s self, _term: usize, _columns: Range<usize>, _to: &mut [&'s [A; CHUNK]]) {
        unreachable!("a right operand in {:?}", self.layout())
    }
}

/// A matrix in memory.
#[derive(Debug, Clone, Copy)]
pub(in crate::backend::cpu) struct Matrix<'a, T> {
    elements: &'a [T],
    stride: usize,
    transposed: bool,
}

impl<'a, T> Matrix<'a, T> {
    /// `[rows, stride]`, or its transpose, stored `[columns, stride]`.
    pub(in crate::backend::cpu) fn new(elements: &'a [T], stride: usize, transposed: bool) -> Self {
        Self { elements, stride, transposed }
    }

    /// The block of some rows and columns, where it lies.
    fn in_place(self, rows: Range<usize>, columns: Range<usize>) -> MatRef<'a, T> {
        let (outer, inner) = if self.transposed { (columns, rows) } else { (rows, columns) };
        let from = (outer.start * self.stride + inner.start).min(self.elements.len());
        let stored = MatRef::new(&self.elements[from..], [outer.len(), inner.len()], self.stride);
        if self.transposed { stored.transposed() } else { stored }
    }
}

impl<'a, T: Float> Matrix<'a, T> {
    /// The block of some rows and columns, in place or converted into `room`.
    pub(in crate::backend::cpu) fn view<'s>(
        self,
        rows: Range<usize>,
        columns: Range<usize>,
        room: &'s mut [T::Acc],
    ) -> MatRef<'s, T::Acc>
    where
        'a: 's,
    {
        if let Some(elements) = T::direct(self.elements) {
            return Matrix::new(elements, self.stride, self.transposed).in_place(rows, columns);
        }
        let (outer, inner) = if self.transposed { (columns, rows) } else { (rows, columns) };
        let extents = [outer.len(), inner.len()];
        for (to, i) in room.chunks_exact_mut(inner.len()).zip(outer) {
            let start = i * self.stride + inner.start;
            up(&self.elements[start..start + inner.len()], to);
        }
        let stored = MatRef::new(room, extents, extents[1]);
        if self.transposed { stored.transposed() } else { stored }
    }
}

impl<T: Float> Operand<T::Acc> for Matrix<'_, T> {
    fn layout(&self) -> Layout {
        Layout::of(T::DIRECT, self.transposed)
    }

    fn block<'s>(&'s self, rows: Range<usize>, columns: Range<usize>, room: &'s mut [T::Acc]) -> MatRef<'s, T::Acc> {
        self.view(rows, columns, room)
    }
}

/// An operand whose elements are multiplied as they are.
pub(in crate::backend::cpu) struct Unconverted<O>(pub(in crate::backend::cpu) O);

impl<E: Term> Operand<E> for Unconverted<Matrix<'_, E>> {
    fn layout(&self) -> Layout {
        Layout::of(true, self.0.transposed)
    }

    fn block<'s>(&'s self, rows: Range<usize>, columns: Range<usize>, _: &'s mut [E]) -> MatRef<'s, E> {
        self.0.in_place(rows, columns)
    }
}

/// The transpose of a matrix stored `[columns, stride]`, made a block at a time.
///
/// The crate packs such an operand by reading a column of 64 rows at once; rows whose distance is a large power of two
/// then push each other out of the cache.
#[derive(Debug, Clone, Copy)]
pub(super) struct TransposedOperand<'a, A>(pub(super) Matrix<'a, A>);

impl<A: Accumulator> Operand<A> for TransposedOperand<'_, A> {
    fn layout(&self) -> Layout {
        Layout::CopiedRows
    }

    fn block<'s>(&'s self, rows: Range<usize>, columns: Range<usize>, room: &'s mut [A]) -> MatRef<'s, A> {
        let extents = [rows.len(), columns.len()];
        let from = &self.0.elements[columns.start * self.0.stride + rows.start..];
        turn(from, self.0.stride, [columns.len(), rows.len()], room);
        copied(room, extents)
    }
}

/// A block that was copied row after row.
pub(in crate::backend::cpu) fn copied<A>(room: &[A], extents: [usize; 2]) -> MatRef<'_, A> {
    MatRef::new(room, extents, extents[1])
}
