//! A backend that runs another one's kernels and shows every launch to a watcher.
//!
//! Always holds: it makes the same launches and allocations as the other backend alone; the account of its own executor
//! holds the bytes of the live tensors, and nothing else.

use std::{cell::Cell, rc::Rc};

use crate::{
    backend::{Backend, DType, Executor, HostSlice, Kernel, Tensor},
    device::Target,
    error::Result,
    memory::{Category, allocator::Place},
};

/// The tensors of a [`Watched`] that are alive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Alive {
    /// How many blocks there are.
    pub blocks: u64,
    /// Bytes of the blocks.
    pub bytes: u64,
}

/// A launch that ran.
pub struct Launched<'a, B: Backend> {
    /// The kernel.
    pub kernel: &'a Kernel,
    /// The tensors that it read.
    pub inputs: &'a [&'a Tensor<B>],
    /// The tensors that it wrote.
    pub outputs: &'a [&'a Tensor<B>],
    /// The bytes that were alive then.
    pub alive: Alive,
}

/// Called for every launch after it ran.
type Watcher<B> = dyn Fn(&Launched<'_, B>) -> Result<()>;

/// Another backend, watched.
pub struct Watched<B: Backend> {
    inner: Executor<B>,
    watcher: Box<Watcher<B>>,
    blocks: Rc<Cell<u64>>,
}

/// A tensor of the other backend, counted while it lives.
pub struct Block<B: Backend> {
    tensor: Tensor<B>,
    blocks: Rc<Cell<u64>>,
}

impl<B: Backend> Drop for Block<B> {
    fn drop(&mut self) {
        self.blocks.set(self.blocks.get() - 1);
    }
}

impl<B: Backend> Watched<B> {
    /// Watches the backend of `inner`, whose account has no budget.
    pub fn new(inner: Executor<B>, watcher: impl Fn(&Launched<'_, B>) -> Result<()> + 'static) -> Self {
        Self { inner, watcher: Box::new(watcher), blocks: Rc::default() }
    }

    fn alive(&self) -> Alive {
        Alive { blocks: self.blocks.get(), bytes: self.inner.ledger().live().0 }
    }
}

/// The other backend's tensor inside one of this backend.
fn inside<B: Backend>(tensor: &Tensor<Watched<B>>) -> Tensor<B> {
    tensor.storage().borrow().tensor.rows_view(tensor.place()).reshape(tensor.shape())
}

impl<B: Backend> Backend for Watched<B> {
    type Storage = Block<B>;

    // A place is of the account outside: the executor inside has one of its own.
    fn allocate(&self, elements: usize, dtype: DType, _: Option<Place>) -> Result<Block<B>> {
        let tensor = self.inner.allocate([elements], dtype, Category::Batch, "watched")?;
        self.blocks.set(self.blocks.get() + 1);
        Ok(Block { tensor, blocks: Rc::clone(&self.blocks) })
    }

    fn launch(
        &self,
        kernel: &Kernel,
        inputs: &[&Tensor<Self>],
        outputs: &[&Tensor<Self>],
        _: Option<Place>,
    ) -> Result<()> {
        let of = |tensors: &[&Tensor<Self>]| tensors.iter().map(|tensor| inside(tensor)).collect::<Vec<_>>();
        let (inputs, outputs) = (of(inputs), of(outputs));
        let (inputs, outputs) = (inputs.iter().collect::<Vec<_>>(), outputs.iter().collect::<Vec<_>>());
        self.inner.backend().launch(kernel, &inputs, &outputs, None)?;
        (self.watcher)(&Launched { kernel, inputs: &inputs, outputs: &outputs, alive: self.alive() })
    }

    fn write(&self, tensor: &Tensor<Self>, source: HostSlice<'_>) -> Result<()> {
        self.inner.backend().write(&inside(tensor), source)
    }

    fn read(&self, tensor: &Tensor<Self>) -> Result<Option<Vec<f64>>> {
        self.inner.backend().read(&inside(tensor))
    }

    fn read_bytes(&self, tensor: &Tensor<Self>, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        self.inner.backend().read_bytes(&inside(tensor), take)
    }

    fn write_bytes(&self, tensor: &Tensor<Self>, fill: &mut dyn FnMut(&mut [u8]) -> Result<()>) -> Result<()> {
        self.inner.backend().write_bytes(&inside(tensor), fill)
    }

    fn target(&self) -> &Target {
        self.inner.backend().target()
    }

    fn step_ended(&self) -> Result<()> {
        self.inner.backend().step_ended()
    }

    fn lend_workspace(&self, workspace: &Tensor<Self>) -> Result<()> {
        self.inner.backend().lend_workspace(&inside(workspace))
    }
}
