//! The place of a set's samples: in memory, in files, or nowhere before they are asked for.

use std::{borrow::Cow, fmt};

use crate::{
    data::{
        Split,
        images::{self, Images},
        scaling::Histograms,
    },
    error::{Error, Result},
    memory::probe::{meter_of_this_thread, meter_this_thread},
    sync::Mutex,
};

/// Images that decide the scaling: enough for three figures of mean and deviation.
const SCALED_BY: usize = 10_000;

/// Samples as their source gives them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::data) struct Samples {
    /// `[sample, height, width, channel]`.
    pub(in crate::data) pixels: Vec<u8>,
    /// `[sample, target]`, each below the number of classes.
    pub(in crate::data) labels: Vec<u8>,
}

/// Where a set's samples are.
#[derive(Debug)]
pub(in crate::data) enum ImageStore {
    /// Samples in memory.
    Held { train: Samples, test: Samples },
    /// Samples in files, decoded when they are needed.
    Files(Images),
    /// Read or generated when they are asked for.
    Streamed(Box<dyn Streamed>),
}

/// A source that gives one sample at a time.
pub(in crate::data) trait Streamed: fmt::Debug + Send + Sync {
    /// Samples in a part.
    fn count(&self, split: Split) -> usize;

    /// Writes pixels and labels of a sample.
    ///
    /// # Errors
    /// Fails when a file can no longer be read as it was.
    fn read(&self, split: Split, index: usize, pixels: &mut [u8], labels: &mut [u8]) -> Result<()>;

    /// Whether several threads at once are quicker than one.
    fn is_work(&self) -> bool;
}

/// One sample: where it lies, or as it was read.
pub(super) struct Sample<'a> {
    pub(super) pixels: Cow<'a, [u8]>,
    pub(super) labels: Labels<'a>,
}

pub(super) enum Labels<'a> {
    Class(u32),
    Each(Cow<'a, [u8]>),
}

/// Frees the memory that the reader allocated beyond the samples.
pub(in crate::data) fn held((mut train, mut test): (Samples, Samples)) -> ImageStore {
    for Samples { pixels, labels } in [&mut train, &mut test] {
        pixels.shrink_to_fit();
        labels.shrink_to_fit();
    }
    ImageStore::Held { train, test }
}

pub(super) fn part<'a>(split: Split, train: &'a Samples, test: &'a Samples) -> &'a Samples {
    match split {
        Split::Train => train,
        Split::Test => test,
    }
}

impl Labels<'_> {
    pub(super) fn write(&self, labels: &mut [u32]) {
        match self {
            Self::Class(class) => labels[0] = *class,
            Self::Each(own) => labels.iter_mut().zip(&**own).for_each(|(to, from)| *to = u32::from(*from)),
        }
    }
}

impl Default for ImageStore {
    fn default() -> Self {
        Self::Held { train: Samples::default(), test: Samples::default() }
    }
}

impl ImageStore {
    /// Whether its samples are in memory.
    pub(super) fn is_held(&self) -> bool {
        matches!(self, Self::Held { .. })
    }

    /// A sample, of `size` bytes and `targets` labels, as it is here. Panics past the end of the part.
    pub(super) fn sample(&self, split: Split, index: usize, size: usize, targets: usize) -> Result<Sample<'_>> {
        Ok(match self {
            Self::Held { train, test } => {
                let Samples { pixels, labels } = part(split, train, test);
                let labels = Labels::Each(Cow::Borrowed(&labels[index * targets..][..targets]));
                Sample { pixels: Cow::Borrowed(&pixels[index * size..][..size]), labels }
            }
            Self::Files(images) => Sample {
                pixels: Cow::Owned(images.pixels(split, index)?),
                labels: Labels::Class(images.label(split, index)),
            },
            Self::Streamed(stream) => {
                let (mut pixels, mut labels) = (vec![0; size], vec![0; targets]);
                stream.read(split, index, &mut pixels, &mut labels)?;
                Sample { pixels: Cow::Owned(pixels), labels: Labels::Each(Cow::Owned(labels)) }
            }
        })
    }

    /// Runs `share` on `threads` threads, this one among them, if that is quicker than one.
    pub(super) fn together(&self, threads: usize, share: impl Fn() -> Result<()> + Sync) -> Result<()> {
        let is_work = match self {
            Self::Held { .. } => false,
            Self::Files(_) => true,
            Self::Streamed(stream) => stream.is_work(),
        };
        if is_work { together(threads, share) } else { share() }
    }
    /// How often each value is in each channel of some training images that are no files.
    pub(super) fn histograms(&self, extents: [usize; 3], targets: usize) -> Result<Histograms> {
        let size = extents.into_iter().product::<usize>();
        match self {
            Self::Streamed(stream) => {
                let sum = Mutex::new(Histograms::new(extents[2]));
                let work = Mutex::new(0..stream.count(Split::Train).min(SCALED_BY));
                self.together(images::threads(), || {
                    let mut own = Histograms::new(extents[2]);
                    loop {
                        let next = work.lock().next();
                        let Some(index) = next else { break };
                        own.add(&self.sample(Split::Train, index, size, targets)?.pixels);
                    }
                    sum.lock().merge(&own);
                    Ok(())
                })?;
                Ok(sum.into_inner())
            }
            Self::Held { train, .. } => {
                let mut sum = Histograms::new(extents[2]);
                let images = train.pixels.chunks_exact(size);
                images.take(SCALED_BY).for_each(|image| sum.add(image));
                Ok(sum)
            }
            Self::Files(images) => images.histograms(|index| images.pixels(Split::Train, index).map(Cow::Owned)),
        }
    }
}

/// Runs `share` on `threads` threads, this one among them.
pub(super) fn together(threads: usize, share: impl Fn() -> Result<()> + Sync) -> Result<()> {
    if threads < 2 {
        return share();
    }
    let (share, counting) = (&share, meter_of_this_thread());
    let help = || {
        meter_this_thread(counting);
        share()
    };
    std::thread::scope(|scope| {
        let helpers: Vec<_> = (1..threads).map(|_| scope.spawn(help)).collect();
        let own = share();
        let ended = |_| Err(Error::Panic("a thread that makes images".to_owned()));
        helpers.into_iter().fold(own, |result, helper| result.and(helper.join().unwrap_or_else(ended)))
    })
}
