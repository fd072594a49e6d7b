//! A backend that runs another one's kernels and shows every launch to a watcher.
//!
//! Holds: what is launched and allocated is what the other backend would have run and held; its own executor's account
//! holds the bytes of the tensors that are alive, and nothing else.

use crate::{
    backend::{Backend, DType, Executor, HostSlice, Kernel, Tensor},
    device::Target,
    error::Result,
    memory::Category,
};

/// Told of every launch after it ran: the kernel, its inputs and its outputs.
type Watcher<B> = dyn Fn(&Kernel, &[&Tensor<B>], &[&Tensor<B>]) -> Result<()>;

/// Another backend, watched.
pub(crate) struct Watched<B: Backend> {
    inner: Executor<B>,
    watcher: Box<Watcher<B>>,
}

impl<B: Backend> Watched<B> {
    /// Watches the backend of `inner`, whose account has no budget.
    pub(crate) fn new(
        inner: Executor<B>,
        watcher: impl Fn(&Kernel, &[&Tensor<B>], &[&Tensor<B>]) -> Result<()> + 'static,
    ) -> Self {
        Self { inner, watcher: Box::new(watcher) }
    }
}

/// The other backend's tensor behind one of ours.
fn inside<B: Backend>(tensor: &Tensor<Watched<B>>) -> Tensor<B> {
    tensor.storage().borrow().rows_view(tensor.place()).reshape(tensor.shape())
}

impl<B: Backend> Backend for Watched<B> {
    type Storage = Tensor<B>;

    fn allocate(&self, elements: usize, dtype: DType) -> Result<Tensor<B>> {
        self.inner.allocate([elements], dtype, Category::Batch, "watched")
    }

    fn launch(&self, kernel: &Kernel, inputs: &[&Tensor<Self>], outputs: &[&Tensor<Self>]) -> Result<()> {
        let of = |tensors: &[&Tensor<Self>]| tensors.iter().map(|tensor| inside(tensor)).collect::<Vec<_>>();
        let (inputs, outputs) = (of(inputs), of(outputs));
        let (inputs, outputs) = (inputs.iter().collect::<Vec<_>>(), outputs.iter().collect::<Vec<_>>());
        self.inner.backend().launch(kernel, &inputs, &outputs)?;
        (self.watcher)(kernel, &inputs, &outputs)
    }

    fn write(&self, tensor: &Tensor<Self>, source: HostSlice<'_>) -> Result<()> {
        self.inner.backend().write(&inside(tensor), source)
    }

    fn read(&self, tensor: &Tensor<Self>) -> Result<Option<Vec<f64>>> {
        self.inner.backend().read(&inside(tensor))
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
