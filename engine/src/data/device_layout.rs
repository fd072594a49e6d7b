//! A training set as a device holds it: all of it, once, at its compact type.
//!
//! Owns the layout ([`DeviceDatasetLayout`]) and the numbers on their way ([`Chunk`]); the host needs room for them only chunk
//! by chunk. Images are bytes, not yet scaled, with labels; sequences are their rows, and their labels are the tokens that
//! follow.

use std::ops::Range;

use crate::{
    data::{DatasetInfo, Input, source},
    experiment::Data,
    tensor::{DType, HostSlice, Shape},
};

/// Shapes and types of a training set on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceDatasetLayout {
    /// Images `[samples, height, width, channels]`, or rows of tokens.
    pub inputs: (Shape, DType),
    /// `[samples, labels of a sample]`; `None` for sequences.
    pub labels: Option<(Shape, DType)>,
    /// `[2, width * channels]`, f32: factor and summand of a row of an image; `None` for sequences.
    pub scaling: Option<Shape>,
}

impl DeviceDatasetLayout {
    /// The layout of the training set of `data`.
    pub fn new(data: &Data, facts: &DatasetInfo) -> Self {
        // The narrowest type that has `values` different values.
        let compact = |values: usize| if values <= 256 { DType::U8 } else { DType::U32 };
        let shape = source::of(data).device_shape(facts);
        match facts.input {
            Input::Image { width, channels, .. } => Self {
                inputs: (shape, DType::U8),
                labels: Some(([facts.train, facts.labels_per_sample].into(), compact(facts.classes))),
                scaling: Some([2, width * channels].into()),
            },
            Input::Tokens { vocabulary, .. } => {
                Self { inputs: (shape, compact(vocabulary)), labels: None, scaling: None }
            }
        }
    }

    /// The rows of the first dimension, cut into chunks that are uploaded one after another.
    pub(super) fn chunks(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        /// Bytes of a chunk: less than the gradients and activations that come after it, so that it is never in the peak.
        const BYTES: usize = 256 << 10;
        let (shape, dtype) = self.inputs;
        let count = shape.first();
        // Labels are made as words before they are compact.
        let labels = self.labels.map_or(0, |(shape, dtype)| shape.elements() * (dtype.size() + DType::U32.size()));
        let step = (BYTES / ((shape.elements() * dtype.size() + labels) / count.max(1)).max(1)).max(1);
        (0..count).step_by(step).map(move |start| start..(start + step).min(count))
    }
}

/// Some rows of a training set, on their way to a device.
#[derive(Debug)]
pub struct Chunk {
    /// The inputs: as many numbers as the rows of [`DeviceDatasetLayout::inputs`] have.
    pub inputs: Integers,
    /// The labels: as many numbers as the rows of [`DeviceDatasetLayout::labels`] have; empty for sequences.
    pub labels: Integers,
}

/// Integers at a compact type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Integers {
    /// Numbers below 256.
    Bytes(Vec<u8>),
    /// All other numbers.
    Words(Vec<u32>),
}

impl Integers {
    /// No numbers yet, for elements of `dtype`.
    pub(super) fn new(dtype: DType) -> Self {
        if dtype == DType::U8 { Self::Bytes(Vec::new()) } else { Self::Words(Vec::new()) }
    }

    /// No numbers yet, for numbers below `values`.
    pub(super) fn below(values: usize) -> Self {
        if values <= 256 { Self::Bytes(Vec::new()) } else { Self::Words(Vec::new()) }
    }

    /// Adds numbers that the type has.
    pub(super) fn extend(&mut self, numbers: impl IntoIterator<Item = u32>) {
        match self {
            Self::Bytes(bytes) => bytes.extend(numbers.into_iter().map(|number| number as u8)),
            Self::Words(words) => words.extend(numbers),
        }
    }

    /// Adds all of `other`, which is of the same type.
    pub(super) fn append(&mut self, other: Self) {
        match (self, other) {
            (Self::Bytes(own), Self::Bytes(other)) => own.extend(other),
            (Self::Words(own), Self::Words(other)) => own.extend(other),
            (own, Self::Bytes(other)) => own.extend(other.into_iter().map(u32::from)),
            (own, Self::Words(other)) => own.extend(other),
        }
    }

    /// Makes room for exactly `count`.
    pub(super) fn reserve(&mut self, count: usize) {
        match self {
            Self::Bytes(bytes) => bytes.reserve_exact(count),
            Self::Words(words) => words.reserve_exact(count),
        }
    }

    /// Writes the numbers of `range` to `to`.
    pub(super) fn copy_to(&self, range: Range<usize>, to: &mut [u32]) {
        match self {
            Self::Bytes(bytes) => to.iter_mut().zip(&bytes[range]).for_each(|(to, from)| *to = u32::from(*from)),
            Self::Words(words) => to.copy_from_slice(&words[range]),
        }
    }

    /// For a tensor of the same type.
    pub fn slice(&self) -> HostSlice<'_> {
        match self {
            Self::Bytes(bytes) => HostSlice::U8(bytes),
            Self::Words(words) => HostSlice::U32(words),
        }
    }
}
