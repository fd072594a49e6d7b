//! The kernels on the CPU: which function runs for which operands.
//!
//! Holds: operands are checked for number, type and extent here, once, and a family's file may rely on it. Refuses what
//! no kernel supports with [`Error::Kernel`], shapes and types included.

use half::{bf16, f16};

use super::{
    activation, convolution, depthwise, elementwise, float::Float, gather, gemm, loss, norm, operands::Operands,
    optimizer, pool, sequence,
};
use crate::{
    backend::{Cpu, DType, Kernel, Tensor},
    error::Result,
};

/// Runs `$body` with `$t` as the floating-point type `$dtype`; otherwise `$else`.
macro_rules! by_float {
    ($dtype:expr, $t:ident => $body:expr, else $else:expr) => {
        match $dtype {
            DType::F64 => {
                type $t = f64;
                $body
            }
            DType::F32 => {
                type $t = f32;
                $body
            }
            DType::Bf16 => {
                type $t = bf16;
                $body
            }
            DType::F16 => {
                type $t = f16;
                $body
            }
            DType::U32 | DType::U8 => $else,
        }
    };
}

/// Runs `$body` with `$t` as the type of the operands and `$w` as the type of the sum: the same, or f32 for a narrower
/// one; otherwise `$else`.
macro_rules! by_sum {
    ($from:expr, $to:expr, $t:ident, $w:ident => $body:expr, else $else:expr) => {
        match ($from, $to) {
            (DType::F64, DType::F64) => {
                type $t = f64;
                type $w = f64;
                $body
            }
            (DType::F32, DType::F32) => {
                type $t = f32;
                type $w = f32;
                $body
            }
            (DType::Bf16, DType::Bf16) => {
                type $t = bf16;
                type $w = bf16;
                $body
            }
            (DType::Bf16, DType::F32) => {
                type $t = bf16;
                type $w = f32;
                $body
            }
            (DType::F16, DType::F16) => {
                type $t = f16;
                type $w = f16;
                $body
            }
            (DType::F16, DType::F32) => {
                type $t = f16;
                type $w = f32;
                $body
            }
            _ => $else,
        }
    };
}

pub(super) use {by_float, by_sum};

/// Runs a kernel.
pub(super) fn launch(kernel: &Kernel, inputs: &[&Tensor<Cpu>], outputs: &[&Tensor<Cpu>]) -> Result<()> {
    let o = Operands::new(kernel, inputs, outputs)?;
    match kernel {
        Kernel::MatMul(_)
        | Kernel::Conv2d(_)
        | Kernel::Conv2dInputGrad(_)
        | Kernel::Conv2dWeightGrad { .. }
        | Kernel::Depthwise(_)
        | Kernel::DepthwiseInputGrad(_)
        | Kernel::DepthwiseWeightGrad { .. } => products(kernel, &o),
        Kernel::CrossEntropy | Kernel::CrossEntropyGrad { .. } => selections(kernel, &o),
        Kernel::MaxPool(_)
        | Kernel::MaxPoolGrad(_)
        | Kernel::AvgPool(_)
        | Kernel::AvgPoolGrad(_)
        | Kernel::GlobalPool { .. }
        | Kernel::GlobalPoolGrad { .. } => pool::launch(kernel, &o),
        Kernel::Update(update) => optimizer::launch(update, &o),
        Kernel::GatherImages => by_float!(o.output_type(0), T => gather::images::<T>(&o), else o.unsupported()),
        Kernel::GatherLabels => gather::labels(&o),
        Kernel::GatherTokens { scored } => gather::tokens(*scored, &o),
        Kernel::Cast => {
            by_float!(o.input_type(0), T => by_float!(o.output_type(0), U => {
                elementwise::cast::<T, U>(&o.input(0)?, &mut o.output(0)?);
                Ok(())
            }, else o.unsupported()), else o.unsupported())
        }
        Kernel::BiasGrad { accumulate } => {
            by_sum!(o.input_type(0), o.output_type(0), T, W => {
                elementwise::bias_gradient::<T, W>(*accumulate, &o.input(0)?, &mut o.output(0)?);
                Ok(())
            }, else o.unsupported())
        }
        Kernel::SumSquares => by_float!(o.input_type(0), T => {
            elementwise::sum_squares::<T>(&o.input(0)?, &mut o.output(0)?);
            Ok(())
        }, else o.unsupported()),
        Kernel::Clip { limit } => {
            o.output::<f64>(0)?[0] = optimizer::clip(*limit, o.input::<f64>(0)?[0]);
            Ok(())
        }
        Kernel::Fill(value) => match o.output_type(0) {
            DType::U32 => {
                elementwise::fill(*value as u32, &mut o.integers(0)?);
                Ok(())
            }
            DType::U8 => {
                elementwise::fill(*value as u8, &mut o.bytes(0)?);
                Ok(())
            }
            dtype => by_float!(dtype, T => {
                elementwise::fill(T::from_f64(*value), &mut o.output(0)?);
                Ok(())
            }, else o.unsupported()),
        },
        Kernel::BatchNorm { .. }
        | Kernel::BatchNormAgain { .. }
        | Kernel::BatchNormGrad { .. }
        | Kernel::BatchNormFixed { .. }
        | Kernel::LayerNorm { .. }
        | Kernel::LayerNormGrad { .. }
        | Kernel::RmsNorm { .. }
        | Kernel::RmsNormGrad { .. } => norm::launch(kernel, &o),
        Kernel::CopyColumns { .. }
        | Kernel::Transpose { .. }
        | Kernel::Embedding
        | Kernel::EmbeddingGrad { .. }
        | Kernel::Rotary { .. }
        | Kernel::SwiGlu { .. }
        | Kernel::SwiGluGrad { .. }
        | Kernel::Attention(_)
        | Kernel::AttentionGrad(_)
        | Kernel::AttentionPlain(_)
        | Kernel::AttentionPlainGrad(_) => sequence::launch(kernel, &o),
        Kernel::Uniform { .. }
        | Kernel::Normal { .. }
        | Kernel::AddBias
        | Kernel::Relu
        | Kernel::ReluGrad
        | Kernel::Relu6
        | Kernel::Relu6Grad
        | Kernel::Curve(_)
        | Kernel::CurveGrad(_)
        | Kernel::Dropout { .. }
        | Kernel::Add
        | Kernel::Scale(_) => {
            by_float!(o.output_type(0), T => streams::<T>(kernel, &o), else o.unsupported())
        }
    }
}

fn streams<T: Float>(kernel: &Kernel, o: &Operands<'_>) -> Result<()> {
    let mut y = o.output::<T>(0)?;
    match *kernel {
        Kernel::Uniform { bound, key } => elementwise::uniform(bound, key, &mut y),
        Kernel::Normal { std, key } => elementwise::normal(std, key, &mut y),
        Kernel::AddBias => elementwise::add_bias(&o.input::<T>(0)?, &mut y),
        Kernel::Relu => elementwise::relu::<T>(&mut y),
        Kernel::ReluGrad => elementwise::relu_gradient(&o.input::<T>(0)?, &mut y),
        Kernel::Relu6 => elementwise::relu6::<T>(&mut y),
        Kernel::Relu6Grad => elementwise::relu6_gradient(&o.input::<T>(0)?, &mut y),
        Kernel::Curve(curve) => activation::forward(curve, &o.input::<T>(0)?, &mut y),
        Kernel::CurveGrad(curve) => activation::gradient(curve, &o.input::<T>(0)?, &mut y),
        Kernel::Dropout { share, key } => activation::dropout::<T>(share, key, &mut y),
        Kernel::Add => elementwise::add(&o.input::<T>(0)?, &mut y),
        Kernel::Scale(factor) => elementwise::scale::<T>(factor, &mut y),
        _ => return o.unsupported(),
    }
    Ok(())
}

fn products(kernel: &Kernel, o: &Operands<'_>) -> Result<()> {
    by_sum!(o.input_type(0), o.output_type(0), T, W => {
        let (a, b) = (&*o.input::<T>(0)?, &*o.input::<T>(1)?);
        match kernel {
            Kernel::MatMul(p) => gemm::matmul::<T, W>(p, a, b, &mut o.output(0)?),
            Kernel::Conv2d(w) => convolution::forward::<T>(w, a, b, &mut o.output(0)?),
            Kernel::Conv2dInputGrad(w) => convolution::input_gradient::<T>(w, a, b, &mut o.output(0)?),
            Kernel::Conv2dWeightGrad { window, accumulate } => {
                convolution::weight_gradient::<T, W>(window, *accumulate, a, b, &mut o.output(0)?);
            }
            Kernel::Depthwise(w) => depthwise::forward::<T>(w, a, b, &mut o.output(0)?),
            Kernel::DepthwiseInputGrad(w) => depthwise::input_gradient::<T>(w, a, b, &mut o.output(0)?),
            Kernel::DepthwiseWeightGrad { window, accumulate } => {
                depthwise::weight_gradient::<T, W>(window, *accumulate, a, b, &mut o.output(0)?);
            }
            _ => return o.unsupported(),
        }
        Ok(())
    }, else o.unsupported())
}

fn selections(kernel: &Kernel, o: &Operands<'_>) -> Result<()> {
    let dtype = if matches!(kernel, Kernel::CrossEntropyGrad { .. }) { o.output_type(0) } else { o.input_type(0) };
    by_float!(dtype, T => {
        match kernel {
            Kernel::CrossEntropy => {
                loss::cross_entropy::<T>(&o.input(0)?, &o.labels(1, o.input_elements(0))?, &mut o.output(0)?);
            }
            Kernel::CrossEntropyGrad { scale } => {
                loss::cross_entropy_gradient::<T>(*scale, &o.labels(0, o.output_elements(0))?, &mut o.output(0)?);
            }
            _ => return o.unsupported(),
        }
        Ok(())
    }, else o.unsupported())
}
