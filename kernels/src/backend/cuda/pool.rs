//! Pooling of windows and of whole images, and the gradients.

use super::{
    DType, Operands, Source, Types, args,
    launch::Pointer,
    threads::{Form, Tiles, is_wide},
};
use crate::{
    backend::ops::{Pool, Window},
    error::Result,
};

/// The kernels.
pub(super) const SOURCE: Source = Source {
    name: "pool",
    text: concat!(
        include_str!("vectors.cuh"),
        include_str!("columns.cuh"),
        include_str!("windows.cuh"),
        "#line 1 \"pool.cu\"\n",
        include_str!("pool.cu")
    ),
    types: Types::Element,
};

/// Launches a kernel of this family.
pub(super) fn launch(kernel: &Pool, o: &Operands<'_>) -> Result<()> {
    if o.input_type(0) != o.output_type(0) {
        return o.unsupported();
    }
    match kernel {
        Pool::Max(w) => largest(o, w),
        Pool::MaxGrad(w) => largest_gradient(o, w),
        Pool::Average(w) => mean(o, w, false),
        Pool::AverageGrad(w) => mean(o, w, true),
        Pool::Global { pixels, channels } => global(o, *pixels, *channels, false),
        Pool::GlobalGrad { pixels, channels } => global(o, *pixels, *channels, true),
    }
}

fn form(o: &Operands<'_>, w: &Window, tensors: &[(Pointer, DType)]) -> Form {
    let most = o.input_elements(0).max(o.output_elements(0));
    Form::new(most, is_wide(tensors, &[w.channels]))
}

fn largest(o: &Operands<'_>, w: &Window) -> Result<()> {
    let (t, x, y, index) = (o.input_type(0), o.input(0), o.output(0), o.output(1));
    if o.outputs() > 1 && o.output_type(1) != DType::U8 {
        return o.unsupported();
    }
    let (n, form) = (o.output_elements(0), form(o, w, &[(x, t), (y, t), (index, DType::U8)]));
    let args = args![x, y, index, n, w.height, w.width, w.channels, w.size, w.stride, w.padding, form.code()];
    o.launch_for(&SOURCE, t, c"max_pool", form.grid(n), args)
}

fn largest_gradient(o: &Operands<'_>, w: &Window) -> Result<()> {
    let (t, dy, index, dx) = (o.input_type(0), o.input(0), o.input(1), o.output(0));
    if o.input_type(1) != DType::U8 {
        return o.unsupported();
    }
    let (n, form) = (o.output_elements(0), form(o, w, &[(dy, t), (dx, t), (index, DType::U8)]));
    let args = args![dy, index, dx, n, w.height, w.width, w.channels, w.size, w.stride, w.padding, form.code()];
    o.launch_for(&SOURCE, t, c"max_pool_gradient", form.grid(n), args)
}

fn mean(o: &Operands<'_>, w: &Window, is_gradient: bool) -> Result<()> {
    let (t, x, y, n) = (o.input_type(0), o.input(0), o.output(0), o.output_elements(0));
    let form = form(o, w, &[(x, t), (y, t)]);
    let name = if is_gradient { c"average_pool_gradient" } else { c"average_pool" };
    let args = args![x, y, n, w.height, w.width, w.channels, w.size, w.stride, w.padding, form.code()];
    o.launch_for(&SOURCE, t, name, form.grid(n), args)
}

fn global(o: &Operands<'_>, pixels: usize, channels: usize, is_gradient: bool) -> Result<()> {
    let (t, x, y) = (o.input_type(0), o.input(0), o.output(0));
    let means = if is_gradient { o.input_elements(0) } else { o.output_elements(0) };
    let (name, batch) = (if is_gradient { c"global_pool_gradient" } else { c"global_pool" }, means / channels);
    let tiles = Tiles::new(channels, is_wide(&[(x, t), (y, t)], &[channels]));
    let args = args![x, y, batch, pixels, channels, tiles.width, tiles.wide];
    o.launch_for(&SOURCE, t, name, tiles.parts(batch), args)
}
