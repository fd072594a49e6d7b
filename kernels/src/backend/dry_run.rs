//! The dry run: tensors without elements, kernels without arithmetic.

use std::cell::Cell;

use crate::{
    backend::{Backend, Cpu, DType, HostSlice, Kernel, Rates, Tensor, nodes::nodes_of, ops::OperandBytes},
    device::Target,
    error::Result,
    memory::{Ticket, allocator::Place},
};

/// Runs no kernel, and adds up how long the kernels would take, and how many nodes of a graph they would be.
#[derive(Debug)]
pub struct DryRun {
    target: Target,
    rates: Rates,
    secs: Cell<f64>,
    nodes: Cell<u64>,
}

/// Stands for the elements of a tensor. As large as the CPU's storage is without its elements, so that the handles of a
/// dry run take the memory that the CPU's do.
#[derive(Debug, Default)]
pub struct Placeholder(#[expect(dead_code, reason = "only its size counts")] [u64; 4]);

const _: () = assert!(size_of::<Placeholder>() == size_of::<<Cpu as Backend>::Storage>());

impl DryRun {
    /// A dry run of a device whose kernels run at `rates`.
    pub fn new(target: Target, rates: Rates) -> Self {
        Self { target, rates, secs: Cell::default(), nodes: Cell::default() }
    }

    /// Predicted seconds of the kernels launched since the last call.
    pub fn take_secs(&self) -> f64 {
        self.secs.take()
    }

    /// The most nodes of a graph that the kernels launched since the last call would be on a GPU.
    pub fn take_nodes(&self) -> u64 {
        self.nodes.take()
    }
}

impl Backend for DryRun {
    type Storage = Placeholder;

    fn allocate(&self, _: usize, _: DType, _: Option<Place>) -> Result<Placeholder> {
        Ok(Placeholder::default())
    }

    fn launch(
        &self,
        kernel: &Kernel,
        inputs: &[&Tensor<Self>],
        outputs: &[&Tensor<Self>],
        _: Option<&Ticket>,
    ) -> Result<()> {
        let dtype = inputs.iter().chain(outputs).next().map_or(DType::F32, |t| t.dtype());
        let bytes = |tensors: &[&Tensor<Self>]| tensors.iter().map(|t| t.bytes()).sum();
        let bytes = kernel.traffic_bytes(&OperandBytes { dtype, read: bytes(inputs), written: bytes(outputs) });
        self.nodes.set(self.nodes.get() + nodes_of(kernel));
        self.secs.set(self.secs.get() + self.rates.secs(kernel, dtype, bytes));
        Ok(())
    }

    fn write(&self, _: &Tensor<Self>, _: HostSlice<'_>) -> Result<()> {
        Ok(())
    }

    fn read(&self, _: &Tensor<Self>) -> Result<Option<Vec<f64>>> {
        Ok(None)
    }

    fn read_bytes(&self, _: &Tensor<Self>, _: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        Ok(())
    }

    fn write_bytes(&self, _: &Tensor<Self>, _: &mut dyn FnMut(&mut [u8]) -> Result<()>) -> Result<()> {
        Ok(())
    }

    fn target(&self) -> &Target {
        &self.target
    }
}
