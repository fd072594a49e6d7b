//! The places of the samples of text files: the files, and in each the place at which every sample begins.
//!
//! Owns [`Index`]: eight bytes a sample of any length. Lines of JSON are looked at once, on all cores, so that a broken
//! one is named before a run begins; plain text is cut into pieces at ends of lines, and only looked at there. Always holds: a
//! piece begins and ends where a character does, and no sample has more than [`MOST_SAMPLE`] bytes. Refuses broken lines,
//! unless the choice is to leave them out; packed files, and files that are not UTF-8.

use std::{
    fs::{self, File},
    io::{Read, Seek, SeekFrom},
    ops::Range,
    path::{Path, PathBuf},
    time::SystemTime,
};

use super::{
    line::{self, Wrong},
    lines::Lines,
};
use crate::{
    bytes::{Bytes, counted},
    data::file::unreadable,
    error::{Error, Result},
};

/// The longest line that is a sample.
pub(super) const MOST_SAMPLE: usize = 16 << 20;
/// The most samples: their order takes 4 bytes each.
const MOST_SAMPLES: usize = 1 << 30;
/// The most files of a folder.
const MOST_FILES: usize = 100_000;
/// The longest pieces of plain text.
const PIECE: u64 = 64 << 10;
/// About the fewest pieces of plain text, so that some can be held out.
const PIECES: u64 = 256;
/// How far beyond its length a piece of plain text may reach for the end of a line.
const REACH: usize = 16 << 10;
/// Samples that are remembered for their length.
pub(super) const LONGEST: usize = 32;

/// A file of samples.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SampleFile {
    pub(super) path: PathBuf,
    pub(super) len: u64,
    changed: Option<SystemTime>,
    pub(super) is_json: bool,
    /// The number of the file's first sample.
    first: usize,
}

/// Lines that were left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LeftOut {
    pub(super) count: usize,
    /// The first of them, and its fault.
    pub(super) first: String,
}

/// Where samples are.
#[derive(Debug)]
pub(super) struct Index {
    chosen: PathBuf,
    skips: bool,
    is_json: bool,
    pub(super) files: Vec<SampleFile>,
    starts: Vec<u64>,
    /// Bytes of all samples.
    pub(super) sample_bytes: u64,
    /// The longest samples, the longest first.
    pub(super) longest: Vec<(u64, usize)>,
    pub(super) left_out: Option<LeftOut>,
    /// The checksum of the lines of all files; for plain text, which is not read whole, the checksum of the lengths.
    pub(super) checksum: u32,
}

impl Index {
    /// Looks through a file, or the `.jsonl` and `.txt` files of a folder. A file is of JSON lines where `is_json`, unless
    /// its name ends in `.txt`.
    ///
    /// # Errors
    /// Fails for files that cannot be read, for broken lines unless `skips`, and if there is no sample.
    pub(super) fn new(chosen: &Path, is_json: bool, skips: bool) -> Result<Self> {
        let paths = files_of(chosen, is_json)?;
        let (files, starts) = (Vec::with_capacity(paths.len()), Vec::new());
        let (chosen_path, longest) = (chosen.to_owned(), Vec::new());
        let mut index = Self {
            chosen: chosen_path,
            skips,
            is_json,
            files,
            starts,
            sample_bytes: 0,
            longest,
            left_out: None,
            checksum: 0,
        };
        for path in paths {
            index.add(path)?;
        }
        if index.starts.is_empty() {
            let message = match &index.left_out {
                Some(LeftOut { count, first }) => {
                    format!("it has nothing but {}; the first: {first}", counted(*count as u64, "broken line"))
                }
                None => "it is empty; choose a file with something to learn in it".to_owned(),
            };
            return Err(Error::file(chosen, message));
        }
        index.starts.shrink_to_fit();
        Ok(index)
    }

    /// Whether it is of this choice, and its files are as they were.
    pub(super) fn is_of(&self, chosen: &Path, is_json: bool, skips: bool) -> bool {
        (&*self.chosen, self.is_json, self.skips) == (chosen, is_json, skips) && self.is_current()
    }

    /// Whether its files are as they were.
    pub(super) fn is_current(&self) -> bool {
        let same = |file: &SampleFile| {
            fs::metadata(&file.path).is_ok_and(|now| (now.len(), now.modified().ok()) == (file.len, file.changed))
        };
        let paths = || files_of(&self.chosen, self.is_json);
        self.files.iter().all(same)
            && paths().is_ok_and(|paths| paths.iter().eq(self.files.iter().map(|file| &file.path)))
    }

    /// Samples.
    pub(super) fn len(&self) -> usize {
        self.starts.len()
    }

    /// Bytes of all files.
    pub(super) fn file_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.len).sum()
    }

    /// The file of a sample by its number, and its place in the file; the place of a line reaches up to the next line.
    pub(super) fn place(&self, sample: usize) -> (usize, Range<u64>) {
        let file = self.files.partition_point(|file| file.first <= sample) - 1;
        let end = match self.files.get(file + 1) {
            Some(next) if next.first == sample + 1 => self.files[file].len,
            _ => self.starts.get(sample + 1).copied().unwrap_or(self.files[file].len),
        };
        (file, self.starts[sample]..end)
    }

    /// A sample in words: its file and line, or for a piece of plain text its byte.
    pub(super) fn name(&self, sample: usize) -> (PathBuf, String) {
        let (file, range) = self.place(sample);
        let SampleFile { path, is_json, .. } = &self.files[file];
        let place = match is_json {
            true => format!("line {}", line_at(path, range.start)),
            false => format!("byte {}", range.start),
        };
        (path.clone(), place)
    }

    fn add(&mut self, path: PathBuf) -> Result<()> {
        let failed = |error: std::io::Error| unreadable(&path, &error);
        let mut file = File::open(&path).map_err(failed)?;
        let about = file.metadata().map_err(failed)?;
        if !about.is_file() {
            return Err(Error::file(path, "this is a pipe or a device; choose a file that lies on a disk"));
        }
        let is_json = self.is_json && !path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("txt"));
        let begin = beginning(&path, &mut file)?;
        let (first, len) = (self.starts.len(), about.len());
        if is_json {
            self.add_lines(&path, file, begin)?;
        } else {
            self.add_pieces(&path, file, begin, len)?;
        }
        if self.starts.len() > MOST_SAMPLES {
            let message = format!("more than {MOST_SAMPLES} samples; choose fewer files");
            return Err(Error::file(&self.chosen, message));
        }
        if self.starts.len() > first {
            self.files.push(SampleFile { path, len, changed: about.modified().ok(), is_json, first });
        }
        Ok(())
    }

    fn add_lines(&mut self, path: &Path, file: File, begin: u64) -> Result<()> {
        let mut lines = Lines::new(path, file, begin);
        while let Some(block) = lines.next()? {
            for (number, range, verdict) in block {
                match verdict {
                    Ok(()) => self.push(range.start, range.end - range.start),
                    Err(wrong) => self.refuse(path, number, wrong)?,
                }
            }
        }
        self.sum(&lines.checksum().to_le_bytes());
        Ok(())
    }

    /// Adds the identity of a file to the checksum.
    fn sum(&mut self, of_file: &[u8]) {
        let mut hasher = crc32fast::Hasher::new_with_initial(self.checksum);
        hasher.update(of_file);
        self.checksum = hasher.finalize();
    }

    fn push(&mut self, start: u64, bytes: u64) {
        let sample = self.starts.len();
        self.starts.push(start);
        self.sample_bytes += bytes;
        let is_long = self.longest.len() < LONGEST || self.longest.last().is_some_and(|(least, _)| bytes > *least);
        if is_long {
            let at = self.longest.partition_point(|(other, _)| *other >= bytes);
            self.longest.insert(at, (bytes, sample));
            self.longest.truncate(LONGEST);
        }
    }

    fn refuse(&mut self, path: &Path, number: u64, wrong: Wrong) -> Result<()> {
        let Wrong { column, message } = wrong;
        let place = column.map_or(format!("line {number}"), |column| format!("line {number}, column {column}"));
        if !self.skips {
            let message = format!("{message}; fix the line, or write data.skip_broken = true to leave such lines out");
            return Err(Error::file_at(path, place, message));
        }
        let error = || Error::file_at(path, place, message).to_string();
        let left_out = self.left_out.get_or_insert_with(|| LeftOut { count: 0, first: error() });
        left_out.count += 1;
        Ok(())
    }

    /// Cuts plain text at ends of lines, else at blanks, else between characters.
    fn add_pieces(&mut self, path: &Path, mut file: File, begin: u64, len: u64) -> Result<()> {
        self.sum(&len.to_le_bytes());
        let piece = (len / PIECES).clamp(1 << 10, PIECE);
        let failed = |error: std::io::Error| unreadable(path, &error);
        let mut start = begin;
        let mut ahead = Vec::with_capacity(REACH);
        while start < len {
            let mut end = start + piece;
            if end + REACH as u64 >= len {
                end = len;
            } else {
                ahead.clear();
                file.seek(SeekFrom::Start(end)).map_err(failed)?;
                Read::by_ref(&mut file).take(REACH as u64).read_to_end(&mut ahead).map_err(failed)?;
                end += cut(&ahead) as u64;
            }
            self.push(start, end - start);
            start = end;
        }
        Ok(())
    }
}

/// Where text may be cut: after the first end of a line, else before the first blank, else before the first character.
fn cut(text: &[u8]) -> usize {
    let line = memchr::memchr(b'\n', text).map(|at| at + 1);
    let blank = || memchr::memchr(b' ', text);
    let character = || text.iter().position(|byte| byte & 0xc0 != 0x80);
    line.or_else(blank).or_else(character).unwrap_or(0)
}

/// Where the text of a file begins: after its byte order mark.
fn beginning(path: &Path, file: &mut File) -> Result<u64> {
    let failed = |error: std::io::Error| unreadable(path, &error);
    let mut head = Vec::with_capacity(4);
    Read::by_ref(file).take(4).read_to_end(&mut head).map_err(failed)?;
    match head[..] {
        [0x1f, 0x8b, ..] | [0x28, 0xb5, 0x2f, 0xfd] | [b'P', b'K', 3, 4] => {
            Err(Error::file(path, "it is packed; unpack it first"))
        }
        [b'P', b'A', b'R', b'1'] => Err(Error::file(path, "it is a table (Parquet); write it as JSON lines first")),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Err(Error::file(path, "it is UTF-16; save it as UTF-8")),
        [0xef, 0xbb, 0xbf, ..] => Ok(3),
        _ => Ok(0),
    }
}

/// The files that a choice stands for, in the order of their names.
pub(super) fn files_of(chosen: &Path, is_json: bool) -> Result<Vec<PathBuf>> {
    let failed = |error: std::io::Error| unreadable(chosen, &error);
    let about = fs::metadata(chosen).map_err(failed)?;
    if about.is_file() {
        return Ok(vec![chosen.to_owned()]);
    }
    // Opening a pipe would wait for a writer.
    if !about.is_dir() {
        return Err(Error::file(chosen, "this is a pipe or a device; choose a file or a folder that lies on a disk"));
    }
    if !is_json {
        return Err(Error::file(
            chosen,
            "this is a folder; choose a file, or write data.kind = \"jsonl\", which takes one",
        ));
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(chosen).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let is_hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        let is_text = path.extension().is_some_and(|e| ["jsonl", "txt"].iter().any(|own| e.eq_ignore_ascii_case(own)));
        if is_text && !is_hidden && path.is_file() {
            found.push(path);
        }
        if found.len() > MOST_FILES {
            return Err(Error::file(chosen, format!("has more than {MOST_FILES} files; join them into fewer")));
        }
    }
    if found.is_empty() {
        return Err(Error::file(
            chosen,
            "no .jsonl and no .txt file in it; choose the folder that holds them, or a file",
        ));
    }
    found.sort();
    Ok(found)
}

/// The number of the line that begins at a byte. Only an error asks for it.
fn line_at(path: &Path, start: u64) -> u64 {
    let Ok(file) = File::open(path) else { return 0 };
    let (mut reader, mut block, mut count) = (file.take(start), vec![0; 1 << 20], 1);
    while let Ok(read) = reader.read(&mut block) {
        if read == 0 {
            break;
        }
        count += memchr::memchr_iter(b'\n', &block[..read]).count() as u64;
    }
    count
}

/// Why a line is too long.
pub(super) fn too_long() -> Wrong {
    let message =
        format!("is longer than the {} that a sample may have; split it into several", Bytes(MOST_SAMPLE as u64));
    Wrong { column: None, message }
}

/// Whether a line can be read.
pub(super) fn check(bytes: &[u8]) -> Result<(), Wrong> {
    line::check(bytes)
}
