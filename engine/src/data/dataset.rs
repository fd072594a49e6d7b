//! A set of samples, images or sequences.
//!
//! Owns [`Dataset`], whose samples never change once it is open and which is shared by `Arc` between runs and threads.
//! What it holds is not counted as a run's memory: it outlives runs.

use std::{
    ops::Range,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use crate::{
    data::{
        Facts, Skipped, brackets, chosen, cifar,
        device_layout::{Chunk, DeviceDatasetLayout, Integers},
        digits, facts, idx,
        image_set::{ImageSet, Source, held},
        images::Images,
        loader::HostBatch,
        masks::Masks,
        modular::Modular,
        numbers,
        sequences::{self, Held, Rows},
        shapes::Shapes,
        sort::Sort,
        text::Text,
        tokens::Chain,
    },
    error::{Error, Result},
    experiment::{Data, DataKind, Placement, Run},
    memory::probe::uncounted,
};

/// Which part of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Split {
    /// For training.
    Train,
    /// Held out for testing.
    Test,
}

/// The samples.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one of them in a set, never a list")]
enum Content {
    Images(ImageSet),
    Rows(Box<dyn Rows>),
}

/// Training and test samples of one choice of data and one seed.
#[derive(Debug)]
pub struct Dataset {
    facts: Facts,
    /// `None` only while it is dropped.
    content: Option<Content>,
    chosen: Data,
    seed: u64,
}

impl Dataset {
    /// Reads or generates the samples.
    ///
    /// # Errors
    /// Those of [`facts`], and whatever is wrong deeper in the files.
    pub fn open(data: &Data, run: &Run) -> Result<Self> {
        uncounted(|| Self::read(data, run))
    }

    fn read(data: &Data, run: &Run) -> Result<Self> {
        let mut facts = facts(data, run)?;
        let seed = run.seed;
        let rows: Box<dyn Rows> = match data.kind {
            DataKind::Modular => Box::new(Modular::new(data, &facts, seed)),
            DataKind::Sort => Box::new(Sort::new(data, seed)),
            DataKind::Brackets => Box::new(brackets::Brackets::new(data, seed)),
            DataKind::Tokens => Box::new(Chain::new(data, seed)),
            DataKind::Text => {
                let text = Text::open(chosen(data)?, data, seed)?;
                (facts.train, facts.test) = text.counts();
                Box::new(text)
            }
            _ => return Self::read_images(data, facts, seed),
        };
        let rows = match (data.kind, data.placement) {
            (DataKind::Text, _) | (_, Placement::Streamed | Placement::Device) => rows,
            (_, Placement::Host) => Box::new(Held::new(&*rows, &facts)?),
        };
        Ok(Self { facts, content: Some(Content::Rows(rows)), chosen: data.clone(), seed })
    }

    fn read_images(data: &Data, facts: Facts, seed: u64) -> Result<Self> {
        let is_held = data.placement == Placement::Host;
        let source = match data.kind {
            DataKind::Digits => held(digits::open(&facts, seed)?),
            DataKind::Idx if is_held => held(idx::open(chosen(data)?)?),
            DataKind::Idx => Source::Streamed(Box::new(idx::stream(chosen(data)?)?)),
            DataKind::Cifar10 if is_held => held(cifar::CIFAR10.open(chosen(data)?)?),
            DataKind::Cifar10 => Source::Streamed(Box::new(cifar::CIFAR10.stream(chosen(data)?)?)),
            DataKind::Cifar100 if is_held => held(cifar::CIFAR100.open(chosen(data)?)?),
            DataKind::Cifar100 => Source::Streamed(Box::new(cifar::CIFAR100.stream(chosen(data)?)?)),
            DataKind::Images => Source::Files(Images::open(chosen(data)?, data, seed)?),
            DataKind::Masks if is_held => held(Masks::new(&facts, data, seed).all()),
            DataKind::Masks => Source::Streamed(Box::new(Masks::new(&facts, data, seed))),
            _ if is_held => held(Shapes::new(&facts, data.side, seed).all()),
            _ => Source::Streamed(Box::new(Shapes::new(&facts, data.side, seed))),
        };
        let set = ImageSet::new(source, &facts, data, seed)?;
        // Files may have changed since their headers were read: what was read is what counts.
        let facts = Facts { train: set.count(Split::Train), test: set.count(Split::Test), ..facts };
        Ok(Self { facts, content: Some(Content::Images(set)), chosen: data.clone(), seed })
    }

    /// What a model must know of it.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Whether this is the set that `data` and `run` choose, so that it need not be opened again.
    pub fn is_for(&self, data: &Data, run: &Run) -> bool {
        let is_current = || match &self.content {
            Some(Content::Images(set)) => set.is_current(),
            Some(Content::Rows(rows)) => rows.is_current(),
            None => false,
        };
        self.chosen == *data && self.seed == run.seed && is_current()
    }

    /// Samples in a part.
    pub fn count(&self, split: Split) -> usize {
        match split {
            Split::Train => self.facts.train,
            Split::Test => self.facts.test,
        }
    }

    /// The images that could not be read so far, for which others stand in.
    pub fn skipped(&self) -> Option<Skipped> {
        self.content.as_ref().and_then(|content| match content {
            Content::Images(set) => set.skipped(),
            Content::Rows(_) => None,
        })
    }

    /// Numbers of one sample in a batch of a part: of the image, the tokens, the labels, and the place.
    pub(super) fn numbers(&self, split: Split) -> [usize; 4] {
        numbers(&self.chosen, &self.facts, split)
    }

    /// Replaces the batch's samples by those at `indices`, those for training as they are in the batch's epoch; allocates
    /// only what its buffers lack.
    ///
    /// # Errors
    /// Files that cannot be read; [`Error::Stopped`] once `over` is set.
    pub(super) fn fill(
        &self,
        split: Split,
        indices: impl ExactSizeIterator<Item = usize> + Send,
        batch: &mut HostBatch,
        over: &AtomicBool,
    ) -> Result<()> {
        batch.len = indices.len();
        if split == Split::Train && self.chosen.placement == Placement::Device {
            let tokens = self.facts.targets + 1;
            let place = |index: usize| match &self.content {
                Some(Content::Rows(rows)) => rows.place(index, batch.epoch, tokens),
                _ => index as u32,
            };
            batch.places.extend(indices.map(place));
            return Ok(());
        }
        match &self.content {
            Some(Content::Images(set)) => set.fill(split, indices, batch, over),
            Some(Content::Rows(rows)) => self.fill_rows(&**rows, split, indices, batch, over),
            None => Err(Error::Stopped),
        }
    }

    /// Factor and summand of a row of an image; none for sequences.
    pub(crate) fn scaling(&self) -> &[f32] {
        match &self.content {
            Some(Content::Images(set)) => set.scaling(),
            _ => &[],
        }
    }

    /// Rows of the training set, as a device holds them.
    pub(super) fn part(&self, layout: &DeviceDatasetLayout, rows: Range<usize>) -> Result<Chunk> {
        let (shape, dtype) = layout.inputs;
        let labels = Integers::new(layout.labels.map_or(dtype, |(_, dtype)| dtype));
        let mut part = Chunk { inputs: Integers::new(dtype), labels };
        match &self.content {
            Some(Content::Images(set)) => set.part(rows, part),
            Some(Content::Rows(own)) => {
                own.part(rows, shape.last(), &mut part.inputs)?;
                Ok(part)
            }
            None => Err(Error::Stopped),
        }
    }

    fn fill_rows(
        &self,
        rows: &dyn Rows,
        split: Split,
        indices: impl Iterator<Item = usize>,
        batch: &mut HostBatch,
        over: &AtomicBool,
    ) -> Result<()> {
        let length = self.facts.targets;
        batch.tokens.resize(batch.len * length, 0);
        batch.labels.resize(batch.len * length, 0);
        let mut row = vec![0; length + 1];
        let places = batch.tokens.chunks_exact_mut(length).zip(batch.labels.chunks_exact_mut(length));
        for ((tokens, labels), index) in places.zip(indices) {
            if over.load(Relaxed) {
                return Err(Error::Stopped);
            }
            rows.row(split, index, batch.epoch, &mut row)?;
            tokens.copy_from_slice(&row[..length]);
            sequences::labels(&row, self.facts.scored, labels);
        }
        Ok(())
    }

    /// The images, for the tests of their sources.
    #[cfg(test)]
    pub(super) fn images(&self) -> &ImageSet {
        match &self.content {
            Some(Content::Images(set)) => set,
            _ => panic!("no images"),
        }
    }
}

impl Drop for Dataset {
    /// As it was allocated: without counting, on whatever thread the last owner is.
    fn drop(&mut self) {
        uncounted(|| drop((self.content.take(), self.chosen.path.take())));
    }
}

#[cfg(test)]
mod tests;
