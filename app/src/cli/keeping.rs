//! Keeping a run of the command line: its recorder, the folder of its checkpoints, and the reports about both.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::{Args, ValueEnum};
use plimsoll_engine::{
    store::{self, Origin, Recorder, Recording, RunKey},
    train::{Event, Folder, Keep, RecordFirst, Trainer},
};

use crate::cli::{Misuse, in_store::InStore};

/// How long the first writing is waited for, so that a script finds the run as soon as it reads its name.
const PATIENCE: Duration = Duration::from_secs(2);

/// The part of a run that is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// Nothing: the run is gone when it ends
    Nothing,
    /// Settings, prediction, series, events and outcome
    Series,
    /// The same, and checkpoints with the weights
    All,
}

/// The part of a run that is kept, and its place.
#[derive(Debug, Args)]
pub(super) struct KeepChoice {
    /// The part of the run that is kept
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = What::All)]
    keep: What,
    #[command(flatten)]
    store: InStore,
}

/// A report about keeping a run.
#[derive(Debug)]
pub(super) enum Told {
    /// The run stands in the store under this name.
    Kept(RunKey),
    /// Something is wrong; the run goes on.
    Warning(String),
}

/// A run being kept.
#[derive(Debug)]
pub(super) struct Keeping {
    recorder: Option<Recorder>,
    /// Where its checkpoints go.
    files: Option<PathBuf>,
    has_waited: bool,
    has_told: bool,
    warning: Option<String>,
}

/// Refuses the folder of a kept run for the checkpoints of a new one.
///
/// # Errors
/// Such a folder.
pub(super) fn can_be_saved_in(folder: &Path) -> anyhow::Result<()> {
    if store::is_of_run(folder) {
        let message = "is the folder of a kept run, whose checkpoints a new run leaves as they are; name another one";
        return Err(Misuse(format!("--checkpoints {}: {message}", folder.display())).into());
    }
    Ok(())
}

impl KeepChoice {
    /// The store.
    pub(super) fn store(&self) -> &InStore {
        &self.store
    }

    /// Whether checkpoints are kept.
    pub(super) fn has_checkpoints(&self) -> bool {
        self.keep == What::All
    }

    /// Begins to keep a new run, which may begin although it does not fit where `is_forced`.
    pub(super) fn begin(&self, is_forced: bool) -> Keeping {
        self.keeping(is_forced, None)
    }

    /// Keeps a run on that is taken up again.
    pub(super) fn go_on(&self, is_forced: bool, run: RunKey) -> Keeping {
        self.keeping(is_forced, Some(run))
    }

    fn keeping(&self, is_forced: bool, continued: Option<RunKey>) -> Keeping {
        match self.store.folder() {
            _ if self.keep == What::Nothing => Keeping::nothing(None),
            Err(error) => Keeping::nothing(Some(format!("the run is not kept: {error:#}"))),
            Ok(folder) => {
                let with_checkpoints = self.keep == What::All;
                Keeping::of(Recording { folder, origin: Origin::CommandLine, is_forced, continued }, with_checkpoints)
            }
        }
    }
}

impl Keeping {
    fn nothing(warning: Option<String>) -> Self {
        Self { recorder: None, files: None, has_waited: false, has_told: false, warning }
    }

    fn of(recording: Recording, with_checkpoints: bool) -> Self {
        let recorder = Recorder::new(recording);
        let made = with_checkpoints.then(|| recorder.make_files()).transpose();
        let warning = made.as_ref().err().map(|error| format!("no checkpoints of the run are kept: {error}"));
        let files = made.unwrap_or_default();
        Self { recorder: Some(recorder), files, has_waited: false, has_told: false, warning }
    }

    /// Where the run's checkpoints go.
    pub(super) fn checkpoints(&self) -> Keep {
        Keep { folder: self.files.clone().map(Folder::from), record: self.record() }
    }

    /// The condition that checkpoints in another folder wait for.
    pub(super) fn record(&self) -> Option<RecordFirst> {
        self.recorder.as_ref().map(Recorder::first)
    }

    /// Takes an event of `trainer`. The returned text must be reported before it.
    pub(super) fn take(&mut self, trainer: &Trainer, event: &Event) -> Vec<Told> {
        let mut told: Vec<Told> = self.warning.take().map(Told::Warning).into_iter().collect();
        let Some(recorder) = &self.recorder else { return told };
        if matches!(event, Event::Ended { .. }) {
            recorder.take_latest(&trainer.latest());
        }
        recorder.take(event);
        told.extend(recorder.warning().map(Told::Warning));
        if !self.has_told && recorder.has_begun() {
            let is_kept = if self.has_waited { recorder.is_kept() } else { recorder.wait_until_kept(PATIENCE) };
            self.has_waited = true;
            if is_kept {
                self.has_told = true;
                told.push(Told::Kept(recorder.key().clone()));
            }
        }
        told
    }

    /// The run's name in the store, once it stands there.
    pub(super) fn key(&self) -> Option<&RunKey> {
        self.recorder.as_ref().filter(|recorder| recorder.is_kept()).map(Recorder::key)
    }

    /// Writes the remaining records of the run; returns the losses in words.
    pub(super) fn finish(self) -> Option<String> {
        let warning = self.recorder.and_then(Recorder::finish);
        // A run that was refused, or saved nothing, leaves an empty folder.
        let _ = self.files.map(fs::remove_dir);
        warning
    }
}
