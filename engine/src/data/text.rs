//! Any file as a language of bytes: windows of the file, in which every next byte is scored.
//!
//! The last share of the file is for testing, all before it for training. Windows follow one another; in training all of
//! them begin a little later in each epoch, by as much as the seed says, so that a byte is seen at every place of a window.
//! A loss divided by ln 2 is bits per byte. A streamed file is read at the windows only, and none of it is held, however
//! large it is. On request all of it is held, up to [`MOST_HELD`]. Of a huge file, an epoch has at most [`MOST_TRAIN`]
//! windows and an evaluation [`MOST_TEST`], spread evenly over their parts. The meaning of the bytes does not matter: a
//! program or an image is a language too. Refuses files that are not regular, and files too short for a window in either
//! part.

use std::{
    fs::{self, Metadata},
    ops::Range,
    path::Path,
    time::SystemTime,
};

use crate::{
    bytes::Bytes,
    data::{
        DatasetInfo, Inspection, Split,
        device_layout::Integers,
        file::{Opened, unreadable},
        sequences::{self, TokenRows, within},
        source::{Source, Store, chosen_path},
    },
    error::{Error, Problem, Result},
    experiment::{Data, Placement, limits::MAX_LENGTH},
    rng::{Rng, Stream},
    tensor::Shape,
};

/// The most windows of an epoch: a shuffled list of them takes 64 MiB.
const MOST_TRAIN: usize = 1 << 24;
/// The most windows of an evaluation.
const MOST_TEST: usize = 1 << 14;

/// The most bytes that are held, in host memory or on the device.
const MOST_HELD: u64 = 1 << 30;

/// The number of different bytes.
const VOCABULARY: usize = 256;

/// The bytes of a file.
pub(super) struct FileBytes;

impl Source for FileBytes {
    /// There are 256 bytes: another number of tokens is not used, and a note says so.
    fn inspect(&self, data: &Data, _: Option<&Inspection>) -> Result<Inspection> {
        let info = self.info(data)?;
        let chosen = data.chosen_vocabulary().filter(|count| *count != VOCABULARY);
        let note = chosen.map(|count| {
            format!(
                "without a tokenizer bytes are the tokens, {VOCABULARY} of them, and data.vocabulary = {count} is not used; \
                 write 0, or choose a tokenizer (data.tokenizer)"
            )
        });
        Ok(Inspection::new(data, info, self.held_bytes(data, &info)?).with_notes(note))
    }

    fn info(&self, data: &Data) -> Result<DatasetInfo> {
        facts(chosen_path(data)?, data)
    }

    fn limits(&self, data: &Data) -> Result<()> {
        check(data)
    }

    fn open(&self, data: &Data, _: &DatasetInfo, seed: u64) -> Result<Store> {
        Ok(Store::Rows(Box::new(Text::open(chosen_path(data)?, data, seed)?)))
    }

    fn held_bytes(&self, data: &Data, _: &DatasetInfo) -> Result<usize> {
        Ok(if data.placement == Placement::Host { about(chosen_path(data)?)?.len() as usize } else { 0 })
    }

    /// Windows overlap by a byte, and move by less than their length from epoch to epoch.
    fn device_shape(&self, info: &DatasetInfo) -> Shape {
        [info.train + 1, info.labels_per_sample].into()
    }
}

fn facts(path: &Path, data: &Data) -> Result<DatasetInfo> {
    let bytes = about(path)?.len();
    let (train, test) = parts(path, bytes, data)?;
    if data.placement != Placement::Streamed && bytes > MOST_HELD {
        let (bytes, most) = (Bytes(bytes), Bytes(MOST_HELD));
        let message = format!("the file has {bytes}, more than the {most} that are held");
        return Err(Problem::new("data.placement", message, "write \"streamed\"").into());
    }
    Ok(sequences::facts(data.length, VOCABULARY, data.length, (train.count, test.count)))
}

/// The part of a choice that can be checked without its file.
fn check(data: &Data) -> Result<()> {
    within("data.length", data.length, 1, MAX_LENGTH, "a length")
}

/// Size and times of a file that can be read.
fn about(path: &Path) -> Result<Metadata> {
    let about = fs::metadata(path).map_err(|error| unreadable(path, &error))?;
    if about.is_dir() {
        return Err(Error::file(path, "this is a folder; choose a file, such as a text or a program"));
    }
    if !about.is_file() {
        return Err(Error::file(path, "this is a pipe or a device; choose a file, such as a text or a program"));
    }
    Ok(about)
}

/// Windows of one part: `count` of them, each `apart` bytes after the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Windows {
    start: u64,
    apart: u64,
    count: usize,
}

impl Windows {
    /// As many windows of `length` inputs and the byte after them as fit into `bytes` from `start`, at most `most`; windows
    /// that are moved fit even when all are moved by one byte less than their distance.
    fn new(start: u64, bytes: u64, length: u64, most: usize, is_moved: bool) -> Self {
        // The bytes in which a window can begin.
        let room = bytes.saturating_sub(length);
        let apart = length.max(room.div_ceil(most as u64));
        let count = if is_moved { room / apart } else { room.div_ceil(apart) };
        Self { start, apart, count: count as usize }
    }
}

/// The windows for training and for testing.
fn parts(path: &Path, bytes: u64, data: &Data) -> Result<(Windows, Windows)> {
    check(data)?;
    if !(data.test_fraction > 0.0 && data.test_fraction < 1.0) {
        let message = format!("{} of the text cannot be held out", data.test_fraction);
        return Err(Problem::new("data.test_fraction", message, "use more than 0 and less than 1, such as 0.1").into());
    }
    if bytes == 0 {
        return Err(Error::file(path, "it is empty; choose a file with something to learn in it"));
    }
    let length = data.length as u64;
    let held_out = ((bytes as f64 * data.test_fraction).round() as u64).min(bytes);
    let train = Windows::new(0, bytes - held_out, length, MOST_TRAIN, true);
    let test = Windows::new(bytes - held_out, held_out, length, MOST_TEST, false);
    for (windows, part) in [(train, "train"), (test, "test")] {
        if windows.count == 0 {
            let message = format!(
                "{} are too few to {part} on with windows of {length} and {} held out; lower data.length, or choose a \
                 longer file",
                Bytes(bytes),
                data.test_fraction
            );
            return Err(Error::file(path, message));
        }
    }
    Ok((train, test))
}

/// The windows of one file.
#[derive(Debug)]
pub(super) struct Text {
    file: Opened,
    /// The whole file, when it is held.
    held: Option<Vec<u8>>,
    changed: Option<SystemTime>,
    train: Windows,
    test: Windows,
    seed: u64,
}

impl Text {
    pub(super) fn open(path: &Path, data: &Data, seed: u64) -> Result<Self> {
        let changed = about(path)?.modified().ok();
        let file = Opened::new(path)?;
        let (train, test) = parts(path, file.len(), data)?;
        let held = match data.placement {
            Placement::Host => {
                let mut bytes = Vec::new();
                if bytes.try_reserve_exact(file.len() as usize).is_err() {
                    let message =
                        format!("no memory for its {}; write data.placement = \"streamed\"", Bytes(file.len()));
                    return Err(Error::file(path, message));
                }
                bytes.resize(file.len() as usize, 0);
                file.read(0, &mut bytes)?;
                Some(bytes)
            }
            Placement::Streamed | Placement::Device => None,
        };
        Ok(Self { file, held, changed, train, test, seed })
    }

    /// Where a window begins.
    fn start(&self, split: Split, index: usize, epoch: u64) -> u64 {
        let (windows, moved) = match split {
            Split::Train => {
                let rng = Rng::new(self.seed, Stream::Augment, epoch);
                (self.train, rng.below(0, self.train.apart as usize) as u64)
            }
            Split::Test => (self.test, 0),
        };
        windows.start + windows.apart * index as u64 + moved
    }
}

impl TokenRows for Text {
    /// The windows of the opened file, which may have changed since it was looked at.
    fn counts(&self) -> Option<(usize, usize)> {
        Some((self.train.count, self.test.count))
    }

    fn row(&self, split: Split, index: usize, epoch: u64, row: &mut [u32]) -> Result<()> {
        let start = self.start(split, index, epoch);
        let mut read = Vec::new();
        let bytes = match &self.held {
            Some(bytes) => &bytes[start as usize..][..row.len()],
            None => {
                read.resize(row.len(), 0);
                self.file.read(start, &mut read)?;
                &read
            }
        };
        row.iter_mut().zip(bytes).for_each(|(token, byte)| *token = u32::from(*byte));
        Ok(())
    }

    fn is_current(&self) -> bool {
        let now = fs::metadata(self.file.path());
        now.is_ok_and(|about| (about.len(), about.modified().ok()) == (self.file.len(), self.changed))
    }

    fn place(&self, index: usize, epoch: u64, _: usize) -> u32 {
        self.start(Split::Train, index, epoch) as u32
    }

    fn part(&self, rows: Range<usize>, tokens: usize, to: &mut Integers) -> Result<()> {
        let mut bytes = vec![0; rows.len() * tokens];
        self.file.read((rows.start * tokens) as u64, &mut bytes)?;
        to.append(Integers::Bytes(bytes));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
