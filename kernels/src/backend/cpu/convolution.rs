//! Convolution on `[batch, height, width, channels]` images as products of gathered patches and weights.
//!
//! A patch has the pixels of one window: `size` runs of `size * channels` neighbouring elements, zeros outside the image.
//! Patches are gathered a block at a time, inside a tile of the product (im2col without the whole matrix; Chellapilla et al.
//! 2006). The input gradient is the same product over patches of the output gradient with flipped weights. It is computed
//! apart for each residue of a pixel's position modulo the stride, so it multiplies no zeros between strides and scatters
//! nothing. Weights are laid out once for all tiles where they are small. Windows of 3 x 3 taps in f32 are computed with fewer
//! products where that pays: [`winograd`].

mod patches;
mod residue;
#[cfg(test)]
mod tests;
mod winograd;

use self::{
    patches::{PatchGeometry, PatchRuns, Patches, runs_or_copies},
    residue::FlippedWeights,
};
pub(in crate::backend) use self::{
    residue::{Residue, residues},
    winograd::{Pass, Winograd},
};
use super::{
    by_type::by_sum,
    convert::{turn, up},
    float::{Accumulator, Float},
    gemm::{
        self, Arithmetic, Matrix, Operand, Target, Term, Unconverted, Words,
        tiling::{CHUNK, GemmTiling, Layout, MOST_TERMS, Multiplier, Product, TileLimits},
    },
    matrix::{MatMut, Spread},
    operands::Operands,
    scratch::Scratch,
};
use crate::{
    backend::{Window, ops::Convolution},
    error::Result,
};

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

/// The tiling of a product of patches, of `channels` channels, and weights; and whether the weights are laid out once.
fn patches_plan(
    [m, n, k]: [usize; 3],
    channels: usize,
    arithmetic: Arithmetic,
    staged: bool,
    unshared: Layout,
) -> (GemmTiling, bool) {
    let (width, by) = (arithmetic.width(), arithmetic.multiplier());
    // Words are laid out a tile at a time.
    let shared = by == Multiplier::Crate && shares_weights(k, n, width);
    let a = if by == Multiplier::Crate { Layout::CopiedRows } else { runs_or_copies(channels) };
    let b = if shared { Layout::Rows } else { unshared };
    let wide = width == 4 && !b.copied() && (n.is_multiple_of(VECTOR) || !shared);
    let limits = match by {
        Multiplier::Crate => TileLimits {
            rows: 96,
            columns: if wide { 256 } else { 128 },
            depth: if shared { 384 } else { 256 } * 4 / width,
        },
        // Few columns leave room for more terms, so that sums are stored less often.
        Multiplier::Singles if a == Layout::Runs => {
            TileLimits { rows: 1032, columns: 128, depth: (65_536 / n.clamp(1, 128) / CHUNK * CHUNK).min(MOST_TERMS) }
        }
        Multiplier::Singles => TileLimits { rows: 96, columns: 256, depth: 256 },
        Multiplier::Pairs if a == Layout::Runs => TileLimits { rows: 288, columns: 128, depth: 512 },
        Multiplier::Pairs => TileLimits { rows: 144, columns: 256, depth: 256 },
        Multiplier::Blocks if a == Layout::Runs => TileLimits { rows: 256, columns: 128, depth: 384 },
        Multiplier::Blocks => TileLimits { rows: 256, columns: 128, depth: 512 },
    };
    (GemmTiling::new(Product { m, n, k, width, a, b, staged, by }, limits), shared)
}

/// Tiling of [`forward`].
pub(in crate::backend) fn forward_plan(w: &Window, arithmetic: Arithmetic) -> (GemmTiling, bool) {
    let extents = [w.out_pixels(), w.filters, w.taps()];
    let arithmetic = arithmetic.of_product(w.filters, w.taps());
    patches_plan(extents, w.channels, arithmetic, arithmetic.is_narrow(), arithmetic.layout(true))
}

/// Tiling of one residue of [`input_gradient`].
pub(in crate::backend) fn input_gradient_plan(w: &Window, r: &Residue, arithmetic: Arithmetic) -> (GemmTiling, bool) {
    let (pixels, taps) = (w.batch * r.pixels[0] * r.pixels[1], r.taps[0] * r.taps[1]);
    let arithmetic = arithmetic.of_product(w.channels, taps * w.filters);
    let is_spread = w.stride > 1 && arithmetic.multiplier() == Multiplier::Crate;
    let staged = arithmetic.is_narrow() || is_spread;
    let b = if arithmetic.multiplier() == Multiplier::Crate { Layout::CopiedRows } else { runs_or_copies(w.channels) };
    patches_plan([pixels, w.channels, taps * w.filters], w.filters, arithmetic, staged, b)
}

/// Tiling of [`weight_gradient`] into a result that is `staged`.
pub(in crate::backend) fn weight_gradient_plan(w: &Window, arithmetic: Arithmetic, staged: bool) -> GemmTiling {
    let arithmetic = arithmetic.of_product(w.taps(), w.out_pixels());
    let (width, by) = (arithmetic.width(), arithmetic.multiplier());
    let b = match by {
        _ if is_pointwise(w) => arithmetic.layout(false),
        Multiplier::Crate => Layout::CopiedRows,
        Multiplier::Singles | Multiplier::Pairs | Multiplier::Blocks => runs_or_copies(w.channels),
    };
    let (m, n, k) = (w.filters, w.taps(), w.out_pixels());
    let product = Product { m, n, k, width, a: arithmetic.layout(true), b, staged, by };
    let limits = match by {
        Multiplier::Crate => TileLimits { rows: 252, columns: 96, depth: 512 / width },
        Multiplier::Singles => TileLimits { rows: 516, columns: 192, depth: 256 },
        Multiplier::Pairs => TileLimits { rows: 144, columns: 192, depth: 256 },
        // The more rows, the less often the patches are laid out.
        Multiplier::Blocks => TileLimits { rows: if staged { 128 } else { 256 }, columns: 192, depth: 384 },
    };
    GemmTiling::new(product, limits)
}

/// The plan of a convolution by minimal filtering, where that pays, and its operands.
fn minimal<'a, T: Float>(w: &Window, pass: Pass, a: &'a [T], b: &'a [T]) -> Option<(Winograd, [&'a [f32]; 2])> {
    let plan = winograd_plan(w, pass, Arithmetic::of_type::<T>())?;
    Some((plan, [T::singles(a)?, T::singles(b)?]))
}

/// A result of f32.
fn whole<T: Float>(result: &mut [T]) -> &mut [f32] {
    T::direct_mut(result).and_then(T::Acc::singles_mut).expect("a plan of products of f32")
}

/// The plan of a convolution by minimal filtering, where that pays: in no more scratch for a piece than products of patches take.
pub(in crate::backend) fn winograd_plan(w: &Window, pass: Pass, arithmetic: Arithmetic) -> Option<Winograd> {
    if !Winograd::suits(w, arithmetic) {
        return None;
    }
    let products = match pass {
        Pass::Forward => forward_plan(w, arithmetic).0,
        Pass::InputGrad => input_gradient_plan(w, &residues(w).next()?, arithmetic).0,
        Pass::WeightGrad => weight_gradient_plan(w, arithmetic, false),
    };
    Winograd::of(w, pass, products.block_elements().iter().sum())
}

/// Runs [`Convolution::Forward`](crate::backend::ops::Convolution::Forward).
fn forward<T: Float>(w: &Window, x: &[T], weights: &[T], y: &mut [T]) {
    if is_pointwise(w) {
        return gemm::matmul(&pointwise(w, true), x, weights, y);
    }
    if let Some((plan, [x, weights])) = minimal(w, Pass::Forward, x, weights) {
        return plan.convolve(x, weights, whole(y));
    }
    products_forward(w, x, weights, y);
}

/// The same by products of patches.
fn products_forward<T: Float>(w: &Window, x: &[T], weights: &[T], y: &mut [T]) {
    let (plan, shared) = forward_plan(w, Arithmetic::of_type::<T>());
    let (down, across) = (w.out_height(), w.out_width());
    let by_place = is_by_place(&plan, w.batch, down * across);
    let strides = [down * across * w.filters, across * w.filters, w.filters];
    let matrix = pixels(y, [w.batch, down, across], strides, 0, w.filters, by_place);
    let target = Target { matrix, accumulate: false };
    let geometry = PatchGeometry::of(w, by_place);
    match Words::of(&plan, x, weights) {
        Some(Words::Singles([x, weights])) => {
            return product_of_patches(&plan, x, geometry, &Unconverted(Matrix::new(weights, w.taps(), true)), target);
        }
        Some(Words::Pairs([x, weights])) => {
            return product_of_patches(&plan, x, geometry, &Unconverted(Matrix::new(weights, w.taps(), true)), target);
        }
        None => (),
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

/// The product of patches and weights, word by word.
fn product_of_patches<E: Term, W: Float>(
    plan: &GemmTiling,
    image: &[E],
    geometry: PatchGeometry,
    weights: &impl Operand<E>,
    target: Target<'_, W>,
) {
    let patches = Patches { image, geometry };
    match plan.product.a {
        Layout::Runs => gemm::run_words(plan, &PatchRuns(patches), weights, target),
        _ => gemm::run_words(plan, &Unconverted(patches), weights, target),
    }
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
    if let Some((plan, [dy, weights])) = minimal(w, Pass::InputGrad, dy, weights) {
        return plan.convolve(dy, weights, whole(dx));
    }
    products_by_input(w, dy, weights, dx);
}

/// The same by products of patches.
fn products_by_input<T: Float>(w: &Window, dy: &[T], weights: &[T], dx: &mut [T]) {
    for residue in residues(w) {
        let (plan, shared) = input_gradient_plan(w, &residue, Arithmetic::of_type::<T>());
        let by_place = is_by_place(&plan, w.batch, residue.pixels[0] * residue.pixels[1]);
        let mut matrix = residue_pixels(w, &residue, dx, by_place);
        if residue.taps.contains(&0) {
            let [pixels, _] = matrix.extents();
            (0..pixels).for_each(|pixel| matrix.row(pixel).fill(T::ZERO));
            continue;
        }
        residue_gradient(w, residue, (&plan, shared, by_place), [dy, weights], Target { matrix, accumulate: false });
    }
}

/// The most places of an image whose windows are numbered place by place. Most windows of larger images see nothing outside, and
/// rows that are whole images apart push each other out of the cache.
const FEW_PLACES: usize = 64;

/// Whether a product's windows are numbered place by place.
fn is_by_place(plan: &GemmTiling, batch: usize, places: usize) -> bool {
    plan.product.a == Layout::Runs && batch >= 8 && places <= FEW_PLACES
}

/// Pixels of images as a matrix `[pixels, channels]` in the order of the windows. The counts are those of images, lines and
/// pixels across, which lie `strides` apart from `offset` on.
fn pixels<T>(
    elements: &mut [T],
    [images, down, across]: [usize; 3],
    strides: [usize; 3],
    offset: usize,
    channels: usize,
    by_place: bool,
) -> MatMut<'_, T> {
    let [image, line, pixel] = strides;
    let spread = match by_place {
        true => Spread { images: down, down: across, across: images, strides: [line, pixel, image], offset },
        false if strides == [down * across * channels, across * channels, channels] => {
            return MatMut::new(&mut elements[offset..], [images * down * across, channels], channels);
        }
        false => Spread { images, down, across, strides, offset },
    };
    MatMut::spread(elements, spread, channels)
}

/// The pixels of a residue, `[pixels, channels]`, in the order of the windows.
fn residue_pixels<'a, T>(w: &Window, residue: &Residue, dx: &'a mut [T], by_place: bool) -> MatMut<'a, T> {
    let [down, across] = residue.pixels;
    let line = w.width * w.channels;
    let offset = residue.place[0] * line + residue.place[1] * w.channels;
    let strides = [w.height * line, w.stride * line, w.stride * w.channels];
    pixels(dx, [w.batch, down, across], strides, offset, w.channels, by_place)
}

fn residue_gradient<T: Float>(
    w: &Window,
    residue: Residue,
    (plan, shared, by_place): (&GemmTiling, bool, bool),
    [dy, weights]: [&[T]; 2],
    target: Target<'_, T>,
) {
    // A pixel at `place + stride * t` is reached by the taps `first + stride * j` from the outputs `base + t - j`; in
    // flipped order of taps these are neighbours, from `base - (taps - 1)`.
    let origin = |axis: usize| {
        let base = (residue.place[axis] + w.padding - residue.first[axis]) / w.stride;
        base as isize - (residue.taps[axis] as isize - 1)
    };
    let geometry = PatchGeometry {
        batch: w.batch,
        by_place,
        height: w.out_height(),
        width: w.out_width(),
        channels: w.filters,
        rows: residue.pixels[0],
        columns: residue.pixels[1],
        taps: residue.taps,
        step: 1,
        origin: [origin(0), origin(1)],
    };
    match Words::of(plan, dy, weights) {
        Some(Words::Singles([dy, weights])) => {
            let flipped = Unconverted(FlippedWeights { weights, window: *w, residue });
            return product_of_patches(plan, dy, geometry, &flipped, target);
        }
        Some(Words::Pairs([dy, weights])) => {
            let flipped = Unconverted(FlippedWeights { weights, window: *w, residue });
            return product_of_patches(plan, dy, geometry, &flipped, target);
        }
        None => (),
    }
    let patches = Patches { image: dy, geometry };
    let flipped = FlippedWeights { weights, window: *w, residue };
    if shared {
        let rows = plan.product.k;
        let mut room = Scratch::new(rows * w.channels);
        flipped.copied(0..rows, 0..w.channels, up, room.elements());
        let laid_out = &*room.elements();
        return gemm::run(plan, &patches, &Matrix::new(laid_out, w.channels, false), target);
    }
    gemm::run(plan, &patches, &flipped, target);
}

/// Runs [`Convolution::WeightGrad`](crate::backend::ops::Convolution::WeightGrad).
fn weight_gradient<T: Float, W: Float<Acc = T::Acc>>(w: &Window, accumulate: bool, x: &[T], dy: &[T], dw: &mut [W]) {
    if let Some((plan, operands)) = minimal(w, Pass::WeightGrad, x, dy) {
        return plan.weight_gradient(operands, accumulate, whole(dw));
    }
    products_by_weight(w, accumulate, x, dy, dw);
}

/// The same by products of patches.
fn products_by_weight<T: Float, W: Float<Acc = T::Acc>>(w: &Window, accumulate: bool, x: &[T], dy: &[T], dw: &mut [W]) {
    let plan = weight_gradient_plan(w, Arithmetic::of_type::<T>(), !W::DIRECT);
    let target = Target::new(dw, [w.filters, w.taps()], accumulate);
    let geometry = PatchGeometry::of(w, false);
    match Words::of(&plan, x, dy) {
        Some(Words::Singles(operands)) => return weight_gradient_of_words(w, &plan, operands, geometry, target),
        Some(Words::Pairs(operands)) => return weight_gradient_of_words(w, &plan, operands, geometry, target),
        None => (),
    }
    let outputs = Matrix::new(dy, w.filters, true);
    match is_pointwise(w) {
        true => gemm::run(&plan, &outputs, &Matrix::new(x, w.channels, false), target),
        false => gemm::run(&plan, &outputs, &Patches { image: x, geometry }, target),
    }
}

fn weight_gradient_of_words<E: Term, W: Float>(
    w: &Window,
    plan: &GemmTiling,
    [image, dy]: [&[E]; 2],
    geometry: PatchGeometry,
    target: Target<'_, W>,
) {
    let outputs = Unconverted(Matrix::new(dy, w.filters, true));
    match is_pointwise(w) {
        true => gemm::run_words(plan, &outputs, &Unconverted(Matrix::new(image, w.channels, false)), target),
        false if plan.product.b == Layout::Runs => {
            gemm::run_words(plan, &outputs, &PatchRuns(Patches { image, geometry }), target);
        }
        false => gemm::run_words(plan, &outputs, &Unconverted(Patches { image, geometry }), target),
    }
}
