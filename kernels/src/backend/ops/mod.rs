//! The ops: one file for each family.
//!
//! A family's file holds its kernels, each with its inputs, outputs and meaning; their names; the operands that they take;
//! their arithmetic, their traffic and their scratch on each device (`Contract`); and the calls of [`Executor`] that check
//! shapes, allocate outputs and launch them. `cpu/FAMILY.rs` and `cuda/FAMILY.rs` run the kernels, `nn/FAMILY.rs` has the
//! layers, and `selftest/cases/FAMILY.rs` tests them. Always holds: the `match`es of a family name every kernel, so a new
//! kernel does not compile before each of them handles it.
//!
//! Arithmetic on bf16 and f16 is done in f32 and rounded once on store; sums over many elements accumulate in f32 (f64 for
//! f64).

mod activation;
mod attention;
mod coded;
mod convolution;
mod depthwise;
mod dropout;
mod elementwise;
mod embedding;
mod fused;
mod gather;
mod int8;
mod kernel;
mod layout;
mod linear;
mod loss;
mod norm;
mod optimizer;
mod pool;
mod prune;
mod rotary;
mod window;

use self::kernel::{Contract, products};
#[cfg(feature = "cuda")]
pub(in crate::backend) use self::loss::CUDA_LOSS_PARTS;
pub(in crate::backend) use self::optimizer::AdamConstants;
pub use self::{
    activation::{Activation, ActivationFunction},
    attention::{Attention, AttentionShape, CachedAttention},
    coded::{Code, Coded, CodedProduct, CodedWeight, SCALE_BLOCK, WeightCodes},
    convolution::Convolution,
    depthwise::Depthwise,
    dropout::Dropout,
    elementwise::Elementwise,
    embedding::Embedding,
    fused::{Function, Fused, NormedRows, Over, Rectifier, RowNorm, RowScale, Summands},
    gather::Gather,
    int8::{Follow, Int8, Int8Weight},
    kernel::{Kernel, OperandBytes, Rows},
    layout::{CopyColumns, Layout},
    linear::{Linear, MatMul},
    loss::{IGNORE_INDEX, Lesson, Loss},
    norm::{Affine, Norm, Running, Statistics},
    optimizer::{
        Moments, NarrowWeight, Optimizer, StateLayout, StateSpec, StateValues, Update, UpdateRule, WeightForm,
    },
    pool::Pool,
    prune::{KeyBits, Prune},
    rotary::Rotary,
    window::Window,
};
use crate::{
    backend::{Backend, DType, Executor, Shape, Tensor},
    error::{Error, Result},
    memory::{Category, Phase},
};

/// How a weight gradient is written to its buffer.
#[derive(Debug)]
pub enum GradInto<'a, B: Backend> {
    /// First contribution of the step: overwrite.
    Fresh(&'a Tensor<B>),
    /// A later contribution: add.
    Accumulate(&'a Tensor<B>),
}

impl<B: Backend> Clone for GradInto<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B: Backend> Copy for GradInto<'_, B> {}

impl<B: Backend> GradInto<'_, B> {
    fn parts(&self) -> (&Tensor<B>, bool) {
        match self {
            Self::Fresh(t) => (t, false),
            Self::Accumulate(t) => (t, true),
        }
    }
}

impl<B: Backend> Executor<B> {
    /// An activation: the output of a layer, or a gradient between layers.
    fn output(&self, shape: impl Into<Shape>, dtype: DType, op: &'static str) -> Result<Tensor<B>> {
        self.ledger().set_op(op);
        let label = if self.ledger().phase() == Phase::Backward { "gradient of output" } else { "output" };
        self.allocate(shape, dtype, Category::Activations, label)
    }

    fn expect(&self, op: &'static str, holds: bool, message: impl FnOnce() -> String) -> Result<()> {
        if holds { Ok(()) } else { Err(Error::Kernel { op, layer: self.ledger().layer_path(), message: message() }) }
    }

    /// `x` itself when it may be overwritten, otherwise a copy.
    fn own(&self, x: Tensor<B>, op: &'static str) -> Result<Tensor<B>> {
        if self.may_overwrite(&x) {
            return Ok(x);
        }
        let copy = self.output(x.shape(), x.dtype(), op)?;
        self.launch(Layout::Cast, &[&x], &[&copy])?;
        Ok(copy)
    }

    fn matrix(&self, op: &'static str, t: &Tensor<B>) -> Result<[usize; 2]> {
        t.shape().dims().try_into().map_err(|_| Error::Kernel {
            op,
            layer: self.ledger().layer_path(),
            message: format!("{t:?} is not a matrix"),
        })
    }

    /// The result of a kernel that slides a window over `x`, which must be the image that the window is for.
    fn windowed(&self, kernel: impl Into<Kernel>, x: &Tensor<B>, window: &Window) -> Result<Tensor<B>> {
        let op = kernel.into().name();
        let wanted = Shape::from(window.image());
        self.expect(op, x.shape() == wanted, || format!("{x:?} is not [{wanted}]"))?;
        self.output(window.out_image(), x.dtype(), op)
    }

    /// The gradient of the image that a window slides over. Allocates it; one kernel writes it from `inputs`, and `dy` is the
    /// first of them.
    fn image_grad(&self, kernel: impl Into<Kernel>, window: &Window, inputs: &[&Tensor<B>]) -> Result<Tensor<B>> {
        let kernel = kernel.into();
        let dx = self.output(window.image(), inputs[0].dtype(), kernel.name())?;
        self.launch(kernel, inputs, &[&dx])?;
        Ok(dx)
    }
}
