//! Batches in host memory, and how much room one takes.
//!
//! Owns [`HostBatch`], [`Inputs`] and [`BatchLayout`]. Always holds: a batch is of the layout it was last prepared for, and
//! its buffers grow in [`BatchLayout::prepare`] alone.

use std::collections::TryReserveError;

use crate::{
    data::{DatasetInfo, Input, Split, rounding::round},
    experiment::{Data, Placement},
    tensor::{DType, HostSlice},
};

/// The inputs of a batch.
#[derive(Debug, Clone, PartialEq)]
pub enum Inputs {
    /// `[len, height, width, channel]`, scaled to mean 0 and deviation 1; or the features of rows of a table.
    Images(Vec<f32>),
    /// The same, rounded: as many numbers of bf16, whose bytes are in the first half of the room.
    Bf16(Vec<f32>),
    /// The same with f16.
    F16(Vec<f32>),
    /// Token sequences, `[len, length]`.
    Tokens(Vec<u32>),
    /// `[len]`: where the samples are in a training set on the device, in place of the samples and their labels.
    Places(Vec<u32>),
}

impl Inputs {
    /// The numbers, for a tensor.
    pub fn slice(&self) -> HostSlice<'_> {
        match self {
            Self::Images(pixels) => HostSlice::F32(pixels),
            Self::Bf16(room) => rounded(room, DType::Bf16),
            Self::F16(room) => rounded(room, DType::F16),
            Self::Tokens(numbers) | Self::Places(numbers) => HostSlice::U32(numbers),
        }
    }

    /// Rounds images to `dtype`, if that has 16 bits. Tokens and places stay as they are.
    pub(super) fn round_to(&mut self, dtype: DType) {
        let Self::Images(pixels) = self else { return };
        round(pixels, dtype);
        let room = std::mem::take(pixels);
        *self = match dtype {
            DType::Bf16 => Self::Bf16(room),
            DType::F16 => Self::F16(room),
            DType::F64 | DType::F32 | DType::U32 | DType::U8 => Self::Images(room),
        };
    }

    /// The empty room of earlier images, if they were images.
    fn into_room(self) -> Vec<f32> {
        match self {
            Self::Images(room) | Self::Bf16(room) | Self::F16(room) => emptied(room),
            Self::Tokens(_) | Self::Places(_) => Vec::new(),
        }
    }

    /// The empty room of earlier tokens or places.
    fn into_places(self) -> Vec<u32> {
        match self {
            Self::Tokens(numbers) | Self::Places(numbers) => emptied(numbers),
            Self::Images(_) | Self::Bf16(_) | Self::F16(_) => Vec::new(),
        }
    }
}

/// The rounded numbers of images with this room.
fn rounded(room: &[f32], dtype: DType) -> HostSlice<'_> {
    HostSlice::Rounded(&bytemuck::cast_slice(room)[..room.len() * dtype.size()], dtype)
}

#[cfg(test)]
impl HostBatch {
    /// The images, of a batch of images.
    pub(super) fn images(&self) -> &[f32] {
        match &self.inputs {
            Inputs::Images(images) => images,
            other => panic!("no images: {other:?}"),
        }
    }
}

impl Default for Inputs {
    fn default() -> Self {
        Self::Places(Vec::new())
    }
}

/// Samples in host memory.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HostBatch {
    /// The samples, or where they are.
    pub inputs: Inputs,
    /// `[len * labels of a sample]`, values by the bits of their f32; empty for a training set on the device.
    pub labels: Vec<u32>,
    /// The teacher's answers to the samples, as [`AnswerSizes`](crate::data::AnswerSizes) lays them out; empty if no teacher
    /// was asked before.
    pub answers: Vec<u8>,
    /// The number of samples.
    pub len: usize,
    /// Passes over the training data completed before this batch; 0 for test data.
    pub epoch: u64,
}

/// The layout of one sample in a batch. Every number is four bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BatchLayout {
    kind: InputsKind,
    /// Numbers of a sample's input.
    input_numbers: usize,
    /// Labels of a sample.
    labels: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InputsKind {
    Images,
    Tokens,
    Places,
}

impl BatchLayout {
    /// The shapes of the batches of a part.
    pub(super) fn new(data: &Data, facts: &DatasetInfo, split: Split) -> Self {
        match facts.input {
            _ if split == Split::Train && data.placement == Placement::Device => {
                Self { kind: InputsKind::Places, input_numbers: 1, labels: 0 }
            }
            Input::Image { .. } => Self {
                kind: InputsKind::Images,
                input_numbers: facts.input.elements(),
                labels: facts.labels_per_sample,
            },
            Input::Tokens { length, .. } => {
                Self { kind: InputsKind::Tokens, input_numbers: length, labels: facts.labels_per_sample }
            }
        }
    }

    /// Bytes of one sample.
    pub(super) fn sample_bytes(&self) -> usize {
        (self.input_numbers + self.labels) * size_of::<u32>()
    }

    /// Empties a batch and gives its buffers room for exactly `samples`, which they keep from then on.
    ///
    /// # Errors
    /// Fails when the system has no room.
    pub(super) fn prepare(&self, batch: &mut HostBatch, samples: usize) -> Result<(), TryReserveError> {
        let inputs = std::mem::take(&mut batch.inputs);
        batch.inputs = match self.kind {
            InputsKind::Images => Inputs::Images(inputs.into_room()),
            InputsKind::Tokens => Inputs::Tokens(inputs.into_places()),
            InputsKind::Places => Inputs::Places(inputs.into_places()),
        };
        match &mut batch.inputs {
            Inputs::Images(pixels) | Inputs::Bf16(pixels) | Inputs::F16(pixels) => {
                pixels.try_reserve_exact(self.input_numbers * samples)?;
            }
            Inputs::Tokens(numbers) | Inputs::Places(numbers) => {
                numbers.try_reserve_exact(self.input_numbers * samples)?;
            }
        }
        batch.labels.clear();
        batch.labels.try_reserve_exact(self.labels * samples)
    }
}

fn emptied<T>(mut numbers: Vec<T>) -> Vec<T> {
    numbers.clear();
    numbers
}
