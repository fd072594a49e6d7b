//! Batches gathered from a training set on the device. Their outputs are the batch, in its category.

use super::{Contract, OperandBytes};
use crate::{
    backend::{Backend, DType, Executor, Tensor},
    device::Processor,
    error::Result,
    memory::Category,
};

/// Kernels that gather samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Gather {
    /// in: `pixels [samples, height, width, channels]` (u8), `scaling [2, width * channels]` (f32), `places [batch]` (u32);
    /// out: `y [batch, height, width, channels]`, the images at those places times the first row of `scaling` plus the
    /// second, computed in f32.
    Images,
    /// in: `table [samples, targets]` (u8 or u32), `places [batch]` (u32); out: `y [batch, targets]` (u32), its rows at those
    /// places.
    Labels,
    /// in: `tokens` (u8 or u32), `places [batch]` (u32), the first token of each sample; out: `inputs [batch, length]` (u32),
    /// the tokens from there, and `labels [batch, length]` (u32), the ones that follow them: the last `scored` of each
    /// sample, the others [`IGNORE_INDEX`](super::IGNORE_INDEX).
    Tokens {
        /// Labels of a sample that count.
        scored: usize,
    },
}

impl Contract for Gather {
    fn name(&self) -> &'static str {
        match self {
            Self::Images => "gather images",
            Self::Labels => "gather labels",
            Self::Tokens { .. } => "gather tokens",
        }
    }

    fn takes(&self, inputs: &[usize], outputs: &[usize]) -> bool {
        match (self, inputs, outputs) {
            (Self::Images, [all, scaling, n], [y]) => {
                let row = scaling / 2;
                let size = y / n.max(&1);
                let holds = *n > 0 && row > 0 && size > 0 && scaling.is_multiple_of(2);
                holds && y.is_multiple_of(*n) && size.is_multiple_of(row) && all.is_multiple_of(size)
            }
            (Self::Labels, [all, n], [y]) => *n > 0 && *y >= *n && y.is_multiple_of(*n) && all.is_multiple_of(y / n),
            (Self::Tokens { scored }, [_, n], [y, labels]) => {
                *n > 0 && *y >= *n && y == labels && y.is_multiple_of(*n) && *scored <= y / n
            }
            (Self::Images | Self::Labels | Self::Tokens { .. }, _, _) => false,
        }
    }

    fn flops(&self) -> u64 {
        0
    }

    fn traffic_bytes(&self, operands: &OperandBytes) -> u64 {
        // They read as much of the set as they write.
        2 * operands.written
    }

    fn cpu_scratch_bytes(&self, _dtype: DType, _: Processor) -> usize {
        0
    }

    fn cuda_scratch_bytes(&self, _dtype: DType) -> usize {
        0
    }
}

impl<B: Backend> Executor<B> {
    /// The images at `places` of `pixels [samples, height, width, channels]`, each number times the first row of
    /// `scaling [2, width * channels]` plus the second.
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn gather_images(
        &self,
        pixels: &Tensor<B>,
        scaling: &Tensor<B>,
        places: &Tensor<B>,
        dtype: DType,
    ) -> Result<Tensor<B>> {
        let kernel = Gather::Images;
        self.ledger().set_op(kernel.name());
        let y = self.allocate(pixels.shape().with_first(places.elements()), dtype, Category::Batch, "images")?;
        self.launch(kernel, &[pixels, scaling, places], &[&y])?;
        Ok(y)
    }

    /// The rows at `places` of `table [samples, targets]`: `[places * targets]`.
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn gather_labels(&self, table: &Tensor<B>, places: &Tensor<B>) -> Result<Tensor<B>> {
        let kernel = Gather::Labels;
        self.ledger().set_op(kernel.name());
        let count = places.elements() * table.shape().last();
        let y = self.allocate([count], DType::U32, Category::Batch, "labels")?;
        self.launch(kernel, &[table, places], &[&y])?;
        Ok(y)
    }

    /// The `length` tokens from each of `places`, `[places, length]`, and as labels `[places * length]` the tokens that follow;
    /// only the last `scored` of each sample count.
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn gather_tokens(
        &self,
        tokens: &Tensor<B>,
        places: &Tensor<B>,
        length: usize,
        scored: usize,
    ) -> Result<(Tensor<B>, Tensor<B>)> {
        let kernel = Gather::Tokens { scored };
        self.ledger().set_op(kernel.name());
        let count = places.elements();
        self.expect(kernel.name(), scored <= length, || format!("{scored} labels of {length}"))?;
        let inputs = self.allocate([count, length], DType::U32, Category::Batch, "tokens")?;
        let labels = self.allocate([count * length], DType::U32, Category::Batch, "labels")?;
        self.launch(kernel, &[tokens, places], &[&inputs, &labels])?;
        Ok((inputs, labels))
    }
}
