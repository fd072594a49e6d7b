//! Convolution on `[batch, height, width, channels]` images as products of gathered patches and weights.
//!
//! A patch is what one window sees: `size` runs of `size * channels` neighbouring elements, zeros outside the image.
//! Patches are gathered a block at a time, inside a tile of the product (im2col without the whole matrix; Chellapilla et
//! al. 2006). The input gradient is the same product over patches of the output gradient with flipped weights. It is
//! computed apart for each residue of a pixel's position modulo the stride, so it multiplies no zeros between strides and
//! scatters nothing. Weights are laid out once for all tiles where they are small.

use super::by_type::by_sum;
use super::operands::Operands;
use crate::backend::ops::Convolution;
use crate::error::Result;
use std::ops::Range;

use half::bf16;

use super::{
    convert::{turn, up},
    float::Float,
    gemm::{
        self, Arithmetic, Matrix, Operand, Target,
        tiling::{GemmTiling, Layout, Product, TileLimits},
    },
    matrix::{MatMut, MatRef, Spread},
    scratch::Scratch,
};
use crate::backend::Window;

/// Runs a kernel of this family.
pub(super) fn launch(kernel: &Convolution, o: &Operands<'_>) -> Result<()> {
    by_sum!(o.input_type(0), o.output_type(0), T, W => {
        let (a, b) = (&*o.input::<T>(0)?, &*o.input::<T>(1)?);
        match kernel {
            Convolution::Forward(w) => forward::<T>(w, a, b, &mut o.output(0)?),
            Convolution::InputGrad(w) => input_gradient::<T>(w, a, b, &mut o.output(0)?),
            Convolution::WeightGrad { window, accumulate } => {
                weight_gradient::<T, W>(window, *accumulate, a, b, &mut o.output(0)?);
            }
        }
        Ok(())
    }, else o.unsupported())
}

/// The windows over an image, square or not, that [`Patches`] gathers.
#[derive(Debug, Clone, Copy)]
struct PatchGeometry {
    /// Extents of the image that is read.
    height: usize,
    width: usize,
    channels: usize,
    /// Windows across one image.
    rows: usize,
    columns: usize,
    /// Taps of a window.
    taps: [usize; 2],
    /// Step between windows.
    step: usize,
    /// The first window's first tap, from the image's corner.
    origin: [isize; 2],
}

/// The patches of images as a matrix `[pixels, taps * channels]`, or its transpose.
struct Patches<'a, T> {
    image: &'a [T],
    geometry: PatchGeometry,
}

impl<T: Float> Patches<'_, T> {
    /// Writes the elements `columns` of the patch of `pixel` to `to`, as `copy` does it.
    fn gather<E: Float>(&self, pixel: usize, columns: Range<usize>, copy: impl Fn(&[T], &mut [E]), to: &mut [E]) {
        let PatchGeometry { height, width, channels, rows, columns: across, taps, step, origin } = self.geometry;
        let (image, place) = (pixel / (rows * across), pixel % (rows * across));
        let top = (place / across * step) as isize + origin[0];
        let left = ((place % across * step) as isize + origin[1]) * channels as isize;
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
                let start = ((image * height + y as usize) * line) as isize + left;
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

impl Operand<bf16> for Patches<'_, bf16> {
    fn layout(&self) -> Layout {
        Layout::CopiedRows
    }

    fn block<'s>(&'s self, rows: Range<usize>, columns: Range<usize>, room: &'s mut [bf16]) -> MatRef<'s, bf16> {
        self.gather_all(rows, columns, |seen: &[bf16], to: &mut [bf16]| to.copy_from_slice(seen), room)
    }
}

/// Weights `[filters, size, size, channels]` as the matrix `[taps * filters, channels]` of one residue.
struct FlippedWeights<'a, T> {
    weights: &'a [T],
    window: Window,
    residue: Residue,
}

impl<T: Float> FlippedWeights<'_, T> {
    /// Copies a block, as `copy` does it.
    fn copied<'s, E: Float>(
        &self,
        rows: Range<usize>,
        columns: Range<usize>,
        copy: impl Fn(&[T], &mut [E]),
        room: &'s mut [E],
    ) -> MatRef<'s, E> {
        let extents = [rows.len(), columns.len()];
        let (w, r) = (&self.window, &self.residue);
        for (to, row) in room.chunks_exact_mut(columns.len()).zip(rows) {
            let (tap, filter) = (row / w.filters, row % w.filters);
            let y = r.first[0] + (r.taps[0] - 1 - tap / r.taps[1]) * w.stride;
            let x = r.first[1] + (r.taps[1] - 1 - tap % r.taps[1]) * w.stride;
            let start = ((filter * w.size + y) * w.size + x) * w.channels;
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

impl Operand<bf16> for FlippedWeights<'_, bf16> {
    fn layout(&self) -> Layout {
        Layout::CopiedRows
    }

    fn block<'s>(&'s self, rows: Range<usize>, columns: Range<usize>, room: &'s mut [bf16]) -> MatRef<'s, bf16> {
        self.copied(rows, columns, |from: &[bf16], to: &mut [bf16]| to.copy_from_slice(from), room)
    }
}

/// The pixels of the input whose positions are the same modulo the stride, so that the same taps reach them.
#[derive(Debug, Clone, Copy)]
pub(in crate::backend) struct Residue {
    /// The place of the first pixel.
    place: [usize; 2],
    /// How many pixels down and across.
    pixels: [usize; 2],
    /// The first tap that reaches them, and how many do.
    first: [usize; 2],
    taps: [usize; 2],
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

/// Bytes of weights that are laid out once for all tiles: where the filters fill vectors, and where they do not and
/// the crate packs them as well.
const SHARED_BYTES: [usize; 2] = [512 << 10, 128 << 10];

/// Extents that fill vectors of any width.
const VECTOR: usize = 16;

/// Whether weights of `k` by `n` are laid out once, which costs this many elements in addition to the tiles.
pub(in crate::backend) fn shares_weights(k: usize, n: usize, width: usize) -> bool {
    k * n * width <= SHARED_BYTES[usize::from(!n.is_multiple_of(VECTOR))]
}

/// Whether the windows are single pixels, one after another: a plain product.
pub(in crate::backend) fn is_pointwise(w: &Window) -> bool {
    w.size == 1 && w.stride == 1 && w.padding == 0
}

/// Tiling of a product of patches and weights, and whether the weights are laid out once.
fn patches_plan([m, n, k]: [usize; 3], arithmetic: Arithmetic, staged: bool, unshared: Layout) -> (GemmTiling, bool) {
    let (width, paired) = (arithmetic.width(), arithmetic == Arithmetic::Paired);
    // Pairs are laid out a tile at a time.
    let shared = !paired && shares_weights(k, n, width);
    let b = if shared { Layout::Rows } else { unshared };
    let product = Product { m, n, k, width, a: Layout::CopiedRows, b, staged, paired };
    let depth = if shared { 384 } else { 256 } * 4 / width;
    let wide = width == 4 && !b.copied() && (n.is_multiple_of(VECTOR) || !shared);
    let rows = if paired { 144 } else { 96 };
    let columns = if wide || paired { 256 } else { 128 };
    (GemmTiling::new(product, TileLimits { rows, columns, depth }), shared)
}

/// Tiling of [`forward`].
pub(in crate::backend) fn forward_plan(w: &Window, arithmetic: Arithmetic) -> (GemmTiling, bool) {
    let extents = [w.out_pixels(), w.filters, w.taps()];
    patches_plan(extents, arithmetic, arithmetic.is_narrow(), arithmetic.layout(true))
}

/// Tiling of one residue of [`input_gradient`].
pub(in crate::backend) fn input_gradient_plan(w: &Window, r: &Residue, arithmetic: Arithmetic) -> (GemmTiling, bool) {
    let (pixels, taps) = (w.batch * r.pixels[0] * r.pixels[1], r.taps[0] * r.taps[1]);
    let staged = arithmetic.is_narrow() || w.stride > 1;
    patches_plan([pixels, w.channels, taps * w.filters], arithmetic, staged, Layout::CopiedRows)
}

/// Tiling of [`weight_gradient`] into a result that is `staged`.
pub(in crate::backend) fn weight_gradient_plan(w: &Window, arithmetic: Arithmetic, staged: bool) -> GemmTiling {
    let (width, paired) = (arithmetic.width(), arithmetic == Arithmetic::Paired);
    let b = if is_pointwise(w) { arithmetic.layout(false) } else { Layout::CopiedRows };
    let (m, n, k) = (w.filters, w.taps(), w.out_pixels());
    let product = Product { m, n, k, width, a: arithmetic.layout(true), b, staged, paired };
    let limits = match paired {
        true => TileLimits { rows: 144, columns: 192, depth: 256 },
        false => TileLimits { rows: 252, columns: 96, depth: 512 / width },
    };
    GemmTiling::new(product, limits)
}

/// Runs [`Convolution::Forward`](crate::backend::ops::Convolution::Forward).
fn forward<T: Float>(w: &Window, x: &[T], weights: &[T], y: &mut [T]) {
    if is_pointwise(w) {
        return gemm::matmul(&pointwise(w, true), x, weights, y);
    }
    let target = Target::new(y, [w.out_pixels(), w.filters], false);
    let geometry = PatchGeometry {
        height: w.height,
        width: w.width,
        channels: w.channels,
        rows: w.out_height(),
        columns: w.out_width(),
        taps: [w.size; 2],
        step: w.stride,
        origin: [-(w.padding as isize); 2],
    };
    let (plan, shared) = forward_plan(w, Arithmetic::of_type::<T>());
    if let Some([image, weights]) = gemm::paired(x, weights) {
        let patches = Patches { image, geometry };
        return gemm::run_paired(&plan, &patches, &Matrix::new(weights, w.taps(), true), target);
    }
    let patches = Patches { image: x, geometry };
    if shared {
        let mut room = Scratch::<T::Acc>::new(w.taps() * w.filters);
        turn(weights, w.taps(), [w.filters, w.taps()], room.elements());
        let laid_out = &*room.elements();
        return gemm::run(&plan, &patches, &Matrix::new(laid_out, w.filters, false), target);
    }
    gemm::run(&plan, &patches, &Matrix::new(weights, w.taps(), true), target);
}

/// The matrix product of a window of one pixel: forward, or the input gradient.
pub(in crate::backend) fn pointwise(w: &Window, forward: bool) -> crate::backend::ops::MatMul {
    let (n, k) = if forward { (w.filters, w.channels) } else { (w.channels, w.filters) };
    let m = w.batch * w.height * w.width;
    crate::backend::ops::MatMul { m, n, k, transpose_a: false, transpose_b: forward, accumulate: false }
}

/// Runs [`Convolution::InputGrad`](crate::backend::ops::Convolution::InputGrad).
fn input_gradient<T: Float>(w: &Window, dy: &[T], weights: &[T], dx: &mut [T]) {
    if is_pointwise(w) {
        return gemm::matmul(&pointwise(w, false), dy, weights, dx);
    }
    for residue in residues(w) {
        let mut matrix = residue_pixels(w, &residue, dx);
        if residue.taps.contains(&0) {
            let [pixels, _] = matrix.extents();
            (0..pixels).for_each(|pixel| matrix.row(pixel).fill(T::ZERO));
            continue;
        }
        residue_gradient(w, residue, dy, weights, Target { matrix, accumulate: false });
    }
}

/// The pixels of a residue, `[pixels, channels]`.
fn residue_pixels<'a, T>(w: &Window, residue: &Residue, dx: &'a mut [T]) -> MatMut<'a, T> {
    let [down, across] = residue.pixels;
    if w.stride == 1 {
        return MatMut::new(dx, [w.batch * down * across, w.channels], w.channels);
    }
    let line = w.width * w.channels;
    let spread = Spread {
        images: w.batch,
        down,
        across,
        strides: [w.height * line, w.stride * line, w.stride * w.channels],
        offset: residue.place[0] * line + residue.place[1] * w.channels,
    };
    MatMut::spread(dx, spread, w.channels)
}

fn residue_gradient<T: Float>(w: &Window, residue: Residue, dy: &[T], weights: &[T], target: Target<'_, T>) {
    // A pixel at `place + stride * t` is reached by the taps `first + stride * j` from the outputs `base + t - j`; in
    // flipped order of taps these are neighbours, from `base - (taps - 1)`.
    let origin = |axis: usize| {
        let base = (residue.place[axis] + w.padding - residue.first[axis]) / w.stride;
        base as isize - (residue.taps[axis] as isize - 1)
    };
    let geometry = PatchGeometry {
        height: w.out_height(),
        width: w.out_width(),
        channels: w.filters,
        rows: residue.pixels[0],
        columns: residue.pixels[1],
        taps: residue.taps,
        step: 1,
        origin: [origin(0), origin(1)],
    };
    let (plan, shared) = input_gradient_plan(w, &residue, Arithmetic::of_type::<T>());
    if let Some([image, weights]) = gemm::paired(dy, weights) {
        let flipped = FlippedWeights { weights, window: *w, residue };
        return gemm::run_paired(&plan, &Patches { image, geometry }, &flipped, target);
    }
    let patches = Patches { image: dy, geometry };
    let flipped = FlippedWeights { weights, window: *w, residue };
    if shared {
        let rows = plan.product.k;
        let mut room = Scratch::new(rows * w.channels);
        flipped.copied(0..rows, 0..w.channels, up, room.elements());
        let laid_out = &*room.elements();
        return gemm::run(&plan, &patches, &Matrix::new(laid_out, w.channels, false), target);
    }
    gemm::run(&plan, &patches, &flipped, target);
}

/// Runs [`Convolution::WeightGrad`](crate::backend::ops::Convolution::WeightGrad).
fn weight_gradient<T: Float, W: Float<Acc = T::Acc>>(w: &Window, accumulate: bool, x: &[T], dy: &[T], dw: &mut [W]) {
    let plan = weight_gradient_plan(w, Arithmetic::of_type::<T>(), !W::DIRECT);
    let target = Target::new(dw, [w.filters, w.taps()], accumulate);
    let geometry = PatchGeometry {
        height: w.height,
        width: w.width,
        channels: w.channels,
        rows: w.out_height(),
        columns: w.out_width(),
        taps: [w.size; 2],
        step: w.stride,
        origin: [-(w.padding as isize); 2],
    };
    if let Some([image, dy]) = gemm::paired(x, dy) {
        let outputs = Matrix::new(dy, w.filters, true);
        return match is_pointwise(w) {
            true => gemm::run_paired(&plan, &outputs, &Matrix::new(image, w.channels, false), target),
            false => gemm::run_paired(&plan, &outputs, &Patches { image, geometry }, target),
        };
    }
    let outputs = Matrix::new(dy, w.filters, true);
    match is_pointwise(w) {
        true => gemm::run(&plan, &outputs, &Matrix::new(x, w.channels, false), target),
        false => gemm::run(&plan, &outputs, &Patches { image: x, geometry }, target),
    }
}
