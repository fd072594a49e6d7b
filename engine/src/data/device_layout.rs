//! A training set as a device holds it: all of it, once, at its compact type.
//!
//! Owns what is there ([`DeviceDatasetLayout`]) and the numbers on their way ([`Chunk`]), for which the host needs room only part by part.
//! Images are bytes, not yet scaled, with labels beside them; sequences are their rows, and their labels are the tokens
//! that follow.

use std::ops::Range;

use crate::{
    backend::{DType, HostSlice, Shape},
    data::{Dataset, Facts, Input},
    error::Result,
    experiment::{Data, DataKind},
};

/// The extents and types of what a device holds of a training set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceDatasetLayout {
    /// Images `[samples, height, width, channels]`, or rows of tokens.
    pub inputs: (Shape, DType),
    /// `[samples, targets]`; `None` for sequences.
    pub labels: Option<(Shape, DType)>,
    /// `[2, width * channels]`, f32: factor and summand of a row of an image; `None` for sequences.
    pub scaling: Option<Shape>,
}

impl DeviceDatasetLayout {
    /// What the training set of `data` takes.
    pub fn new(data: &Data, facts: &Facts) -> Self {
        // The narrowest type that has `values` different values.
        let compact = |values: usize| if values <= 256 { DType::U8 } else { DType::U32 };
        match facts.input {
            Input::Image { width, channels, .. } => Self {
                inputs: (facts.input.shape(facts.train), DType::U8),
                labels: Some(([facts.train, facts.targets].into(), compact(facts.classes))),
                scaling: Some([2, width * channels].into()),
            },
            Input::Tokens { length, vocabulary } => {
                let shape = match data.kind {
                    // Windows overlap by a byte, and move by less than their length from epoch to epoch.
                    DataKind::Text => [facts.train + 1, length],
                    _ => [facts.train, length + 1],
                };
                Self { inputs: (shape.into(), compact(vocabulary)), labels: None, scaling: None }
            }
        }
    }

    /// Rows of its first dimension that are copied at once.
    fn rows_at_once(&self) -> usize {
        /// Numbers of a part: some tens of megabytes at most.
        const NUMBERS: usize = 8 << 20;
        let shape = self.inputs.0;
        (NUMBERS / (shape.elements() / shape.first().max(1)).max(1)).max(1)
    }

    /// Hands all of `dataset` to `take`, chunk by chunk, in order.
    ///
    /// # Errors
    /// Files that cannot be read; those of `take`.
    pub fn upload(&self, dataset: &Dataset, mut take: impl FnMut(Range<usize>, &Chunk) -> Result<()>) -> Result<()> {
        let (count, step) = (self.inputs.0.first(), self.rows_at_once());
        for start in (0..count).step_by(step) {
            let rows = start..(start + step).min(count);
            take(rows.clone(), &dataset.part(self, rows)?)?;
        }
        Ok(())
    }
}

/// Some rows of a training set.
#[derive(Debug)]
pub struct Chunk {
    /// As many as the rows of [`DeviceDatasetLayout::inputs`] have.
    pub inputs: Integers,
    /// The same of [`DeviceDatasetLayout::labels`]; empty for sequences.
    pub labels: Integers,
}

/// Integers at a compact type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Integers {
    /// Below 256.
    Bytes(Vec<u8>),
    /// All others.
    Words(Vec<u32>),
}

impl Integers {
    /// None yet, at `dtype`.
    pub(super) fn new(dtype: DType) -> Self {
        if dtype == DType::U8 { Self::Bytes(Vec::new()) } else { Self::Words(Vec::new()) }
    }

    /// Those below `values`.
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

    /// Writes those of `range` to `to`.
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
