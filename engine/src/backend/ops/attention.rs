//! Attention in its forms, and what is done to queries and keys before.

use crate::{
    backend::{AttentionShape, Backend, DType, Executor, Kernel, Tensor},
    error::Result,
    memory::Category,
};

impl<B: Backend> Executor<B> {
    fn expect_packed(&self, kernel: &Kernel, qkv: &Tensor<B>, shape: &AttentionShape) -> Result<()> {
        let grouped = shape.kv_heads > 0 && shape.heads.is_multiple_of(shape.kv_heads);
        self.expect(kernel.name(), grouped, || format!("{} heads share {}", shape.heads, shape.kv_heads))?;
        self.expect(kernel.name(), qkv.elements() == shape.rows() * shape.packed(), || format!("{qkv:?} for {shape:?}"))
    }

    /// Attention that keeps nothing of the size length x length: `[batch * length, heads * head_dim]`, and the logarithms
    /// of the softmax's denominators, `[batch, heads, length]`, for the gradient.
    pub fn attention(&self, qkv: &Tensor<B>, shape: AttentionShape) -> Result<(Tensor<B>, Tensor<B>)> {
        let kernel = Kernel::Attention(shape);
        self.expect_packed(&kernel, qkv, &shape)?;
        let y = self.activation([shape.rows(), shape.width()], qkv.dtype(), kernel.name())?;
        let dtype = if qkv.dtype() == DType::F64 { DType::F64 } else { DType::F32 };
        let extents = [shape.batch, shape.heads, shape.length];
        let lse = self.allocate(extents, dtype, Category::Activations, "softmax denominators")?;
        self.launch(kernel, &[qkv], &[&y, &lse])?;
        Ok((y, lse))
    }

    /// Gradient of [`Executor::attention`] by the packed queries, keys and values.
    pub fn attention_grad(
        &self,
        qkv: &Tensor<B>,
        [y, lse]: [&Tensor<B>; 2],
        dy: &Tensor<B>,
        shape: AttentionShape,
    ) -> Result<Tensor<B>> {
        let kernel = Kernel::AttentionGrad(shape);
        self.expect_packed(&kernel, qkv, &shape)?;
        let dqkv = self.activation(qkv.shape(), dy.dtype(), kernel.name())?;
        self.launch(kernel, &[qkv, y, lse, dy], &[&dqkv])?;
        Ok(dqkv)
    }

    /// Attention that keeps its probabilities, `[batch, heads, length, length]`, for the gradient.
    pub fn attention_plain(&self, qkv: &Tensor<B>, shape: AttentionShape) -> Result<(Tensor<B>, Tensor<B>)> {
        let kernel = Kernel::AttentionPlain(shape);
        self.expect_packed(&kernel, qkv, &shape)?;
        let y = self.activation([shape.rows(), shape.width()], qkv.dtype(), kernel.name())?;
        let extents = [shape.batch, shape.heads, shape.length, shape.length];
        let p = self.allocate(extents, qkv.dtype(), Category::Activations, "attention probabilities")?;
        self.launch(kernel, &[qkv], &[&y, &p])?;
        Ok((y, p))
    }

    /// Gradient of [`Executor::attention_plain`] by the packed queries, keys and values.
    pub fn attention_plain_grad(
        &self,
        qkv: &Tensor<B>,
        p: &Tensor<B>,
        dy: &Tensor<B>,
        shape: AttentionShape,
    ) -> Result<Tensor<B>> {
        let kernel = Kernel::AttentionPlainGrad(shape);
        self.expect_packed(&kernel, qkv, &shape)?;
        let dqkv = self.activation(qkv.shape(), dy.dtype(), kernel.name())?;
        self.launch(kernel, &[qkv, p, dy], &[&dqkv])?;
        Ok(dqkv)
    }

    /// Turns queries and keys by their positions, in place when nobody else holds `qkv`. With `is_inverse`, the gradient.
    pub fn rotary(&self, qkv: Tensor<B>, shape: AttentionShape, base: f64, is_inverse: bool) -> Result<Tensor<B>> {
        let kernel = Kernel::Rotary { shape, base, is_inverse };
        self.expect_packed(&kernel, &qkv, &shape)?;
        let even = shape.head_dim.is_multiple_of(2);
        self.expect(kernel.name(), even, || format!("a head of {} elements has no pairs", shape.head_dim))?;
        let turned = self.own(qkv, kernel.name())?;
        self.launch(kernel, &[], &[&turned])?;
        Ok(turned)
    }
}
