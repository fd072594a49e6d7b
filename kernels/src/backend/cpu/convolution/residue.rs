//! Input gradients: pixels by their positions modulo the stride, and the weights that reach them.

use std::ops::Range;

use super::patches::runs_or_copies;
use crate::backend::{
    Window,
    cpu::{
        convert::up,
        float::Float,
        gemm::{
            self, Operand, Term, Unconverted,
            tiling::{CHUNK, Layout},
        },
        matrix::MatRef,
    },
};

/// Weights `[filters, size, size, channels]` as the matrix `[taps * filters, channels]` of one residue.
pub(super) struct FlippedWeights<'a, T> {
    pub(super) weights: &'a [T],
    pub(super) window: Window,
    pub(super) residue: Residue,
}

impl<T> FlippedWeights<'_, T> {
    /// Where the channels of a row start.
    fn start(&self, row: usize) -> usize {
        let (w, r) = (&self.window, &self.residue);
        let (tap, filter) = (row / w.filters, row % w.filters);
        let y = r.first[0] + (r.taps[0] - 1 - tap / r.taps[1]) * w.stride;
        let x = r.first[1] + (r.taps[1] - 1 - tap % r.taps[1]) * w.stride;
        ((filter * w.size + y) * w.size + x) * w.channels
    }
}

impl<T: Float> FlippedWeights<'_, T> {
    /// Copies a block, as `copy` does it.
    pub(super) fn copied<'s, E: Float>(
        &self,
        rows: Range<usize>,
        columns: Range<usize>,
        copy: impl Fn(&[T], &mut [E]),
        room: &'s mut [E],
    ) -> MatRef<'s, E> {
        let extents = [rows.len(), columns.len()];
        for (to, row) in room.chunks_exact_mut(columns.len()).zip(rows) {
            let start = self.start(row);
            copy(&self.weights[start + columns.start..start + columns.end], to);
        }
        gemm::copied(room, extents)
    }
}

impl<T: Float> Operand<T::Acc> for FlippedWeights<'_, T> {
    fn layout(&self) -> Layout {
        Layout::CopiedRows
    }

    fn block<'s>(&'s self, rows: Range<usize>, columns: Range<usize>, room: &'s mut [T::Acc]) -> MatRef<'s, T::Acc> {
        self.copied(rows, columns, up, room)
    }
}

impl<E: Term> Operand<E> for Unconverted<FlippedWeights<'_, E>> {
    fn layout(&self) -> Layout {
        runs_or_copies(self.0.window.channels)
    }

    fn block<'s>(&'s self, rows: Range<usize>, columns: Range<usize>, room: &'s mut [E]) -> MatRef<'s, E> {
        self.0.copied(rows, columns, |from: &[E], to: &mut [E]| to.copy_from_slice(from), room)
    }

    fn chunks<'s>(&'s self, row: usize, columns: Range<usize>, to: &mut [&'s [E; CHUNK]]) {
        let start = self.0.start(row);
        let row = self.0.weights[start + columns.start..start + columns.end].as_chunks::<CHUNK>().0;
        to.iter_mut().zip(row).for_each(|(to, chunk)| *to = chunk);
    }
}

/// The pixels of the input whose positions are the same modulo the stride, so that the same taps reach them.
#[derive(Debug, Clone, Copy)]
pub(in crate::backend) struct Residue {
    /// The place of the first pixel.
    pub(super) place: [usize; 2],
    /// How many pixels down and across.
    pub(super) pixels: [usize; 2],
    /// The first tap that reaches them, and how many do.
    pub(super) first: [usize; 2],
    pub(super) taps: [usize; 2],
}

/// Every residue of a window, with those that no tap reaches.
pub(in crate::backend) fn residues(w: &Window) -> impl Iterator<Item = Residue> + use<> {
    let w = *w;
    let along = move |place: usize, extent: usize| {
        let first = (place + w.padding) % w.stride;
        ((extent - place).div_ceil(w.stride), first, (w.size.saturating_sub(first)).div_ceil(w.stride))
    };
    let (down, across) = (w.stride.min(w.height), w.stride.min(w.width));
    (0..down * across).map(move |i| {
        let place = [i / across, i % across];
        let ((pixels_y, first_y, taps_y), (pixels_x, first_x, taps_x)) =
            (along(place[0], w.height), along(place[1], w.width));
        Residue { place, pixels: [pixels_y, pixels_x], first: [first_y, first_x], taps: [taps_y, taps_x] }
    })
}
