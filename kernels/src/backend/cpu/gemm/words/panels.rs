//! The right operand of a tile, laid out in panels.

use std::ops::Range;

use bytemuck::{cast_slice, cast_slice_mut};

use super::{COLUMNS, Operand, Term, kernel, words_of};
use crate::backend::cpu::{
    gemm::tiling::{CHUNK, Layout},
    simd::simd,
};

/// The most chunks of columns of a tile.
const CHUNKS: usize = 16;

/// A block of the right operand in panels of 32 columns.
#[derive(Debug, Clone, Copy)]
pub(super) struct Panels<'a> {
    words: &'a [u32],
    /// From a panel to the next, and from a word of a column to the next.
    strides: [usize; 2],
}

/// One of them, or the rest of it, from its first word on.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "only kernels read it"))]
pub(in crate::backend::cpu) struct Panel<'a> {
    pub(super) words: &'a [u32],
    /// From a word of a column to the next.
    pub(super) stride: usize,
}

impl<'a> Panels<'a> {
    /// The panel that begins at a column, which is its first.
    pub(super) fn from(self, column: usize) -> Panel<'a> {
        let [panel, stride] = self.strides;
        Panel { words: &self.words[column / COLUMNS * panel..], stride }
    }

    /// The block where it lies: rows of whole panels, of words of one term.
    pub(super) fn in_place<E: Term>(b: &'a impl Operand<E>, terms: Range<usize>, columns: Range<usize>) -> Self {
        assert!(E::IN_WORD == 1 && columns.len().is_multiple_of(COLUMNS), "whole panels of one term in a word");
        let (elements, [stride, _]) = b.block(terms, columns, &mut []).parts();
        Self { words: cast_slice(elements), strides: [COLUMNS, stride] }
    }

    /// Rows of whole panels that follow each other.
    pub(super) fn rows(rows: &'a [f32], columns: usize) -> Self {
        Self { words: cast_slice(rows), strides: [COLUMNS, columns] }
    }

    /// The block laid out: in each panel so many words of all columns, one after another; zeros if there are no more columns
    /// or no more terms.
    pub(super) fn laid_out<E: Term>(
        b: &impl Operand<E>,
        terms: Range<usize>,
        columns: Range<usize>,
        words: usize,
        room: &'a mut [u32],
    ) -> Self {
        let (to, aside) = room.split_at_mut(columns.len().next_multiple_of(COLUMNS) * words);
        let of_terms = words_of::<E>(terms.len());
        to.chunks_exact_mut((COLUMNS * words).max(1)).for_each(|panel| panel[COLUMNS * of_terms..].fill(0));
        match b.layout() {
            Layout::Runs => lay_chunks(b, terms, columns, words, to),
            Layout::Rows | Layout::CopiedRows => {
                let aside: &mut [E] = cast_slice_mut(aside);
                let step = if b.layout().copied() { E::AHEAD } else { terms.len() };
                for first in terms.clone().step_by(step) {
                    let some = first..(first + step).min(terms.end);
                    let extents = [some.len(), columns.len()];
                    let (elements, [stride, _]) = b.block(some, columns.clone(), aside).parts();
                    lay(elements, stride, extents, [(first - terms.start) / E::IN_WORD, words], to);
                }
            }
            Layout::Columns | Layout::CopiedColumns => {
                let (elements, [_, stride]) = b.block(terms.clone(), columns.clone(), &mut []).parts();
                turn(elements, stride, [columns.len(), terms.len()], words, to);
            }
        }
        Self { words: to, strides: [COLUMNS * words, COLUMNS] }
    }
}

/// Writes the words of a block whose columns lie in lines, `stride` apart, to all panels.
pub(in crate::backend::cpu) fn turn<E: Term>(
    lines: &[E],
    stride: usize,
    [columns, terms]: [usize; 2],
    words: usize,
    to: &mut [u32],
) {
    for column in (0..columns.next_multiple_of(COLUMNS)).step_by(CHUNK) {
        let (panel, within) = (column / COLUMNS, column % COLUMNS);
        let panel = &mut to[panel * COLUMNS * words..][..COLUMNS * words];
        let count = CHUNK.min(columns.saturating_sub(column));
        for word in (0..words_of::<E>(terms)).step_by(CHUNK) {
            let some = E::IN_WORD * word..terms.min(E::IN_WORD * (word + CHUNK));
            let to = &mut panel[word * COLUMNS..];
            let line = |i: usize| &lines[(column + i) * stride..][some.clone()];
            if count == CHUNK && some.len() == E::IN_WORD * CHUNK {
                kernel::transpose(std::array::from_fn(|i| cast_slice(line(i))), &mut to[within..], COLUMNS);
                continue;
            }
            let (mut tile, mut turned) = ([[0_u32; CHUNK]; CHUNK], [0; CHUNK * CHUNK]);
            tile[..count].iter_mut().enumerate().for_each(|(i, tile)| E::words(line(i), tile));
            kernel::transpose(tile.each_ref().map(|row| cast_slice(row)), &mut turned, CHUNK);
            for (to, turned) in to.chunks_exact_mut(COLUMNS).zip(turned.as_chunks::<CHUNK>().0) {
                to[within..within + CHUNK].copy_from_slice(turned);
            }
        }
    }
}

simd! {
    /// Writes the words of rows of terms, `stride` apart, to all panels. `place` is the first word in a panel, and the words that
    /// a panel has.
    fn lay [E: Term] (rows: &[E], stride: usize, extents: [usize; 2], place: [usize; 2], to: &mut [u32]) {
        let ([terms, columns], [first, words]) = (extents, place);
        for (word, term) in (0..terms).step_by(E::IN_WORD).enumerate() {
            let low = &rows[term * stride..][..columns];
            // Half of a last word is empty.
            let high = if E::IN_WORD == 1 || term + 1 < terms { &rows[(term + E::IN_WORD - 1) * stride..][..columns] } else { &[] };
            for (panel, start) in to.chunks_exact_mut(COLUMNS * words).zip((0..columns).step_by(COLUMNS)) {
                let to = &mut panel[(first + word) * COLUMNS..][..COLUMNS];
                let low = &low[start..];
                if low.len() >= COLUMNS && !high.is_empty() {
                    for ((to, low), high) in to.iter_mut().zip(&low[..COLUMNS]).zip(&high[start..][..COLUMNS]) {
                        *to = E::word(*low, *high);
                    }
                } else {
                    for (i, to) in to.iter_mut().enumerate() {
                        let high = high.get(start + i).copied().unwrap_or(E::ZERO);
                        *to = low.get(i).map_or(0, |low| E::word(*low, high));
                    }
                }
            }
        }
    }

    /// Writes the words of terms whose columns lie in chunks to all panels, which have `words` words each.
    fn lay_chunks [E: Term, O: Operand<E>] (
        b: &O, terms: Range<usize>, columns: Range<usize>, words: usize, to: &mut [u32],
    ) {
        let zeros = [E::ZERO; CHUNK];
        let (mut low, mut high) = ([&zeros; CHUNKS], [&zeros; CHUNKS]);
        let (count, all) = (columns.len() / CHUNK, columns.len().next_multiple_of(COLUMNS) / CHUNK);
        for word in 0..words_of::<E>(terms.len()) {
            let term = terms.start + E::IN_WORD * word;
            b.chunks(term, columns.clone(), &mut low[..count]);
            if E::IN_WORD > 1 && term + 1 < terms.end {
                b.chunks(term + 1, columns.clone(), &mut high[..count]);
            } else if E::IN_WORD > 1 {
                high = [&zeros; CHUNKS];
            }
            for (at, (low, high)) in low[..all].iter().zip(&high).enumerate() {
                let start = (at * CHUNK / COLUMNS * words + word) * COLUMNS + at * CHUNK % COLUMNS;
                for ((to, low), high) in to[start..start + CHUNK].iter_mut().zip(*low).zip(*high) {
                    *to = E::word(*low, *high);
                }
            }
        }
    }
}
