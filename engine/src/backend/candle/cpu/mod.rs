//! The kernels on the CPU: which function runs for which operands.
//!
//! Holds: operands are checked for number, type and extent here, once, and a family's file may rely on it. Refuses what
//! no kernel supports with [`Error::Kernel`], shapes and types included.

pub(in crate::backend) mod attention;
mod average;
pub(in crate::backend) mod batch_norm;
mod columns;
mod convert;
pub(in crate::backend) mod convolution;
mod curve;
pub(in crate::backend) mod depthwise;
mod elementwise;
mod embedding;
pub(in crate::backend) mod float;
mod gather;
pub(in crate::backend) mod gemm;
mod lanes;
mod loss;
mod operands;
pub(in crate::backend) mod optimizer;
pub(super) mod parallel;
pub(in crate::backend) mod plan;
mod pool;
pub(in crate::backend) mod rotary;
mod row_norm;
mod scratch;
mod sequence;
pub(super) mod simd;

use std::cell::RefMut;

use half::{bf16, f16};

use self::{float::Float, operands::Operands};
use crate::{
    backend::{Candle, DType, Kernel, Tensor},
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

use {by_float, by_sum};

/// Runs a kernel.
pub(super) fn launch(kernel: &Kernel, inputs: &[&Tensor<Candle>], outputs: &[&Tensor<Candle>]) -> Result<()> {
    let o = Operands::new(kernel, inputs, outputs)?;
    match kernel {
        Kernel::MatMul(_)
        | Kernel::Conv2d(_)
        | Kernel::Conv2dInputGrad(_)
        | Kernel::Conv2dWeightGrad { .. }
        | Kernel::Depthwise(_)
        | Kernel::DepthwiseInputGrad(_)
        | Kernel::DepthwiseWeightGrad { .. } => products(kernel, &o),
        Kernel::MaxPool(_) | Kernel::MaxPoolGrad(_) | Kernel::CrossEntropy | Kernel::CrossEntropyGrad { .. } => {
            selections(kernel, &o)
        }
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
        | Kernel::BatchNormFixed { .. } => norms(kernel, &o),
        Kernel::LayerNorm { .. }
        | Kernel::LayerNormGrad { .. }
        | Kernel::RmsNorm { .. }
        | Kernel::RmsNormGrad { .. } => row_norms(kernel, &o),
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
        | Kernel::Scale(_)
        | Kernel::AvgPool(_)
        | Kernel::AvgPoolGrad(_)
        | Kernel::GlobalPool { .. }
        | Kernel::GlobalPoolGrad { .. } => {
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
        Kernel::Curve(curve) => curve::forward(curve, &o.input::<T>(0)?, &mut y),
        Kernel::CurveGrad(curve) => curve::gradient(curve, &o.input::<T>(0)?, &mut y),
        Kernel::Dropout { share, key } => curve::dropout::<T>(share, key, &mut y),
        Kernel::AvgPool(w) => average::forward(&w, &o.input::<T>(0)?, &mut y),
        Kernel::AvgPoolGrad(w) => average::gradient(&w, &o.input::<T>(0)?, &mut y),
        Kernel::GlobalPool { pixels, channels } => average::global(pixels, channels, &o.input::<T>(0)?, &mut y),
        Kernel::GlobalPoolGrad { pixels, channels } => {
            average::global_gradient(pixels, channels, &o.input::<T>(0)?, &mut y)
        }
        Kernel::Add => elementwise::add(&o.input::<T>(0)?, &mut y),
        Kernel::Scale(factor) => elementwise::scale::<T>(factor, &mut y),
        _ => return o.unsupported(),
    }
    Ok(())
}

/// The buffer of a parameter's gradient; none where the parameter is frozen.
fn gradient<'a, W: Float>(o: &Operands<'a>, i: usize) -> Result<Option<RefMut<'a, [W]>>> {
    (i < o.outputs()).then(|| o.output::<W>(i)).transpose()
}

fn norms(kernel: &Kernel, o: &Operands<'_>) -> Result<()> {
    let (data, weight) = match kernel {
        Kernel::BatchNorm { .. } => (o.input_type(0), o.input_type(1)),
        Kernel::BatchNormAgain { .. } => (o.output_type(0), o.input_type(o.inputs() - 1)),
        Kernel::BatchNormGrad { .. } => (o.input_type(0), o.input_type(3)),
        _ => (o.output_type(0), o.input_type(2)),
    };
    by_sum!(data, weight, T, W => {
        type A = <T as Float>::Acc;
        match *kernel {
            Kernel::BatchNorm { extents, epsilon, momentum } => {
                let running = |i: usize| (i < o.outputs()).then(|| o.output::<A>(i)).transpose();
                let (mut mean, mut variance) = (running(3)?, running(4)?);
                let statistics = [&mut *o.output::<A>(1)?, &mut *o.output::<A>(2)?];
                let running = [mean.as_deref_mut().unwrap_or_default(), variance.as_deref_mut().unwrap_or_default()];
                let norm = batch_norm::Norm { extents, epsilon, momentum };
                let parameters = [&*o.input::<W>(1)?, &*o.input::<W>(2)?];
                norm.forward::<T, W>(&o.input(0)?, parameters, &mut o.output(0)?, statistics, running);
            }
            Kernel::BatchNormGrad { extents, accumulate } => {
                let statistics = [&*o.input::<A>(1)?, &*o.input::<A>(2)?];
                let (mut dweight, mut dbias) = (gradient::<W>(o, 1)?, gradient::<W>(o, 2)?);
                let gradients = [dweight.as_deref_mut().unwrap_or_default(), dbias.as_deref_mut().unwrap_or_default()];
                let (x, weight) = (o.input::<T>(0)?, o.input::<W>(3)?);
                batch_norm::gradient::<T, W>(&extents, accumulate, &x, statistics, &weight, &mut o.output(0)?, gradients);
            }
            Kernel::BatchNormAgain { adds } => {
                // Without an input, the output is normalised where it stands.
                let from = o.inputs() - 4;
                let x = (from > 0).then(|| o.input::<T>(0)).transpose()?;
                let statistics = [&*o.input::<A>(from)?, &*o.input::<A>(from + 1)?];
                let parameters = [&*o.input::<W>(from + 2)?, &*o.input::<W>(from + 3)?];
                batch_norm::again::<T, W>(x.as_deref(), adds, statistics, parameters, &mut o.output(0)?);
            }
            Kernel::BatchNormFixed { epsilon } => {
                let estimates = [&*o.input::<A>(0)?, &*o.input::<A>(1)?];
                let parameters = [&*o.input::<W>(2)?, &*o.input::<W>(3)?];
                batch_norm::fixed::<T, W>(epsilon, estimates, parameters, &mut o.output(0)?);
            }
            _ => return o.unsupported(),
        }
        Ok(())
    }, else o.unsupported())
}

fn row_norms(kernel: &Kernel, o: &Operands<'_>) -> Result<()> {
    let weight = match kernel {
        Kernel::LayerNorm { .. } | Kernel::RmsNorm { .. } => 1,
        Kernel::RmsNormGrad { .. } => 2,
        _ => 3,
    };
    by_sum!(o.input_type(0), o.input_type(weight), T, W => {
        type A = <T as Float>::Acc;
        let (x, weight) = (o.input::<T>(0)?, o.input::<W>(weight)?);
        let mut y = o.output::<T>(0)?;
        match *kernel {
            Kernel::LayerNorm { epsilon, .. } => {
                let statistics = [&mut *o.output::<A>(1)?, &mut *o.output::<A>(2)?];
                row_norm::forward::<T, W>(epsilon, &x, [&weight, &o.input::<W>(2)?], &mut y, statistics);
            }
            Kernel::RmsNorm { epsilon, .. } => {
                row_norm::forward::<T, W>(epsilon, &x, [&weight, &[]], &mut y, [&mut [], &mut o.output::<A>(1)?]);
            }
            Kernel::LayerNormGrad { extents, accumulate } => {
                let statistics = [&*o.input::<A>(1)?, &*o.input::<A>(2)?];
                let (mut dweight, mut dbias) = (gradient::<W>(o, 1)?, gradient::<W>(o, 2)?);
                let gradients = [dweight.as_deref_mut().unwrap_or_default(), dbias.as_deref_mut().unwrap_or_default()];
                row_norm::gradient::<T, W>(&extents, accumulate, &x, statistics, &weight, &mut y, gradients);
            }
            Kernel::RmsNormGrad { extents, accumulate } => {
                let (inverse, mut dweight) = (o.input::<A>(1)?, gradient::<W>(o, 1)?);
                let gradients: [&mut [W]; 2] = [dweight.as_deref_mut().unwrap_or_default(), &mut []];
                row_norm::gradient::<T, W>(&extents, accumulate, &x, [&[], &inverse], &weight, &mut y, gradients);
            }
            _ => return o.unsupported(),
        }
        Ok(())
    }, else o.unsupported())
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
            Kernel::MaxPool(w) if o.outputs() == 2 => {
                pool::forward::<T>(w, &o.input(0)?, &mut o.output(0)?, Some(&mut o.bytes(1)?));
            }
            Kernel::MaxPool(w) => pool::forward::<T>(w, &o.input(0)?, &mut o.output(0)?, None),
            Kernel::MaxPoolGrad(w) => {
                pool::gradient::<T>(w, &o.input(0)?, &o.input_bytes(1)?, &mut o.output(0)?);
            }
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
