//! A launch's tensors as addresses.
//!
//! Always holds: nothing that is read is also written. Integers on the device (labels, tokens, indices) are not checked here:
//! kernels stay inside their tables for any integers.

use std::{ffi::CStr, ops::Deref};

use super::{
    Cuda,
    instead::Unloaded,
    launch::{Arg, Grid, Packed, Pointer, Table},
    module::Source,
    work::Work,
};
use crate::{
    backend::{DType, Kernel, Tensor, operands},
    error::Result,
};

/// The tensors of one launch, and where it runs.
pub(super) struct Operands<'a> {
    tensors: operands::Operands<'a, Cuda>,
    backend: &'a Cuda,
    scratch: Pointer,
}

impl<'a> Deref for Operands<'a> {
    type Target = operands::Operands<'a, Cuda>;

    fn deref(&self) -> &Self::Target {
        &self.tensors
    }
}

impl<'a> Operands<'a> {
    /// Checks the tensors and takes their addresses.
    pub(super) fn new(
        backend: &'a Cuda,
        kernel: &'a Kernel,
        inputs: &'a [&'a Tensor<Cuda>],
        outputs: &'a [&'a Tensor<Cuda>],
        scratch: Pointer,
    ) -> Result<Self> {
        let tensors = operands::Operands::new(kernel, inputs, outputs)?;
        let mut written: Vec<usize> = outputs.iter().map(|output| output.buffer_number()).collect();
        written.sort_unstable();
        let is_written_twice = written.array_windows().any(|[a, b]| a == b);
        if is_written_twice || inputs.iter().any(|input| written.binary_search(&input.buffer_number()).is_ok()) {
            return Err(tensors.error("read and written at once"));
        }
        // Copies that are still on their way come first.
        inputs.iter().chain(outputs).try_for_each(|tensor| tensor.storage().borrow().settle())?;
        Ok(Self { tensors, backend, scratch })
    }

    /// The device that runs it.
    pub(super) fn backend(&self) -> &'a Cuda {
        self.backend
    }

    /// The address of an input; null when it is not given.
    pub(super) fn input(&self, i: usize) -> Pointer {
        self.inputs.get(i).map_or(Pointer::default(), |tensor| tensor.pointer())
    }

    /// The address of an output; null when it is not given.
    pub(super) fn output(&self, i: usize) -> Pointer {
        self.outputs.get(i).map_or(Pointer::default(), |tensor| tensor.pointer())
    }

    /// Where the kernel's scratch begins, of as many bytes as `Kernel::scratch_bytes` states; null when that is zero.
    pub(super) fn scratch(&self) -> Pointer {
        self.scratch
    }

    /// Queues the kernel `name` of `source`, compiled for `types` (`T` and `W`). Types that the source is not compiled for
    /// are refused.
    pub(super) fn launch(
        &self,
        source: &'static Source,
        types: [DType; 2],
        name: &'static CStr,
        grid: Grid,
        args: &[Arg],
    ) -> Result<()> {
        self.queue((source, types), name, grid, Packed::new(None, args))
    }

    /// [`Operands::launch`] of a kernel that takes a table before its other arguments.
    pub(super) fn launch_table(
        &self,
        source: &'static Source,
        types: [DType; 2],
        name: &'static CStr,
        (grid, table): (Grid, Table),
        args: &[Arg],
    ) -> Result<()> {
        self.queue((source, types), name, grid, Packed::new(Some(table), args))
    }

    fn queue(
        &self,
        (source, types): (&'static Source, [DType; 2]),
        name: &'static CStr,
        grid: Grid,
        args: Packed,
    ) -> Result<()> {
        if !source.types.all().contains(&types) {
            return self.unsupported();
        }
        // The driver takes anything it is given.
        debug_assert_eq!(source.parameters(name), Some(args.count()), "{name:?} in {}.cu", source.name);
        let device = self.backend.device();
        match device.aside().keep(Unloaded { source, types, name, grid, args }) {
            Some(launch) => device.submit(Work::Launch(launch.load(device)?)),
            None => Ok(()),
        }
    }

    /// [`Operands::launch`] of a source that knows only the type of elements.
    pub(super) fn launch_for(
        &self,
        source: &'static Source,
        dtype: DType,
        name: &'static CStr,
        grid: Grid,
        args: &[Arg],
    ) -> Result<()> {
        self.launch(source, [dtype; 2], name, grid, args)
    }
}

impl Tensor<Cuda> {
    /// The address of the first element.
    pub(super) fn pointer(&self) -> Pointer {
        Pointer(self.storage().borrow().address() + (self.place().start * self.dtype().size()) as u64)
    }
}
