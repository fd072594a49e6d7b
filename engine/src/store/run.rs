//! A kept run as lists show it: its settings, its progress and its measurements.

use std::str::FromStr;

use jiff::Timestamp;
use rusqlite::{Row, types::Type};

use crate::{
    bytes::Bytes,
    error::BudgetError,
    experiment::{
        Experiment, preset,
        words::{Word, words},
    },
    plan::Peak,
    store::{RunKey, SmallerModel, owner::Owner},
};

words! {
    /// How far a kept run has come.
    pub enum RunState {
        /// The run trains, or is paused.
        Running = "running",
        /// The run did all its steps.
        Finished = "finished",
        /// The user stopped the run.
        Stopped = "stopped",
        /// An error ended it, or its budget.
        Failed = "failed",
        /// The program ended before the run did.
        Interrupted = "interrupted",
    }
}

words! {
    /// The origin of a run.
    pub enum Origin {
        /// The run was started in the window.
        Window = "window",
        /// The command line.
        CommandLine = "command line",
    }
}

impl FromStr for RunState {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words = Self::ALL.map(Self::key).join(", ");
        Self::of_word(text).ok_or_else(|| format!("`{text}` is not a state of a run; the states are {words}"))
    }
}

/// A kept run, without its series.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredRun {
    /// The run's name in the store.
    pub key: RunKey,
    /// Its number in the store: that of each new run is one more than the highest there.
    pub number: u64,
    /// The title of its preset.
    pub title: String,
    /// The name that its user gave it.
    pub name: Option<String>,
    /// The user's note on it; empty without one.
    pub note: String,
    /// The run's tags, in order.
    pub tags: Vec<String>,
    /// Whether it is starred.
    pub is_starred: bool,
    /// When it was put away, to be deleted; `None` for a run that stays.
    pub discarded: Option<Timestamp>,
    /// How far it came.
    pub state: RunState,
    /// Why it failed.
    pub message: Option<String>,
    /// Its origin.
    pub origin: Origin,
    /// When it began.
    pub started: Timestamp,
    /// When it ended.
    pub ended: Option<Timestamp>,
    /// The version of the program.
    pub version: String,
    /// The device by its name in presets.
    pub device: String,
    /// The maker's name of the device; empty if it is not known.
    pub device_name: String,
    /// Whether that is a GPU.
    pub is_gpu: bool,
    /// The run's seed.
    pub seed: u64,
    /// The run's settings that are not the defaults, as `key=value`: differences between runs are found by these.
    pub settings: Vec<String>,
    /// The budget.
    pub budget: Bytes,
    /// The highest memory as predicted.
    pub predicted: Peak,
    /// The highest memory as measured so far.
    pub measured: Peak,
    /// Steps to do in all.
    pub total_steps: u64,
    /// The number of steps done.
    pub steps: u64,
    /// Seconds, pauses excluded.
    pub secs: f64,
    /// Mean seconds of a step, tests excluded; `None` before the first.
    pub step_secs: Option<f64>,
    /// Updates that were skipped (f16 loss scaling).
    pub skipped_steps: u64,
    /// Mean loss of the last step.
    pub train_loss: Option<f64>,
    /// Mean loss of the last evaluation.
    pub test_loss: Option<f64>,
    /// Accuracy of the last evaluation; of values R².
    pub test_accuracy: Option<f64>,
    /// Best accuracy of all evaluations.
    pub best_test_accuracy: Option<f64>,
    /// The form of its model in the end, if that is smaller than the trained one.
    pub smaller: Option<SmallerModel>,
    /// Its bytes on the disk: its part of the database, and its files.
    pub on_disk: Bytes,
}

impl StoredRun {
    /// The status of a run that met its budget.
    pub const OVER_BUDGET: &str = "over budget";

    /// Its label: the name that its user gave it, or its title.
    pub fn label(&self) -> &str {
        self.name.as_deref().unwrap_or(if self.title.trim().is_empty() { "Untitled" } else { &self.title })
    }

    /// Its experiment, from its settings; `None` of a run whose settings this version of the program cannot read.
    pub fn experiment(&self) -> Option<Experiment> {
        let mut experiment = Experiment::default();
        preset::set_all(&mut experiment, self.settings.iter().map(String::as_str)).ok()?;
        Some(experiment)
    }

    /// Whether it learned values: its accuracies are then the share of the labels' variance that is explained (R²).
    pub fn learns_values(&self) -> bool {
        self.settings.iter().any(|setting| setting.starts_with("data.task=") && setting.contains("regression"))
    }

    /// Whether it ended, and not because it did all that it was to do.
    pub fn ended_early(&self) -> bool {
        matches!(self.state, RunState::Stopped | RunState::Failed | RunState::Interrupted)
    }

    /// Whether it did all its steps and ended before what follows them: its last test, and the test of its model as integers.
    pub fn lacks_end(&self) -> bool {
        self.ended_early() && self.steps > 0 && self.steps >= self.total_steps
    }

    /// Whether its settings make its model smaller in the end.
    pub fn gets_smaller(&self) -> bool {
        const KEYS: [&str; 5] =
            ["quantise.kind=", "prune.kind=", "low_rank.rank=", "low_rank.energy=", "low_rank.size="];
        self.settings.iter().any(|setting| KEYS.iter().any(|key| setting.starts_with(key)))
    }

    /// Whether its model was not made smaller and tested so, because it ended before. Integers come last of all.
    pub fn lacks_smaller(&self) -> bool {
        let are_integers_due = || self.settings.iter().any(|setting| setting.starts_with("quantise.kind="));
        self.ended_early() && self.gets_smaller() && (self.smaller.is_none() || are_integers_due())
    }

    /// Whether it failed because it would have crossed its budget.
    pub fn met_its_budget(&self) -> bool {
        self.state == RunState::Failed && self.message.as_deref().is_some_and(BudgetError::is_told_by)
    }

    /// Its status, in the word that is shown: a run that met its budget has a word of its own among the failed ones.
    pub fn status(&self) -> &'static str {
        if self.met_its_budget() { Self::OVER_BUDGET } else { self.state.key() }
    }

    /// The part of a peak that counts against the budget: the bytes alive, or the process on a GPU.
    pub fn load(&self, peak: &Peak) -> Bytes {
        if self.is_gpu { peak.process } else { peak.live }
    }

    /// Whether this text is in the run's name, title, note, tags or device, ignoring case.
    pub fn matches(&self, text: &str) -> bool {
        let text = text.to_lowercase();
        let texts = [self.key.as_str(), &self.title, self.label(), &self.note, &self.device, &self.device_name];
        texts.into_iter().chain(self.tags.iter().map(String::as_str)).any(|part| part.to_lowercase().contains(&text))
    }
}

/// The columns of [`read`], in its order.
pub(super) const COLUMNS: &str = "number, key, title, name, note, tags, starred, discarded, state, message, origin, started, \
    ended, system, pid, began, pulse, version, device, device_name, is_gpu, seed, settings, budget, predicted_live, \
    predicted_reserved, predicted_process, measured_live, measured_reserved, measured_process, total_steps, steps, secs, \
    steps_secs, skipped, train_loss, test_loss, test_accuracy, best_test_accuracy, kept_bytes, became, became_bytes, \
    became_whole_bytes, became_accuracy, became_trained_accuracy";

/// A run, from a row of [`COLUMNS`], as it is at `now`.
pub(super) fn read(row: &Row<'_>, now: Timestamp) -> rusqlite::Result<StoredRun> {
    let bytes = |column: usize| row.get::<_, i64>(column).map(|bytes| Bytes(bytes as u64));
    let peak = |at: usize| -> rusqlite::Result<Peak> {
        Ok(Peak { live: bytes(at)?, reserved: bytes(at + 1)?, process: bytes(at + 2)? })
    };
    let count = |column: usize| row.get::<_, i64>(column).map(|value| value as u64);
    let state = word(row, 8)?;
    let is_gone = state == RunState::Running && {
        let owner = Owner { system: row.get(13)?, pid: count(14)? as u32, began: count(15)? };
        !owner.is_alive(time(row, 16)?, now)
    };
    let steps = count(31)?;
    Ok(StoredRun {
        key: key(row, 1)?,
        number: count(0)?,
        title: row.get(2)?,
        name: row.get(3)?,
        note: row.get(4)?,
        tags: lines(row.get_ref(5)?.as_str()?),
        is_starred: row.get(6)?,
        discarded: optional_time(row, 7)?,
        state: if is_gone { RunState::Interrupted } else { state },
        message: row.get(9)?,
        origin: word(row, 10)?,
        started: time(row, 11)?,
        ended: optional_time(row, 12)?,
        version: row.get(17)?,
        device: row.get(18)?,
        device_name: row.get(19)?,
        is_gpu: row.get(20)?,
        seed: count(21)?,
        settings: lines(row.get_ref(22)?.as_str()?),
        budget: bytes(23)?,
        predicted: peak(24)?,
        measured: peak(27)?,
        total_steps: count(30)?,
        steps,
        secs: row.get(32)?,
        step_secs: Some(row.get::<_, f64>(33)? / steps as f64).filter(|_| steps > 0),
        skipped_steps: count(34)?,
        train_loss: row.get(35)?,
        test_loss: row.get(36)?,
        test_accuracy: row.get(37)?,
        best_test_accuracy: row.get(38)?,
        on_disk: bytes(39)?,
        smaller: SmallerModel::read(row, 40)?,
    })
}

fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}

/// A key in a row: anything else means a damaged store.
pub(super) fn key(row: &Row<'_>, column: usize) -> rusqlite::Result<RunKey> {
    RunKey::read(row.get_ref(column)?.as_str()?).ok_or_else(|| damaged(column, Type::Text))
}

/// A word in a row: an unknown word means a damaged store.
pub(super) fn word<W: Word>(row: &Row<'_>, column: usize) -> rusqlite::Result<W> {
    W::of_word(row.get_ref(column)?.as_str()?).ok_or_else(|| damaged(column, Type::Text))
}

/// A moment in a row, in milliseconds.
pub(super) fn time(row: &Row<'_>, column: usize) -> rusqlite::Result<Timestamp> {
    Timestamp::from_millisecond(row.get(column)?).map_err(|_| damaged(column, Type::Integer))
}

fn optional_time(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Timestamp>> {
    match row.get::<_, Option<i64>>(column)? {
        Some(_) => time(row, column).map(Some),
        None => Ok(None),
    }
}

/// A value that this program never wrote.
pub(super) fn damaged(column: usize, kind: Type) -> rusqlite::Error {
    let why = "a value that this program never writes";
    rusqlite::Error::FromSqlConversionFailure(column, kind, why.into())
}
