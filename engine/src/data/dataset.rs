//! A set of images in memory: compact pixels, labels, and the scaling to what a network likes.
//!
//! Owns [`Dataset`], which never changes once it is open and is shared by `Arc` between runs and threads. Pixels stay
//! bytes; a batch is scaled as it is filled, so that each channel has mean 0 and standard deviation 1 over the training
//! samples. What it holds is not counted as a run's memory: it outlives runs.

use crate::{
    data::{Facts, cifar, digits, facts, folder, idx, loader::HostBatch, shapes},
    error::Result,
    experiment::{Data, DataKind, Run},
    memory::probe::uncounted,
    rng::{Rng, Stream},
};

/// Images that decide the scaling: enough for three figures of mean and deviation.
const SCALED_BY: usize = 10_000;

/// Which part of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Split {
    /// For training.
    Train,
    /// Held out for testing.
    Test,
}

/// Samples as their source gives them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Samples {
    /// `[sample, height, width, channel]`.
    pub(super) pixels: Vec<u8>,
    /// One a sample, below the number of classes.
    pub(super) labels: Vec<u8>,
}

/// Training and test samples of one choice of data and one seed.
#[derive(Debug)]
pub struct Dataset {
    facts: Facts,
    train: Samples,
    test: Samples,
    /// `[width, channel]`: what a row of an image is multiplied by, and what is then added.
    scale: Vec<f32>,
    offset: Vec<f32>,
    chosen: Data,
    seed: u64,
}

impl Dataset {
    /// Reads or generates the samples.
    ///
    /// # Errors
    /// Those of [`facts`], and whatever is wrong deeper in the files.
    pub fn open(data: &Data, run: &Run) -> Result<Self> {
        uncounted(|| {
            let facts = facts(data, run)?;
            let (train, test) = match data.kind {
                DataKind::Digits => digits::open(&facts, run.seed)?,
                DataKind::Shapes => shapes::open(&facts, run.seed),
                DataKind::Idx => idx::open(folder(data)?)?,
                DataKind::Cifar10 => cifar::CIFAR10.open(folder(data)?)?,
                DataKind::Cifar100 => cifar::CIFAR100.open(folder(data)?)?,
            };
            // Files may have changed since their headers were read: what was read is what counts.
            let facts = Facts { train: train.labels.len(), test: test.labels.len(), ..facts };
            let (scale, offset) = scaling(&train.pixels, &facts);
            Ok(Self { facts, train, test, scale, offset, chosen: data.clone(), seed: run.seed })
        })
    }

    /// What a model must know of it.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Whether this is the set that `data` and `run` choose, so that it need not be opened again.
    pub fn is_for(&self, data: &Data, run: &Run) -> bool {
        self.chosen == *data && self.seed == run.seed
    }

    /// Samples in a part.
    pub fn count(&self, split: Split) -> usize {
        self.samples(split).labels.len()
    }

    /// Class of a sample. Panics past the end of the part.
    pub fn label(&self, split: Split, index: usize) -> u32 {
        u32::from(self.samples(split).labels[index])
    }

    /// Pixels of a sample before scaling, `[height, width, channel]`. Panics past the end of the part.
    pub fn pixels(&self, split: Split, index: usize) -> &[u8] {
        let size = self.facts.pixels();
        &self.samples(split).pixels[index * size..][..size]
    }

    /// Replaces the batch's samples by those at `indices`, scaled; allocates only what its buffers lack.
    pub(super) fn fill(&self, split: Split, indices: impl ExactSizeIterator<Item = usize>, batch: &mut HostBatch) {
        let size = self.facts.pixels();
        batch.len = indices.len();
        batch.images.resize(batch.len * size, 0.0);
        batch.labels.resize(batch.len, 0);
        let row = self.scale.len();
        let places = batch.images.chunks_exact_mut(size).zip(&mut batch.labels);
        for ((image, label), index) in places.zip(indices) {
            *label = self.label(split, index);
            let pixels = self.pixels(split, index);
            for (to, from) in image.chunks_exact_mut(row).zip(pixels.chunks_exact(row)) {
                for (((to, from), scale), offset) in to.iter_mut().zip(from).zip(&self.scale).zip(&self.offset) {
                    *to = f32::from(*from) * scale + offset;
                }
            }
        }
    }

    fn samples(&self, split: Split) -> &Samples {
        match split {
            Split::Train => &self.train,
            Split::Test => &self.test,
        }
    }
}

impl Drop for Dataset {
    /// As it was allocated: without counting, on whatever thread the last owner is.
    fn drop(&mut self) {
        let Self { train, test, scale, offset, chosen, .. } = self;
        uncounted(|| {
            drop((std::mem::take(train), std::mem::take(test)));
            drop((std::mem::take(scale), std::mem::take(offset), chosen.path.take()));
        });
    }
}

/// Divides samples, by number, into those for training and `test` for testing. The seed decides which; each class gives
/// its share, to within one sample.
pub(super) fn split(seed: u64, classes: &[u8], test: usize) -> (Vec<u32>, Vec<u32>) {
    let mut order: Vec<u32> = (0..classes.len() as u32).collect();
    Rng::new(seed, Stream::Split, 0).shuffle(&mut order);
    let class = |index: u32| usize::from(classes[index as usize]);
    let mut sizes = [0u32; 256];
    order.iter().for_each(|index| sizes[class(*index)] += 1);
    // Each sample's rank in its class, as a share of the class: the lowest shares of all classes are held out.
    let mut ranks = [0u32; 256];
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

/// Factor and summand by place in a row, that give each channel of the training samples mean 0 and deviation 1.
fn scaling(pixels: &[u8], facts: &Facts) -> (Vec<f32>, Vec<f32>) {
    let mut histograms = vec![[0u64; 256]; facts.channels];
    for pixel in pixels.chunks_exact(facts.channels).take(SCALED_BY * facts.height * facts.width) {
        for (histogram, value) in histograms.iter_mut().zip(pixel) {
            histogram[usize::from(*value)] += 1;
        }
    }
    let by_channel: Vec<(f32, f32)> = histograms
        .iter()
        .map(|histogram| {
            let values = || histogram.iter().enumerate().map(|(value, n)| (value as f64, *n as f64));
            let count: f64 = values().map(|(_, n)| n).sum();
            let mean = values().map(|(v, n)| v * n).sum::<f64>() / count;
            let variance = values().map(|(v, n)| (v - mean).powi(2) * n).sum::<f64>() / count;
            // A channel that never varies stays at zero, and a rare bright pixel is not blown up.
            let deviation = variance.sqrt().max(1.0);
            ((1.0 / deviation) as f32, (-mean / deviation) as f32)
        })
        .collect();
    let row = by_channel.iter().cycle().take(facts.width * facts.channels);
    row.copied().unzip()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn open(kind: DataKind, seed: u64) -> Dataset {
        let data = Data { kind, samples: 500, ..Data::default() };
        Dataset::open(&data, &Run { seed, ..Run::default() }).expect("ships with the program")
    }

    #[test]
    fn the_split_is_disjoint_complete_and_decided_by_the_seed() {
        let classes: Vec<u8> = (0..1797).map(|i| (i % 7) as u8).collect();
        let (train, test) = split(3, &classes, 359);
        assert_eq!((train.len(), test.len()), (1438, 359));
        assert_eq!(train.iter().chain(&test).collect::<HashSet<_>>().len(), 1797);
        assert_eq!((train, test.clone()), split(3, &classes, 359));
        assert_ne!(test, split(4, &classes, 359).1);

        let counts = |set: &Dataset| {
            let mut images: Vec<Vec<u8>> = [Split::Train, Split::Test]
                .into_iter()
                .flat_map(|split| (0..set.count(split)).map(move |i| (split, i)))
                .map(|(split, i)| set.pixels(split, i).to_vec())
                .collect();
            images.sort_unstable();
            images
        };
        // Whatever the seed, both parts together are the same samples.
        assert_eq!(counts(&open(DataKind::Digits, 1)), counts(&open(DataKind::Digits, 2)));
    }

    #[test]
    fn every_class_is_in_both_parts_in_about_equal_numbers() {
        for kind in [DataKind::Digits, DataKind::Shapes] {
            let set = open(kind, 1);
            for split in [Split::Train, Split::Test] {
                let mut counts = [0usize; 10];
                (0..set.count(split)).for_each(|i| counts[set.label(split, i) as usize] += 1);
                let expected = set.count(split) / 10;
                let tolerated = if kind == DataKind::Shapes { 1 } else { expected / 10 };
                assert!(counts.iter().all(|n| n.abs_diff(expected) <= tolerated), "{kind:?} {split:?} {counts:?}");
            }
        }
    }

    #[test]
    fn training_images_have_mean_zero_and_deviation_one() {
        for kind in [DataKind::Digits, DataKind::Shapes] {
            let set = open(kind, 1);
            let mut batch = HostBatch::default();
            set.fill(Split::Train, 0..set.count(Split::Train), &mut batch);
            let n = batch.images.len() as f64;
            let mean = batch.images.iter().map(|x| f64::from(*x)).sum::<f64>() / n;
            let variance = batch.images.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>() / n;
            assert!(mean.abs() < 1e-3 && (variance - 1.0).abs() < 1e-3, "{kind:?} {mean} {variance}");
        }
    }

    #[test]
    fn a_set_knows_which_choice_it_is_for() {
        let set = open(DataKind::Shapes, 1);
        let data = Data { kind: DataKind::Shapes, samples: 500, ..Data::default() };
        assert!(set.is_for(&data, &Run { steps: Some(3), ..Run::default() }));
        assert!(!set.is_for(&data, &Run { seed: 2, ..Run::default() }));
        assert!(!set.is_for(&Data { samples: 501, ..data }, &Run::default()));
    }

    #[test]
    fn an_image_that_never_varies_is_scaled_to_zero() {
        let facts = Facts { height: 1, width: 2, channels: 1, classes: 10, train: 2, test: 1 };
        let (scale, offset) = scaling(&[7; 4], &facts);
        assert_eq!((scale, offset), (vec![1.0; 2], vec![-7.0; 2]));
    }
}
