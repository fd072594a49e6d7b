//! Convolutions: by cuDNN, where it is installed and has an algorithm within the workspace; by cuBLAS where the window is
//! one pixel; otherwise by cuBLAS and patches in the workspace, or by the engine's own kernels.

pub(super) mod direct;
mod dnn;
pub(super) mod patches;
mod shapes;

use cudarc::cudnn::CudnnError;

use self::dnn::Question;
pub(super) use self::dnn::{Dnn, Run};
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
    // cuDNN rounds a gradient of narrow tensors before it adds it to the wider one, so its sums are not in f32. It takes f64
    // only with channels first.
    let is_served = from == to && from != DType::F64 && is_within_reach(&window);
    if is_served && let Some(dnn) = o.backend().device().dnn()? {
        let (options, (_, workspace_bytes)) = (o.backend().options(), o.backend().workspace());
        if dnn.run(Question { which, window, dtype: from, options, workspace_bytes }, o, accumulate)? {
            o.backend().goes_by("cuDNN");
            return Ok(());
        }
    }
    without_library(kernel, o)
}

/// Whether cuDNN can count the elements: its manual names tensors of at most 2 Gi of them.
fn is_within_reach(w: &Window) -> bool {
    let images = w.batch * w.height * w.width * w.channels;
    [images, w.out_pixels() * w.filters, w.filters * w.taps()].iter().all(|elements| i32::try_from(*elements).is_ok())
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
