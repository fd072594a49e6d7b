//! The file of the store: how it is opened, its schema, and what its failures mean.
//!
//! Always holds: a file of an earlier version is brought up to date in one transaction; a file of a newer version, of another
//! program, or one that is damaged is left as it is. Every failure is a sentence with the file and what would mend it.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior};

use crate::error::{Error, Result};

/// The database's name in the store's folder.
pub(super) const FILE: &str = "runs.db";

/// How long another program's writing is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// Marks a database as a store of runs: "Plim".
const MARK: i32 = 0x506c_696d;

/// What brings a store from each version to the next. A store that was brought through all is of this version. What stands
/// here is never changed: it is the form of stores that exist.
const MIGRATIONS: &[&str] = &["
    CREATE TABLE runs (
        number INTEGER PRIMARY KEY,
        key TEXT NOT NULL UNIQUE,
        title TEXT NOT NULL,
        name TEXT,
        note TEXT NOT NULL DEFAULT '',
        tags TEXT NOT NULL DEFAULT '',
        starred INTEGER NOT NULL DEFAULT 0,
        discarded INTEGER,
        state TEXT NOT NULL,
        message TEXT,
        origin TEXT NOT NULL,
        started INTEGER NOT NULL,
        ended INTEGER,
        system TEXT NOT NULL,
        pid INTEGER NOT NULL,
        began INTEGER NOT NULL,
        pulse INTEGER NOT NULL,
        version TEXT NOT NULL,
        device TEXT NOT NULL,
        device_name TEXT NOT NULL,
        is_gpu INTEGER NOT NULL,
        seed INTEGER NOT NULL,
        settings TEXT NOT NULL,
        budget INTEGER NOT NULL,
        predicted_live INTEGER NOT NULL,
        predicted_reserved INTEGER NOT NULL,
        predicted_process INTEGER NOT NULL,
        total_steps INTEGER NOT NULL,
        measured_live INTEGER NOT NULL DEFAULT 0,
        measured_reserved INTEGER NOT NULL DEFAULT 0,
        measured_process INTEGER NOT NULL DEFAULT 0,
        steps INTEGER NOT NULL DEFAULT 0,
        secs REAL NOT NULL DEFAULT 0,
        steps_secs REAL NOT NULL DEFAULT 0,
        skipped INTEGER NOT NULL DEFAULT 0,
        train_loss REAL,
        test_loss REAL,
        test_accuracy REAL,
        best_test_accuracy REAL,
        kept_bytes INTEGER NOT NULL DEFAULT 0
    );
    CREATE TABLE details (
        run INTEGER PRIMARY KEY REFERENCES runs ON DELETE CASCADE,
        preset TEXT NOT NULL,
        prediction BLOB NOT NULL,
        process_is_sampled INTEGER,
        left_over INTEGER,
        measured_in_step INTEGER,
        measured_step BLOB
    );
    CREATE TABLE blocks (
        run INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
        series INTEGER NOT NULL,
        first INTEGER NOT NULL,
        count INTEGER NOT NULL,
        data BLOB NOT NULL,
        PRIMARY KEY (run, series, first)
    );
    CREATE TABLE events (
        run INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
        place INTEGER NOT NULL,
        at INTEGER NOT NULL,
        step INTEGER NOT NULL,
        kind TEXT NOT NULL,
        text TEXT NOT NULL,
        PRIMARY KEY (run, place)
    );
"];

/// The version of stores that this program writes.
pub(super) const VERSION: i64 = MIGRATIONS.len() as i64;

/// An open database.
#[derive(Debug)]
pub(super) struct Database {
    pub(super) path: PathBuf,
    connection: Connection,
}

impl Database {
    /// Opens the database in `folder`; makes both where they are not there.
    pub(super) fn open(folder: &Path) -> Result<Self> {
        let path = folder.join(FILE);
        fs::create_dir_all(folder).map_err(|error| no_folder(folder, &error))?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection =
            Connection::open_with_flags(&path, flags).map_err(|error| Error::file(&path, reason(&error)))?;
        prepare(&mut connection, MIGRATIONS).map_err(|fault| Error::file(&path, fault.words()))?;
        Ok(Self { path, connection })
    }

    /// Runs `work`, whose failure becomes one of this file.
    pub(super) fn with<T>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T> {
        work(&self.connection).map_err(|error| self.fault(&error))
    }

    /// Runs `work` in a transaction: all of it is written or nothing.
    pub(super) fn write<T>(&mut self, work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>) -> Result<T> {
        let begun = self.connection.transaction_with_behavior(TransactionBehavior::Immediate);
        let written = begun.and_then(|transaction| {
            let result = work(&transaction)?;
            transaction.commit()?;
            Ok(result)
        });
        written.map_err(|error| Error::file(&self.path, reason(&error)))
    }

    /// What a failure of the database means.
    pub(super) fn fault(&self, error: &rusqlite::Error) -> Error {
        Error::file(&self.path, reason(error))
    }
}

/// Why a database cannot be used.
#[derive(Debug)]
enum Fault {
    Sqlite(rusqlite::Error),
    Newer(i64),
    Foreign,
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl Fault {
    fn words(&self) -> String {
        match self {
            Self::Sqlite(error) => reason(error),
            Self::Newer(version) => format!(
                "was written by a newer version of this program (form {version} of the store, and this one knows form \
                 {VERSION}); nothing was changed: use the newer program, or {OTHER}"
            ),
            Self::Foreign => format!("is a database of another program; nothing was changed: {OTHER}"),
        }
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
    Ok(())
}

/// The form of a store; 0 of a file in which nothing is yet.
fn version(connection: &Connection) -> Result<i64, Fault> {
    // In this order: whoever makes the tables makes the mark with them, so tables that are seen have theirs.
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    let number = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let (mark, version) = (number("application_id")?, number("user_version")?);
    match (mark == i64::from(MARK), tables) {
        (true, _) if version > 0 => Ok(version),
        (_, 0) => Ok(0),
        _ => Err(Fault::Foreign),
    }
}

const OTHER: &str = "name another folder with --store or PLIMSOLL_STORE";

/// A failure of the database in words: what, and what to do.
pub(super) fn reason(error: &rusqlite::Error) -> String {
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => {
            format!("is not a store of runs; nothing was changed: move it away, or {OTHER}")
        }
        // What is no failure of SQLite's is a value that this program never writes.
        Some(ErrorCode::DatabaseCorrupt) | None => format!(
            "is damaged, and what it holds cannot be read whole; nothing was changed. The runs' files in {} beside it are \
             whole. Copy it, then try `sqlite3 {FILE} .recover`, or move it away and a new one is made, or {OTHER}",
            super::FILES
        ),
        Some(ErrorCode::DiskFull) => "cannot be written: the disk is full; make room on it".to_owned(),
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
            format!("cannot be read or written: the disk fails ({error}); look after it, or {OTHER}")
        }
        _ => format!("cannot be used: {error}; move it away, or {OTHER}"),
    }
}

fn no_folder(folder: &Path, error: &io::Error) -> Error {
    let why = match error.kind() {
        io::ErrorKind::PermissionDenied => "this user has no rights to it".to_owned(),
        io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => "a file stands in its place".to_owned(),
        io::ErrorKind::StorageFull => "the disk is full".to_owned(),
        io::ErrorKind::ReadOnlyFilesystem => "the disk is read-only".to_owned(),
        _ => error.to_string(),
    };
    Error::file(folder, format!("cannot be the folder of kept runs: {why}; {OTHER}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A store of the first form with a run in it.
    fn old(folder: &Path) -> Connection {
        let mut connection = Connection::open(folder.join(FILE)).expect("a file");
        prepare(&mut connection, &MIGRATIONS[..1]).expect("made");
        let sql = "INSERT INTO runs (key, title, state, origin, started, system, pid, began, pulse, version, device, \
                   device_name, is_gpu, seed, settings, budget, predicted_live, predicted_reserved, predicted_process, \
                   total_steps) VALUES ('a', 'old', 'finished', 'window', 1, '', 1, 1, 1, '0', 'cpu', '', 0, 1, '', 1, 1, 1, 1, 1)";
        connection.execute(sql, []).expect("added");
        connection
    }

    fn said(folder: &Path) -> String {
        Database::open(folder).expect_err("refused").to_string()
    }

    #[test]
    fn an_older_store_is_brought_up_to_date_and_keeps_its_runs() {
        let folder = tempfile::tempdir().expect("a folder");
        drop(old(folder.path()));
        let next: Vec<&str> = MIGRATIONS.iter().copied().chain(["ALTER TABLE runs ADD COLUMN mood TEXT"]).collect();
        let mut connection = Connection::open(folder.path().join(FILE)).expect("a file");
        prepare(&mut connection, &next).expect("brought up to date");
        prepare(&mut connection, &next).expect("once is enough");
        let row = "SELECT title FROM runs WHERE mood IS NULL";
        assert_eq!(connection.query_row(row, [], |row| row.get(0)), Ok("old".to_owned()));
        // This program knows one form less.
        let message = said(folder.path());
        assert!(message.contains("newer version") && message.contains("PLIMSOLL_STORE"), "{message}");
        // A migration that fails leaves the store as it was.
        let folder = tempfile::tempdir().expect("a folder");
        let mut connection = old(folder.path());
        let broken: Vec<&str> = MIGRATIONS.iter().copied().chain(["DROP TABLE events; nonsense"]).collect();
        assert!(prepare(&mut connection, &broken).is_err());
        drop(connection);
        let database = Database::open(folder.path()).expect("as it was");
        let events = |db: &Connection| db.query_row("SELECT count(*) FROM events", [], |row| row.get::<_, i64>(0));
        assert_eq!(database.with(events), Ok(0));
    }

    #[test]
    fn a_foreign_file_is_left_as_it_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().join(FILE);
        let other = Connection::open(&place).expect("a file");
        other.execute_batch("CREATE TABLE songs (name TEXT)").expect("made");
        drop(other);
        let before = fs::read(&place).expect("there");
        assert!(said(folder.path()).contains("a database of another program"));
        assert_eq!(fs::read(&place).expect("there"), before);
        fs::write(&place, "not a database at all, but long enough to be looked at by one").expect("written");
        assert!(said(folder.path()).contains("is not a store of runs"));
        fs::remove_file(&place).expect("removed");
        fs::create_dir(&place).expect("made");
        assert!(said(folder.path()).contains("cannot be opened"), "{}", said(folder.path()));
    }

    #[test]
    fn a_damaged_page_is_said() {
        let folder = tempfile::tempdir().expect("a folder");
        drop(Database::open(folder.path()).expect("made"));
        let place = folder.path().join(FILE);
        let mut bytes = fs::read(&place).expect("there");
        // The first page holds the schema; what follows are the tables.
        bytes[4096..].fill(0x5a);
        fs::write(&place, bytes).expect("written");
        let database = Database::open(folder.path()).expect("the header is whole");
        let runs = |db: &Connection| db.query_row("SELECT count(*) FROM runs", [], |row| row.get::<_, i64>(0));
        let message = database.with(runs).expect_err("damaged").to_string();
        assert!(message.contains("is damaged") && message.contains("recover"), "{message}");
    }

    #[test]
    fn a_full_disk_is_said_and_what_was_there_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let connection = old(folder.path());
        let mut database = Database { path: folder.path().join(FILE), connection };
        database.with(|db| db.pragma_update(None, "max_page_count", 12)).expect("limited");
        let fill = |db: &Transaction<'_>| {
            (0..1000).try_for_each(|_| db.execute("UPDATE runs SET note = note || zeroblob(9000)", []).map(drop))
        };
        assert!(database.write(fill).expect_err("full").to_string().contains("the disk is full; make room"));
        let note = |db: &Connection| db.query_row("SELECT note FROM runs", [], |row| row.get::<_, String>(0));
        assert_eq!(database.with(note), Ok(String::new()));
    }
}
