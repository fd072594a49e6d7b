//! Failures of the store, in words: what is wrong, and how to fix it.

use std::{fs, io, path::Path};

use rusqlite::{ErrorCode, ffi::SQLITE_IOERR_SHMSIZE};

use crate::{
    bytes::{Bytes, counted},
    error::Error,
    store::{
        FILES, RunKey,
        database::{self, FILE, PATIENCE},
        schema::VERSION,
    },
    train::Checkpoint,
};

/// A way out if a store cannot be repaired.
const OTHER: &str = "name another folder with --store or PLIMSOLL_STORE";
/// The words for a full disk.
pub(super) const FULL: &str = "cannot be written: the disk is full; make room on it";

/// Why a database cannot be used.
#[derive(Debug)]
pub(super) enum Fault {
    Sqlite(rusqlite::Error),
    Newer(i64),
    /// The file has an earlier format, and cannot be written.
    Older(i64),
    Foreign,
    /// The process may write no file that is as large as a store.
    FileLimit(Bytes),
    /// A file without a byte, where something is to be read.
    Empty,
    /// A pipe, a folder or a device, where a file is to be.
    NoFile,
    /// The folder of the store cannot be made.
    Folder(io::Error),
    /// The system's error for the file.
    File(io::Error),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl Fault {
    fn words(&self, folder: &Path) -> String {
        match self {
            Self::Sqlite(error) => reason(error),
            Self::Newer(version) => format!(
                "was written by a newer version of this program (form {version} of the store, and this one knows form \
                 {VERSION}); nothing was changed: use the newer program, or {OTHER}"
            ),
            Self::Older(version) => format!(
                "is of an earlier form ({version}) and is brought to the present one ({VERSION}) where it can be written: \
                 give this user rights to it, or copy its folder and name the copy with --store"
            ),
            Self::Foreign => format!("is a database of another program; nothing was changed: {OTHER}"),
            Self::FileLimit(limit) => format!(
                "cannot be written: a file of this process may have {limit} at most (`ulimit -f`), and the store needs {} to \
                 begin with; raise the limit and begin again",
                database::LEAST
            ),
            Self::Empty => empty(files_of(folder)),
            Self::NoFile => {
                format!(
                    "cannot be opened: it is a pipe, a folder or a device, not a store of runs; move it away, or {OTHER}"
                )
            }
            Self::Folder(error) => folder_words(error),
            Self::File(error) => match error.kind() {
                io::ErrorKind::PermissionDenied => {
                    format!("cannot be opened: this user has no rights to its folder; change that, or {OTHER}")
                }
                _ => format!("cannot be opened: {error}; {OTHER}"),
            },
        }
    }

    /// The failure as one of the store in `folder`.
    pub(super) fn of(&self, folder: &Path) -> Error {
        match self {
            Self::Folder(error) => no_folder(folder, error),
            _ => Error::file(folder.join(FILE), self.words(folder)),
        }
    }

    /// Whether it may be gone in a moment, without anything being done about the store itself: another program holds it, or
    /// the disk is full.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Self::Sqlite(error) => !is_damage(error) && (!is_of_writing(error) || is_of_room(error)),
            Self::Folder(error) | Self::File(error) => {
                matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
            }
            Self::Newer(_) | Self::Older(_) | Self::Foreign | Self::FileLimit(_) | Self::Empty | Self::NoFile => false,
        }
    }

    /// Whether the process itself can write no store, whatever becomes of the disk.
    pub(super) fn is_of_process(&self) -> bool {
        matches!(self, Self::FileLimit(_))
    }

    /// Whether the store is another program's, or a newer version's of this one, which alone knows the files in its folder.
    pub(super) fn is_of_another(&self) -> bool {
        match self {
            Self::Sqlite(error) => error.sqlite_error_code() == Some(ErrorCode::NotADatabase),
            Self::Newer(_) | Self::Foreign | Self::NoFile => true,
            Self::Older(_) | Self::FileLimit(_) | Self::Empty | Self::Folder(_) | Self::File(_) => false,
        }
    }

    /// Whether the disk is full.
    pub(super) fn is_full(&self) -> bool {
        matches!(self, Self::Sqlite(error) if is_full(error))
    }

    /// Whether a database that cannot be opened for writing may be readable all the same.
    pub(super) fn is_of_writing(&self) -> bool {
        matches!(self, Self::Sqlite(error) if is_of_writing(error))
    }
}

/// Whether a failure comes from rights or from a full disk, which reading does not need.
pub(super) fn is_of_writing(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(
            ErrorCode::CannotOpen
                | ErrorCode::ReadOnly
                | ErrorCode::PermissionDenied
                | ErrorCode::DiskFull
                | ErrorCode::SystemIoFailure
        )
    )
}

/// Whether a failure comes from a full disk, for the database or for the index next to it.
fn is_full(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DiskFull)
        || error.sqlite_extended_error_code() == Some(SQLITE_IOERR_SHMSIZE)
}

/// Whether a failure comes from a disk that is full, or that failed once.
fn is_of_room(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DiskFull | ErrorCode::SystemIoFailure))
}

/// Whether a failure comes from the content of the database, and not from the disk or from other programs.
pub(super) fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) | None)
}

/// A failure of the database in words, with the way to fix it.
pub(super) fn reason(error: &rusqlite::Error) -> String {
    if is_full(error) {
        return FULL.to_owned();
    }
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => {
            format!("is not a store of runs; nothing was changed: move it away, or {OTHER}")
        }
        // A failure that is not SQLite's is a value that this program never writes.
        Some(ErrorCode::DatabaseCorrupt) | None => format!(
            "is damaged, and what it holds cannot be read whole; nothing was changed. The runs' files in {FILES} next to it \
             are not touched by this. Copy it, then try `sqlite3 {FILE} .recover`, or move it away and a new one is made, or \
             {OTHER}"
        ),
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
            format!(
                "cannot be written: this user has no rights to it, or the disk is read-only; change that, or {OTHER}"
            )
        }
        Some(ErrorCode::CannotOpen) => {
            format!("cannot be opened: this user has no rights to it or its folder; change that, or {OTHER}")
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => format!(
            "is held by another program for more than {} s; end that program, or try again later",
            PATIENCE.as_secs()
        ),
        Some(ErrorCode::SystemIoFailure) => {
            format!(
                "cannot be read or written: the disk fails ({error}), or files may grow no further (`ulimit -f`); correct \
                 that, or {OTHER}"
            )
        }
        _ => format!("cannot be used: {error}; move it away, or {OTHER}"),
    }
}

/// The words for an empty file, with this many folders of runs' files next to it.
fn empty(folders: usize) -> String {
    let lie = format!("{} {}", counted(folders as u64, "folder"), if folders == 1 { "lies" } else { "lie" });
    let then = match folders {
        0 => "there is nothing to do, because the next run is kept in this file".to_owned(),
        _ => format!(
            "the runs' checkpoints are not lost with it: {lie} in {FILES} next to it, and `plimsoll resume FILE` goes on from \
             a checkpoint there; the next run is kept in this file"
        ),
    };
    format!(
        "is an empty file, so no run is in it: a full disk or a copy that was cut short leaves one so. Put the store back from \
         a copy if there is one; if there is none, {then}; or {OTHER}"
    )
}

/// How many folders of runs with checkpoints are in a store.
pub(super) fn files_of(store: &Path) -> usize {
    let entries = fs::read_dir(store.join(FILES)).into_iter().flatten().flatten();
    let is_of_run = |entry: &fs::DirEntry| RunKey::given(&entry.file_name().to_string_lossy()).is_some();
    let has_checkpoint = |entry: &fs::DirEntry| Checkpoint::NAMES.iter().any(|name| entry.path().join(name).is_file());
    entries.filter(|entry| is_of_run(entry) && has_checkpoint(entry)).count()
}

/// The words for a store in which some runs cannot be read; `path` is the path of its database.
pub(super) fn partly_read(path: &Path, lost: usize, read: usize) -> String {
    let runs = counted(lost as u64, "run");
    let others = if read == 1 { "The other one is shown".to_owned() } else { format!("The other {read} are shown") };
    let shown = path.display();
    format!(
        "{shown}: is damaged: {runs} of it cannot be read. {others}, and nothing was changed. A copy of all that can be read \
         is made by `sqlite3 '{shown}' .recover | sqlite3 salvaged.db`; put that in its place, and keep the damaged one. The \
         runs' files in {FILES} next to it are not touched by this"
    )
}

/// The error for a store whose folder cannot be made.
pub(super) fn no_folder(folder: &Path, error: &io::Error) -> Error {
    Error::file(folder, folder_words(error))
}

fn folder_words(error: &io::Error) -> String {
    let why = match error.kind() {
        io::ErrorKind::PermissionDenied => "this user has no rights to it".to_owned(),
        io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => "there is a file in its place".to_owned(),
        io::ErrorKind::StorageFull => "the disk is full".to_owned(),
        io::ErrorKind::ReadOnlyFilesystem => "the disk is read-only".to_owned(),
        _ => error.to_string(),
    };
    format!("cannot be the folder of kept runs: {why}; {OTHER}")
}
