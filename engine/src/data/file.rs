//! Data files, plain or gzip, read without trust: no header makes the reader allocate more than the file can hold.
//!
//! Owns [`Reader`], and [`Opened`] for files that are read at places. Always holds: the sizes in a header are compared with
//! the file's length before anything is allocated for them. Refuses files that are not regular, end early, are too long, or
//! would hold more than [`MOST`] bytes.

use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

use flate2::bufread::MultiGzDecoder;

use crate::{
    bytes::Bytes,
    error::{Error, Result},
    memory::probe::note_read,
    sync::Mutex,
};

/// The largest body that is read: more than a lesson on one machine needs.
pub(super) const MOST: u64 = 2 << 30;

/// The most that deflate can grow (1032 to 1, RFC 1951's longest match in its shortest code).
const DEFLATE_RATIO: u64 = 1032;

/// Bytes that are looked at together.
const PART: usize = 64 << 10;

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// A data file being read from its start.
pub(super) struct Reader {
    path: PathBuf,
    /// Bytes on disk.
    len: u64,
    /// Bytes read, after unpacking.
    at: u64,
    is_packed: bool,
    reader: Box<dyn Read>,
}

impl Reader {
    /// Opens a file. Its first bytes say whether it is gzip, with any name.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let failed = |error: io::Error| unreadable(path, &error);
        let about = fs::metadata(path).map_err(failed)?;
        if !about.is_file() {
            return Err(Error::file(path, "this is not a regular file; choose a folder with the data files in it"));
        }
        let mut reader = BufReader::with_capacity(32 << 10, File::open(path).map_err(failed)?);
        let is_packed = reader.fill_buf().map_err(failed)?.starts_with(&GZIP_MAGIC);
        let reader: Box<dyn Read> = if is_packed { Box::new(MultiGzDecoder::new(reader)) } else { Box::new(reader) };
        Ok(Self { path: path.to_owned(), len: about.len(), at: 0, is_packed, reader })
    }

    /// The file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is gzip.
    pub(super) fn is_packed(&self) -> bool {
        self.is_packed
    }

    /// The next `N` bytes.
    pub(super) fn header<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut header = [0; N];
        let mut filled = 0;
        while filled < N {
            match self.reader.read(&mut header[filled..]) {
                Ok(0) => return Err(self.short(self.at + N as u64, filled as u64)),
                Ok(n) => filled += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.broken(filled as u64, &error)),
            }
        }
        self.at += N as u64;
        note_read(N);
        Ok(header)
    }

    /// Whether exactly `bytes` more can follow, from the file's length alone: exact for a plain file, a bound for gzip.
    pub(super) fn check_rest(&self, bytes: u64) -> Result<()> {
        let whole = self.at.saturating_add(bytes);
        if self.is_packed {
            if whole > self.len.saturating_mul(DEFLATE_RATIO) {
                let most = Bytes(self.len.saturating_mul(DEFLATE_RATIO));
                let message = format!(
                    "the header promises {}, but the file unpacks to {most} at most: damaged; download it again",
                    Bytes(bytes)
                );
                return Err(Error::file_at(&self.path, "header", message));
            }
        } else if self.len < whole {
            return Err(self.short(whole, self.len - self.at.min(self.len)));
        } else if self.len > whole {
            return Err(self.long(whole, Some(self.len - whole)));
        }
        Ok(())
    }

    /// Checks that this many bytes may be held.
    pub(super) fn check_held(&self, bytes: u64) -> Result<()> {
        if bytes > MOST {
            let message = format!(
                "the header promises {}, more than the {} this program holds; use a smaller set, or unpack it and write \
                 data.placement = \"streamed\"",
                Bytes(bytes),
                Bytes(MOST)
            );
            return Err(Error::file_at(&self.path, "header", message));
        }
        Ok(())
    }

    /// Shows `see` the `bytes` that follow, which must be the rest of the file, part by part: however many, they take little
    /// memory.
    pub(super) fn see_rest(mut self, bytes: u64, mut see: impl FnMut(&[u8])) -> Result<()> {
        self.check_rest(bytes)?;
        let mut part = vec![0; PART];
        let mut have = 0;
        loop {
            match self.reader.read(&mut part) {
                Ok(0) if have < bytes => return Err(self.short(self.at + bytes, have)),
                Ok(0) => return Ok(()),
                Ok(n) if have + n as u64 > bytes => return Err(self.long(self.at + bytes, None)),
                Ok(n) => {
                    see(&part[..n]);
                    have += n as u64;
                    note_read(n);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.broken(have, &error)),
            }
        }
    }

    /// The `bytes` that follow, which must be the rest of the file.
    pub(super) fn rest(mut self, bytes: u64) -> Result<Vec<u8>> {
        self.check_rest(bytes)?;
        self.check_held(bytes)?;
        let mut data = Vec::new();
        // A plain file is known to be that long. Gzip may promise a thousand times its content, so the buffer grows as it
        // unpacks.
        if !self.is_packed && data.try_reserve_exact(bytes as usize).is_err() {
            return Err(Error::file(&self.path, format!("no memory for its {}; close other programs", Bytes(bytes))));
        }
        if let Err(error) = (&mut self.reader).take(bytes + 1).read_to_end(&mut data) {
            return Err(self.broken(data.len() as u64, &error));
        }
        note_read(data.len());
        let have = data.len() as u64;
        if have < bytes {
            return Err(self.short(self.at + bytes, have));
        }
        if have > bytes {
            return Err(self.long(self.at + bytes, None));
        }
        data.shrink_to_fit();
        Ok(data)
    }

    /// The error for a file that ends `have` bytes further on, although it should be `whole` bytes long.
    fn short(&self, whole: u64, have: u64) -> Error {
        let unpacked = if self.is_packed { " unpacked" } else { "" };
        let end = self.at + have;
        let message = format!("it ends after {end} of {whole} bytes{unpacked}: cut short; copy or download it again");
        Error::file_at(&self.path, format!("byte {end}"), message)
    }

    fn long(&self, whole: u64, extra: Option<u64>) -> Error {
        let extra = extra.map_or("more bytes follow".to_owned(), |n| format!("{n} more bytes follow"));
        let message = format!("{extra} where its header says it ends: damaged, or another format; download it again");
        Error::file_at(&self.path, format!("byte {whole}"), message)
    }

    /// Reading failed `have` bytes further on.
    fn broken(&self, have: u64, error: &io::Error) -> Error {
        use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
        let end = self.at + have;
        match error.kind() {
            InvalidData | InvalidInput | UnexpectedEof if self.is_packed => {
                let message =
                    format!("the gzip data is broken after {end} bytes unpacked ({error}); download it again");
                Error::file_at(&self.path, format!("byte {end} unpacked"), message)
            }
            _ => unreadable(&self.path, error),
        }
    }
}

/// A file that is read at places, by one thread at a time; it must stay as it was when it was opened.
#[derive(Debug)]
pub(super) struct Opened {
    path: PathBuf,
    file: Mutex<File>,
    len: u64,
}

impl Opened {
    pub(super) fn new(path: &Path) -> Result<Self> {
        let failed = |error: io::Error| unreadable(path, &error);
        let file = File::open(path).map_err(failed)?;
        let len = file.metadata().map_err(failed)?.len();
        Ok(Self { path: path.to_owned(), file: Mutex::new(file), len })
    }

    /// The file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The file's length when it was opened.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Fills `bytes` with those from `start` on.
    pub(super) fn read(&self, start: u64, bytes: &mut [u8]) -> Result<()> {
        let mut file = self.file.lock();
        let read = file.seek(SeekFrom::Start(start)).and_then(|_| file.read_exact(bytes));
        read.map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                let message = format!("it had {} and is shorter now; begin the run again", Bytes(self.len));
                Error::file_at(&self.path, format!("byte {start}"), message)
            }
            _ => unreadable(&self.path, &error),
        })?;
        note_read(bytes.len());
        Ok(())
    }
}

/// The error for a file or folder that the system does not let us read.
pub(super) fn unreadable(path: &Path, error: &io::Error) -> Error {
    let message = match error.kind() {
        io::ErrorKind::NotFound => "not found; check the path, or choose again".to_owned(),
        io::ErrorKind::PermissionDenied => {
            "no permission to read it; change its permissions, or choose another".to_owned()
        }
        _ => format!("it cannot be read: {error}; choose another"),
    };
    Error::file(path, message)
}

/// The first of `names` that is a file in `folder`; `None` when there is none.
///
/// # Errors
/// Fails when the folder is missing, is not a folder or may not be read.
pub(super) fn find(folder: &Path, names: &[String]) -> Result<Option<PathBuf>> {
    let about = fs::metadata(folder).map_err(|error| unreadable(folder, &error))?;
    if !about.is_dir() {
        return Err(Error::file(folder, "this is not a folder; choose the folder that holds the data files"));
    }
    for name in names {
        let path = folder.join(name);
        match fs::metadata(&path) {
            Ok(about) if about.is_file() => return Ok(Some(path)),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(unreadable(&path, &error)),
        }
    }
    Ok(None)
}

/// The error if one of `names` is in `folder` and is not a file.
pub(super) fn in_the_place_of(folder: &Path, names: &[String]) -> Option<Error> {
    let paths = names.iter().map(|name| folder.join(name));
    let mut found = paths.filter_map(|path| fs::metadata(&path).ok().map(|about| (path, about)));
    let (path, about) = found.find(|(_, about)| !about.is_file())?;
    let what = if about.is_dir() { "a folder" } else { "a pipe or a device" };
    Some(Error::file(path, format!("{what} has this name; put the data file itself in its place")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_refuses_is_said_in_plain_words() {
        let message = |kind| unreadable(Path::new("set"), &io::Error::from(kind)).to_string();
        assert!(message(io::ErrorKind::PermissionDenied).starts_with("set: no permission to read it"));
        assert!(message(io::ErrorKind::NotFound).starts_with("set: not found; check the path"));
        // It may be a file as well.
        assert!(!message(io::ErrorKind::NotFound).contains("folder"));
        assert!(message(io::ErrorKind::TimedOut).starts_with("set: it cannot be read"));
    }

    #[test]
    fn a_folder_in_the_place_of_a_file_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = Reader::open(folder.path()).err().expect("no file");
        assert!(error.to_string().contains("this is not a regular file"), "{error}");
        assert!(find(folder.path(), &["none".to_owned()]).expect("a folder").is_none());
    }
}
