//! What of a run outlives it: where its checkpoints go, and what each was written for.
//!
//! When they are written is the experiment's choice: the settings `run.save_*`. On a stop and at the end one is written
//! whatever is chosen.

use std::path::PathBuf;

use crate::words::words;

/// Where the checkpoints of a run go.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Keep {
    /// The folder, which is there when the run begins; without one, no checkpoint is written.
    pub folder: Option<PathBuf>,
}

impl Keep {
    /// Checkpoints in `folder`.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self { folder: Some(folder.into()) }
    }
}

words! {
    /// What a checkpoint was written for.
    pub enum SaveReason {
        /// So many steps or minutes have passed: [`Run::save_every`](crate::experiment::Run::save_every) and
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
