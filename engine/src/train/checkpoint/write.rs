//! Writing a checkpoint: aside, to the disk, then onto its name, with a checksum of all of it.

use std::{
    fs::File,
    io::{BufWriter, ErrorKind, Seek, SeekFrom, Write},
    path::Path,
};

use crate::{
    backend::Backend,
    bytes::Bytes,
    error::{Error, Result},
    step::{
        Session,
        save::{CHECKSUM_AT, Sink, WRITE_BUFFER},
    },
    whole_file::{self, reason},
};

/// A file that is being written.
struct Writer<'a> {
    path: &'a Path,
    file: BufWriter<&'a mut File>,
    bytes: u64,
    checksum: crc32fast::Hasher,
}

/// The failure of a file that is written.
enum Failed {
    System(std::io::Error),
    Run(Error),
}

impl From<std::io::Error> for Failed {
    fn from(error: std::io::Error) -> Self {
        Self::System(error)
    }
}

impl Writer<'_> {
    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.checksum.update(bytes);
        self.bytes += bytes.len() as u64;
        self.file.write_all(bytes).map_err(|error| unwritable(self.path, &error))
    }
}

impl Sink for Writer<'_> {
    fn head(&mut self, bytes: &[u8]) -> Result<()> {
        self.put(bytes)
    }

    fn elements(&mut self, bytes: &[u8]) -> Result<()> {
        self.put(bytes)
    }
}

/// A checksum as it stands in a file.
pub(in crate::train) fn checksum_text(checksum: u32) -> String {
    format!("{checksum:08x}")
}

/// Writes `session` with `facts` at `path`; the size of the file, and its checksum. The old file stays until the new one is
/// whole and on the disk, and `before` was called.
///
/// # Errors
/// Fails when the system takes no more, and where [`Session::save`] does.
pub(in crate::train) fn write<B: Backend>(
    session: &Session<B>,
    facts: &[(&str, String)],
    path: &Path,
    before: impl FnOnce(),
) -> Result<(Bytes, u32)> {
    let fill = |file: &mut File| -> Result<(Bytes, u32), Failed> {
        let file = BufWriter::with_capacity(WRITE_BUFFER, file);
        let mut writer = Writer { path, file, bytes: 0, checksum: crc32fast::Hasher::new() };
        session.save(facts, &mut writer).map_err(Failed::Run)?;
        let Writer { mut file, bytes, checksum, .. } = writer;
        let checksum = checksum.finalize();
        file.seek(SeekFrom::Start(CHECKSUM_AT))?;
        file.write_all(checksum_text(checksum).as_bytes())?;
        file.flush()?;
        Ok((Bytes(bytes), checksum))
    };
    whole_file::write_with(path, fill, before).map_err(|failed| match failed {
        Failed::System(error) => unwritable(path, &error),
        Failed::Run(error) => error,
    })
}

/// A file that the system does not take.
pub(super) fn unwritable(path: &Path, error: &std::io::Error) -> Error {
    let kept = if path.exists() { "the checkpoint that was there before is as it was" } else { "nothing was written" };
    let mend = match error.kind() {
        ErrorKind::FileTooLarge => "raise that limit",
        _ => "make room there, or choose another folder",
    };
    Error::file(path, format!("cannot be saved: {}; {kept}; {mend}", reason(error)))
}
