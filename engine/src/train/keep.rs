//! The files of a run that stay: where its checkpoints go, and why each was written.
//!
//! When they are written is the experiment's choice: the settings `run.save_*`. On a stop and at the end one is always written.

use std::{
    fmt::{self, Debug, Formatter},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use crossbeam_channel::Receiver;

use crate::{error::Result, experiment::words::words};

/// The longest that a written checkpoint waits for the record of the steps before it.
const PATIENCE: Duration = Duration::from_secs(1);
/// The longest that a run which begins waits for the store of its record to be open.
const OPENING: Duration = Duration::from_millis(200);

/// Where the checkpoints of a run go.
#[derive(Debug, Clone, Default)]
pub struct Keep {
    /// The folder; without one, no checkpoint is written.
    pub folder: Option<Folder>,
    /// The record of the run: each checkpoint is put in its place once the steps before it stand there.
    pub record: Option<RecordFirst>,
}

impl Keep {
    /// Checkpoints in `folder`.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self { folder: Some(Folder::from(folder.into())), record: None }
    }

    /// Makes the folder. If it cannot be made, the run saves nothing and the fault is returned.
    pub(super) fn make_folder(&mut self) -> Option<String> {
        let error = self.folder.as_ref()?.make.as_ref()?().err()?;
        self.folder = None;
        Some(format!("no checkpoints of the run are kept: {error}"))
    }
}

/// A folder for the checkpoints of a run.
#[derive(Clone)]
pub struct Folder {
    path: PathBuf,
    make: Option<Arc<Make>>,
}

/// Makes a folder, or says why it cannot be made.
type Make = dyn Fn() -> Result<()> + Send + Sync;

impl Folder {
    /// A folder that `make` makes when the run begins, in the trainer's thread.
    pub(crate) fn made_by(path: PathBuf, make: impl Fn() -> Result<()> + Send + Sync + 'static) -> Self {
        Self { path, make: Some(Arc::new(make)) }
    }

    /// The folder's path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// A run that cannot save in this folder does not begin.
impl From<PathBuf> for Folder {
    fn from(path: PathBuf) -> Self {
        Self { path, make: None }
    }
}

impl Debug for Folder {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.path.fmt(f)
    }
}

/// Asks the recorder of a run to write the records before a checkpoint.
#[derive(Clone)]
pub struct RecordFirst {
    ask: Arc<Ask>,
    /// Disconnected once the recorder has opened its store, or has failed to.
    opened: Receiver<()>,
}

/// Asks for the record up to a step, with this many evaluations; the receiver is disconnected once that is written.
type Ask = dyn Fn(u64, u64) -> Receiver<()> + Send + Sync;

impl RecordFirst {
    pub(crate) fn new(opened: Receiver<()>, ask: impl Fn(u64, u64) -> Receiver<()> + Send + Sync + 'static) -> Self {
        Self { ask: Arc::new(ask), opened }
    }

    /// Waits until the recorder has opened its store, but not for long: the memory that this takes is no longer to come then.
    pub(super) fn wait_until_open(&self) {
        // The other end is dropped: there is nothing to receive.
        let _ = self.opened.recv_timeout(OPENING);
    }

    /// Asks for the record up to `step`, with the first `evaluations` that this run made; returns at once.
    pub(super) fn ask(&self, step: u64, evaluations: u64) -> Awaited {
        Awaited((self.ask)(step, evaluations))
    }
}

impl Debug for RecordFirst {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordFirst").finish_non_exhaustive()
    }
}

/// A record that was asked for.
pub(super) struct Awaited(Receiver<()>);

impl Awaited {
    /// Waits until the record is written or has failed, but not for long: a run does not depend on its record.
    pub(super) fn wait(self) {
        // The other end is dropped: there is nothing to receive.
        let _ = self.0.recv_timeout(PATIENCE);
    }
}

words! {
    /// The reason why a checkpoint was written.
    pub enum SaveReason {
        /// This many steps or minutes have passed: [`Run::save_every`](crate::experiment::Run::save_every) and
        /// [`Run::save_minutes`](crate::experiment::Run::save_minutes).
        Interval = "interval",
        /// No test was better: [`Run::save_best`](crate::experiment::Run::save_best).
        Best = "best",
        /// The run was stopped.
        Stop = "stop",
        /// The run did all its steps.
        End = "end",
    }
}
