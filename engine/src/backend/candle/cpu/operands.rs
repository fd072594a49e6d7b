//! A launch's tensors as slices, checked.
//!
//! Holds: their number and extents are what the kernel states before any slice is handed out. Refuses the rest, and a
//! tensor that is read and written at once.

use std::cell::{Ref, RefMut};

use candle_core::CpuStorage;

use super::float::Float;
use crate::{
    backend::{Candle, DType, Kernel, Tensor, extents},
    data::UNSCORED,
    error::{Error, Result},
};

/// The tensors of one launch.
#[derive(Clone, Copy)]
pub(super) struct Operands<'a> {
    kernel: &'a Kernel,
    inputs: &'a [&'a Tensor<Candle>],
    outputs: &'a [&'a Tensor<Candle>],
}

impl<'a> Operands<'a> {
    /// Checks number and extents.
    pub(super) fn new(
        kernel: &'a Kernel,
        inputs: &'a [&'a Tensor<Candle>],
        outputs: &'a [&'a Tensor<Candle>],
    ) -> Result<Self> {
        let operands = Self { kernel, inputs, outputs };
        if extents::hold(kernel, inputs, outputs) { Ok(operands) } else { operands.unsupported() }
    }

    /// The refusal of these operands.
    pub(super) fn unsupported<T>(&self) -> Result<T> {
        Err(self.error("not supported"))
    }

    fn error(&self, reason: &str) -> Error {
        let Self { kernel, inputs, outputs } = self;
        let message = format!("{reason}: {inputs:?} to {outputs:?} by {kernel:?}");
        Error::Kernel { op: kernel.name(), layer: String::new(), message }
    }

    /// Type of an input; of bytes when there is none.
    pub(super) fn input_type(&self, i: usize) -> DType {
        self.inputs.get(i).map_or(DType::U8, |t| t.dtype())
    }

    /// Type of an output.
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

    fn read<T>(&self, i: usize, of: impl FnOnce(&CpuStorage) -> Option<&[T]>) -> Result<Ref<'a, [T]>> {
        let storage = self.inputs[i].storage().try_borrow().map_err(|_| self.error("read and written at once"))?;
        Ref::filter_map(storage, |s| of(s)?.get(self.inputs[i].place())).map_err(|_| self.error("not supported"))
    }

    fn write<T>(&self, i: usize, of: impl FnOnce(&mut CpuStorage) -> Option<&mut [T]>) -> Result<RefMut<'a, [T]>> {
        let storage = self.outputs[i].storage().try_borrow_mut().map_err(|_| self.error("read and written at once"))?;
        RefMut::filter_map(storage, |s| of(s)?.get_mut(self.outputs[i].place()))
            .map_err(|_| self.error("not supported"))
    }

    /// An input's elements.
    pub(super) fn input<T: Float>(&self, i: usize) -> Result<Ref<'a, [T]>> {
        self.read(i, T::of)
    }

    /// An output's elements.
    pub(super) fn output<T: Float>(&self, i: usize) -> Result<RefMut<'a, [T]>> {
        self.write(i, T::of_mut)
    }

    /// An input of bytes.
    pub(super) fn input_bytes(&self, i: usize) -> Result<Ref<'a, [u8]>> {
        self.read(i, |s| if let CpuStorage::U8(v) = s { Some(v) } else { None })
    }

    /// An output of bytes.
    pub(super) fn bytes(&self, i: usize) -> Result<RefMut<'a, [u8]>> {
        self.write(i, |s| if let CpuStorage::U8(v) = s { Some(v) } else { None })
    }

    /// An input of integers.
    pub(super) fn input_integers(&self, i: usize) -> Result<Ref<'a, [u32]>> {
        self.read(i, |s| if let CpuStorage::U32(v) = s { Some(v) } else { None })
    }

    /// An input of integers that are below `count`.
    pub(super) fn places(&self, i: usize, count: usize) -> Result<Ref<'a, [u32]>> {
        let places = self.input_integers(i)?;
        match places.iter().find(|&&place| place as usize >= count) {
            Some(place) => Err(self.error(&format!("place {place} of {count}"))),
            None => Ok(places),
        }
    }

    /// An output of integers.
    pub(super) fn integers(&self, i: usize) -> Result<RefMut<'a, [u32]>> {
        self.write(i, |s| if let CpuStorage::U32(v) = s { Some(v) } else { None })
    }

    /// An input of labels, each one of the classes of `elements` logits, or [`UNSCORED`].
    pub(super) fn labels(&self, i: usize, elements: usize) -> Result<Ref<'a, [u32]>> {
        let labels = self.integers_read(i)?;
        let classes = elements / labels.len().max(1);
        match labels.iter().find(|&&label| label as usize >= classes && label != UNSCORED) {
            Some(label) => Err(self.error(&format!("label {label} of {classes} classes"))),
            None => Ok(labels),
        }
    }

    /// An input of tokens, each one of the `vocabulary`.
    pub(super) fn tokens(&self, i: usize, vocabulary: usize) -> Result<Ref<'a, [u32]>> {
        let tokens = self.integers_read(i)?;
        match tokens.iter().find(|&&token| token as usize >= vocabulary) {
            Some(token) => Err(self.error(&format!("token {token} of a vocabulary of {vocabulary}"))),
            None => Ok(tokens),
        }
    }

    fn integers_read(&self, i: usize) -> Result<Ref<'a, [u32]>> {
        self.read(i, |s| if let CpuStorage::U32(v) = s { Some(v) } else { None })
    }
}
