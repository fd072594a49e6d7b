//! The samples of text files, opened: read one by one, or all held.
//!
//! Owns [`Samples`]. Always holds: which samples are for testing follows from the seed alone, and of plain text it is the
//! last share. Refuses files that changed since they were looked at, if a sample can no longer be read.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    sync::Arc,
};

use super::{
    encoder::{Encoded, Encoder},
    index::{Index, MOST_SAMPLE},
};
use crate::{
    bytes::Bytes,
    data::{Split, divide, file::unreadable, weighed::Weighed},
    error::{Error, Result},
    experiment::{Data, DataKind, Placement},
    memory::probe::{meter_of_this_thread, meter_this_thread, note_read},
    rng::{Rng, Stream},
    sync::Mutex,
};

/// Samples that can be read.
#[derive(Debug)]
pub(super) struct Samples {
    pub(super) index: Arc<Weighed<Index>>,
    encoder: Encoder,
    /// The bytes of each file, where they are held.
    held: Option<Vec<Vec<u8>>>,
    /// The file that was read last.
    open: Mutex<Option<(usize, File)>>,
    train: Vec<u32>,
    test: Vec<u32>,
}

impl Samples {
    pub(super) fn open(index: Arc<Weighed<Index>>, encoder: Encoder, data: &Data, seed: u64) -> Result<Self> {
        let (train, _) = divide(index.len(), data.test_fraction)?;
        let mut order: Vec<u32> = (0..index.len() as u32).collect();
        if data.kind != DataKind::Text {
            Rng::new(seed, Stream::Split, 0).shuffle(&mut order);
        }
        let test = order.split_off(train);
        order.shrink_to_fit();
        let held = match data.placement {
            Placement::Host => Some(index.files.iter().map(|file| whole(&file.path, file.len)).collect::<Result<_>>()?),
            Placement::Streamed | Placement::Device => None,
        };
        Ok(Self { index, encoder, held, open: Mutex::new(None), train: order, test })
    }

    /// The samples without a split, to look at.
    pub(super) fn to_look_at(index: Arc<Weighed<Index>>, encoder: Encoder) -> Self {
        Self { index, encoder, held: None, open: Mutex::new(None), train: Vec::new(), test: Vec::new() }
    }

    /// The samples of a part, by their numbers in the index.
    pub(super) fn part(&self, split: Split) -> &[u32] {
        match split {
            Split::Train => &self.train,
            Split::Test => &self.test,
        }
    }

    /// Whether its files are unchanged, those of the tokenizer among them.
    pub(super) fn is_current(&self) -> bool {
        self.index.is_current() && self.encoder.tokenizer.is_current()
    }

    /// A checksum of their tokenizer.
    pub(super) fn tokenizer_checksum(&self) -> u32 {
        self.encoder.tokenizer.checksum()
    }

    /// The token that fills sequences up.
    pub(super) fn filler(&self) -> u32 {
        self.encoder.tokenizer.end().unwrap_or(0)
    }

    /// A sample as tokens.
    ///
    /// # Errors
    /// Fails when its file cannot be read as it was, with its place.
    pub(super) fn encoded(&self, sample: usize) -> Result<Encoded> {
        let (file, range) = self.index.place(sample);
        let about = &self.index.files[file];
        let (start, length) = (range.start, (range.end - range.start).min(MOST_SAMPLE as u64 + 1) as usize);
        let read;
        let bytes = match &self.held {
            Some(held) => {
                let all = &held[file];
                let start = (start as usize).min(all.len());
                &all[start..(start + length).min(all.len())]
            }
            None => {
                read = self.read(file, start, length)?;
                &read[..]
            }
        };
        let named = |message: String| {
            let (path, place) = self.index.name(sample);
            Error::file_at(path, place, message)
        };
        if about.is_json {
            let line = memchr::memchr(b'\n', bytes).map_or(bytes, |end| &bytes[..end]);
            return self.encoder.line(line).map_err(|wrong| named(wrong.message));
        }
        let text = std::str::from_utf8(bytes).map_err(|error| {
            let at = start + error.valid_up_to() as u64;
            let message = "is not UTF-8; save the file as UTF-8, or take data.tokenizer out to learn its bytes";
            Error::file_at(&about.path, format!("byte {at}"), message)
        })?;
        self.encoder.piece(text, range.end == about.len).map_err(named)
    }

    /// Samples as tokens, on all cores, in their order.
    ///
    /// # Errors
    /// The errors of [`Samples::encoded`].
    pub(super) fn all_encoded(&self, samples: &[u32]) -> Result<Vec<Encoded>> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let share = samples.len().div_ceil(threads).max(1);
        std::thread::scope(|scope| {
            let counting = meter_of_this_thread();
            let encode = move |part: &[u32]| {
                meter_this_thread(counting);
                part.iter().map(|sample| self.encoded(*sample as usize)).collect()
            };
            let workers: Vec<_> = samples.chunks(share).map(|part| scope.spawn(move || encode(part))).collect();
            let mut all = Vec::with_capacity(samples.len());
            for worker in workers {
                let part: Result<Vec<Encoded>> =
                    worker.join().map_err(|_| Error::Panic("a thread that cuts text into tokens".to_owned()))?;
                all.extend(part?);
            }
            Ok(all)
        })
    }

    fn read(&self, file: usize, start: u64, length: usize) -> Result<Vec<u8>> {
        let about = &self.index.files[file];
        let mut open = self.open.lock();
        let mut opened = match open.take() {
            Some((number, opened)) if number == file => opened,
            _ => File::open(&about.path).map_err(|error| unreadable(&about.path, &error))?,
        };
        let mut bytes = vec![0; length];
        let read = opened.seek(SeekFrom::Start(start)).and_then(|_| opened.read_exact(&mut bytes));
        read.map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                let message = format!("it had {} and is shorter now; begin the run again", Bytes(about.len));
                Error::file_at(&about.path, format!("byte {start}"), message)
            }
            _ => unreadable(&about.path, &error),
        })?;
        *open = Some((file, opened));
        note_read(bytes.len());
        Ok(bytes)
    }
}

/// Reads a whole file, which was `len` bytes long.
fn whole(path: &std::path::Path, len: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if bytes.try_reserve_exact(len as usize).is_err() {
        let message = format!("no memory for its {}; write data.placement = \"streamed\"", Bytes(len));
        return Err(Error::file(path, message));
    }
    let opened = File::open(path).map_err(|error| unreadable(path, &error))?;
    opened.take(len).read_to_end(&mut bytes).map_err(|error| unreadable(path, &error))?;
    note_read(bytes.len());
    Ok(bytes)
}
