//! The checked tensors of a launch, on any backend.
//!
//! Always holds: their number and sizes are those that the kernel states, so a kernel may index them as its definition
//! says. Refuses all other operands.

use crate::{
    backend::{Backend, DType, Kernel, Tensor, ops::Optimizer},
    error::{Error, Result},
};

/// The tensors of one launch.
pub(super) struct Operands<'a, B: Backend> {
    pub(super) kernel: &'a Kernel,
    pub(super) inputs: &'a [&'a Tensor<B>],
    pub(super) outputs: &'a [&'a Tensor<B>],
}

impl<'a, B: Backend> Operands<'a, B> {
    /// Checks number and sizes.
    ///
    /// # Errors
    /// Fails, and names the operand that does not fit.
    pub(super) fn new(kernel: &'a Kernel, inputs: &'a [&'a Tensor<B>], outputs: &'a [&'a Tensor<B>]) -> Result<Self> {
        let operands = Self { kernel, inputs, outputs };
        if operands.fit() { Ok(operands) } else { operands.unsupported() }
    }

    /// Whether the kernel takes tensors of these sizes.
    fn fit(&self) -> bool {
        /// The most tensors that a kernel of one layer or parameter reads, or writes.
        const FEW: usize = 7;
        /// The most of a kernel of several parameters: weights, two states and copies.
        const MANY: usize = 4 * Optimizer::UPDATED;
        if self.inputs.len().max(self.outputs.len()) <= FEW {
            self.fit_among::<FEW>()
        } else {
            self.fit_among::<MANY>()
        }
    }

    /// The same for `MOST` tensors at the most.
    fn fit_among<const MOST: usize>(&self) -> bool {
        let elements = |tensors: &[&Tensor<B>]| {
            let mut elements = [0; MOST];
            for (elements, tensor) in elements.iter_mut().zip(tensors) {
                *elements = tensor.elements();
            }
            elements
        };
        let (ins, outs) = (self.inputs.len(), self.outputs.len());
        let is_counted = ins <= MOST && outs <= MOST;
        is_counted && self.kernel.takes(&elements(self.inputs)[..ins], &elements(self.outputs)[..outs])
    }

    /// The refusal of these operands.
    pub(super) fn unsupported<T>(&self) -> Result<T> {
        Err(self.error("not supported"))
    }

    /// An error that names the operands.
    pub(super) fn error(&self, reason: &str) -> Error {
        let Self { kernel, inputs, outputs } = self;
        let message = format!("{reason}: {inputs:?} to {outputs:?} by {kernel:?}");
        Error::Kernel { op: kernel.name(), layer: String::new(), message }
    }

    /// The type of an input; bytes if there is no such input.
    pub(super) fn input_type(&self, i: usize) -> DType {
        self.inputs.get(i).map_or(DType::U8, |t| t.dtype())
    }

    /// The type of an output; bytes if there is no such output.
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
}
