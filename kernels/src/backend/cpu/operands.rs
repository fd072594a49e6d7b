//! A launch's tensors as slices.
//!
//! Refuses a tensor that is read and written at once, and an integer index that is out of range.

use std::cell::{Ref, RefMut};

use candle_core::CpuStorage;

use super::float::Float;
use crate::{
    backend::{Cpu, IGNORE_INDEX, operands},
    error::Result,
};

/// The tensors of one launch.
pub(super) type Operands<'a> = operands::Operands<'a, Cpu>;

impl<'a> Operands<'a> {
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

    /// An input of labels, each one of the `classes`, or [`IGNORE_INDEX`].
    pub(super) fn labels(&self, i: usize, classes: usize) -> Result<Ref<'a, [u32]>> {
        let labels = self.input_integers(i)?;
        match labels.iter().find(|&&label| label as usize >= classes && label != IGNORE_INDEX) {
            Some(label) => Err(self.error(&format!("label {label} of {classes} classes"))),
            None => Ok(labels),
        }
    }

    /// An input of tokens, each one of the `vocabulary`.
    pub(super) fn tokens(&self, i: usize, vocabulary: usize) -> Result<Ref<'a, [u32]>> {
        let tokens = self.input_integers(i)?;
        match tokens.iter().find(|&&token| token as usize >= vocabulary) {
            Some(token) => Err(self.error(&format!("token {token} of a vocabulary of {vocabulary}"))),
            None => Ok(tokens),
        }
    }
}
