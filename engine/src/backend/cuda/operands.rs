//! A launch's tensors as addresses, checked.
//!
//! Holds: their number and extents are what the kernel states before any address is handed out, and nothing that is read
//! is also written. Integers on the device (labels, tokens, places) are not looked at: kernels stay inside their tables
//! whatever they are.

use std::ffi::CStr;

use super::{
    Cuda,
    launch::{Arg, Grid, Pointer},
    module::Source,
};
use crate::{
    backend::{DType, Kernel, Tensor, extents},
    error::{Error, Result},
};

/// The tensors of one launch.
#[derive(Clone, Copy)]
pub(super) struct Operands<'a> {
    backend: &'a Cuda,
    kernel: &'a Kernel,
    inputs: &'a [&'a Tensor<Cuda>],
    outputs: &'a [&'a Tensor<Cuda>],
    scratch: Pointer,
}

impl<'a> Operands<'a> {
    /// Checks number and extents.
    pub(super) fn new(
        backend: &'a Cuda,
        kernel: &'a Kernel,
        inputs: &'a [&'a Tensor<Cuda>],
        outputs: &'a [&'a Tensor<Cuda>],
        scratch: Pointer,
    ) -> Result<Self> {
        let operands = Self { backend, kernel, inputs, outputs, scratch };
        if !extents::hold(kernel, inputs, outputs) {
            return operands.unsupported();
        }
        let is_written_twice = outputs
            .iter()
            .enumerate()
            .any(|(i, output)| inputs.iter().chain(&outputs[..i]).any(|other| output.shares_buffer(other)));
        if is_written_twice {
            return Err(operands.error("read and written at once"));
        }
        // Copies that are still on their way come first.
        inputs.iter().chain(outputs).try_for_each(|tensor| tensor.storage().borrow().settle())?;
        Ok(operands)
    }

    /// The refusal of these operands.
    pub(super) fn unsupported<T>(&self) -> Result<T> {
        Err(self.error("not supported"))
    }

    /// An error that names the operands.
    pub(super) fn error(&self, reason: &str) -> Error {
        let Self { kernel, inputs, outputs, .. } = self;
        let message = format!("{reason}: {inputs:?} to {outputs:?} by {kernel:?}");
        Error::Kernel { op: kernel.name(), layer: String::new(), message }
    }

    /// The device that runs it.
    pub(super) fn backend(&self) -> &'a Cuda {
        self.backend
    }

    /// Type of an input; of bytes when there is none.
    pub(super) fn input_type(&self, i: usize) -> DType {
        self.inputs.get(i).map_or(DType::U8, |t| t.dtype())
    }

    /// Type of an output; of bytes when there is none.
    pub(super) fn output_type(&self, i: usize) -> DType {
        self.outputs.get(i).map_or(DType::U8, |t| t.dtype())
    }

    /// How many inputs.
    pub(super) fn inputs(&self) -> usize {
        self.inputs.len()
    }

    /// How many outputs.
    pub(super) fn outputs(&self) -> usize {
        self.outputs.len()
    }

    /// Elements of an input.
    pub(super) fn input_elements(&self, i: usize) -> usize {
        self.inputs[i].elements()
    }

    /// Elements of an output.
    pub(super) fn output_elements(&self, i: usize) -> usize {
        self.outputs[i].elements()
    }

    /// Where an input begins; nowhere when it is not given.
    pub(super) fn input(&self, i: usize) -> Pointer {
        self.inputs.get(i).map_or(Pointer::default(), |tensor| tensor.pointer())
    }

    /// Where an output begins; nowhere when it is not given.
    pub(super) fn output(&self, i: usize) -> Pointer {
        self.outputs.get(i).map_or(Pointer::default(), |tensor| tensor.pointer())
    }

    /// Where the kernel's scratch begins, of as many bytes as `scratch::cuda` states; nowhere when that is none.
    pub(super) fn scratch(&self) -> Pointer {
        self.scratch
    }

    /// Queues the kernel `name` of `source`, compiled for `types` (`T` and `W`). Types that the source is not compiled for
    /// are refused.
    pub(super) fn launch(
        &self,
        source: &Source,
        types: [DType; 2],
        name: &'static CStr,
        grid: Grid,
        args: &[Arg],
    ) -> Result<()> {
        if !source.types.all().contains(&types) {
            return self.unsupported();
        }
        // The driver takes whatever it is given.
        debug_assert_eq!(source.parameters(name), Some(args.len()), "{name:?} in {}.cu", source.name);
        let device = self.backend.device();
        let module = device.modules().get(device, source, types)?;
        // SAFETY: the family that launches gives the kernel's own arguments; extents were checked when the operands were
        // made, and its scratch is as large as its rule says.
        unsafe { module.launch(device, name, grid, args) }
    }

    /// [`Operands::launch`] of a source that knows only the type of elements.
    pub(super) fn launch_for(
        &self,
        source: &Source,
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
