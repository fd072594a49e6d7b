//! Convolution as products of patches and weights by cuBLAS, where cuDNN is missing or refuses.
//!
//! The workspace holds the patches of some pixels at a time: few enough to stay in the card's cache from one kernel to the
//! next, and enough for a product to fill the card. cuBLAS has the rest of the workspace. Always holds: pixels come in order,
//! in parts that the extents and the workspace decide. Refuses a workspace that is too small.

use std::ffi::CStr;

use crate::backend::cuda::{
    Operands, Source, Types, args, gemm,
    launch::{Grid, Pointer},
    threads::{Form, is_wide},
};
use crate::{
    backend::ops::{Convolution, MatMul, Rows, Window},
    error::Result,
};

/// The kernels.
pub(in crate::backend::cuda) const SOURCE: Source = Source {
    name: "patches",
    text: concat!(
        include_str!("../vectors.cuh"),
        include_str!("../windows.cuh"),
        "#line 1 \"patches.cu\"\n",
        include_str!("patches.cu")
    ),
    types: Types::ElementAndWeight,
};

/// Bytes of patches that are worked on at once.
const BYTES: usize = 16 << 20;
/// Pixels at once below which a product would not fill a card.
const PIXELS: usize = 1024;
/// Alignment of what lies in the workspace.
pub(super) const ALIGN: usize = 256;

/// Launches a convolution or one of its gradients; says no where the workspace has no room for it.
pub(in crate::backend::cuda) fn launch(kernel: &Convolution, o: &Operands<'_>) -> Result<bool> {
    let (start, bytes) = o.backend().workspace();
    let room = (bytes / 4 * 3).min(BYTES) / ALIGN * ALIGN;
    if room == 0 || o.input_type(1) != o.input_type(0) {
        return Ok(false);
    }
    let blas = o.backend().device().blas()?;
    blas.lend(behind(start, room), bytes - room);
    let done = match kernel {
        Convolution::Forward(w) => forward(o, w, start, room),
        Convolution::InputGrad(w) => input_gradient(o, w, start, room),
        Convolution::WeightGrad { window, accumulate } => weight_gradient(o, window, *accumulate, start, room),
    };
    blas.lend(start, bytes);
    done
}

/// The place so many bytes later.
pub(super) fn behind(pointer: Pointer, bytes: usize) -> Pointer {
    Pointer(pointer.0 + bytes as u64)
}

/// How many of `pixels` go at once where each takes `each` bytes of `room`; `None` where those are too few.
fn at_once(pixels: usize, each: usize, room: usize) -> Option<usize> {
    let most = (room / each.max(1)).min(pixels);
    (most >= pixels.min(PIXELS)).then_some(most)
}

/// Lays out the patches of `count` windows from `first` on.
fn gather(o: &Operands<'_>, w: &Window, to: Pointer, first: usize, count: usize) -> Result<()> {
    let (t, x) = (o.input_type(0), o.input(0));
    let most = [o.input_elements(0), o.input_elements(1), o.output_elements(0), count * w.taps()];
    let most = most.into_iter().max().unwrap_or(0);
    let form = Form::new(most, is_wide(&[(x, t), (to, t)], &[w.channels]));
    let args = args![x, to, first, count, w.height, w.width, w.channels, w.size, w.stride, w.padding, form.code()];
    o.launch_for(&SOURCE, t, c"gather_patches", form.grid(count * w.taps()), args)
}

/// `y = patches weightsᵀ`.
fn forward(o: &Operands<'_>, w: &Window, start: Pointer, room: usize) -> Result<bool> {
    let (t, pixels) = (o.input_type(0), w.out_pixels());
    if o.output_type(0) != t {
        return o.unsupported();
    }
    let Some(most) = at_once(pixels, w.taps() * t.size(), room) else { return Ok(false) };
    for first in (0..pixels).step_by(most.max(1)) {
        let count = most.min(pixels - first);
        gather(o, w, start, first, count)?;
        let product =
            MatMul { m: count, n: w.filters, k: w.taps(), transpose_a: false, transpose_b: true, accumulate: false };
        let to = behind(o.output(0), first * w.filters * t.size());
        gemm::product(&product, o, [start, o.input(1)], t, to, t)?;
    }
    Ok(true)
}

/// `patches = dy weights`, of some images, in the type of sums; then each pixel's own.
fn input_gradient(o: &Operands<'_>, w: &Window, start: Pointer, room: usize) -> Result<bool> {
    let (t, sum) = (o.input_type(0), o.input_type(0).accumulator());
    if o.output_type(0) != t {
        return o.unsupported();
    }
    let of_image = Rows { rows: w.out_height() * w.out_width(), columns: w.filters };
    let Some(most) = at_once(w.batch * of_image.rows, w.taps() * sum.size(), room) else { return Ok(false) };
    let images = most / of_image.rows;
    if images == 0 {
        return Ok(false);
    }
    for first in (0..w.batch).step_by(images) {
        let count = images.min(w.batch - first);
        let pixels = count * of_image.rows;
        let product =
            MatMul { m: pixels, n: w.taps(), k: w.filters, transpose_a: false, transpose_b: false, accumulate: false };
        let from = behind(o.input(0), first * of_image.rows * of_image.columns * t.size());
        gemm::product(&product, o, [from, o.input(1)], t, start, sum)?;
        let n = count * w.height * w.width * w.channels;
        let to = behind(o.output(0), first * w.height * w.width * w.channels * t.size());
        let form = Form::new(n.max(pixels * w.taps()), is_wide(&[(start, sum), (to, t)], &[w.channels]));
        let args = args![start, to, n, w.height, w.width, w.channels, w.size, w.stride, w.padding, form.code()];
        o.launch_for(&SOURCE, t, c"sum_patches", form.grid(n), args)?;
    }
    Ok(true)
}

/// `dw = dyᵀ patches`, summed over the parts in the type of sums.
fn weight_gradient(o: &Operands<'_>, w: &Window, accumulate: bool, start: Pointer, room: usize) -> Result<bool> {
    let (t, sum, pixels) = (o.input_type(0), o.input_type(0).accumulator(), w.out_pixels());
    let before = (w.filters * w.taps() * sum.size()).next_multiple_of(ALIGN);
    let each = w.taps() * t.size();
    let Some(most) = at_once(pixels, each, room.saturating_sub(before)).filter(|most| *most > 0) else {
        return Ok(false);
    };
    let patches = behind(start, before);
    for first in (0..pixels).step_by(most) {
        let count = most.min(pixels - first);
        gather(o, w, patches, first, count)?;
        let product = MatMul {
            m: w.filters,
            n: w.taps(),
            k: count,
            transpose_a: true,
            transpose_b: false,
            accumulate: first > 0,
        };
        let from = behind(o.input(1), first * w.filters * t.size());
        gemm::product(&product, o, [from, patches], t, start, sum)?;
    }
    settle(o, c"settle_weights", accumulate, start)?;
    Ok(true)
}

/// Overwrites the gradient of weights by what lies at `from`, or adds that to it: sums by `settle_weights`, or numbers of the
/// images' type by `settle_rounded`.
pub(super) fn settle(o: &Operands<'_>, kernel: &'static CStr, accumulate: bool, from: Pointer) -> Result<()> {
    let (types, n) = ([o.input_type(0), o.output_type(0)], o.output_elements(0));
    o.launch(&SOURCE, types, kernel, Grid::elements(n), args![from, o.output(0), n, accumulate])
}
