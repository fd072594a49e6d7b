//! Batches in host memory, and how much room one takes.
//!
//! Owns [`HostBatch`], [`Inputs`] and [`BatchLayout`]. Always holds: a batch is of the layout it was last prepared for, and
//! its buffers grow in [`BatchLayout::prepare`] alone.

use std::collections::TryReserveError;

use crate::{
    data::{DatasetInfo, Input, Split},
    experiment::{Data, Placement},
    tensor::HostSlice,
};

/// The inputs of a batch.
#[derive(Debug, Clone, PartialEq)]
pub enum Inputs {
    /// `[len, height, width, channel]`, scaled to mean 0 and deviation 1; or the features of rows of a table.
    Images(Vec<f32>),
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
            Self::Tokens(numbers) | Self::Places(numbers) => HostSlice::U32(numbers),
        }
    }
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
        batch.inputs = match (self.kind, inputs) {
            (InputsKind::Images, Inputs::Images(pixels)) => Inputs::Images(emptied(pixels)),
            (InputsKind::Images, Inputs::Tokens(_) | Inputs::Places(_)) => Inputs::Images(Vec::new()),
            (InputsKind::Tokens, Inputs::Tokens(numbers) | Inputs::Places(numbers)) => Inputs::Tokens(emptied(numbers)),
            (InputsKind::Tokens, Inputs::Images(_)) => Inputs::Tokens(Vec::new()),
            (InputsKind::Places, Inputs::Tokens(numbers) | Inputs::Places(numbers)) => Inputs::Places(emptied(numbers)),
            (InputsKind::Places, Inputs::Images(_)) => Inputs::Places(Vec::new()),
        };
        match &mut batch.inputs {
            Inputs::Images(pixels) => pixels.try_reserve_exact(self.input_numbers * samples)?,
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
