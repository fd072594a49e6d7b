//! Any file as a language of bytes: windows of it, every next byte of which is scored.
//!
//! The last share of the file is for testing, all before it for training. Windows follow one another; in training all of
//! them begin a little later in each epoch, by as much as the seed says, so that a byte is seen at every place of a
//! window. A loss divided by ln 2 is bits per byte. A file is read where a window is and nowhere else: none of it is held,
//! however large it is. Of a huge one, at most [`MOST_TRAIN`] windows are one epoch and [`MOST_TEST`] one evaluation,
//! spread over their parts evenly. What the bytes mean does not matter: a program or an image is a language too. Refuses:
//! what is no regular file, and files too short for a window in either part.

use std::{
    fs::{self, File, Metadata},
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::SystemTime,
};

use crate::{
    bytes::Bytes,
    data::{
        Facts, Split,
        file::unreadable,
        sequences::{self, MAX_LENGTH, Rows, within},
    },
    error::{Error, Problem, Result},
    experiment::Data,
    rng::{Rng, Stream},
};

/// The most windows of an epoch: a shuffled list of them takes 64 MiB.
const MOST_TRAIN: usize = 1 << 24;
/// The most windows of an evaluation.
const MOST_TEST: usize = 1 << 14;

/// Different bytes.
const VOCABULARY: usize = 256;

/// What of a choice can be judged without its file.
pub(super) fn check(data: &Data) -> Result<()> {
    within("data.length", data.length, 1, MAX_LENGTH, "a length")
}

pub(super) fn facts(path: &Path, data: &Data) -> Result<Facts> {
    let (train, test) = parts(path, about(path)?.len(), data)?;
    Ok(sequences::facts(data.length, VOCABULARY, data.length, (train.count, test.count)))
}

/// Size and times of a file that can be read.
fn about(path: &Path) -> Result<Metadata> {
    let about = fs::metadata(path).map_err(|error| unreadable(path, &error))?;
    if about.is_dir() {
        return Err(Error::file(path, "this is a folder; choose a file, such as a text or a program"));
    }
    if !about.is_file() {
        return Err(Error::file(path, "this is no regular file; choose one that is"));
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
    /// As many windows of `length` inputs and the byte after them as fit into `bytes` from `start`, at most `most`; those
    /// that are moved fit even when all are by one byte less than their distance.
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
    path: PathBuf,
    file: Mutex<File>,
    bytes: u64,
    changed: Option<SystemTime>,
    train: Windows,
    test: Windows,
    seed: u64,
}

impl Text {
    pub(super) fn open(path: &Path, data: &Data, seed: u64) -> Result<Self> {
        let about = about(path)?;
        let (train, test) = parts(path, about.len(), data)?;
        let file = File::open(path).map_err(|error| unreadable(path, &error))?;
        let (bytes, changed) = (about.len(), about.modified().ok());
        Ok(Self { path: path.to_owned(), file: Mutex::new(file), bytes, changed, train, test, seed })
    }

    /// The facts of what was opened, whatever became of the file since it was looked at.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.train.count, self.test.count)
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

    fn read(&self, start: u64, bytes: &mut [u8]) -> Result<()> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let read = file.seek(SeekFrom::Start(start)).and_then(|_| file.read_exact(bytes));
        read.map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                let message = format!("it had {} and is shorter now; begin the run again", Bytes(self.bytes));
                Error::file_at(&self.path, format!("byte {start}"), message)
            }
            _ => unreadable(&self.path, &error),
        })
    }
}

impl Rows for Text {
    fn row(&self, split: Split, index: usize, epoch: u64, row: &mut [u32]) -> Result<()> {
        let mut bytes = vec![0; row.len()];
        self.read(self.start(split, index, epoch), &mut bytes)?;
        row.iter_mut().zip(bytes).for_each(|(token, byte)| *token = u32::from(byte));
        Ok(())
    }

    fn is_current(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|about| (about.len(), about.modified().ok()) == (self.bytes, self.changed))
    }
}

#[cfg(test)]
mod tests;
