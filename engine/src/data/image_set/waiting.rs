//! The form in which images wait, in host memory or on a disk, until a batch is made of them.
//!
//! Owns [`Waiting`], the one place that knows how many bytes such an image takes. Always holds: a batch is the same for either
//! time of normalising.

use std::borrow::Cow;

use super::{ImageStore, Samples, image_store::held};
use crate::{
    data::{Input, resize},
    experiment::{Data, DatasetInfo},
};

/// The form in which images wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::data) struct Waiting {
    /// Height, width and channels: those of a batch, or those of images that are resized when a batch is made.
    pub(in crate::data) extents: [usize; 3],
    /// Whether they are scaled already: floats in the place of bytes.
    pub(in crate::data) is_normalised: bool,
}

impl Waiting {
    /// The form that `data` chooses for images of `facts`.
    pub(in crate::data) fn of(data: &Data, facts: &DatasetInfo) -> Self {
        let extents = match facts.input {
            Input::Image { channels, .. } if data.is_resized_on_the_fly() => {
                [data.loaded_side(), data.loaded_side(), channels]
            }
            Input::Image { height, width, channels } => [height, width, channels],
            Input::Tokens { length, .. } => [1, length, 1],
        };
        Self { extents, is_normalised: data.is_normalised_beforehand() }
    }

    /// Numbers of an image.
    pub(in crate::data) fn elements(&self) -> usize {
        self.extents.into_iter().product()
    }

    /// Bytes of a number.
    pub(in crate::data) fn element_bytes(&self) -> usize {
        if self.is_normalised { size_of::<f32>() } else { size_of::<u8>() }
    }

    /// Bytes of an image.
    pub(in crate::data) fn bytes(&self) -> usize {
        self.elements() * self.element_bytes()
    }

    /// Bytes that are held beyond those of all images, while a set of them is normalised that was read as bytes: first the
    /// images for training, next to their bytes, then those for testing.
    pub(in crate::data) fn normalising_bytes(&self, train: usize, test: usize) -> usize {
        // A row of floats, and the lists that are small.
        const BESIDE: usize = 1024;
        let [_, width, channels] = self.extents;
        let row = width * channels * size_of::<f32>();
        let more = train.saturating_sub(3 * test).max(test) * self.elements();
        if self.is_normalised { more + row + BESIDE } else { 0 }
    }

    /// Bytes that a thread works in to bring an image to the extents of a batch.
    pub(in crate::data) fn resizing_bytes(&self, [side, _, channels]: [usize; 3]) -> usize {
        let from = self.extents[0];
        if from == side { 0 } else { resize::scratch(from, side) + side * side * channels }
    }
}

/// The same images of `source` as they wait if they are normalised by `scaled`.
pub(super) fn normalised(source: ImageStore, scaled: impl Fn(&[u8], &mut Vec<u8>)) -> ImageStore {
    let ImageStore::Held { train, test } = source else { return source };
    let each = |Samples { pixels, labels }: Samples| {
        let mut floats = Vec::with_capacity(pixels.len() * size_of::<f32>());
        scaled(&pixels, &mut floats);
        Samples { pixels: floats, labels }
    };
    let train = each(train);
    held((train, each(test)))
}

/// The red, green and blue of a square image at another size.
pub(super) fn resized<'a>(pixels: Cow<'a, [u8]>, from: [usize; 3], to: [usize; 3]) -> Cow<'a, [u8]> {
    if from == to { pixels } else { Cow::Owned(resize::pixels(&pixels, from[0], to[0])) }
}
