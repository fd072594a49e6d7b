//! Rotary position embedding (Su et al. 2021, with the pairs of Llama).

use super::{AttentionShape, Contract, OperandBytes};
use crate::{
    backend::{Backend, DType, Executor, Tensor, scratch::on_cpu},
    device::Processor,
    error::Result,
};

/// out: `qkv`, updated: queries and keys are rotated by their position's angles, element i of a head with element
/// i + head_dim / 2. Its inverse is its gradient.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rotary {
    /// The attention that follows.
    pub shape: AttentionShape,
    /// The position of the first row of a sequence.
    pub first: usize,
    /// Pair i rotates by `position * base^(-2 i / head_dim)`.
    pub base: f64,
    /// Whether to rotate back.
    pub is_inverse: bool,
}

impl Contract for Rotary {
    fn name(&self) -> &'static str {
        if self.is_inverse { "rotary embedding gradient" } else { "rotary embedding" }
    }

    fn takes(&self, inputs: &[usize], outputs: &[usize]) -> bool {
        let s = &self.shape;
        s.is_valid() && s.head_dim.is_multiple_of(2) && inputs.is_empty() && outputs == [s.rows() * s.packed()]
    }

    fn flops(&self) -> u64 {
        0
    }

    fn traffic_bytes(&self, operands: &OperandBytes) -> u64 {
        operands.all()
    }

    fn cpu_scratch_bytes(&self, _dtype: DType, processor: Processor) -> usize {
        // A position's angles on each thread.
        let at_once = on_cpu::rotary_at_once(&self.shape, processor.threads);
        at_once * on_cpu::rotary_angles(&self.shape) * size_of::<f64>()
    }

    fn cuda_scratch_bytes(&self, _dtype: DType) -> usize {
        0
    }
}

impl<B: Backend> Executor<B> {
    /// Rotates queries and keys by their positions, in place when nothing else holds `qkv`. With `is_inverse`, this is the
    /// gradient.
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn rotary(&self, qkv: Tensor<B>, shape: AttentionShape, base: f64, is_inverse: bool) -> Result<Tensor<B>> {
        self.rotated(qkv, Rotary { shape, first: 0, base, is_inverse })
    }

    /// [`Executor::rotary`] of sequences that begin at the position `first`.
    ///
    /// # Errors
    /// Fails if [`Executor::rotary`] does.
    pub fn rotary_from(&self, qkv: Tensor<B>, shape: AttentionShape, base: f64, first: usize) -> Result<Tensor<B>> {
        self.rotated(qkv, Rotary { shape, first, base, is_inverse: false })
    }

    fn rotated(&self, qkv: Tensor<B>, kernel: Rotary) -> Result<Tensor<B>> {
        let shape = kernel.shape;
        self.expect_packed(kernel.name(), &qkv, &shape)?;
        let even = shape.head_dim.is_multiple_of(2);
        self.expect(kernel.name(), even, || format!("a head of {} elements has no pairs", shape.head_dim))?;
        let turned = self.own(qkv, kernel.name())?;
        self.launch(kernel, &[], &[&turned])?;
        Ok(turned)
    }
}
