//! A set of images, in memory, or read, decoded or generated when they are needed: compact pixels and labels.
//!
//! Owns [`ImageSet`]. Pixels stay bytes, unless they are to wait normalised; a batch is resized, augmented and scaled as it is
//! filled: each channel has mean 0 and deviation 1 over the training samples before augmentation, or as published weights expect
//! it. A mask is augmented with its image.

mod image_store;
mod keeping;
mod waiting;

use std::{borrow::Cow, ops::Range, sync::atomic::Ordering::Relaxed};

pub(super) use self::{
    image_store::{ImageStore, Samples, Streamed, held},
    waiting::Waiting,
};
use self::{
    image_store::{Labels, Sample, part, together},
    waiting::{normalised, resized},
};
use crate::{
    bytes::Bytes,
    data::{
        DatasetInfo, Skipped, Split,
        augment::Augment,
        device_layout::{Chunk, Integers},
        feed::Filling,
        images::{self, Images},
        kept::{Kept, KeptSizes},
        scaling::{self, Histograms, scaling},
        source::Store,
    },
    error::{Error, Result},
    experiment::{Data, Placement},
    rng::{Rng, Stream},
    sync::Mutex,
};

/// Training and test images of one choice of data and one seed.
#[derive(Debug)]
pub(super) struct ImageSet {
    source: ImageStore,
    /// The samples that are kept, if they are streamed.
    kept: Option<Kept>,
    /// Height, width and channels of an image in a batch.
    extents: [usize; 3],
    /// How it waits until then.
    waiting: Waiting,
    /// Labels of a sample.
    targets: usize,
    augment: Option<Augment>,
    /// `[2, width, channel]`: the factors of a row of an image, and the summands that are then added.
    scaling: Vec<f32>,
    seed: u64,
}

impl ImageSet {
    pub(super) fn new(source: ImageStore, facts: &DatasetInfo, data: &Data, seed: u64) -> Result<Self> {
        let extents = facts.image()?;
        let (augment, targets, waiting) = (Augment::new(data), facts.labels_per_sample, Waiting::of(data, facts));
        let mut set = Self { source, kept: None, extents, waiting, targets, augment, scaling: Vec::new(), seed };
        // The facts of the files as they are now.
        let now = DatasetInfo { train: set.count(Split::Train), test: set.count(Split::Test), ..*facts };
        set.kept = KeptSizes::of(data, &now).map(|sizes| Kept::new(data, sizes)).transpose()?;
        let constants = data.normalise.constants().filter(|_| data.kind.has_colours() && extents[2] == 3);
        set.scaling = match constants {
            Some(constants) => scaling::constant(constants, extents[1]),
            None => scaling(&set.histograms()?, extents),
        };
        if waiting.is_normalised {
            let source = std::mem::take(&mut set.source);
            set.source = normalised(source, |pixels, floats| set.as_floats(pixels, floats));
        }
        Ok(set)
    }

    /// How often each value is in each channel of some training images.
    fn histograms(&self) -> Result<Histograms> {
        let ImageStore::Files(images) = &self.source else {
            return self.source.histograms(self.waiting.extents, self.targets);
        };
        // They are decoded for it, and wait from then on if they wait as they are.
        let kept = self.kept.as_ref().filter(|kept| kept.sizes().copies.is_none() && !self.waiting.is_normalised);
        images.histograms(|index| match kept {
            Some(kept) => Ok(self.kept_sample(kept, Split::Train, index, 0, &mut Vec::new())?.pixels),
            None => images.pixels(Split::Train, index).map(Cow::Owned),
        })
    }

    /// A set without samples, that scales pictures as one with samples did: by a factor of each channel, then by summands.
    pub(super) fn known(facts: &DatasetInfo, by_channel: &[f32]) -> Result<Self> {
        let extents @ [_, width, channels] = facts.image()?;
        let (factors, summands) = by_channel.split_at(channels.min(by_channel.len()));
        let row = |of: &[f32]| of.iter().copied().cycle().take(width * channels).collect::<Vec<f32>>();
        let scaling = [row(factors), row(summands)].concat();
        let source = ImageStore::default();
        let (targets, waiting) = (facts.labels_per_sample, Waiting { extents, is_normalised: false });
        Ok(Self { source, kept: None, extents, waiting, targets, augment: None, scaling, seed: 0 })
    }

    /// Factor, then summand, of each channel.
    pub(super) fn by_channel(&self) -> Vec<f32> {
        let (factors, summands) = self.scaling.split_at(self.scaling.len() / 2);
        let channels = self.extents[2].min(factors.len());
        [&factors[..channels], &summands[..channels]].concat()
    }

    /// The bytes of it that are on a disk.
    pub(super) fn on_disk(&self) -> Bytes {
        self.kept.as_ref().map_or(Bytes::ZERO, Kept::on_disk)
    }

    /// Samples in a part.
    pub(super) fn count(&self, split: Split) -> usize {
        match &self.source {
            ImageStore::Held { train, test } => part(split, train, test).labels.len() / self.targets,
            ImageStore::Files(images) => images.count(split),
            ImageStore::Streamed(stream) => stream.count(split),
        }
    }

    /// The set's images, if they are files.
    fn files(&self) -> Option<&Images> {
        match &self.source {
            ImageStore::Held { .. } | ImageStore::Streamed(_) => None,
            ImageStore::Files(images) => Some(images),
        }
    }

    /// Whether its files are unchanged.
    pub(super) fn is_current(&self) -> bool {
        self.files().is_none_or(Images::is_current)
    }

    /// A checksum of the names of its files.
    pub(super) fn checksum(&self) -> Option<u32> {
        self.files().map(Images::checksum)
    }

    /// The images that could not be read so far.
    pub(super) fn skipped(&self) -> Option<Skipped> {
        self.files().and_then(Images::skipped)
    }

    /// The name of a class, where its source has one.
    pub(super) fn class_name(&self, class: usize) -> Option<String> {
        self.files().and_then(|images| images.class_name(class))
    }

    /// An image of the set's extents as it is in a batch, `[height, width, channel]`.
    pub(super) fn as_input(&self, pixels: &[u8]) -> Vec<f32> {
        let mut image = vec![0.0; pixels.len()];
        self.scale(pixels, &mut image);
        image
    }

    /// Pixels of a sample before it is varied and scaled.
    ///
    /// # Errors
    /// Fails for files that cannot be read.
    pub(super) fn pixels(&self, split: Split, index: usize) -> Result<Vec<u8>> {
        let pixels = self.read(split, index)?.pixels;
        if self.waiting.is_normalised && self.source.is_held() {
            return Ok(self.unscaled(&pixels));
        }
        Ok(resized(pixels, self.waiting.extents, self.extents).into_owned())
    }

    /// A sample as its source has it.
    fn read(&self, split: Split, index: usize) -> Result<Sample<'_>> {
        let size = if self.source.is_held() { self.waiting.bytes() } else { self.waiting.elements() };
        self.source.sample(split, index, size, self.targets)
    }

    #[cfg(test)]
    pub(super) fn label(&self, split: Split, index: usize) -> u32 {
        match self.read(split, index).expect("readable").labels {
            Labels::Class(class) => class,
            Labels::Each(labels) => u32::from(labels[0]),
        }
    }

    /// Factor, then summand, of a row of an image.
    pub(super) fn scaling(&self) -> &[f32] {
        &self.scaling
    }

    /// Fills `images` and `labels` with the samples at `indices`, those for training in their variants of `epoch`. Several
    /// threads share the work if images have to be made; the content of a batch does not depend on their number.
    ///
    /// # Errors
    /// Fails for files that cannot be read, and with [`Error::Stopped`] once that is asked for.
    pub(super) fn fill(
        &self,
        split: Split,
        epoch: u64,
        indices: impl ExactSizeIterator<Item = usize> + Send,
        (images, labels): (&mut Vec<f32>, &mut Vec<u32>),
        Filling { workers, over, .. }: Filling<'_>,
    ) -> Result<()> {
        let (size, count) = (self.extents.into_iter().product(), indices.len());
        images.resize(count * size, 0.0);
        labels.resize(count * self.targets, 0);
        let places = images.chunks_exact_mut(size).zip(labels.chunks_exact_mut(self.targets));
        let work = Mutex::new(places.zip(indices));
        let share = || {
            let mut variant = Vec::new();
            loop {
                let next = work.lock().next();
                let Some(((image, labels), index)) = next else { return Ok(()) };
                if over.load(Relaxed) {
                    return Err(Error::Stopped);
                }
                self.sample(split, index, epoch, &mut variant, image, labels)?;
            }
        };
        let threads = workers.min(count);
        if self.waiting.extents == self.extents {
            self.source.together(threads, share)
        } else {
            together(threads, share)
        }
    }

    /// Training samples of `rows`, as a device holds them.
    pub(super) fn chunk(&self, rows: Range<usize>, mut chunk: Chunk) -> Result<Chunk> {
        let size: usize = self.extents.into_iter().product();
        let mut pixels = vec![0; rows.len() * size];
        let mut labels = vec![0; rows.len() * self.targets];
        let places = pixels.chunks_exact_mut(size).zip(labels.chunks_exact_mut(self.targets));
        let count = rows.len();
        let work = Mutex::new(places.zip(rows));
        self.source.together(images::threads().min(count), || {
            loop {
                let next = work.lock().next();
                let Some(((pixels, labels), index)) = next else { return Ok(()) };
                let sample = self.read(Split::Train, index)?;
                pixels.copy_from_slice(&sample.pixels);
                sample.labels.write(labels);
            }
        })?;
        chunk.inputs = Integers::Bytes(pixels);
        chunk.labels.extend(labels);
        Ok(chunk)
    }

    /// Writes one sample as it is in `epoch`; `variant` is room for a variant.
    fn sample(
        &self,
        split: Split,
        index: usize,
        epoch: u64,
        variant: &mut Vec<u8>,
        image: &mut [f32],
        labels: &mut [u32],
    ) -> Result<()> {
        let augment = self.augment.filter(|_| split == Split::Train);
        let (sample, is_variant) = match &self.kept {
            None => (self.read(split, index)?, false),
            Some(kept) => (self.kept_sample(kept, split, index, epoch, variant)?, kept.sizes().copies.is_some()),
        };
        let pixels = resized(sample.pixels, self.waiting.extents, self.extents);
        let Some(augment) = augment.filter(|_| !is_variant) else {
            self.write(&pixels, image);
            sample.labels.write(labels);
            return Ok(());
        };
        if self.waiting.is_normalised {
            augment.apply_to_floats(&pixels, variant, self.extents, &self.black(), (self.seed, epoch, index));
        } else {
            augment.apply(&pixels, variant, self.extents, self.seed, epoch, index);
        }
        self.write(variant, image);
        match &sample.labels {
            Labels::Each(mask) if self.targets > 1 => {
                let [height, width, _] = self.extents;
                augment.apply_to_mask(mask, variant, [height, width], self.seed, epoch, index);
                labels.iter_mut().zip(variant).for_each(|(to, from)| *to = u32::from(*from));
            }
            own => own.write(labels),
        }
        Ok(())
    }

    /// Writes an image that waited to its place in a batch.
    fn write(&self, waited: &[u8], image: &mut [f32]) {
        if !self.waiting.is_normalised {
            return self.scale(waited, image);
        }
        let floats = waited.as_chunks().0;
        image.iter_mut().zip(floats).for_each(|(to, from)| *to = f32::from_ne_bytes(*from));
    }

    /// Writes the scaled pixels of one image.
    fn scale(&self, pixels: &[u8], image: &mut [f32]) {
        let row = self.scaling.len() / 2;
        let (scale, offset) = self.scaling.split_at(row);
        for (to, from) in image.chunks_exact_mut(row).zip(pixels.chunks_exact(row)) {
            for (((to, from), scale), offset) in to.iter_mut().zip(from).zip(scale).zip(offset) {
                *to = f32::from(*from) * scale + offset;
            }
        }
    }

    /// Adds the scaled pixels of images, each as the bytes of its float.
    fn as_floats(&self, pixels: &[u8], floats: &mut Vec<u8>) {
        let row = self.scaling.len() / 2;
        let mut scaled = vec![0.0; row];
        for pixels in pixels.chunks_exact(row) {
            self.scale(pixels, &mut scaled);
            floats.extend_from_slice(bytemuck::cast_slice(&scaled));
        }
    }

    /// The pixels that became these floats.
    fn unscaled(&self, floats: &[u8]) -> Vec<u8> {
        let (scale, offset) = self.scaling.split_at(self.scaling.len() / 2);
        let by_place = scale.iter().zip(offset).cycle();
        let floats = floats.as_chunks().0.iter().map(|float| f32::from_ne_bytes(*float));
        // A cast saturates.
        floats.zip(by_place).map(|(value, (scale, offset))| ((value - offset) / scale).round() as u8).collect()
    }

    /// A black pixel that waits normalised.
    fn black(&self) -> Vec<u8> {
        let (_, offset) = self.scaling.split_at(self.scaling.len() / 2);
        bytemuck::cast_slice(&offset[..self.extents[2]]).to_vec()
    }
}

/// Host bytes of the pixels and labels of all samples, as they wait.
pub(super) fn held_bytes(data: &Data, facts: &DatasetInfo) -> usize {
    (facts.train + facts.test) * (Waiting::of(data, facts).bytes() + facts.labels_per_sample)
}

/// Generated samples where `data` places them: `all` of them in memory, or made when they are asked for.
pub(super) fn placed<S: Streamed + 'static>(
    data: &Data,
    samples: S,
    all: impl FnOnce(&S) -> (Samples, Samples),
) -> Store {
    Store::Images(match data.placement {
        Placement::Host => held(all(&samples)),
        Placement::Streamed | Placement::Device => ImageStore::Streamed(Box::new(samples)),
    })
}

/// Host bytes of samples that `data` places in host memory; zero for other places.
pub(super) fn placed_bytes(data: &Data, facts: &DatasetInfo) -> usize {
    if data.placement == Placement::Host { held_bytes(data, facts) } else { 0 }
}

/// Divides samples, by number, into those for training and `test` for testing. The seed decides which; each class gives
/// its share, to within one sample.
pub(super) fn split<C: Copy + Into<usize>>(seed: u64, classes: &[C], test: usize) -> (Vec<u32>, Vec<u32>) {
    let mut order: Vec<u32> = (0..classes.len() as u32).collect();
    Rng::new(seed, Stream::Split, 0).shuffle(&mut order);
    let class = |index: u32| -> usize { classes[index as usize].into() };
    let most = order.iter().map(|index| class(*index)).max().unwrap_or(0);
    let mut sizes = vec![0u32; most + 1];
    order.iter().for_each(|index| sizes[class(*index)] += 1);
    // Each sample's rank in its class, as a share of the class: the lowest shares of all classes are held out.
    let mut ranks = vec![0u32; most + 1];
    let mut shares: Vec<(f32, u32)> = Vec::with_capacity(order.len());
    for index in order {
        let class = class(index);
        shares.push(((ranks[class] as f32 + 0.5) / sizes[class] as f32, index));
        ranks[class] += 1;
    }
    shares.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let numbers = |part: &[(f32, u32)]| part.iter().map(|(_, index)| *index).collect();
    let (held_out, rest) = shares.split_at(test);
    (numbers(rest), numbers(held_out))
}

#[cfg(test)]
mod tests;
