//! Kernels that fill a tensor or change its elements one by one.

use super::{Contract, OperandBytes};
use crate::{
    backend::{Backend, DType, Executor, Shape, Tensor},
    device::Processor,
    error::Result,
    memory::Category,
};

/// Kernels that treat each element by itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Elementwise {
    /// out: `y`. Every element becomes the value.
    Fill(f64),
    /// out: `y`. Uniform in [-bound, bound), element i from counter i of [`Rng::from_key`](crate::rng::Rng::from_key).
    Uniform {
        /// Half the width of the interval.
        bound: f64,
        /// Key of the random source.
        key: u64,
    },
    /// out: `y`. Normal with mean 0, element i from counter i of [`Rng::from_key`](crate::rng::Rng::from_key).
    Normal {
        /// The standard deviation.
        std: f64,
        /// Key of the random source.
        key: u64,
    },
    /// in: `x`; out: `y`, updated: `y += x`. Same type.
    Add,
    /// out: `y`, updated: `y *= factor`.
    Scale(f64),
}

impl Contract for Elementwise {
    fn name(&self) -> &'static str {
        match self {
            Self::Fill(_) => "fill",
            Self::Uniform { .. } | Self::Normal { .. } => "initialise",
            Self::Add => "add",
            Self::Scale(_) => "scale",
        }
    }

    fn takes(&self, inputs: &[usize], outputs: &[usize]) -> bool {
        match self {
            Self::Fill(_) | Self::Uniform { .. } | Self::Normal { .. } | Self::Scale(_) => {
                matches!((inputs, outputs), ([], [_]))
            }
            Self::Add => matches!((inputs, outputs), ([x], [y]) if x == y),
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
    /// A tensor of one value.
    ///
    /// # Errors
    /// Fails when it would cross the budget ([`Error::Budget`](crate::Error::Budget)) or when the device fails.
    pub fn filled(
        &self,
        value: f64,
        shape: impl Into<Shape>,
        dtype: DType,
        category: Category,
        label: &'static str,
    ) -> Result<Tensor<B>> {
        self.ledger().set_op("fill");
        let tensor = self.allocate(shape, dtype, category, label)?;
        self.launch(Elementwise::Fill(value), &[], &[&tensor])?;
        Ok(tensor)
    }

    /// `y + x`, in `y` when nothing else holds it.
    ///
    /// # Errors
    /// Fails when sizes or types differ, when memory would cross the budget ([`Error::Budget`](crate::Error::Budget))
    /// or when the device fails.
    pub fn add(&self, y: Tensor<B>, x: &Tensor<B>) -> Result<Tensor<B>> {
        self.expect("add", y.elements() == x.elements() && y.dtype() == x.dtype(), || format!("{x:?} to {y:?}"))?;
        let y = self.own(y, "add")?;
        self.launch(Elementwise::Add, &[x], &[&y])?;
        Ok(y)
    }

    /// `factor * x`, in place when nothing else holds `x`.
    ///
    /// # Errors
    /// Fails when memory would cross the budget ([`Error::Budget`](crate::Error::Budget)) or when the device fails.
    pub fn scale(&self, x: Tensor<B>, factor: f64) -> Result<Tensor<B>> {
        let y = self.own(x, "scale")?;
        self.launch(Elementwise::Scale(factor), &[], &[&y])?;
        Ok(y)
    }
}
