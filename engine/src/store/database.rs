//! The file of the store: how it is opened, and how it is read and written.
//!
//! Always holds: it is opened by its path, with any characters in it. A file of an earlier version is brought up to date in one
//! transaction; a file of a newer version, of another program, or one that is damaged is left as it is. Every failure is a
//! sentence with the file and how to fix it.

use std::{
    fs, io,
    path::{self, Path, PathBuf},
    time::Duration,
};

use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior};

use super::{
    fault::{FULL, Fault, files_of, no_folder, reason},
    schema::{MARK, MIGRATIONS},
};
use crate::{
    bytes::Bytes,
    error::{Error, Result},
    memory::host,
    whole_file,
};

/// The database's name in the store's folder.
pub(super) const FILE: &str = "runs.db";
/// The file next to it, with changes that are not in it yet.
const LOG: &str = "runs.db-wal";
/// The index of that, while programs are at work.
const INDEX: &str = "runs.db-shm";
/// The database and every file that SQLite may write next to it.
pub(super) const BESIDE: [&str; 4] = [FILE, LOG, INDEX, "runs.db-journal"];

/// How long another program's writing is waited for.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// How long it takes at most until a file that another program is making has its first bytes.
const MAKING: Duration = Duration::from_millis(200);
/// Memory for pages of the database.
const CACHE_KIB: i64 = 256;

/// An open database.
#[derive(Debug)]
pub(super) struct Database {
    pub(super) path: PathBuf,
    connection: Connection,
    /// Whether it can only be read, because nothing can be written next to it.
    pub(super) is_frozen: bool,
    /// Whether it can only be read, because the disk has no room for the files next to it.
    pub(super) lacks_room: bool,
    /// A warning, if the file was empty although folders of runs lie next to it.
    emptied: Option<String>,
    /// The file that is open, as its system numbers it; `None` if that is not known.
    place: Option<Place>,
}

/// Bytes that the files of a store must be allowed to have: an index, a log and the database of a run of some steps.
pub(super) const LEAST: Bytes = Bytes::kib(64);

/// Refuses a store where the system lets this process write no file that is large enough, before an empty one is made.
fn has_room_in_files() -> Result<(), Fault> {
    match host::most_of_a_file().filter(|most| *most < LEAST) {
        Some(most) => Err(Fault::FileLimit(most)),
        None => Ok(()),
    }
}

/// A file by the numbers of its disk and of itself.
type Place = (u64, u64);

impl Database {
    /// Opens the database in `folder` to be read and written; makes both where they are not there.
    pub(super) fn open(folder: &Path) -> Result<Self> {
        Self::try_open(folder).map_err(|fault| fault.of(folder))
    }

    /// Opens it, with the failure as it is.
    pub(super) fn try_open(folder: &Path) -> Result<Self, Fault> {
        has_room_in_files()?;
        fs::create_dir_all(folder).map_err(Fault::Folder)?;
        let path = folder.join(FILE);
        let is_emptied = files_of(folder) > 0 && is_empty(&path).unwrap_or(false);
        let emptied = is_emptied.then(|| Fault::Empty.of(folder).to_string());
        Ok(Self { emptied, ..Self::open_at(path, OpenFlags::SQLITE_OPEN_CREATE)? })
    }

    /// Opens the database that is in `folder`: for writing as well if that is possible, else for reading. `None` if there is
    /// none.
    pub(super) fn open_existing(folder: &Path) -> Result<Option<Self>> {
        let path = folder.join(FILE);
        let file = |fault: Fault| fault.of(folder);
        match is_empty(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Err(no_folder(folder, &error)),
            Err(error) => return Err(file(Fault::File(error))),
            Ok(true) => return Err(file(Fault::Empty)),
            Ok(false) => {}
        }
        match Self::open_at(path.clone(), OpenFlags::empty()) {
            Ok(database) => Ok(Some(database)),
            Err(fault) if fault.is_of_writing() => match Self::open_frozen(path.clone()) {
                Ok(database) => Ok(Some(Self { lacks_room: fault.is_full() || has_no_room(folder), ..database })),
                Err(Fault::Sqlite(_)) => Err(file(fault)),
                Err(other) => Err(file(other)),
            },
            Err(fault) => Err(file(fault)),
        }
    }

    fn open_at(path: PathBuf, more: OpenFlags) -> Result<Self, Fault> {
        is_plain(&path)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | more;
        // A path that begins like an address would be read as one without a folder before it.
        let mut connection = Connection::open_with_flags(path::absolute(&path).map_err(Fault::File)?, flags)?;
        let place = place(&path);
        prepare(&mut connection, MIGRATIONS)?;
        Ok(Self { path, connection, is_frozen: false, lacks_room: false, emptied: None, place })
    }

    /// Opens it for reading as it is: nothing is written, neither in it nor next to it, and nothing is waited for.
    pub(super) fn open_frozen(path: PathBuf) -> Result<Self, Fault> {
        is_plain(&path)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
        let absolute = path::absolute(&path).map_err(Fault::File)?;
        let connection = Connection::open_with_flags(format!("{}?immutable=1", address(&absolute)), flags)?;
        has_present_form(&connection, MIGRATIONS)?;
        Ok(Self { path, connection, is_frozen: true, lacks_room: false, emptied: None, place: None })
    }

    /// Opens the database in `folder` for this program alone, to be changed in place, without room for a log next to it. A
    /// power cut in the middle of a change may damage it: only for changes that make room on a full disk.
    pub(super) fn open_in_place(folder: &Path) -> Result<Self> {
        let path = folder.join(FILE);
        let open = || -> Result<Connection, Fault> {
            let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            let connection = Connection::open_with_flags(path::absolute(&path).map_err(Fault::File)?, flags)?;
            connection.busy_timeout(PATIENCE)?;
            connection.pragma_update_and_check(None, "locking_mode", "exclusive", |_| Ok(()))?;
            has_present_form(&connection, MIGRATIONS)?;
            connection.pragma_update_and_check(None, "journal_mode", "memory", |_| Ok(()))?;
            connection.pragma_update(None, "foreign_keys", true)?;
            // No other program is here, so the files that an opening without room has left next to it are unused.
            let _ = fs::remove_file(path.with_file_name(INDEX));
            Ok(connection)
        };
        let connection = open().map_err(|fault| fault.of(folder))?;
        Ok(Self { path, connection, is_frozen: false, lacks_room: false, emptied: None, place: None })
    }

    /// A warning about what is missing: the runs of an emptied file, until a new run is in it; or changes that cannot be read
    /// because nothing can be written.
    pub(super) fn caution(&self) -> Option<String> {
        let has_runs =
            || self.look(|db| db.query_row("SELECT EXISTS(SELECT 1 FROM runs)", [], |row| row.get::<_, bool>(0)));
        if self.emptied.is_some() && !has_runs().unwrap_or(false) {
            return self.emptied.clone();
        }
        let log = self.path.with_file_name(LOG);
        let has_changes = self.is_frozen && fs::metadata(&log).is_ok_and(|log| log.len() > 0);
        has_changes.then(|| {
            format!(
                "{}: the last changes of the store are in this file and are not shown, because nothing can be written next \
                 to it; make room or give rights there, or copy the folder and name the copy with --store",
                log.display()
            )
        })
    }

    /// Whether the open file is still at its path, because writes into a removed file are lost.
    pub(super) fn is_in_place(&self) -> bool {
        self.place.is_none() || self.place == place(&self.path)
    }

    /// Runs `work`, with the failure as it is.
    pub(super) fn look<T>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> rusqlite::Result<T> {
        work(&self.connection)
    }

    /// Runs `work`, whose failure becomes one of this file.
    pub(super) fn with<T>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T> {
        work(&self.connection).map_err(|error| self.fault(&error))
    }

    /// Runs `work` in a transaction: all of it is written or nothing.
    pub(super) fn write<T>(&mut self, work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>) -> Result<T> {
        self.try_write(work).map_err(|error| self.fault(&error))
    }

    /// Writes, with the failure as it is.
    pub(super) fn try_write<T>(
        &mut self,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let result = work(&transaction)?;
        transaction.commit()?;
        Ok(result)
    }

    /// Does `work`, and waits for other programs for this long.
    pub(super) fn patiently<T>(
        &self,
        patience: Duration,
        work: impl FnOnce(&Self) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        self.connection.busy_timeout(patience)?;
        let done = work(self);
        self.connection.busy_timeout(PATIENCE)?;
        done
    }

    /// Gives room that deleted runs left back to the disk, if that is worthwhile and no other program is in the way.
    pub(super) fn shrink(&self) -> rusqlite::Result<()> {
        const WORTH_BYTES: i64 = 8 << 20;
        let number = |name: &str| self.connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        let (free, all, page) = (number("freelist_count")?, number("page_count")?, number("page_size")?);
        if free.saturating_mul(4) < all || free.saturating_mul(page) < WORTH_BYTES {
            return Ok(());
        }
        self.connection.execute_batch("VACUUM")?;
        self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
    }

    /// The error that a failure of the database means.
    pub(super) fn fault(&self, error: &rusqlite::Error) -> Error {
        let is_full = self.lacks_room && error.sqlite_error_code() == Some(ErrorCode::ReadOnly);
        Error::file(&self.path, if is_full { FULL.to_owned() } else { reason(error) })
    }
}

/// Whether no file can be made in `folder` because the disk is full.
fn has_no_room(folder: &Path) -> bool {
    let is_full = |error: io::Error| matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
    whole_file::can_be_written_in(folder).is_err_and(is_full)
}

/// Refuses a path that is not a file, because opening a pipe would wait for a writer.
fn is_plain(path: &Path) -> Result<(), Fault> {
    if fs::metadata(path).is_ok_and(|there| !there.is_file()) { Err(Fault::NoFile) } else { Ok(()) }
}

/// The file that stands at `path`.
#[cfg(unix)]
fn place(path: &Path) -> Option<Place> {
    use std::os::unix::fs::MetadataExt;

    fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

/// Elsewhere a file that is open cannot be removed.
#[cfg(not(unix))]
fn place(_: &Path) -> Option<Place> {
    None
}

/// Whether a file has no byte. One that another program is making has some a moment later.
fn is_empty(path: &Path) -> io::Result<bool> {
    let is_empty = || fs::metadata(path).map(|file| file.is_file() && file.len() == 0);
    if is_empty()? {
        std::thread::sleep(MAKING);
    }
    is_empty()
}

/// A path as the address of a file: every sign that means something in one is written by its number.
fn address(path: &Path) -> String {
    #[cfg(unix)]
    let bytes = std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str()).to_vec();
    #[cfg(not(unix))]
    let bytes = format!("/{}", path.to_string_lossy().replace('\\', "/")).into_bytes();
    let mut text = "file://".to_owned();
    for byte in bytes {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'_' | b'-' => text.push(char::from(byte)),
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

/// Refuses a database that is not of the present form.
fn has_present_form(connection: &Connection, migrations: &[&str]) -> Result<(), Fault> {
    let latest = migrations.len() as i64;
    match version(connection)? {
        0 => Err(Fault::Empty),
        present if present > latest => Err(Fault::Newer(present)),
        present if present < latest => Err(Fault::Older(present)),
        _ => Ok(()),
    }
}

/// Brings an open database to the present form.
fn prepare(connection: &mut Connection, migrations: &[&str]) -> Result<(), Fault> {
    connection.busy_timeout(PATIENCE)?;
    let latest = migrations.len() as i64;
    if version(connection)? < latest {
        // Two programs may have come here at once: the second finds the work done.
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let present = version(&transaction)?;
        for migration in migrations.get(present as usize..).unwrap_or_default() {
            transaction.execute_batch(migration)?;
        }
        if present < latest {
            transaction.pragma_update(None, "application_id", MARK)?;
            transaction.pragma_update(None, "user_version", latest)?;
        }
        transaction.commit()?;
    }
    let present = version(connection)?;
    if present > latest {
        return Err(Fault::Newer(present));
    }
    let mode: String = connection.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
    if mode != "wal" {
        // A writer of the same moment may be in the way, or the disk may not allow it: it works without as well.
        let _ = connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()));
    }
    // After a loss of power the last second may be missing, and nothing else is harmed.
    connection.pragma_update(None, "synchronous", "normal")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    // A run's process should not grow with its length, and nothing reads the same pages often.
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    Ok(())
}

/// The form of a store; 0 of a file in which nothing is yet.
fn version(connection: &Connection) -> Result<i64, Fault> {
    // In this order: a program that makes the tables makes the mark with them, so tables that are seen have theirs.
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    let number = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let (version, mark) = (number("user_version")?, number("application_id")?);
    match (mark == i64::from(MARK), tables) {
        (true, _) if version > 0 => Ok(version),
        // A database without tables that bears another program's mark is that program's.
        (is_ours, 0) if is_ours || (mark, version) == (0, 0) => Ok(0),
        _ => Err(Fault::Foreign),
    }
}

#[cfg(test)]
mod tests;
