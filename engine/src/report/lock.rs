//! A lock for memory: predicted peaks that were written down, and whether one rose since.
//!
//! Owns [`Lock`] and its file. Always holds: a lock has bytes only, of a machine that the file describes, so that any other
//! machine finds the same. Rates, free memory and the size of a process are never in it. Refuses files of other programs, of
//! a newer version and over [`MAX_BYTES`], and GPUs of one machine: a card by its name is the same everywhere.

use std::{collections::BTreeMap, path::Path};

use serde::{Deserialize, Serialize};

use crate::{
    bytes::Bytes,
    device::{Instructions, cpu_threads, target::cuda_index},
    error::{Error, Problem, Result},
    experiment::Experiment,
    hardware::Machine,
    memory::{Categories, Category, Timeline},
    plan::{Pass, Plan},
};

/// The version of the file that this program writes.
const VERSION: u32 = 2;
/// Locks from this version on end with [`End`].
const WITH_END: u32 = 2;
/// A larger file is not read.
pub const MAX_BYTES: u64 = 16 << 20;

/// Predicted peaks that were written down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lock {
    version: u32,
    /// The version of the program that wrote it.
    program: String,
    /// Threads of the processor that peaks on the processor are for: scratch depends on them.
    threads: usize,
    /// The peaks.
    #[serde(rename = "peak")]
    pub peaks: Vec<LockedPeak>,
    /// The last of the file; taken out when it is read.
    #[serde(default, skip_serializing)]
    end: Option<End>,
}

/// The end of a file, which shows that the file was not cut short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct End {
    /// How many there are.
    peaks: usize,
}

/// The predicted peak of a preset on a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockedPeak {
    /// A shipped preset by its name, or a file by its path from the lock's folder.
    pub preset: String,
    /// `cpu`, or a card.
    pub device: String,
    /// The bytes that count against the budget: those alive, on a GPU the whole process.
    pub bytes: u64,
    /// The same bytes by category.
    pub categories: BTreeMap<String, u64>,
    /// The highest of each phase.
    #[serde(rename = "phase")]
    pub phases: Vec<LockedPhase>,
}

/// The highest bytes alive in a phase of the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockedPhase {
    /// The phase's name: [`Pass::name`].
    pub name: String,
    /// Bytes alive.
    pub bytes: u64,
    /// Path of the layer that ran then.
    pub layer: String,
    /// The op that ran then.
    pub op: String,
    /// The bytes by category.
    pub categories: BTreeMap<String, u64>,
}

impl Lock {
    /// A lock without peaks, for this machine's number of threads.
    pub fn new() -> Self {
        let program = env!("CARGO_PKG_VERSION").to_owned();
        Self { version: VERSION, program, threads: cpu_threads(), peaks: Vec::new(), end: None }
    }

    /// The machine that the peaks belong to, from the file alone.
    pub fn machine(&self) -> Machine {
        Machine::nominal().with_threads(self.threads).with_instructions(Instructions::Basic)
    }

    /// The version of the program that wrote it.
    pub fn program(&self) -> &str {
        &self.program
    }

    /// Reads a lock from its text; `path` is for messages.
    ///
    /// # Errors
    /// [`Error::File`] with the place of the fault.
    pub fn parse(text: &str, path: &Path) -> Result<Self> {
        if text.len() as u64 > MAX_BYTES {
            let message = format!("is larger than {}: it is not a lock", Bytes(MAX_BYTES));
            return Err(Error::file(path, message));
        }
        let version = toml::from_str::<Head>(text).map_err(|error| broken(&error, text, path))?.version;
        if version == 0 || version > VERSION {
            let mend = if version == 0 { "there is no such version" } else { "use a newer program" };
            let message = format!("is a lock of version {version}; this program reads 1 to {VERSION}: {mend}");
            return Err(Error::file(path, message));
        }
        let mut lock: Self = toml::from_str(text).map_err(|error| broken(&error, text, path))?;
        lock.is_whole().map_err(|message| Error::file(path, message))?;
        lock.end = None;
        if !(1..=MOST_THREADS).contains(&lock.threads) {
            let message = format!("threads = {} cannot be: write 1 to {MOST_THREADS}", lock.threads);
            return Err(Error::file(path, message));
        }
        if lock.peaks.is_empty() {
            return Err(Error::file(path, "locks no peak, so there is nothing to check; write it by `plimsoll lock`"));
        }
        for (i, peak) in lock.peaks.iter().enumerate() {
            let is_same = |other: &LockedPeak| (&other.preset, &other.device) == (&peak.preset, &peak.device);
            let checked = match lock.peaks[..i].iter().any(is_same) {
                true => Err("is there twice; take one out, and correct the count at the end".to_owned()),
                false => peak.check(),
            };
            checked.map_err(|message| Error::File {
                path: path.to_owned(),
                place: Some(format!("peak {}, {} on {}", i + 1, peak.preset, peak.device)),
                message,
            })?;
        }
        Ok(lock)
    }

    /// The text of the lock.
    pub fn to_text(&self) -> String {
        // Made of plain tables, numbers and words, which the format has.
        let body = toml::to_string(self).expect("a lock is plain data");
        let end = self.peaks.len();
        format!(
            "# Predicted peaks, to be checked by `plimsoll check`. Written by `plimsoll lock`.\n{body}\n[end]\npeaks = {end}\n"
        )
    }

    /// Refuses, in words, a file that was cut short.
    fn is_whole(&self) -> Result<(), String> {
        let there = self.peaks.len();
        match &self.end {
            None if self.version >= WITH_END => {
                Err("was cut short: its end is missing; write it again by `plimsoll lock`".to_owned())
            }
            Some(End { peaks }) if *peaks != there => Err(format!(
                "counts {peaks} peaks at its end, and has {there}; write it again by `plimsoll lock`, or correct the count \
                 where peaks were taken out by hand"
            )),
            None | Some(_) => Ok(()),
        }
    }
}

impl Default for Lock {
    fn default() -> Self {
        Self::new()
    }
}

/// More threads than any machine has.
const MOST_THREADS: usize = 1 << 16;
/// More bytes than any device has: an exbibyte.
const MOST_HELD: u64 = 1 << 60;

#[derive(Deserialize)]
struct Head {
    version: u32,
}

fn broken(error: &toml::de::Error, text: &str, path: &Path) -> Error {
    let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let message = format!("is not a lock: {}; write it again by `plimsoll lock`", error.message());
    Error::File { path: path.to_owned(), place: Some(format!("line {line}")), message }
}

/// Refuses a device whose peak holds on this machine only.
///
/// # Errors
/// Fails for a GPU of this machine, whose context is measured here.
pub fn can_be_locked(experiment: &Experiment) -> Result<()> {
    match cuda_index(&experiment.device) {
        None => Ok(()),
        Some(_) => {
            let message = format!("{} is a GPU of this machine, and a lock is for every machine", experiment.device);
            let mend = "name a card to plan for, such as --device rtx4060-8g, or --device cpu";
            Err(Error::Experiment(Problem::new("device", message, mend)))
        }
    }
}

impl LockedPeak {
    /// Refuses, in words, bytes that are impossible as a peak.
    fn check(&self) -> Result<(), String> {
        let of_phases = self.phases.iter().flat_map(|phase| phase.categories.values().chain([&phase.bytes]));
        let bytes = self.categories.values().chain([&self.bytes]).chain(of_phases);
        if let Some(bytes) = bytes.copied().find(|bytes| *bytes > MOST_HELD) {
            return Err(format!("{bytes} bytes are more than any device has; write the lock again by `plimsoll lock`"));
        }
        self.adds_up().map_err(|wrong| format!("{wrong}; write the lock again by `plimsoll lock`"))?;
        match cuda_index(&self.device) {
            None => Ok(()),
            Some(_) => Err(format!(
                "{} is a GPU of one machine, and a lock is for every machine: lock the preset again for a card, such as \
                 `--device rtx4060-8g`, or for `--device cpu`",
                self.device
            )),
        }
    }

    /// Refuses, in words, phases and categories that no plan has, and bytes that are not the sum of their categories.
    fn adds_up(&self) -> Result<(), String> {
        are_of("the peak", self.bytes, &self.categories)?;
        for (i, phase) in self.phases.iter().enumerate() {
            let LockedPhase { name, bytes, categories, .. } = phase;
            if !Pass::ALL.iter().any(|pass| pass.name() == name) {
                let names: Vec<&str> = Pass::ALL.iter().map(|pass| pass.name()).collect();
                return Err(format!("`{name}` is not a phase; the phases are {}", names.join(", ")));
            }
            if self.phases[..i].iter().any(|other| other.name == *name) {
                return Err(format!("the phase {name} is there twice"));
            }
            are_of(name, *bytes, categories)?;
            if *bytes > self.bytes {
                return Err(format!("{name} has {bytes} bytes, and the peak of all phases {}", self.bytes));
            }
        }
        Ok(())
    }

    /// The peak of a plan, which was made on [`Lock::machine`].
    pub fn of(preset: impl Into<String>, plan: &Plan) -> Self {
        let phases = plan.passes().filter_map(|pass| LockedPhase::of(pass, plan.timeline(pass))).collect();
        Self {
            preset: preset.into(),
            device: plan.experiment.device.clone(),
            bytes: plan.load().0,
            categories: named(&plan.counted_at_peak()),
            phases,
        }
    }
}

impl LockedPhase {
    fn of(pass: Pass, timeline: &Timeline) -> Option<Self> {
        let point = &timeline.points[timeline.peak_index()?];
        Some(Self {
            name: pass.name().to_owned(),
            bytes: point.live.0,
            layer: timeline.layer(point.layer).to_owned(),
            op: point.op.to_owned(),
            categories: named(&point.categories),
        })
    }
}

/// Refuses unknown categories, and categories whose sum is not `bytes`.
fn are_of(what: &str, bytes: u64, categories: &BTreeMap<String, u64>) -> Result<(), String> {
    let is_known = |name: &String| Category::ALL.iter().any(|category| category.name() == name);
    if let Some(name) = categories.keys().find(|name| !is_known(name)) {
        return Err(format!("{what} has `{name}`, which is not a category"));
    }
    // Each is at most an exbibyte, and there are few.
    let sum: u64 = categories.values().sum();
    if sum == bytes { Ok(()) } else { Err(format!("{what} has {bytes} bytes, and its categories add up to {sum}")) }
}

/// The categories that hold something, by their names on screen.
fn named(categories: &Categories) -> BTreeMap<String, u64> {
    let held = categories.iter().filter(|(_, bytes)| bytes.0 > 0);
    held.map(|(category, bytes)| (category.name().to_owned(), bytes.0)).collect()
}

/// Bytes as they were locked, and as they are now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The bytes that were locked.
    pub locked_bytes: u64,
    /// The present bytes.
    pub bytes: u64,
}

impl Change {
    /// Whether it rose by more than `allowed` percent of the locked bytes.
    pub fn rose(&self, allowed: f64) -> bool {
        let most = self.locked_bytes as f64 * (1.0 + allowed.max(0.0) / 100.0);
        self.bytes > self.locked_bytes && self.bytes as f64 > most
    }

    /// The change in words: `+12.5 KiB`.
    pub fn words(&self) -> String {
        Bytes(self.bytes).difference(Bytes(self.locked_bytes))
    }
}

/// The change of a locked peak.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Checked {
    /// The preset, as it is locked.
    pub preset: String,
    /// The device.
    pub device: String,
    /// Whether the peak, or the peak of a phase, rose.
    pub rose: bool,
    /// The bytes that count against the budget.
    #[serde(flatten)]
    pub peak: Change,
    /// The categories at the peak that differ, by name.
    pub categories: BTreeMap<String, Change>,
    /// Each phase that was locked or is there now.
    pub phases: Vec<CheckedPhase>,
}

/// The change of a phase's peak.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CheckedPhase {
    /// The phase's name.
    pub name: String,
    /// Whether it rose. A phase that was not locked has not risen: its change shows in the peak.
    pub rose: bool,
    /// Bytes alive.
    #[serde(flatten)]
    pub peak: Change,
    /// Path of the layer that runs at its peak now.
    pub layer: String,
    /// The op that runs at its peak now.
    pub op: String,
    /// The categories that differ, by name.
    pub categories: BTreeMap<String, Change>,
}

/// Compares the locked peak with the present prediction. A rise of up to `allowed` percent does not count.
pub fn check(locked: &LockedPeak, now: &LockedPeak, allowed: f64) -> Checked {
    let phases: Vec<CheckedPhase> = phases(locked, now, allowed);
    let peak = Change { locked_bytes: locked.bytes, bytes: now.bytes };
    Checked {
        preset: locked.preset.clone(),
        device: locked.device.clone(),
        rose: peak.rose(allowed) || phases.iter().any(|phase| phase.rose),
        peak,
        categories: changed(&locked.categories, &now.categories),
        phases,
    }
}

fn phases(locked: &LockedPeak, now: &LockedPeak, allowed: f64) -> Vec<CheckedPhase> {
    let before = |name: &str| locked.phases.iter().find(|phase| phase.name == name);
    let of = |phase: &LockedPhase| {
        let was = before(&phase.name);
        let peak = Change { locked_bytes: was.map_or(0, |was| was.bytes), bytes: phase.bytes };
        CheckedPhase {
            name: phase.name.clone(),
            rose: was.is_some() && peak.rose(allowed),
            peak,
            layer: phase.layer.clone(),
            op: phase.op.clone(),
            categories: was.map(|was| changed(&was.categories, &phase.categories)).unwrap_or_default(),
        }
    };
    let gone = locked.phases.iter().filter(|was| now.phases.iter().all(|phase| phase.name != was.name));
    let gone = gone.map(|was| CheckedPhase {
        name: was.name.clone(),
        rose: false,
        peak: Change { locked_bytes: was.bytes, bytes: 0 },
        layer: String::new(),
        op: String::new(),
        categories: BTreeMap::new(),
    });
    now.phases.iter().map(of).chain(gone).collect()
}

fn changed(locked: &BTreeMap<String, u64>, now: &BTreeMap<String, u64>) -> BTreeMap<String, Change> {
    let names = locked.keys().chain(now.keys());
    let of = |from: &BTreeMap<String, u64>, name: &str| from.get(name).copied().unwrap_or_default();
    let change = |name: &String| Change { locked_bytes: of(locked, name), bytes: of(now, name) };
    let changes = names.map(|name| (name.clone(), change(name)));
    changes.filter(|(_, change)| change.locked_bytes != change.bytes).collect()
}

#[cfg(test)]
mod tests;
