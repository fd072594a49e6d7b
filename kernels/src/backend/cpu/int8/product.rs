//! The product of codes, a block of pixels a piece.
//!
//! A piece gathers the patches of its pixels (im2col; Chellapilla et al. 2006), or reads them where they lie if a pixel is its
//! own patch, adds up integers, and turns them into numbers once they are whole. Always holds: it allocates the same on every
//! processor, with any instructions.

use std::ops::Range;

use super::{
    Steps,
    dots::{Block, PIXELS, Way, multiply},
};
use crate::{
    backend::{
        cpu::{float::Float, operands::Operands, parallel, scratch::Scratch, simd::simd},
        ops::Window,
    },
    error::Result,
};

/// The division of a product into pieces.
#[derive(Debug, Clone, Copy)]
pub(in crate::backend) struct Blocks {
    /// Pixels of a piece: a multiple of [`PIXELS`].
    rows: usize,
    /// Terms of sums that are gathered at a time: a multiple of the widest instruction's.
    depth: usize,
    /// Filters whose sums are there at a time.
    columns: usize,
    pixels: usize,
    /// Whether more than one thread pays.
    pub(in crate::backend) is_parallel: bool,
}

impl Blocks {
    /// The most pixels of a piece, and the pieces that are wanted.
    const ROWS: usize = 48;
    const WANTED_PIECES: usize = 8;
    /// Patches of a few pixels stay in the first cache.
    const DEPTH: usize = 1024;
    /// Bytes that the widest instruction reads.
    const WIDEST: usize = 64;
    const COLUMNS: usize = 256;
    /// Multiplications and additions below which a product stays on one thread.
    const PARALLEL_FLOPS: usize = 3 << 20;

    /// The plan for a window's product.
    pub(in crate::backend) fn new(w: &Window) -> Self {
        let (pixels, taps) = (w.out_pixels(), w.taps());
        let is_parallel = 2 * pixels * taps * w.filters >= Self::PARALLEL_FLOPS;
        let wanted = if is_parallel { pixels.div_ceil(Self::WANTED_PIECES) } else { pixels };
        Self {
            rows: wanted.next_multiple_of(PIXELS).clamp(PIXELS, Self::ROWS),
            depth: taps.next_multiple_of(Self::WIDEST).min(Self::DEPTH),
            columns: w.filters.clamp(1, Self::COLUMNS),
            pixels,
            is_parallel,
        }
    }

    /// The pieces of work that threads share out.
    pub(in crate::backend) fn pieces(&self) -> usize {
        self.pixels.div_ceil(self.rows)
    }

    /// Numbers of 16 bits that the patches of a piece are.
    pub(in crate::backend) fn patch_elements(&self) -> usize {
        self.rows * self.depth
    }

    /// Sums of a piece.
    pub(in crate::backend) fn sum_elements(&self) -> usize {
        self.rows * self.columns
    }
}

/// The operands of a product.
struct Product<'a, T> {
    window: Window,
    blocks: Blocks,
    codes: &'a [u8],
    steps: Steps,
    weight: &'a [u8],
    scales: &'a [f32],
    sums: &'a [u32],
    bias: Option<&'a [T]>,
}

/// Runs [`Int8::Product`](crate::backend::ops::Int8::Product).
pub(super) fn product<T: Float>(window: &Window, o: &Operands<'_>) -> Result<()> {
    let (codes, steps, weight) = (o.input_bytes(0)?, Steps::of(&o.input(1)?), o.input_bytes(2)?);
    let (scales, sums) = (o.input::<f32>(3)?, o.input_integers(4)?);
    let bias = if o.inputs() > 5 { Some(o.input::<T>(5)?) } else { None };
    let product = Product {
        window: *window,
        blocks: Blocks::new(window),
        codes: &codes,
        steps,
        weight: &weight,
        scales: &scales,
        sums: &sums,
        bias: bias.as_deref(),
    };
    let (mut y, filters) = (o.output::<T>(0)?, window.filters);
    let Blocks { rows, pixels, is_parallel, .. } = product.blocks;
    let first = |piece: usize| (piece * rows).min(pixels) * filters;
    let of = parallel::parts(&mut y, &first);
    parallel::pieces(product.blocks.pieces(), is_parallel, of, |piece, y| product.piece(piece * rows, y));
    Ok(())
}

impl<T: Float> Product<'_, T> {
    /// Writes the result of the pixels from `first` on.
    fn piece(&self, first: usize, y: &mut [T]) {
        let Blocks { rows, depth, .. } = self.blocks;
        let (filters, taps, way) = (self.window.filters, self.window.taps(), Way::best());
        let (of_patches, of_sums) = (self.blocks.patch_elements() / 2, self.blocks.sum_elements());
        // One part of the room, because two of several sizes would leave holes between those of other threads.
        let mut scratch = Scratch::<u32>::new(of_patches + of_sums);
        let (patches, sums) = scratch.elements().split_at_mut(of_patches);
        let pixels = y.len() / filters.max(1);
        if let Some(own) = self.in_place(way, first..first + pixels, patches) {
            let sums: &mut [i32] = bytemuck::cast_slice_mut(sums);
            let block = Block { patches: own, stride: taps, rows, weight: self.weight, taps, depths: 0..taps };
            return self.by_columns(sums, y, |range, sums| multiply(way, &block, range, patches, sums));
        }
        // As bytes, patches leave half of their room free.
        let (patches, room) = match way.takes_bytes() {
            true => patches.split_at_mut(of_patches / 2),
            false => (patches, &mut [][..]),
        };
        let (patches, sums): (_, &mut [i32]) = (bytemuck::cast_slice_mut(patches), bytemuck::cast_slice_mut(sums));
        self.by_columns(sums, y, |range, sums| {
            for begin in (0..taps).step_by(depth) {
                let depths = begin..taps.min(begin + depth);
                if range.start == 0 || taps > depth {
                    self.gather_all(way, first..first + pixels, depths.clone(), patches);
                }
                let block = Block { patches, stride: depth, rows, weight: self.weight, taps, depths };
                multiply(way, &block, range.clone(), room, sums);
            }
        });
    }

    /// Writes the results of all filters, some of them at a time, whose products `add` adds to their sums.
    fn by_columns(&self, sums: &mut [i32], y: &mut [T], mut add: impl FnMut(Range<usize>, &mut [i32])) {
        let (filters, columns) = (self.window.filters, self.blocks.columns);
        for filter in (0..filters).step_by(columns) {
            let range = filter..filters.min(filter + columns);
            sums.fill(0);
            add(range.clone(), sums);
            self.store(range, sums, y);
        }
    }

    /// The patches of a whole piece where they lie, if each of its pixels is its own patch and the way reads such.
    fn in_place(&self, way: Way, pixels: Range<usize>, room: &[u32]) -> Option<&[i16]> {
        let (window, taps) = (&self.window, self.window.taps());
        let is_own = (window.size, window.stride, window.padding) == (1, 1, 0);
        let is_read = pixels.len() == self.blocks.rows && taps <= self.blocks.depth && way.reads_rows_of(taps, room);
        if !is_own || !is_read {
            return None;
        }
        bytemuck::try_cast_slice(&self.codes[pixels.start * taps..pixels.end * taps]).ok()
    }

    /// Writes patches, and zeros where a row has no more of them.
    fn gather_all(&self, way: Way, pixels: Range<usize>, depths: Range<usize>, patches: &mut [i16]) {
        let depth = self.blocks.depth;
        if way.takes_bytes() {
            let bytes: &mut [u8] = bytemuck::cast_slice_mut(patches);
            bytes.chunks_exact_mut(depth).zip(pixels).for_each(|(to, pixel)| self.gather(pixel, depths.clone(), to));
        } else {
            patches.chunks_exact_mut(depth).zip(pixels).for_each(|(to, pixel)| self.gather(pixel, depths.clone(), to));
        }
    }

    /// Writes a part of a pixel's patch.
    fn gather<E: From<u8> + Copy>(&self, pixel: usize, depths: Range<usize>, to: &mut [E]) {
        let Window { height, width, channels, size, stride, padding, .. } = self.window;
        let (down, across) = (self.window.out_height(), self.window.out_width());
        let (image, place) = (pixel / (down * across), pixel % (down * across));
        let top = (place / across * stride) as isize - padding as isize;
        let left = ((place % across * stride) as isize - padding as isize) * channels as isize;
        let (run, line) = (size * channels, width * channels);
        let zero = E::from(self.steps.zero as u8);
        let (mut at, mut rest) = (depths.start, to);
        while at < depths.end {
            let (tap, from) = (at / run, at % run);
            let until = run.min(from + depths.end - at);
            at += until - from;
            let (to, after) = rest.split_at_mut(until - from);
            rest = after;
            let y = top + tap as isize;
            if y < 0 || y >= height as isize {
                to.fill(zero);
                continue;
            }
            // The part of the run inside the line.
            let low = (-left).clamp(from as isize, until as isize) as usize;
            let high = (line as isize - left).clamp(low as isize, until as isize) as usize;
            to[..low - from].fill(zero);
            to[high - from..].fill(zero);
            if low < high {
                let start = ((image * height + y as usize) * line) as isize + left;
                let seen = &self.codes[(start + low as isize) as usize..(start + high as isize) as usize];
                to[low - from..high - from].iter_mut().zip(seen).for_each(|(to, code)| *to = E::from(*code));
            }
        }
        rest.fill(E::from(0));
    }

    /// Turns the sums of some filters into numbers.
    fn store(&self, filters: Range<usize>, sums: &[i32], y: &mut [T]) {
        let number = |x: f32| <T::Acc as Float>::from_f64(f64::from(x));
        let zero = self.steps.zero as i32;
        let (mut numbers, mut of_zeros) = ([[T::Acc::ZERO; Blocks::COLUMNS]; 2], [0; Blocks::COLUMNS]);
        for (at, filter) in filters.clone().enumerate() {
            numbers[0][at] = number(self.steps.scale) * number(self.scales[filter]);
            numbers[1][at] = self.bias.map_or(T::Acc::ZERO, |bias| bias[filter].up());
            of_zeros[at] = zero * self.sums[filter] as i32;
        }
        let [scales, biases] = &numbers;
        let strides = [self.window.filters, self.blocks.columns];
        store_rows(sums, &of_zeros, [scales, biases], strides, filters, y);
    }
}

simd! {
    /// Writes the numbers of all rows' sums of some filters, by the scale, the part of zero and the bias of each.
    fn store_rows [T: Float] (
        sums: &[i32], of_zeros: &[i32], numbers: [&[T::Acc]; 2], strides: [usize; 2], filters: Range<usize>, y: &mut [T],
    ) {
        let [scales, biases] = numbers.map(|numbers| &numbers[..filters.len()]);
        for (row, sums) in y.chunks_exact_mut(strides[0]).zip(sums.chunks_exact(strides[1])) {
            let of_sums = sums.iter().zip(of_zeros).zip(scales.iter().zip(biases));
            for (y, ((sum, of_zero), (scale, bias))) in row[filters.clone()].iter_mut().zip(of_sums) {
                let sum = <T::Acc as Float>::from_f64(f64::from(sum - of_zero));
                *y = T::down(sum * *scale + *bias);
            }
        }
    }
}
