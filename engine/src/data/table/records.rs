//! The rows of a file, one at a time, and its bytes from any source: plain, packed, or part of the program.
//!
//! Owns [`Rows`]. Always holds: one row is in memory, of [`MOST_ROW`] bytes at most, and its line is known. Refuses a row that
//! never ends.

use std::{
    cell::Cell,
    fs::File,
    io::{self, BufReader, Read},
    path::Path,
    rc::Rc,
};

use csv::{ByteRecord, ReaderBuilder};
use flate2::bufread::MultiGzDecoder;

use super::{dialect::Dialect, shipped};
use crate::{
    bytes::Bytes,
    data::file::unreadable,
    error::{Error, Result},
};

/// Bytes in which the separator is found.
pub(super) const LOOK: usize = 64 << 10;
/// The longest row.
const MOST_ROW: u64 = 16 << 20;
/// Bytes that are read at a time.
const BLOCK: usize = 1 << 20;
/// The byte-order mark that may stand before the first name.
pub(super) const BOM: &[u8] = &[0xef, 0xbb, 0xbf];

/// The bytes of a file, from any source.
fn source(path: &Path) -> Result<(Box<dyn Read>, u64)> {
    if let Some(found) = shipped(path) {
        let bytes = found?;
        return Ok((Box::new(bytes), bytes.len() as u64));
    }
    let failed = |error: io::Error| unreadable(path, &error);
    let about = std::fs::metadata(path).map_err(failed)?;
    if !about.is_file() {
        return Err(Error::file(path, "this is not a regular file; choose a file of comma-separated values"));
    }
    let mut file = BufReader::with_capacity(BLOCK, File::open(path).map_err(failed)?);
    let is_packed = io::BufRead::fill_buf(&mut file).map_err(failed)?.starts_with(&[0x1f, 0x8b]);
    let reader: Box<dyn Read> = if is_packed { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) };
    Ok((reader, about.len()))
}

/// The first bytes.
pub(super) fn head(path: &Path) -> Result<Vec<u8>> {
    let (reader, _) = source(path)?;
    let mut head = Vec::with_capacity(LOOK);
    reader.take(LOOK as u64).read_to_end(&mut head).map_err(|error| unreadable(path, &error))?;
    Ok(head)
}

/// The state of a reader of bytes.
#[derive(Default)]
struct Seen {
    bytes: Cell<u64>,
    checksum: Cell<u32>,
    /// The last byte that ends no line.
    last: Cell<u8>,
    /// Where the present row began, as far as its reader has come.
    row: Cell<u64>,
}

/// Bytes without a mark at their beginning, counted; a row that never ends breaks off.
struct Counted {
    inner: Box<dyn Read>,
    seen: Rc<Seen>,
    begun: Vec<u8>,
}

impl Read for Counted {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let count = if self.begun.is_empty() { self.inner.read(to)? } else { (&self.begun[..]).read(to)? };
        self.begun.drain(..count.min(self.begun.len()));
        let seen = &self.seen;
        seen.bytes.set(seen.bytes.get() + count as u64);
        let mut checksum = crc32fast::Hasher::new_with_initial(seen.checksum.get());
        checksum.update(&to[..count]);
        seen.checksum.set(checksum.finalize());
        let is_text = |byte: &&u8| !matches!(byte, b'\r' | b'\n');
        seen.last.set(to[..count].iter().rfind(is_text).copied().unwrap_or(seen.last.get()));
        if seen.bytes.get() > seen.row.get() + MOST_ROW + 2 * BLOCK as u64 {
            return Err(io::Error::other("endless"));
        }
        Ok(count)
    }
}

/// The rows of a file.
pub(super) struct Rows<'a> {
    pub(super) path: &'a Path,
    reader: csv::Reader<Counted>,
    pub(super) record: ByteRecord,
    seen: Rc<Seen>,
    /// Bytes of the file.
    pub(super) bytes: u64,
    /// The line of the first row that is not UTF-8.
    pub(super) foreign: Option<u64>,
}

impl<'a> Rows<'a> {
    pub(super) fn open(path: &'a Path, dialect: Dialect) -> Result<Self> {
        let (mut inner, bytes) = source(path)?;
        let mut begun = Vec::new();
        inner.by_ref().take(BOM.len() as u64).read_to_end(&mut begun).map_err(|error| unreadable(path, &error))?;
        if begun == BOM {
            begun.clear();
        }
        let seen = Rc::new(Seen::default());
        let counted = Counted { inner, seen: Rc::clone(&seen), begun };
        let reader = ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .delimiter(dialect.separator)
            .buffer_capacity(BLOCK)
            .from_reader(counted);
        Ok(Self { path, reader, record: ByteRecord::new(), seen, bytes, foreign: None })
    }

    /// Goes to the next row; false after the last.
    pub(super) fn next(&mut self) -> Result<bool> {
        self.seen.row.set(self.reader.position().byte());
        let line = self.reader.position().line();
        let has_more = self.reader.read_byte_record(&mut self.record);
        if self.foreign.is_none() && std::str::from_utf8(self.record.as_slice()).is_err() {
            self.foreign = Some(line);
        }
        has_more.map_err(|error| match error.into_kind() {
            csv::ErrorKind::Io(error) if error.to_string() == "endless" => {
                let message = format!(
                    "a row of more than {}: a quotation mark is probably not closed; close it, or double it inside a text",
                    Bytes(MOST_ROW)
                );
                Error::file_at(self.path, format!("line {line}"), message)
            }
            csv::ErrorKind::Io(error) => unreadable(self.path, &error),
            other => Error::file_at(self.path, format!("line {line}"), format!("{other:?}")),
        })
    }

    /// The line in which the row begins.
    pub(super) fn line(&self) -> u64 {
        self.record.position().map_or(0, csv::Position::line)
    }

    /// Whether the row's last field goes over several lines, to the last that was read, and no quotation mark ends it.
    pub(super) fn swallows_the_rest(&self) -> bool {
        let is_open = self.reader.position().byte() == self.seen.bytes.get() && self.seen.last.get() != b'"';
        is_open && self.record.iter().next_back().is_some_and(|field| field.contains(&b'\n'))
    }

    /// The byte after the row.
    pub(super) fn at(&self) -> u64 {
        self.reader.position().byte()
    }

    /// The number of bytes that were read, and their checksum.
    pub(super) fn ended(&self) -> (u64, u32) {
        (self.seen.bytes.get(), self.seen.checksum.get())
    }
}
