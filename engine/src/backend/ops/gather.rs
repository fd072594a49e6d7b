//! Batches gathered from a training set on the device. What they make is the batch, in its category.

use crate::{
    backend::{Backend, DType, Executor, Kernel, Tensor},
    error::Result,
    memory::Category,
};

impl<B: Backend> Executor<B> {
    /// The images at `places` of `pixels [samples, height, width, channels]`, each number times the first row of
    /// `scaling [2, width * channels]` plus the second.
    pub fn gather_images(
        &self,
        pixels: &Tensor<B>,
        scaling: &Tensor<B>,
        places: &Tensor<B>,
        dtype: DType,
    ) -> Result<Tensor<B>> {
        let kernel = Kernel::GatherImages;
        self.ledger().set_op(kernel.name());
        let y = self.allocate(pixels.shape().with_first(places.elements()), dtype, Category::Batch, "images")?;
        self.launch(kernel, &[pixels, scaling, places], &[&y])?;
        Ok(y)
    }

    /// The rows at `places` of `table [samples, targets]`: `[places * targets]`.
    pub fn gather_labels(&self, table: &Tensor<B>, places: &Tensor<B>) -> Result<Tensor<B>> {
        let kernel = Kernel::GatherLabels;
        self.ledger().set_op(kernel.name());
        let count = places.elements() * table.shape().last();
        let y = self.allocate([count], DType::U32, Category::Batch, "labels")?;
        self.launch(kernel, &[table, places], &[&y])?;
        Ok(y)
    }

    /// The `length` tokens from each of `places`, `[places, length]`, and as labels `[places * length]` those that follow,
    /// of which the last `scored` of each sample count.
    pub fn gather_tokens(
        &self,
        tokens: &Tensor<B>,
        places: &Tensor<B>,
        length: usize,
        scored: usize,
    ) -> Result<(Tensor<B>, Tensor<B>)> {
        let kernel = Kernel::GatherTokens { scored };
        self.ledger().set_op(kernel.name());
        let count = places.elements();
        self.expect(kernel.name(), scored <= length, || format!("{scored} labels of {length}"))?;
        let inputs = self.allocate([count, length], DType::U32, Category::Batch, "tokens")?;
        let labels = self.allocate([count * length], DType::U32, Category::Batch, "labels")?;
        self.launch(kernel, &[tokens, places], &[&inputs, &labels])?;
        Ok((inputs, labels))
    }
}
