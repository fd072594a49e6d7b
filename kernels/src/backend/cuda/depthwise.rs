//! Depthwise convolution and its gradients.

use super::{
    DType, Operands, Source, Types, args,
    threads::{Form, Tiles, is_wide, totals},
};
use crate::{
    backend::{
        ops::{Depthwise, Window},
        scratch::split_reduction::pixel_splits,
    },
    error::Result,
};

/// The kernels.
pub(super) const SOURCE: Source = Source {
    name: "depthwise",
    text: concat!(
        include_str!("vectors.cuh"),
        include_str!("columns.cuh"),
        include_str!("windows.cuh"),
        "#line 1 \"depthwise.cu\"\n",
        include_str!("depthwise.cu")
    ),
    types: Types::ElementAndWeight,
};

/// Taps whose sums a thread has at once, as `TAPS` of `depthwise.cu`.
const TAPS: usize = 9;

/// Launches a kernel of this family.
pub(super) fn launch(kernel: &Depthwise, o: &Operands<'_>) -> Result<()> {
    if o.input_type(1) != o.input_type(0) {
        return o.unsupported();
    }
    match kernel {
        Depthwise::Forward(w) => streamed(o, w, c"depthwise"),
        Depthwise::InputGrad(w) => streamed(o, w, c"depthwise_input_gradient"),
        Depthwise::WeightGrad { window, accumulate } => weight_gradient(o, window, *accumulate),
    }
}

fn form(o: &Operands<'_>, w: &Window) -> Form {
    let t: DType = o.input_type(0);
    let most = o.input_elements(0).max(o.input_elements(1)).max(o.output_elements(0));
    Form::new(most, is_wide(&[(o.input(0), t), (o.input(1), t), (o.output(0), t)], &[w.channels]))
}

fn streamed(o: &Operands<'_>, w: &Window, name: &'static std::ffi::CStr) -> Result<()> {
    let t = o.input_type(0);
    if o.output_type(0) != t {
        return o.unsupported();
    }
    let (n, form) = (o.output_elements(0), form(o, w));
    let [a, b, to] = [o.input(0), o.input(1), o.output(0)];
    let args = args![a, b, to, n, w.height, w.width, w.channels, w.size, w.stride, w.padding, form.code()];
    o.launch_for(&SOURCE, t, name, form.grid(n), args)
}

fn weight_gradient(o: &Operands<'_>, w: &Window, accumulate: bool) -> Result<()> {
    let types = [o.input_type(0), o.output_type(0)];
    let (x, dy, sums, dw) = (o.input(0), o.input(1), o.scratch(), o.output(0));
    let (form, parts, pixels) = (form(o, w), pixel_splits(w), w.out_pixels());
    let tiles = Tiles::new(w.channels, form.is_wide());
    let grid = tiles.parts_of(parts, (w.size * w.size).div_ceil(TAPS));
    let args = args![
        x,
        dy,
        sums,
        dw,
        pixels,
        w.height,
        w.width,
        w.channels,
        w.size,
        w.stride,
        w.padding,
        tiles.width,
        accumulate,
        form.code()
    ];
    o.launch(&SOURCE, types, c"depthwise_weight_gradient", grid, args)?;
    if parts == 1 {
        return Ok(());
    }
    let args = args![sums, parts, w.taps(), dw, accumulate];
    o.launch(&SOURCE, types, c"depthwise_weight_gradient_total", totals(w.taps()), args)
}
