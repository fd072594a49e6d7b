//! A set of samples, images or sequences.
//!
//! Owns [`Dataset`], whose samples never change once it is open and which is shared by `Arc` between runs and threads. Its
//! memory does not count as a run's, because it outlives runs.

use std::{
    ops::Range,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};

use crate::{
    bytes::Bytes,
    data::{
        DatasetInfo, Inspection, Skipped, TableRow,
        batch::{BatchLayout, HostBatch, Inputs},
        corpus,
        device_layout::{Chunk, DeviceDatasetLayout, Integers},
        feed::Filling,
        image_set::ImageSet,
        sequences::TokenRows,
        source::{self, Store},
        table::TableRows,
    },
    error::{Error, Result},
    experiment::{Data, Run, weights::known::Known},
    memory::probe::{Meter, counted_on, uncounted},
};

/// Which part of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Split {
    /// The samples to train on.
    Train,
    /// Held out for testing.
    Test,
}

/// The samples, open.
#[derive(Debug)]
enum Content {
    Images(ImageSet),
    Rows(Box<dyn TokenRows>),
    Table(TableRows),
}

/// Training and test samples of one choice of data and one seed.
#[derive(Debug)]
pub struct Dataset {
    facts: DatasetInfo,
    /// `None` only while it is dropped.
    content: Option<Content>,
    chosen: Data,
    seed: u64,
    /// Counts its host memory, and that of its loaders.
    meter: &'static Meter,
    /// Bytes that the findings about the data take, which others share.
    shared: Bytes,
    /// The most bytes that it held while samples that were read were brought into the form in which they wait, until a run asks
    /// for them.
    opening: AtomicU64,
}

impl Dataset {
    /// Reads or generates the samples.
    ///
    /// # Errors
    /// Fails if [`facts`](crate::data::facts) does, and for damage deeper in the files.
    pub fn open(data: &Data, run: &Run) -> Result<Self> {
        Self::read(data, run.seed, None)
    }

    /// Opens the data set after a look at the data; changed files are looked at again.
    ///
    /// # Errors
    /// The errors of [`Dataset::open`].
    pub fn open_inspected(data: &Data, run: &Run, known: &Inspection) -> Result<Self> {
        Self::read(data, run.seed, Some(known))
    }

    fn read(data: &Data, seed: u64, known: Option<&Inspection>) -> Result<Self> {
        let meter = uncounted(Meter::new);
        counted_on(Some(meter), || Self::read_on(meter, data, seed, known))
    }

    fn read_on(meter: &'static Meter, data: &Data, seed: u64, known: Option<&Inspection>) -> Result<Self> {
        let source = source::of(data);
        // What a look finds is weighed by itself.
        let found = uncounted(|| source.inspect(data, known))?;
        let facts = *found.info();
        // Files may have changed since they were looked at: the opened files count.
        let store = source.open_inspected(data, &found, seed)?;
        // What reading took is over; what is made of it then counts.
        meter.reset_peak();
        let (content, (train, test)) = match store {
            Store::Images(store) => {
                let set = ImageSet::new(store, &facts, data, seed)?;
                let counts = (set.count(Split::Train), set.count(Split::Test));
                (Content::Images(set), counts)
            }
            Store::Rows(rows) => {
                let counts = rows.counts().unwrap_or((facts.train, facts.test));
                (Content::Rows(rows), counts)
            }
            Store::Table(table) => {
                let counts = (table.count(Split::Train), table.count(Split::Test));
                (Content::Table(table), counts)
            }
        };
        let facts = DatasetInfo { train, test, ..facts };
        let (shared, opening) = (found.shared_bytes(), AtomicU64::new(meter.peak().live.0));
        uncounted(|| drop(found));
        Ok(Self { facts, content: Some(content), chosen: data.clone(), seed, meter, shared, opening })
    }

    /// Data without samples, made of the facts that a checkpoint keeps. Pictures are scaled as those of its data were.
    ///
    /// # Errors
    /// Fails if the samples are not images.
    pub(crate) fn known(data: &Data, known: &Known) -> Result<Self> {
        let meter = uncounted(Meter::new);
        counted_on(Some(meter), || {
            let facts = known.info;
            let content = Some(Content::Images(ImageSet::known(&facts, &known.scaling)?));
            let (shared, opening) = (Bytes::ZERO, AtomicU64::new(0));
            Ok(Self { facts, content, chosen: data.clone(), seed: 0, meter, shared, opening })
        })
    }

    /// The facts of the data that are saved with a model that learned from them.
    pub(crate) fn to_be_known(&self) -> Known {
        let scaling = self.image_set().map(ImageSet::by_channel).unwrap_or_default();
        let is_of_conversations = self.tokenizer_checksum().is_some() && corpus::is_of_conversations(&self.chosen);
        Known { info: self.facts, scaling, class_names: self.class_names(), is_of_conversations }
    }

    /// The facts of the data that a model must know.
    pub fn facts(&self) -> &DatasetInfo {
        &self.facts
    }

    /// Whether this is the set that `data` and `run` choose, so that it need not be opened again.
    pub fn is_for(&self, data: &Data, run: &Run) -> bool {
        let is_current = || match &self.content {
            Some(Content::Images(set)) => set.is_current(),
            Some(Content::Rows(rows)) => rows.is_current(),
            Some(Content::Table(table)) => table.is_current(),
            None => false,
        };
        self.chosen.has_samples_of(data) && self.seed == run.seed && is_current()
    }

    /// Samples in a part.
    pub fn count(&self, split: Split) -> usize {
        match split {
            Split::Train => self.facts.train,
            Split::Test => self.facts.test,
        }
    }

    /// The images that could not be read so far, and were replaced by others.
    pub fn skipped(&self) -> Option<Skipped> {
        self.content.as_ref().and_then(|content| match content {
            Content::Images(set) => set.skipped(),
            Content::Rows(_) | Content::Table(_) => None,
        })
    }

    /// Notes about the division into training and test samples, a line each.
    pub fn notes(&self) -> &[String] {
        self.table().map_or(&[], TableRows::notes)
    }

    /// A checksum of the files, where they are read whole before a run, or of their names, for a folder of images; `None`
    /// for other files and for generated data.
    pub fn checksum(&self) -> Option<u32> {
        match self.content.as_ref()? {
            Content::Table(table) => Some(table.checksum()),
            Content::Rows(rows) => rows.checksum(),
            Content::Images(images) => images.checksum(),
        }
    }

    /// A checksum of the tokenizer, with its template of conversations; `None` for data without a tokenizer.
    pub fn tokenizer_checksum(&self) -> Option<u32> {
        match self.content.as_ref()? {
            Content::Rows(rows) => rows.tokenizer_checksum(),
            Content::Images(_) | Content::Table(_) => None,
        }
    }

    /// The layout of a sample in the batches of a part.
    pub(super) fn batch_layout(&self, split: Split) -> BatchLayout {
        BatchLayout::new(&self.chosen, &self.facts, split)
    }

    /// Fills a batch, which was prepared for the part, with the samples at `indices`, those for training as they are in
    /// `epoch`; allocates only if its buffers are too small.
    ///
    /// # Errors
    /// Fails for files that cannot be read, and with [`Error::Stopped`] once that is asked for.
    pub(super) fn fill(
        &self,
        split: Split,
        epoch: u64,
        indices: impl ExactSizeIterator<Item = usize> + Send,
        batch: &mut HostBatch,
        filling: Filling<'_>,
    ) -> Result<()> {
        (batch.len, batch.epoch) = (indices.len(), epoch);
        let content = self.content.as_ref().ok_or(Error::Stopped)?;
        match (&mut batch.inputs, content) {
            (Inputs::Places(places), Content::Images(_)) => places.extend(indices.map(|index| index as u32)),
            (Inputs::Places(places), Content::Rows(rows)) => {
                let tokens = self.facts.labels_per_sample + 1;
                places.extend(indices.map(|index| rows.place(index, epoch, tokens)));
            }
            (Inputs::Images(images), Content::Images(set)) => {
                set.fill(split, epoch, indices, (images, &mut batch.labels), filling)?;
            }
            (Inputs::Tokens(tokens), Content::Rows(rows)) => {
                let scored = self.facts.scored_labels;
                let sample = |index, places: (&mut [u32], &mut [u32])| rows.sample(split, index, epoch, places, scored);
                self.fill_rows(sample, indices, (tokens, &mut batch.labels), filling.over)?;
            }
            (Inputs::Images(features), Content::Table(table)) => {
                let width = self.facts.input.elements();
                features.resize(batch.len * width, 0.0);
                batch.labels.resize(batch.len, 0);
                for ((features, label), index) in features.chunks_exact_mut(width).zip(&mut batch.labels).zip(indices) {
                    table.sample(split, index, features, label);
                }
            }
            (Inputs::Images(_), Content::Rows(_))
            | (Inputs::Tokens(_), Content::Images(_))
            | (Inputs::Tokens(_) | Inputs::Places(_), Content::Table(_))
            | (Inputs::Bf16(_) | Inputs::F16(_), _) => {
                unreachable!("a batch is prepared for the set that fills it")
            }
        }
        filling.rounded.into_iter().for_each(|dtype| batch.inputs.round_to(dtype));
        Ok(())
    }

    /// Factor and summand of a row of an image; none for sequences.
    pub(crate) fn scaling(&self) -> &[f32] {
        match &self.content {
            Some(Content::Images(set)) => set.scaling(),
            Some(Content::Rows(_) | Content::Table(_)) | None => &[],
        }
    }

    /// Calls `upload` with all of the training set, chunk by chunk, in order: the rows of a chunk, and the chunk.
    ///
    /// # Errors
    /// Fails for files that cannot be read, and when `upload` fails.
    pub fn for_each_chunk(
        &self,
        layout: &DeviceDatasetLayout,
        mut upload: impl FnMut(Range<usize>, &Chunk) -> Result<()>,
    ) -> Result<()> {
        layout.chunks().try_for_each(|rows| upload(rows.clone(), &self.chunk(layout, rows)?))
    }

    fn chunk(&self, layout: &DeviceDatasetLayout, rows: Range<usize>) -> Result<Chunk> {
        let (shape, dtype) = layout.inputs;
        let labels = Integers::new(layout.labels.map_or(dtype, |(_, dtype)| dtype));
        let mut chunk = Chunk { inputs: Integers::new(dtype), labels };
        match self.content.as_ref().ok_or(Error::Stopped)? {
            Content::Images(set) => set.chunk(rows, chunk),
            Content::Rows(own) => {
                own.part(rows, shape.last(), &mut chunk.inputs)?;
                Ok(chunk)
            }
            Content::Table(_) => Err(Error::Misused("a table does not lie on a device".to_owned())),
        }
    }

    /// Whether its training samples come from an endless stream, numbered through all epochs.
    pub(super) fn is_stream(&self) -> bool {
        matches!(&self.content, Some(Content::Rows(rows)) if rows.is_stream())
    }

    /// Writes rows as the inputs and labels of a batch; `sample` gives the inputs and labels of one.
    fn fill_rows(
        &self,
        sample: impl Fn(usize, (&mut [u32], &mut [u32])) -> Result<()>,
        indices: impl ExactSizeIterator<Item = usize>,
        (tokens, labels): (&mut Vec<u32>, &mut Vec<u32>),
        over: &AtomicBool,
    ) -> Result<()> {
        let (count, length) = (indices.len(), self.facts.labels_per_sample);
        tokens.resize(count * length, 0);
        labels.resize(count * length, 0);
        let places = tokens.chunks_exact_mut(length).zip(labels.chunks_exact_mut(length));
        for ((tokens, labels), index) in places.zip(indices) {
            if over.load(Relaxed) {
                return Err(Error::Stopped);
            }
            sample(index, (tokens, labels))?;
        }
        Ok(())
    }

    /// The bytes that it takes on a disk now.
    pub fn on_disk(&self) -> Bytes {
        self.image_set().map_or(Bytes::ZERO, ImageSet::on_disk)
    }

    /// The meter of its host memory and of its loaders' memory, for every thread that takes some.
    pub fn meter(&self) -> &'static Meter {
        self.meter
    }

    /// Bytes of host memory that it holds now, with those of its loaders.
    pub fn host_bytes(&self) -> Bytes {
        self.meter.now().live + self.shared
    }

    /// The most bytes of host memory that it and its loaders held since the meter's peak was reset.
    pub(crate) fn most_bytes(&self) -> Bytes {
        self.meter.peak().live + self.shared
    }

    /// The same; for the first who asks, what was held while it was made ready counts as well.
    pub(crate) fn host_peak(&self) -> Bytes {
        self.most_bytes().max(Bytes(self.opening.swap(0, Relaxed)) + self.shared)
    }

    /// The choice of data.
    pub(super) fn chosen(&self) -> &Data {
        &self.chosen
    }

    /// The images, if the samples are images.
    pub(super) fn image_set(&self) -> Option<&ImageSet> {
        match &self.content {
            Some(Content::Images(set)) => Some(set),
            Some(Content::Rows(_) | Content::Table(_)) | None => None,
        }
    }

    /// The rows of a table, if the samples are rows.
    pub(super) fn table(&self) -> Option<&TableRows> {
        match &self.content {
            Some(Content::Table(table)) => Some(table),
            Some(Content::Images(_) | Content::Rows(_)) | None => None,
        }
    }

    /// A row of the test set as it stands in its file; `None` if the samples are not rows of a table.
    ///
    /// # Errors
    /// Fails for a number past the end.
    pub fn test_row(&self, index: usize) -> Result<Option<TableRow>> {
        let Some(table) = self.table() else { return Ok(None) };
        self.has_test_sample(index)?;
        Ok(table.test_row(index))
    }

    /// One test sample as a model sees it.
    ///
    /// # Errors
    /// Fails for a number past the end, and for files that cannot be read.
    pub fn test_sample(&self, index: usize) -> Result<HostBatch> {
        self.has_test_sample(index)?;
        let mut batch = HostBatch::default();
        self.batch_layout(Split::Test)
            .prepare(&mut batch, 1)
            .map_err(|_| Error::Misused("no room for a sample".to_owned()))?;
        self.fill(Split::Test, 0, index..index + 1, &mut batch, Filling::alone(&AtomicBool::new(false)))?;
        Ok(batch)
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
    /// Frees it as it was allocated: counted by its own meter, on any thread that drops the last handle.
    fn drop(&mut self) {
        counted_on(Some(self.meter), || drop((self.content.take(), std::mem::take(&mut self.chosen))));
    }
}

#[cfg(test)]
mod tests;
