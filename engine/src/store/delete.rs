//! Deleting runs for good: their rows and their files.
//!
//! Always holds: all of the runs that were named are deleted, or all stay, with their files. A full disk does not keep a run
//! from being deleted: its files go first where their room is needed. Refuses to delete a run that still trains, or is about
//! to go on.

use std::{
    fs,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use rusqlite::{Transaction, params};

use super::{
    FILES, RunKey, Store,
    database::Database,
    fault::{is_of_writing, reason},
};
use crate::{
    error::{Error, Problem, Result},
    train::claim::{Claim, Refused},
    whole_file,
};

/// How the name of a folder begins whose run is being deleted. No key has such a beginning.
pub(super) const AWAY: char = '~';
/// How long giving room back waits for other programs.
const HASTE: Duration = Duration::from_millis(100);

impl Store {
    /// Deletes runs for good, with their files.
    ///
    /// # Errors
    /// Fails for a run that is not there or still trains, and where the database or the folder of files does; then all stay.
    pub fn delete(&mut self, keys: &[RunKey]) -> Result<()> {
        self.none_trains(keys)?;
        let mut files = Files::of(&self.folder.join(FILES));
        files.put_away(keys)?;
        match self.delete_rows(keys, &mut files) {
            Ok(()) => files.remove(),
            Err(error) => {
                files.put_back();
                return Err(error);
            }
        }
        // Later runs use the room that is not given back now.
        let _ = self.database.patiently(HASTE, Database::shrink);
        Ok(())
    }

    /// Deletes for good the runs that were put away at least this long ago. Returns how many there were.
    ///
    /// # Errors
    /// Fails if [`Store::delete`] does.
    pub fn empty(&mut self, older_than: SignedDuration) -> Result<usize> {
        let before = (Timestamp::now() - older_than).as_millisecond().to_string();
        let keys = self.keys("WHERE discarded <= CAST(?1 AS INTEGER)", &[&before])?;
        if !keys.is_empty() {
            self.delete(&keys)?;
        }
        Ok(keys.len())
    }

    /// Refuses runs that still train, or whose checkpoints another process has claimed to go on.
    pub(super) fn none_trains(&self, keys: &[RunKey]) -> Result<()> {
        for key in keys {
            if let Some(pid) = self.trained_by(key)? {
                return Err(trains(key, Some(pid)));
            }
            drop(claim(&self.files(key), key)?);
        }
        Ok(())
    }

    fn delete_rows(&mut self, keys: &[RunKey], files: &mut Files) -> Result<()> {
        let path = self.database.path.clone();
        let failed = |error: &rusqlite::Error| Error::file(&path, reason(error));
        match self.database.try_write(|db| rows(db, keys)) {
            Ok(()) => return Ok(()),
            Err(error) if is_of_writing(&error) && self.may_be_written() => {}
            Err(error) => return Err(failed(&error)),
        }
        // The disk may need the room of the files.
        files.remove();
        if let Ok(mut database) = Database::open(&self.folder)
            && database.try_write(|db| rows(db, keys)).is_ok()
        {
            self.database = database;
            return Ok(());
        }
        // An ordinary connection, also one of this program, prevents exclusive use.
        self.database = Database::open_frozen(path.clone()).map_err(|fault| fault.of(&self.folder))?;
        let mut alone = Database::open_in_place(&self.folder)?;
        let done = alone.try_write(|db| rows(db, keys)).map_err(|error| failed(&error));
        drop(alone);
        if let Some(database) = Database::open_existing(&self.folder)? {
            self.database = database;
        }
        done
    }

    /// Whether this user has the rights to change the store, even if the disk is full.
    fn may_be_written(&self) -> bool {
        let folder = whole_file::can_be_written_in(&self.folder);
        let is_full = |error: io::Error| matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
        let may_be_changed = fs::OpenOptions::new().write(true).open(&self.database.path).is_ok();
        may_be_changed && folder.map_or_else(is_full, |()| true)
    }
}

/// Claims the folder of a run; `None` if there is no folder, or if no file can be written in it.
///
/// # Errors
/// Names the process that trains the run.
fn claim(folder: &Path, key: &RunKey) -> Result<Option<Claim>> {
    match Claim::take(folder) {
        Ok(claim) => Ok(Some(claim)),
        Err(Refused::Held(pid)) => Err(trains(key, pid)),
        Err(Refused::System(_) | Refused::NoFile(_)) => Ok(None),
    }
}

/// The error for a run that a process trains.
fn trains(key: &RunKey, pid: Option<u32>) -> Error {
    let message = format!("{} still trains it", Refused::process(pid));
    Problem::new(format!("run {key}"), message, "stop it there first (Ctrl-C saves it), or wait until it has ended")
        .into()
}

/// Deletes the rows of some runs, with everything that belongs to them.
fn rows(db: &Transaction<'_>, keys: &[RunKey]) -> rusqlite::Result<()> {
    let mut statement = db.prepare("DELETE FROM runs WHERE key = ?1")?;
    keys.iter().try_for_each(|key| statement.execute(params![key.as_str()]).map(drop))
}

/// The files of runs that are being deleted: put away under another name, until the rows are gone.
#[derive(Debug)]
pub(super) struct Files {
    folder: PathBuf,
    away: Vec<(PathBuf, PathBuf)>,
}

impl Files {
    /// Opens the trash in the folder of all runs' files; leftovers of a killed program are removed.
    pub(super) fn of(folder: &Path) -> Self {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        for entry in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(AWAY)) {
            // A file that cannot be removed does no harm.
            let _ = fs::remove_dir_all(entry.path());
        }
        Self { folder: folder.to_owned(), away: Vec::new() }
    }

    /// Puts the files of runs away: all, or none. A run whose files are away cannot go on.
    pub(super) fn put_away(&mut self, keys: &[RunKey]) -> Result<()> {
        for key in keys {
            let (from, to) = (self.folder.join(key.as_str()), self.folder.join(format!("{AWAY}{key}")));
            let claim = match claim(&from, key) {
                // On other systems an open file prevents its folder from being moved.
                Ok(claim) => claim.filter(|_| cfg!(unix)),
                Err(error) => {
                    self.put_back();
                    return Err(error);
                }
            };
            match fs::rename(&from, &to) {
                Ok(()) => self.away.push((from, to)),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => {
                    self.put_back();
                    let why = whole_file::reason(&error);
                    let message = format!("these files of the run cannot be deleted: {why}; every run stays");
                    return Err(Error::file(from, message));
                }
            }
            drop(claim);
        }
        Ok(())
    }

    fn put_back(&mut self) {
        for (from, to) in self.away.drain(..) {
            // If even that fails, only files that were to be deleted are lost.
            let _ = fs::rename(to, from);
        }
    }

    pub(super) fn remove(&mut self) {
        for (_, away) in self.away.drain(..) {
            // The rest is removed with the next run that is deleted.
            let _ = fs::remove_dir_all(away);
        }
    }
}
