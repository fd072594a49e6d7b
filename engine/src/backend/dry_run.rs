//! The dry run: tensors without elements, kernels without arithmetic.

use std::cell::Cell;

use crate::{
    backend::{Backend, DType, HostSlice, Kernel, Tensor},
    error::Result,
};

/// Runs nothing and adds up the work of what it did not run.
#[derive(Debug)]
pub struct DryRun {
    threads: usize,
    work: Cell<Work>,
}

/// The work of the kernels launched: what a time model needs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Work {
    /// Multiplications and additions.
    pub flops: u64,
    /// Bytes of operands read and written.
    pub bytes: u64,
    /// Kernels.
    pub launches: u64,
}

impl DryRun {
    /// A dry run of a device whose kernels run on `threads` threads.
    pub fn new(threads: usize) -> Self {
        Self { threads, work: Cell::default() }
    }

    /// The work since the last call.
    pub fn take_work(&self) -> Work {
        self.work.take()
    }
}

impl Backend for DryRun {
    type Storage = ();

    fn allocate(&self, _: usize, _: DType) -> Result<()> {
        Ok(())
    }

    fn launch(&self, kernel: &Kernel, inputs: &[&Tensor<Self>], outputs: &[&Tensor<Self>]) -> Result<()> {
        let mut work = self.work.get();
        work.flops += kernel.flops();
        work.bytes += inputs.iter().chain(outputs).map(|t| t.bytes()).sum::<u64>();
        work.launches += 1;
        self.work.set(work);
        Ok(())
    }

    fn write(&self, _: &Tensor<Self>, _: HostSlice<'_>) -> Result<()> {
        Ok(())
    }

    fn read(&self, _: &Tensor<Self>) -> Result<Option<Vec<f64>>> {
        Ok(None)
    }

    fn threads(&self) -> usize {
        self.threads
    }
}
