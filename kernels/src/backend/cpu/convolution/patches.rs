//! Patches of images: the pixels of a window, gathered into blocks or read where they lie.

use std::ops::Range;

use bytemuck::cast_slice;

use crate::backend::{
    Window,
    cpu::{
        convert::up,
        float::Float,
        gemm::{
            self, Operand, Runs, Term, Unconverted,
            tiling::{CHUNK, Layout, MOST_TERMS, RUN_ROWS},
        },
        matrix::MatRef,
    },
};

/// The windows over an image, square or not, that [`Patches`] gathers.
#[derive(Debug, Clone, Copy)]
pub(super) struct PatchGeometry {
    /// Extents of the image that is read.
    pub(super) height: usize,
    pub(super) width: usize,
    pub(super) channels: usize,
    pub(super) batch: usize,
    /// Whether windows are numbered place by place, all images of each, rather than image by image: windows that see the same
    /// taps outside are then neighbours.
    pub(super) by_place: bool,
    /// Windows across one image.
    pub(super) rows: usize,
    pub(super) columns: usize,
    /// Taps of a window.
    pub(super) taps: [usize; 2],
    /// Step between windows.
    pub(super) step: usize,
    /// The first window's first tap, from the image's corner.
    pub(super) origin: [isize; 2],
}

impl PatchGeometry {
    /// The windows of a convolution over its input.
    pub(super) fn of(w: &Window, by_place: bool) -> Self {
        Self {
            height: w.height,
            width: w.width,
            channels: w.channels,
            batch: w.batch,
            by_place,
            rows: w.out_height(),
            columns: w.out_width(),
            taps: [w.size; 2],
            step: w.stride,
            origin: [-(w.padding as isize); 2],
        }
    }

    /// The first line of the image of a window, and where in it the window's first tap is.
    fn place(&self, window: usize) -> (usize, isize, isize) {
        let (image, place) = match self.by_place {
            true => (window % self.batch, window / self.batch),
            false => (window / (self.rows * self.columns), window % (self.rows * self.columns)),
        };
        let top = (place / self.columns * self.step) as isize + self.origin[0];
        (image * self.height, top, (place % self.columns * self.step) as isize + self.origin[1])
    }

    /// The same of a window and of those after it.
    fn places(&self, first: usize, to: &mut [(usize, isize, isize)]) {
        let Self { height, rows, columns, step, batch, .. } = *self;
        let (mut line, mut top, mut left) = self.place(first);
        let (mut row, mut column) = match self.by_place {
            true => (first / batch / columns, first / batch % columns),
            false => (first / columns % rows, first % columns),
        };
        for place in to {
            *place = (line, top, left);
            if self.by_place {
                line += height;
                if line < batch * height {
                    continue;
                }
                line = 0;
            }
            (column, left) = (column + 1, left + step as isize);
            if column == columns {
                (column, left) = (0, left - (columns * step) as isize);
                (row, top) = (row + 1, top + step as isize);
            }
            if row == rows {
                (row, top, line) = (0, top - (rows * step) as isize, line + height);
            }
        }
    }
}

/// The patches of images as a matrix `[pixels, taps * channels]`, or its transpose.
pub(super) struct Patches<'a, T> {
    pub(super) image: &'a [T],
    pub(super) geometry: PatchGeometry,
}

impl<T: Float> Patches<'_, T> {
    /// Writes the elements `columns` of the patch of `pixel` to `to`, as `copy` does it.
    fn gather<E: Float>(&self, pixel: usize, columns: Range<usize>, copy: impl Fn(&[T], &mut [E]), to: &mut [E]) {
        let PatchGeometry { height, width, channels, taps, .. } = self.geometry;
        let (first_line, top, left) = self.geometry.place(pixel);
        let left = left * channels as isize;
        let (run, line) = (taps[1] * channels, width * channels);
        let mut rest = to;
        let mut at = columns.start;
        while at < columns.end {
            let (tap, from) = (at / run, at % run);
            let until = run.min(from + columns.end - at);
            at += until - from;
            let (to, after) = rest.split_at_mut(until - from);
            rest = after;
            let y = top + tap as isize;
            if y < 0 || y >= height as isize {
                to.fill(E::ZERO);
                continue;
            }
            // The part of the run inside the line.
            let low = (-left).clamp(from as isize, until as isize) as usize;
            let high = (line as isize - left).clamp(low as isize, until as isize) as usize;
            to[..low - from].fill(E::ZERO);
            to[high - from..].fill(E::ZERO);
            if low < high {
                let start = ((first_line + y as usize) * line) as isize + left;
                let seen = &self.image[(start + low as isize) as usize..(start + high as isize) as usize];
                copy(seen, &mut to[low - from..high - from]);
            }
        }
    }

    /// Gathers the patches of `pixels` one after another.
    fn gather_all<'s, E: Float>(
        &self,
        pixels: Range<usize>,
        columns: Range<usize>,
        copy: impl Fn(&[T], &mut [E]) + Copy,
        room: &'s mut [E],
    ) -> MatRef<'s, E> {
        let extents = [pixels.len(), columns.len()];
        for (to, pixel) in room.chunks_exact_mut(columns.len()).zip(pixels) {
            self.gather(pixel, columns.clone(), copy, to);
        }
        gemm::copied(room, extents)
    }
}

impl<T: Float> Operand<T::Acc> for Patches<'_, T> {
    fn layout(&self) -> Layout {
        Layout::CopiedRows
    }

    fn block<'s>(&'s self, rows: Range<usize>, columns: Range<usize>, room: &'s mut [T::Acc]) -> MatRef<'s, T::Acc> {
        let copy = |seen: &[T], to: &mut [T::Acc]| match T::direct(seen) {
            Some(seen) => to.copy_from_slice(seen),
            None => up(seen, to),
        };
        self.gather_all(rows, columns, copy, room)
    }
}

impl<E: Term> Operand<E> for Unconverted<Patches<'_, E>> {
    fn layout(&self) -> Layout {
        Layout::CopiedRows
    }

    fn block<'s>(&'s self, rows: Range<usize>, columns: Range<usize>, room: &'s mut [E]) -> MatRef<'s, E> {
        self.0.gather_all(rows, columns, |seen: &[E], to: &mut [E]| to.copy_from_slice(seen), room)
    }
}

/// The same patches where they lie: for each tap the channels of a pixel, or zeros.
pub(super) struct PatchRuns<'a, T>(pub(super) Patches<'a, T>);

/// The values of a tap outside the image.
static ZEROS: [u32; MOST_TERMS] = [0; MOST_TERMS];

impl<E: Term> Operand<E> for PatchRuns<'_, E> {
    fn layout(&self) -> Layout {
        Layout::Runs
    }

    fn block<'s>(&'s self, rows: Range<usize>, columns: Range<usize>, room: &'s mut [E]) -> MatRef<'s, E> {
        self.0.gather_all(rows, columns, |seen: &[E], to: &mut [E]| to.copy_from_slice(seen), room)
    }

    fn runs<'s>(&'s self, pixels: Range<usize>, terms: Range<usize>, to: &mut Runs<'s, E>) {
        let PatchGeometry { height, width, channels, taps, .. } = self.0.geometry;
        let zeros: &[E] = cast_slice(&ZEROS);
        let mut places = [(0, 0, 0); RUN_ROWS];
        let places = &mut places[..pixels.len()];
        self.0.geometry.places(pixels.start, places);
        // Where all windows are at one place, the taps that lie inside the first image lie inside every image.
        let [first, last] = [places[0], places[places.len() - 1]];
        let is_one_place = self.0.geometry.by_place && (first.1, first.2) == (last.1, last.2);
        let inside = |(_, top, left): (usize, isize, isize), [down, right]: [usize; 2]| {
            // A place before the image is negative, and so a large number.
            let (y, x) = ((top + down as isize) as usize, (left + right as isize) as usize);
            (y < height && x < width).then_some((y, x))
        };
        let mut at = terms.start;
        while at < terms.end {
            let (tap, from) = (at / channels, at % channels);
            let length = (channels - from).min(terms.end - at);
            let tap = [tap / taps[1], tap % taps[1]];
            // Pixels that no window sees are left out.
            if is_one_place {
                if let Some((y, x)) = inside(places[0], tap) {
                    let first = ((places[0].0 + y) * width + x) * channels + from;
                    let image = self.0.image[first..].chunks(height * width * channels);
                    for (start, image) in to.add(at - terms.start, length)[..places.len()].iter_mut().zip(image) {
                        *start = &image[..length];
                    }
                }
            } else if places.iter().any(|place| inside(*place, tap).is_some()) {
                for (start, place) in to.add(at - terms.start, length).iter_mut().zip(&*places) {
                    *start = match inside(*place, tap) {
                        Some((y, x)) => &self.0.image[((place.0 + y) * width + x) * channels + from..][..length],
                        None => &zeros[..length],
                    };
                }
            }
            at += length;
        }
    }

    fn chunks<'s>(&'s self, pixel: usize, columns: Range<usize>, to: &mut [&'s [E; CHUNK]]) {
        let PatchGeometry { height, width, channels, taps, .. } = self.0.geometry;
        let (line, top, left) = self.0.geometry.place(pixel);
        let zeros = cast_slice::<u32, E>(&ZEROS).as_chunks::<CHUNK>().0;
        let (image, in_pixel) = (self.0.image.as_chunks::<CHUNK>().0, channels / CHUNK);
        let (mut tap, mut from) = (columns.start / channels, columns.start % channels / CHUNK);
        let mut rest = to;
        while !rest.is_empty() {
            let (y, x) = ((top + (tap / taps[1]) as isize) as usize, (left + (tap % taps[1]) as isize) as usize);
            let (of_tap, after) = rest.split_at_mut(rest.len().min(in_pixel - from));
            if y < height && x < width {
                let seen = &image[((line + y) * width + x) * in_pixel + from..][..of_tap.len()];
                of_tap.iter_mut().zip(seen).for_each(|(to, seen)| *to = seen);
            } else {
                of_tap.fill(&zeros[0]);
            }
            (tap, from, rest) = (tap + 1, 0, after);
        }
    }
}

/// The layout of an operand with `channels` channels that is multiplied word by word. Whole chunks of channels are read where
/// they lie, because then no word has terms of two taps.
pub(super) fn runs_or_copies(channels: usize) -> Layout {
    if channels.is_multiple_of(CHUNK) { Layout::Runs } else { Layout::CopiedRows }
}
