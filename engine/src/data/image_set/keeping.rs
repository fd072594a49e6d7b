//! Kept samples of a streamed set: a sample is found in its place, or made and kept.

use std::borrow::Cow;

use super::{ImageSet, ImageStore, Labels, Sample};
use crate::{
    data::{Split, augment, kept::Kept},
    error::{Error, Result},
};

impl ImageSet {
    /// A kept sample: as it is, or the variant that `epoch` draws. It is made first if it is not kept yet.
    pub(super) fn kept_sample<'a>(
        &'a self,
        kept: &'a Kept,
        split: Split,
        index: usize,
        epoch: u64,
        variant: &mut Vec<u8>,
    ) -> Result<Sample<'a>> {
        let copies = kept.sizes().copies.filter(|_| split == Split::Train);
        let copy = copies.map_or(0, |copies| augment::drawn(self.seed, epoch, index, copies));
        let found = match kept.get(split, index, copy)? {
            Some(found) => found,
            None => {
                self.keep(kept, split, index, variant)?;
                kept.get(split, index, copy)?.ok_or(Error::Stopped)?
            }
        };
        let size = self.waiting.bytes();
        let labels = match &self.source {
            ImageStore::Files(images) => Labels::Class(images.label(split, index)),
            ImageStore::Held { .. } | ImageStore::Streamed(_) => match &found {
                Cow::Borrowed(found) => Labels::Each(Cow::Borrowed(&found[size..])),
                Cow::Owned(found) => Labels::Each(Cow::Owned(found[size..].to_vec())),
            },
        };
        let pixels = match found {
            Cow::Borrowed(found) => Cow::Borrowed(&found[..size]),
            Cow::Owned(mut found) => {
                found.truncate(size);
                Cow::Owned(found)
            }
        };
        Ok(Sample { pixels, labels })
    }

    /// Reads, decodes or generates a sample, and keeps it or its variants. Variant `n` is the one that epoch `n` would make.
    fn keep(&self, kept: &Kept, split: Split, index: usize, variant: &mut Vec<u8>) -> Result<()> {
        let sample = self.read(split, index)?;
        let mask = match &sample.labels {
            Labels::Each(own) => &own[..],
            Labels::Class(_) => &[],
        };
        let varied = kept.sizes().copies.zip(self.augment).filter(|_| split == Split::Train);
        kept.put(split, index, |bytes| {
            let add = |pixels: &[u8], bytes: &mut Vec<u8>| match self.waiting.is_normalised {
                true => self.as_floats(pixels, bytes),
                false => bytes.extend_from_slice(pixels),
            };
            let Some((copies, augment)) = varied else {
                add(&sample.pixels, bytes);
                bytes.extend_from_slice(mask);
                return;
            };
            let [height, width, _] = self.extents;
            for copy in 0..copies as u64 {
                augment.apply(&sample.pixels, variant, self.extents, self.seed, copy, index);
                add(variant, bytes);
                if self.targets > 1 {
                    augment.apply_to_mask(mask, variant, [height, width], self.seed, copy, index);
                    bytes.extend_from_slice(variant);
                } else {
                    bytes.extend_from_slice(mask);
                }
            }
        })
    }
}
