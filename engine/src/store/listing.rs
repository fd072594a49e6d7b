//! The list of all runs, also of a store that is damaged.
//!
//! Always holds: one pass over the table lists a whole store. In a damaged store, every run that can be read is listed, and the
//! number of the others is reported; a run that was put away is not listed and does not count as missing.

use std::{
    collections::{BTreeSet, HashMap},
    fs,
    path::Path,
};

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension};

use super::{FILES, Store, StoredRun, fault, run};
use crate::error::Result;

/// The runs of a store, newest first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Listed {
    /// The runs that can be read.
    pub runs: Vec<StoredRun>,
    /// How many runs cannot be read, and what to do; `None` if all can.
    pub damage: Option<String>,
}

/// Runs that were read, and how many could not be.
#[derive(Debug, Default)]
struct Found {
    runs: Vec<StoredRun>,
    lost: usize,
}

impl Store {
    /// Every run that was not put away, newest first. From a damaged store, those that can be read.
    ///
    /// # Errors
    /// Fails if the database does, and if it is damaged so that no trace of any run is left in it.
    pub fn list(&self) -> Result<Vec<StoredRun>> {
        Ok(self.listed()?.runs)
    }

    /// Every run that was not put away, newest first, and the damage.
    ///
    /// # Errors
    /// Fails if the database does, and if it is damaged so that no trace of any run is left in it.
    pub fn listed(&self) -> Result<Listed> {
        let now = Timestamp::now();
        let Found { mut runs, lost } = self.database.with(|db| match all(db, now) {
            // Without a trace of a run, the store would look like an empty one.
            Err(error) if fault::is_damage(&error) => match numbers(db) {
                none if none.is_empty() => Err(error),
                numbers => salvage(db, now, numbers),
            },
            found => found,
        })?;
        runs.sort_unstable_by(|a, b| b.key.cmp(&a.key));
        let files = self.bytes_of_files();
        for run in &mut runs {
            run.on_disk.0 += files.get(run.key.as_str()).copied().unwrap_or_default();
        }
        let damage = (lost > 0).then(|| fault::partly_read(&self.database.path, lost, runs.len()));
        Ok(Listed { runs, damage })
    }

    /// The bytes of each run's files, by the name of the folder. One look at the folder of all finds those that have any.
    fn bytes_of_files(&self) -> HashMap<String, u64> {
        let Ok(entries) = fs::read_dir(self.folder.join(FILES)) else { return HashMap::new() };
        let with_bytes = |entry: fs::DirEntry| Some((entry.file_name().into_string().ok()?, bytes_in(&entry.path())));
        entries.filter_map(|entry| with_bytes(entry.ok()?)).collect()
    }
}

/// The bytes of the files in a folder.
pub(super) fn bytes_in(folder: &Path) -> u64 {
    let files = fs::read_dir(folder).into_iter().flatten();
    files.filter_map(|file| file.ok()?.metadata().ok()).map(|file| file.len()).sum()
}

/// All runs, in one pass over the table.
fn all(db: &Connection, now: Timestamp) -> rusqlite::Result<Found> {
    let mut statement =
        db.prepare(&format!("SELECT {} FROM runs NOT INDEXED WHERE discarded IS NULL", run::COLUMNS))?;
    let mut rows = statement.query([])?;
    let mut found = Found::default();
    while let Some(row) = rows.next()? {
        match run::read(row, now) {
            Ok(run) => found.runs.push(run),
            Err(error) if fault::is_damage(&error) => found.lost += 1,
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// The runs of a damaged table, each by its number.
fn salvage(db: &Connection, now: Timestamp, numbers: BTreeSet<i64>) -> rusqlite::Result<Found> {
    let mut statement = db.prepare(&format!("SELECT {} FROM runs WHERE number = ?1", run::COLUMNS))?;
    let mut found = Found::default();
    for number in numbers {
        let read = statement.query_row([number], |row| run::read(row, now)).optional();
        match read {
            Ok(Some(run)) if run.discarded.is_none() => found.runs.push(run),
            Ok(Some(_)) => {}
            Ok(None) => found.lost += 1,
            Err(error) if fault::is_damage(&error) => found.lost += 1,
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// The numbers of all runs, as far as any part of the database has them.
fn numbers(db: &Connection) -> BTreeSet<i64> {
    // The index of the keys has all runs; the other ways find runs that a damaged index lacks. Each way is followed until it
    // meets the damage.
    let ways = [
        "SELECT number FROM runs WHERE key >= '' ORDER BY key",
        "SELECT number FROM runs WHERE key >= '' ORDER BY key DESC",
        "SELECT number FROM runs NOT INDEXED ORDER BY number",
        "SELECT number FROM runs NOT INDEXED ORDER BY number DESC",
        "SELECT run FROM details ORDER BY run",
        "SELECT run FROM details ORDER BY run DESC",
    ];
    let mut numbers = BTreeSet::new();
    for way in ways {
        let Ok(mut statement) = db.prepare(way) else { continue };
        let Ok(mut rows) = statement.query([]) else { continue };
        while let Ok(Some(row)) = rows.next() {
            if let Ok(number) = row.get(0) {
                numbers.insert(number);
            }
        }
    }
    numbers
}
