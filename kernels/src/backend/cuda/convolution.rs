//! Convolutions: by cuDNN, where it is installed and has an algorithm within the workspace; by cuBLAS where the window is
//! one pixel; otherwise by cuBLAS and patches in the workspace, or by the engine's own kernels.

pub(super) mod direct;
mod dnn;
pub(super) mod patches;
mod shapes;

use cudarc::cudnn::CudnnError;

pub(super) use self::dnn::{Dnn, Run};
use self::dnn::{Places, Question};
use super::{fault::of_library, gemm, operands::Operands};
use crate::{
    backend::{
        DType,
        ops::{Convolution, MatMul, Window},
    },
    error::{Error, Result},
};

/// The three convolutions of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Which {
    Forward,
    InputGradient,
    WeightGradient,
}

/// Launches a convolution or one of its gradients.
pub(super) fn launch(kernel: &Convolution, o: &Operands<'_>) -> Result<()> {
    let (which, window, accumulate) = match *kernel {
        Convolution::Forward(window) => (Which::Forward, window, false),
        Convolution::InputGrad(window) => (Which::InputGradient, window, false),
        Convolution::WeightGrad { window, accumulate } => (Which::WeightGradient, window, accumulate),
    };
    if window.size == 1 && window.stride == 1 && window.padding == 0 {
        o.backend().goes_by("a product of pixels and weights");
        return pointwise(which, &window, accumulate, o);
    }
    let (from, to) = (o.input_type(0), o.output_type(0));
    let narrow = |dtype| matches!(dtype, DType::Bf16 | DType::F16);
    let is_known =
        from == o.input_type(1) && (from == to || (which == Which::WeightGradient && narrow(from) && to == DType::F32));
    if !is_known {
        return o.unsupported();
    }
    // cuDNN takes f64 only with channels first.
    let is_served = from != DType::F64 && is_within_reach(&window);
    if is_served && by_library(which, window, accumulate, o)? {
        o.backend().goes_by("cuDNN");
        return Ok(());
    }
    without_library(kernel, o)
}

/// Whether cuDNN can count the elements: its manual names tensors of at most 2 Gi of them.
fn is_within_reach(w: &Window) -> bool {
    let images = w.batch * w.height * w.width * w.channels;
    [images, w.out_pixels() * w.filters, w.filters * w.taps()].iter().all(|elements| i32::try_from(*elements).is_ok())
}

/// Queues a convolution by cuDNN. Returns false where cuDNN is missing, or has no algorithm within the workspace.
///
/// cuDNN's gradient of weights has the type of the images. Where a wider one is asked for, cuDNN sums in f32 and writes the
/// rounded sums to the workspace, and a kernel overwrites the wider gradient by them, or adds them to it. The gradient is then
/// rounded once for each micro-batch, as by PyTorch's autocast, and the sum of micro-batches is not rounded.
fn by_library(which: Which, window: Window, accumulate: bool, o: &Operands<'_>) -> Result<bool> {
    let Some(dnn) = o.backend().device().dnn()? else { return Ok(false) };
    let (dtype, options, (start, bytes)) = (o.input_type(0), o.backend().options(), o.backend().workspace());
    let is_rounded = dtype != o.output_type(0);
    let rounded = if is_rounded { (o.output_elements(0) * dtype.size()).next_multiple_of(patches::ALIGN) } else { 0 };
    let Some(workspace_bytes) = bytes.checked_sub(rounded) else { return Ok(false) };
    let question = Question { which, window, dtype, options, workspace_bytes };
    let to = if is_rounded { start } else { o.output(0) };
    let places = Places { from: [o.input(0), o.input(1)], to, work: patches::behind(start, rounded) };
    let is_queued = dnn.run(question, o.backend().device(), places, accumulate && !is_rounded)?;
    if is_queued && is_rounded {
        patches::settle(o, c"settle_rounded", accumulate, start)?;
    }
    Ok(is_queued)
}

/// Computes by products of patches if the workspace has room for them, otherwise by a kernel that needs no workspace.
fn without_library(kernel: &Convolution, o: &Operands<'_>) -> Result<()> {
    o.backend().goes_by("products of patches");
    if patches::launch(kernel, o)? {
        return Ok(());
    }
    o.backend().goes_by("a kernel without workspace");
    direct::launch(kernel, o)
}

/// A window of one pixel: a product of all pixels with the weights.
fn pointwise(which: Which, w: &Window, accumulate: bool, o: &Operands<'_>) -> Result<()> {
    let (pixels, channels, filters) = (w.out_pixels(), w.channels, w.filters);
    let [a, b] = [o.input(0), o.input(1)];
    let (product, operands) = match which {
        // y [pixels, filters] = x wᵀ
        Which::Forward => {
            (MatMul { m: pixels, n: filters, k: channels, transpose_a: false, transpose_b: true, accumulate }, [a, b])
        }
        // dx [pixels, channels] = dy w
        Which::InputGradient => {
            (MatMul { m: pixels, n: channels, k: filters, transpose_a: false, transpose_b: false, accumulate }, [a, b])
        }
        // dw [filters, channels] = dyᵀ x
        Which::WeightGradient => {
            (MatMul { m: filters, n: channels, k: pixels, transpose_a: true, transpose_b: false, accumulate }, [b, a])
        }
    };
    gemm::product(&product, o, operands, o.input_type(0), o.output(0), o.output_type(0))
}

/// The error for a refusal by cuDNN.
fn failed(doing: &str, error: CudnnError) -> Error {
    // What a card without room is seen to end in: not started, host or device memory, a launch.
    let may_lack_room = matches!(error.0 as u32, 1001 | 4003..=4004 | 5000..=5004);
    of_library("cuDNN", doing, &error.0, may_lack_room)
}
