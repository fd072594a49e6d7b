//! Activation functions, plain and gated.

use strum::VariantArray;

use super::{Contract, OperandBytes, Rows};
use crate::{
    backend::{Backend, DType, Executor, Tensor},
    device::Processor,
    error::Result,
};

/// A smooth activation function, which is differentiated from its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, VariantArray)]
pub enum ActivationFunction {
    /// `x * Phi(x)` (Hendrycks & Gimpel 2016).
    Gelu,
    /// The approximation of GELU by tanh, which GPT-2 uses.
    GeluTanh,
    /// `x / (1 + exp(-x))` (Elfwing, Uchibe & Doya 2017).
    Silu,
    /// `x * tanh(ln(1 + exp(x)))` (Misra 2019).
    Mish,
}

/// Names of the kernels of one function.
pub(super) struct Names {
    pub(super) value: &'static str,
    pub(super) gradient: &'static str,
    /// With a bias added first.
    pub(super) biased: &'static str,
    pub(super) biased_gradient: &'static str,
}

macro_rules! names {
    ($name:literal) => {
        Names {
            value: $name,
            gradient: concat!($name, " gradient"),
            biased: concat!("bias, ", $name),
            biased_gradient: concat!("bias, ", $name, " gradient"),
        }
    };
}

impl ActivationFunction {
    /// Every function.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// The names of its kernels.
    pub(super) fn names(self) -> Names {
        match self {
            Self::Gelu | Self::GeluTanh => names!("gelu"),
            Self::Silu => names!("silu"),
            Self::Mish => names!("mish"),
        }
    }
}

/// Kernels of activation functions. The rectifiers work in place and are differentiated from their output.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Activation {
    /// out: `y`, updated: `max(y, 0)`. NaN stays NaN.
    Relu,
    /// in: `y`, the output of [`Activation::Relu`]; out: `dy`, updated: zero where `y` is zero or less.
    ReluGrad,
    /// out: `y`, updated: `min(max(y, 0), 6)`. NaN stays NaN.
    Relu6,
    /// in: `y`, the output of [`Activation::Relu6`]; out: `dy`, updated: zero where `y` is not inside (0, 6).
    Relu6Grad,
    /// in: `x`; out: `y`, the function of each element.
    Apply(ActivationFunction),
    /// in: `x`; out: `dy`, updated: multiplied by the function's derivative at `x`.
    ApplyGrad(ActivationFunction),
    /// in: `gu [rows, 2 hidden]`, each row's gates and then its values; out: `y [rows, hidden]`, `silu(gate) * value`
    /// (Shazeer 2020).
    SwiGlu {
        /// Rows, and values of a row.
        extents: Rows,
    },
    /// in: `gu`, `dy [rows, hidden]`; out: `dgu [rows, 2 hidden]`, overwritten.
    SwiGluGrad {
        /// Rows, and values of a row.
        extents: Rows,
    },
}

impl Contract for Activation {
    fn name(&self) -> &'static str {
        match self {
            Self::Relu => "relu",
            Self::ReluGrad => "relu gradient",
            Self::Relu6 => "relu6",
            Self::Relu6Grad => "relu6 gradient",
            Self::Apply(function) => function.names().value,
            Self::ApplyGrad(function) => function.names().gradient,
            Self::SwiGlu { .. } => "swiglu",
            Self::SwiGluGrad { .. } => "swiglu gradient",
        }
    }

    fn takes(&self, inputs: &[usize], outputs: &[usize]) -> bool {
        let fits = |e: &Rows, both: usize, half: usize| half > 0 && half == e.elements() && both == 2 * half;
        match self {
            Self::Relu | Self::Relu6 => matches!((inputs, outputs), ([], [_])),
            Self::ReluGrad | Self::Relu6Grad | Self::Apply(_) | Self::ApplyGrad(_) => {
                matches!((inputs, outputs), ([x], [y]) if x == y)
            }
            Self::SwiGlu { extents } => {
                matches!((inputs, outputs), ([both], [half]) if fits(extents, *both, *half))
            }
            Self::SwiGluGrad { extents } => {
                matches!((inputs, outputs), ([both, half], [dgu]) if fits(extents, *both, *half) && dgu == both)
            }
        }
    }

    fn flops(&self) -> u64 {
        0
    }

    fn traffic_bytes(&self, operands: &OperandBytes) -> u64 {
        operands.all()
    }

    fn cpu_scratch_bytes(&self, _dtype: DType, _: Processor) -> usize {
        0
    }

    fn cuda_scratch_bytes(&self, _dtype: DType) -> usize {
        0
    }
}

impl<B: Backend> Executor<B> {
    /// `max(x, 0)`, in place when nothing else holds `x`.
    ///
    /// # Errors
    /// Fails when memory would cross the budget ([`Error::Budget`](crate::Error::Budget)) or when the device fails.
    pub fn relu(&self, x: Tensor<B>) -> Result<Tensor<B>> {
        self.in_place(Activation::Relu, x)
    }

    /// Gradient of [`Executor::relu`] from its output `y`, in place when nothing else holds `dy`.
    ///
    /// # Errors
    /// Fails when memory would cross the budget ([`Error::Budget`](crate::Error::Budget)) or when the device fails.
    pub fn relu_grad(&self, y: &Tensor<B>, dy: Tensor<B>) -> Result<Tensor<B>> {
        self.activation_grad_from(Activation::ReluGrad, y, dy)
    }

    /// `min(max(x, 0), 6)`, in place when nothing else holds `x`.
    ///
    /// # Errors
    /// Fails when memory would cross the budget ([`Error::Budget`](crate::Error::Budget)) or when the device fails.
    pub fn relu6(&self, x: Tensor<B>) -> Result<Tensor<B>> {
        self.in_place(Activation::Relu6, x)
    }

    /// Gradient of [`Executor::relu6`] from its output `y`, in place when nothing else holds `dy`.
    ///
    /// # Errors
    /// Fails when memory would cross the budget ([`Error::Budget`](crate::Error::Budget)) or when the device fails.
    pub fn relu6_grad(&self, y: &Tensor<B>, dy: Tensor<B>) -> Result<Tensor<B>> {
        self.activation_grad_from(Activation::Relu6Grad, y, dy)
    }

    fn in_place(&self, kernel: Activation, x: Tensor<B>) -> Result<Tensor<B>> {
        let y = self.own(x, kernel.name())?;
        self.launch(kernel, &[], &[&y])?;
        Ok(y)
    }

    fn activation_grad_from(&self, kernel: Activation, saved: &Tensor<B>, dy: Tensor<B>) -> Result<Tensor<B>> {
        let dx = self.own(dy, kernel.name())?;
        self.launch(kernel, &[saved], &[&dx])?;
        Ok(dx)
    }

    /// A smooth activation function of each element of `x`.
    ///
    /// # Errors
    /// Fails when memory would cross the budget ([`Error::Budget`](crate::Error::Budget)) or when the device fails.
    pub fn activation(&self, function: ActivationFunction, x: &Tensor<B>) -> Result<Tensor<B>> {
        let kernel = Activation::Apply(function);
        let y = self.output(x.shape(), x.dtype(), kernel.name())?;
        self.launch(kernel, &[x], &[&y])?;
        Ok(y)
    }

    /// Gradient of [`Executor::activation`] from its input, in place when nothing else holds `dy`.
    ///
    /// # Errors
    /// Fails when memory would cross the budget ([`Error::Budget`](crate::Error::Budget)) or when the device fails.
    pub fn activation_grad(&self, function: ActivationFunction, x: &Tensor<B>, dy: Tensor<B>) -> Result<Tensor<B>> {
        self.activation_grad_from(Activation::ApplyGrad(function), x, dy)
    }

    /// `gu [rows, 2 hidden]`, gates and values, to `silu(gate) * value`, `[rows, hidden]`.
    ///
    /// # Errors
    /// Fails when a row has no two halves, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the
    /// device fails.
    pub fn swiglu(&self, gu: &Tensor<B>) -> Result<Tensor<B>> {
        let extents = self.gated("swiglu", gu)?;
        let y = self.output([extents.rows, extents.columns], gu.dtype(), "swiglu")?;
        self.launch(Activation::SwiGlu { extents }, &[gu], &[&y])?;
        Ok(y)
    }

    /// Gradient of [`Executor::swiglu`].
    ///
    /// # Errors
    /// Fails when a row has no two halves, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the
    /// device fails.
    pub fn swiglu_grad(&self, gu: &Tensor<B>, dy: &Tensor<B>) -> Result<Tensor<B>> {
        let extents = self.gated("swiglu gradient", gu)?;
        let dgu = self.output(gu.shape(), dy.dtype(), "swiglu gradient")?;
        self.launch(Activation::SwiGluGrad { extents }, &[gu, dy], &[&dgu])?;
        Ok(dgu)
    }

    fn gated(&self, op: &'static str, gu: &Tensor<B>) -> Result<Rows> {
        let (rows, width) = (gu.shape().rows(), gu.shape().last());
        self.expect(op, width.is_multiple_of(2), || format!("a row of {gu:?} has no halves"))?;
        Ok(Rows { rows, columns: width / 2 })
    }
}
