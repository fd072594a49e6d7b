//! The store of runs: the settings, predictions and measurements of every run, kept from its first step.
//!
//! Owns a folder with a database, `runs.db`, and a folder of files for each run, `runs/NAME`. A [`Recorder`] takes the events
//! of one run and writes them on a thread of its own; a [`Store`] lists, reads, changes and deletes.
//!
//! Always holds: several programs may read and write at once. A record survives a kill, and a loss of power costs the last
//! second. A store that cannot be written never ends a run, and can still be read. From a damaged store, everything that can
//! be read is read. Refuses a store of a newer version and a foreign file, each with how to fix it, and leaves it as it is.

mod batch;
mod changes;
mod columns;
mod database;
mod delete;
mod events;
mod fault;
mod find;
mod folders;
mod key;
mod listing;
mod measured;
mod owner;
mod prediction;
mod prune;
mod recall;
mod recorder;
mod row;
mod run;
mod schema;
mod series;
mod smaller;
mod tail;
mod writer;

use std::{
    env,
    path::{Path, PathBuf},
};

use etcetera::{BaseStrategy, base_strategy};
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use self::{database::Database, series::Record};
pub use self::{
    events::{EventKind, KeptEvent},
    find::listed,
    folders::{Stray, is_of_run, would_take},
    key::RunKey,
    listing::Listed,
    measured::MeasuredStep,
    prediction::{Block, PassPeak, Prediction, StoredTimeline},
    prune::Prune,
    recorder::{Recorder, Recording},
    run::{Origin, RunState, StoredRun},
    series::{Column, Evaluation, Evaluations, Series, Steps},
    smaller::{Became, SmallerModel},
};
use crate::{
    bytes::Bytes,
    error::{Problem, Result},
    experiment::{Experiment, preset},
};

/// The folder of the runs' files, inside the store's.
const FILES: &str = "runs";

/// Names another folder than the user's own.
pub const FOLDER_VARIABLE: &str = "PLIMSOLL_STORE";

/// A store of runs.
///
/// # Examples
///
/// ```
/// use plimsoll_engine::store::{RunState, Store};
///
/// let folder = tempfile::tempdir()?;
/// let store = Store::open(folder.path())?;
/// for run in store.list()? {
///     println!("{} {}: {} steps, {}", run.key, run.label(), run.steps, run.state.key());
/// }
/// assert!(store.find("last").is_err(), "nothing is kept yet");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    database: Database,
}

/// Everything that is kept of a run except its series.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredDetails {
    /// The preset as it was run.
    pub preset: String,
    /// The prediction; empty if it is damaged.
    pub prediction: Prediction,
    /// The part that could not be read, in words.
    pub damage: Option<String>,
    /// Warnings, pauses and saves, in order.
    pub events: Vec<KeptEvent>,
    /// Whether the measured process is the highest of some samples; `None` for a run that has not ended.
    pub is_process_sampled: Option<bool>,
    /// Measured bytes still alive after the run; `None` for a run that has not ended.
    pub left_over: Option<Bytes>,
    /// The newest step that was measured op by op; empty if none was.
    pub measured_step: MeasuredStep,
}

impl StoredDetails {
    /// The experiment as it was run.
    ///
    /// # Errors
    /// Fails for a preset that this version cannot read.
    pub fn experiment(&self, key: &RunKey) -> Result<Experiment> {
        preset::parse(&self.preset, format!("run {key}"))
    }
}

/// The folder of the store: `chosen`, or the value of [`FOLDER_VARIABLE`], or the user's own.
///
/// # Errors
/// Fails if the system has no place for a user's data.
pub fn folder(chosen: Option<&Path>) -> Result<PathBuf> {
    let by_variable = || env::var_os(FOLDER_VARIABLE).filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let own = || Some(base_strategy::choose_native_strategy().ok()?.data_dir().join("plimsoll"));
    chosen.map(Path::to_owned).or_else(by_variable).or_else(own).ok_or_else(|| {
        let mend = format!("name one with --store or {FOLDER_VARIABLE}");
        Problem::new("store", "this user has no folder for data", mend).into()
    })
}

impl Store {
    /// Opens the store in `folder`, and makes it if there is none. A store that cannot be written is opened for reading.
    ///
    /// # Errors
    /// Fails for a folder that cannot be made or read, a store of a newer version, and a file that is not a store or is
    /// damaged.
    pub fn open(folder: &Path) -> Result<Self> {
        let database = Database::open(folder).or_else(|error| match Database::open_existing(folder) {
            Ok(Some(database)) => Ok(database),
            Ok(None) | Err(_) => Err(error),
        })?;
        Ok(Self { folder: folder.to_owned(), database })
    }

    /// Opens the store in `folder`; `None` if there is none.
    ///
    /// # Errors
    /// Fails if [`Store::open`] does, and for an empty file.
    pub fn open_existing(folder: &Path) -> Result<Option<Self>> {
        let database = Database::open_existing(folder)?;
        Ok(database.map(|database| Self { folder: folder.to_owned(), database }))
    }

    /// A warning about the part that is missing of a store that can only be read; `None` if nothing is missing.
    pub fn caution(&self) -> Option<String> {
        self.database.caution()
    }

    /// The store's folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Changes whenever another program or thread has written.
    ///
    /// # Errors
    /// Fails if the database does.
    pub fn version(&self) -> Result<u64> {
        self.database
            .with(|db| db.pragma_query_value(None, "data_version", |row| row.get::<_, i64>(0)))
            .map(|v| v as u64)
    }

    /// A run, also one that was put away.
    ///
    /// # Errors
    /// Fails for a run that is not there, and where the database does.
    pub fn get(&self, key: &RunKey) -> Result<StoredRun> {
        let mut run = self.row(key)?;
        run.on_disk.0 += listing::bytes_in(&self.files(key));
        Ok(run)
    }

    /// The same run without the bytes of its files.
    fn row(&self, key: &RunKey) -> Result<StoredRun> {
        let run = self.database.with(|db| {
            let mut statement = db.prepare(&format!("SELECT {} FROM runs WHERE key = ?1", run::COLUMNS))?;
            statement.query_row([key.as_str()], |row| run::read(row, Timestamp::now())).optional()
        })?;
        run.ok_or_else(|| self.no_such(key.as_str()))
    }

    /// The process that trains a run; `None` if none does.
    ///
    /// # Errors
    /// Fails for a run that is not there, and where the database does.
    pub fn trained_by(&self, key: &RunKey) -> Result<Option<u32>> {
        let number = self.number(key)?;
        let standing = self.database.with(|db| row::standing(db, number, key))?;
        Ok(standing.alive)
    }

    /// The record of a run except its series.
    ///
    /// # Errors
    /// Fails for a run that is not there, and where the database does.
    pub fn details(&self, key: &RunKey) -> Result<StoredDetails> {
        let number = self.number(key)?;
        let (details, prediction) = self.database.with(|db| {
            let sql = "SELECT preset, prediction, process_is_sampled, left_over, measured_in_step, measured_step \
                       FROM details WHERE run = ?1";
            db.query_row(sql, [number], |row| {
                let step = row.get::<_, Option<i64>>(4)?.unwrap_or_default() as u64;
                let measured: Option<Vec<u8>> = row.get(5)?;
                let measured = measured.and_then(|bytes| MeasuredStep::from_bytes(step, &bytes));
                let details = StoredDetails {
                    preset: row.get(0)?,
                    prediction: Prediction::default(),
                    damage: None,
                    events: events::read(db, number)?,
                    is_process_sampled: row.get(2)?,
                    left_over: row.get::<_, Option<i64>>(3)?.map(|bytes| Bytes(bytes as u64)),
                    measured_step: measured.unwrap_or_default(),
                };
                Ok((details, Prediction::from_bytes(row.get_ref(1)?.as_blob()?)))
            })
        })?;
        let damage = prediction.is_none().then(|| {
            "the store is damaged: the prediction that this run began with cannot be read; the rest is whole".to_owned()
        });
        Ok(StoredDetails { prediction: prediction.unwrap_or_default(), damage, ..details })
    }

    /// The series of a run. Parts that cannot be read are left out, and [`Series::damage`] says so.
    ///
    /// # Errors
    /// Fails for a run that is not there, and where the database does.
    pub fn series(&self, key: &RunKey) -> Result<Series> {
        let number = self.number(key)?;
        let mut damaged = Vec::new();
        let series = self.database.with(|db| {
            Ok(Series {
                steps: read_series::<crate::train::StepRecord>(db, number, "steps", &mut damaged)?,
                evaluations: read_series::<Evaluation>(db, number, "evaluations", &mut damaged)?,
                damage: None,
            })
        })?;
        let words = || {
            format!("the store is damaged: of this run, {} cannot be read; the rest is whole", damaged.join(" and "))
        };
        let damage = (!damaged.is_empty()).then(words);
        Ok(Series { damage, ..series })
    }

    fn number(&self, key: &RunKey) -> Result<i64> {
        let number = self.database.with(|db| {
            let mut statement = db.prepare("SELECT number FROM runs WHERE key = ?1")?;
            statement.query_row([key.as_str()], |row| row.get(0)).optional()
        })?;
        number.ok_or_else(|| self.no_such(key.as_str()))
    }

    /// Where a run's files lie: its checkpoints.
    pub fn files(&self, key: &RunKey) -> PathBuf {
        files(&self.folder, key)
    }
}

/// Where a run's files lie in the store of `folder`.
pub fn files(folder: &Path, key: &RunKey) -> PathBuf {
    folder.join(FILES).join(key.as_str())
}

/// Reads the blocks of a series; adds the parts that cannot be read to `damaged`.
fn read_series<R: Record>(
    db: &Connection,
    run: i64,
    name: &str,
    damaged: &mut Vec<String>,
) -> rusqlite::Result<R::Series> {
    let mut series = R::Series::default();
    each_block::<R>(db, run, |first, count, bytes| {
        let read = usize::try_from(count).ok().and_then(|count| series::add_block::<R>(bytes, count, &mut series));
        if read.is_none() {
            damaged.push(format!("{name} {} to {}", first.saturating_add(1), first.saturating_add(count)));
        }
    })?;
    Ok(series)
}

/// Takes each record of a series that can be read, with one block of them in memory at a time.
fn each_record<R: Record>(db: &Connection, run: i64, mut take: impl FnMut(&R)) -> rusqlite::Result<()> {
    each_block::<R>(db, run, |_, count, bytes| {
        let mut series = R::Series::default();
        let read = usize::try_from(count).ok().and_then(|count| series::add_block::<R>(bytes, count, &mut series));
        if read.is_some() {
            R::all(&series).iter().for_each(&mut take);
        }
    })
}

/// Takes each block of a series in order: the place of its first record, how many it has, and its bytes.
fn each_block<R: Record>(db: &Connection, run: i64, mut take: impl FnMut(i64, i64, &[u8])) -> rusqlite::Result<()> {
    let mut statement =
        db.prepare("SELECT first, count, data FROM blocks WHERE run = ?1 AND series = ?2 ORDER BY first")?;
    let mut rows = statement.query(params![run, R::NUMBER])?;
    while let Some(row) = rows.next()? {
        take(row.get(0)?, row.get(1)?, row.get_ref(2)?.as_blob()?);
    }
    Ok(())
}

#[cfg(test)]
mod damaged_tests;
#[cfg(test)]
mod tests;
