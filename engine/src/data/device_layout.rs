//! A training set as a device holds it: all of it, once, at its compact type.
//!
//! Owns the layout ([`DeviceDatasetLayout`]) and the numbers on their way ([`Chunk`]); the host needs room for them only chunk
//! by chunk. Images are bytes, not yet scaled, with labels; sequences are their rows, and their labels are the tokens that
//! follow.

use std::ops::Range;

use crate::{
    bytes::Bytes,
    data::{DatasetInfo, Input, images, source},
    experiment::Data,
    tensor::{DType, HostSlice, Shape},
};

/// Bytes of a small chunk: less than the gradients and activations that come after it, so that it is never in the peak.
const SMALL: usize = 256 << 10;

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
        let (count, step) = (self.inputs.0.first(), self.rows_of_chunk());
        (0..count).step_by(step).map(move |start| start..(start + step).min(count))
    }

    /// Bytes that the largest chunk takes in host memory. Its heap may still have them when the memory peaks.
    pub(super) fn chunk(&self) -> Bytes {
        Bytes((self.rows_of_chunk().min(self.inputs.0.first()) * self.bytes_of_row()) as u64)
    }

    /// As many rows as a small chunk has room for. Images are made by threads, so a chunk has some for each of them.
    fn rows_of_chunk(&self) -> usize {
        /// Images of a chunk for each thread: fewer would let threads wait for the last one of a chunk.
        const IMAGES: usize = 8;
        /// Bytes of a chunk of images at most, unless one of them has more.
        const MOST: usize = 8 << 20;
        let row = self.bytes_of_row();
        let for_threads = if self.labels.is_some() { (IMAGES * images::threads()).min(MOST / row) } else { 0 };
        (SMALL / row).max(for_threads).max(1)
    }

    /// Bytes of host memory for a row, at least one. Labels are made as words before they are compact.
    fn bytes_of_row(&self) -> usize {
        let (shape, dtype) = self.inputs;
        let labels = self.labels.map_or(0, |(shape, dtype)| shape.elements() * (dtype.size() + DType::U32.size()));
        ((shape.elements() * dtype.size() + labels) / shape.first().max(1)).max(1)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn of_images(count: usize, side: usize) -> DeviceDatasetLayout {
        let inputs = (Shape::from([count, side, side, 3]), DType::U8);
        DeviceDatasetLayout {
            inputs,
            labels: Some(([count, 1].into(), DType::U8)),
            scaling: Some([2, side * 3].into()),
        }
    }

    #[test]
    fn chunks_hold_each_row_once_and_work_for_every_thread() {
        for (count, side) in [(1, 8), (5000, 32), (300, 224), (7, 1000), (3, 3000)] {
            let layout = of_images(count, side);
            let chunks: Vec<Range<usize>> = layout.chunks().collect();
            assert!(chunks.iter().cloned().flatten().eq(0..count), "{count} of {side}: {chunks:?}");
            let most = chunks.iter().map(ExactSizeIterator::len).max().expect("a chunk");
            let row = side * side * 3 + 5;
            assert!(most == 1 || most * row <= 8 << 20, "{count} of {side}: {most}");
            let has_work = most >= 8 * images::threads() || (most + 1) * row > 8 << 20 || most == count;
            assert!(has_work, "{count} of {side}: {most}");
            assert_eq!(layout.chunk().0 as usize, most * row, "{count} of {side}");
        }
    }

    #[test]
    fn rows_of_tokens_are_uploaded_in_small_chunks() {
        let layout = DeviceDatasetLayout { inputs: ([100_000, 64].into(), DType::U8), labels: None, scaling: None };
        assert!(layout.chunks().all(|rows| rows.len() * 64 <= 256 << 10));
        assert_eq!(layout.chunk(), Bytes::kib(256));
    }
}
