//! The lines of a file, block by block, each looked at once.
//!
//! Owns [`Lines`]. Always holds: it has one block in memory, and never more of a line than a sample may be long.

use std::{fs::File, io::Read, ops::Range, path::PathBuf};

use super::{
    index::{MOST_SAMPLE, check, too_long},
    line::Wrong,
};
use crate::{
    data::file::unreadable,
    error::{Error, Result},
    memory::probe::{meter_of_this_thread, meter_this_thread},
};

/// Bytes that are read at a time.
const BLOCK: usize = 8 << 20;
/// Bytes of a block from which on it is worth another thread.
const SHARE: usize = 1 << 20;

/// A line: its number, its place, and its fault.
pub(super) type Found = (u64, Range<u64>, Result<(), Wrong>);

/// The lines of a file that are not blank.
pub(super) struct Lines {
    path: PathBuf,
    file: File,
    /// Read, and not yet given.
    rest: Vec<u8>,
    /// Where `rest` begins in the file.
    at: u64,
    /// The number of the line that `rest` begins with.
    number: u64,
    /// Whether the present line is too long, and its end has not come.
    is_over: bool,
    is_done: bool,
    /// The checksum of the bytes that were read.
    hasher: crc32fast::Hasher,
}

impl Lines {
    /// The lines of an open file whose first `begin` bytes were skipped.
    pub(super) fn new(path: &std::path::Path, mut file: File, begin: u64) -> Self {
        use std::io::Seek;
        let is_done = file.seek(std::io::SeekFrom::Start(begin)).is_err();
        let hasher = crc32fast::Hasher::new();
        Self { path: path.to_owned(), file, rest: Vec::new(), at: begin, number: 1, is_over: false, is_done, hasher }
    }

    /// The checksum of the bytes that were read.
    pub(super) fn checksum(self) -> u32 {
        self.hasher.finalize()
    }

    /// The lines of the next block; `None` after the last.
    ///
    /// # Errors
    /// Fails when the file cannot be read.
    pub(super) fn next(&mut self) -> Result<Option<Vec<Found>>> {
        if self.is_done {
            return Ok(None);
        }
        let before = self.rest.len();
        let read = Read::by_ref(&mut self.file).take(BLOCK as u64).read_to_end(&mut self.rest);
        read.map_err(|error| unreadable(&self.path, &error))?;
        self.hasher.update(&self.rest[before..]);
        self.is_done = self.rest.len() < before + BLOCK;
        let whole =
            if self.is_done { self.rest.len() } else { memchr::memrchr(b'\n', &self.rest).map_or(0, |at| at + 1) };
        let mut found = self.lines(whole)?;
        self.rest.drain(..whole);
        self.at += whole as u64;
        if self.rest.len() > MOST_SAMPLE {
            if !self.is_over {
                found.push((self.number, self.at..self.at, Err(too_long())));
            }
            self.is_over = true;
            self.at += self.rest.len() as u64;
            self.rest.clear();
        }
        Ok(Some(found))
    }

    /// The lines of the first `whole` bytes.
    fn lines(&mut self, whole: usize) -> Result<Vec<Found>> {
        let text = &self.rest[..whole];
        let mut lines = Vec::new();
        let mut start = 0;
        while start < whole {
            let end = memchr::memchr(b'\n', &text[start..]).map_or(whole, |at| start + at);
            let line = &text[start..end];
            let is_tail = std::mem::take(&mut self.is_over);
            if !is_tail && !line.trim_ascii().is_empty() {
                lines.push((self.number, start..end));
            }
            self.number += 1;
            start = end + 1;
        }
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(whole / SHARE + 1);
        let share = lines.len().div_ceil(threads).max(1);
        let at = self.at;
        let look = |lines: &[(u64, Range<usize>)]| -> Vec<Found> {
            let found = |(number, range): &(u64, Range<usize>)| {
                let line = &text[range.clone()];
                let verdict = if line.len() > MOST_SAMPLE { Err(too_long()) } else { check(line) };
                (*number, at + range.start as u64..at + range.end as u64, verdict)
            };
            lines.iter().map(found).collect()
        };
        if threads == 1 {
            return Ok(look(&lines));
        }
        std::thread::scope(|scope| {
            let look = &look;
            let counting = meter_of_this_thread();
            let counted = move |lines| {
                meter_this_thread(counting);
                look(lines)
            };
            let workers: Vec<_> = lines.chunks(share).map(|lines| scope.spawn(move || counted(lines))).collect();
            let mut all = Vec::with_capacity(lines.len());
            for worker in workers {
                all.extend(worker.join().map_err(|_| Error::Panic("a thread that looks at lines".to_owned()))?);
            }
            Ok(all)
        })
    }
}
