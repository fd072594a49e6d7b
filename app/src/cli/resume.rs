//! `plimsoll resume`: a run that was saved goes on from its checkpoint.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use plimsoll_engine::train::{Checkpoint, Keep, Start, Trainer};

use crate::cli::train;

/// Go on with a run that was saved
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  plimsoll train cnn-shapes --checkpoints runs/shapes      Ctrl-C saves it
  plimsoll resume runs/shapes                              from its last checkpoint
  plimsoll resume runs/shapes/best.safetensors --steps 5000

The losses are those of a run that was never stopped, to the last bit. Checkpoints go to where the one lies that it goes on
from.")]
pub(super) struct Resume {
    /// A checkpoint (.safetensors), or the folder of a run's checkpoints
    #[arg(value_name = "CHECKPOINT")]
    checkpoint: PathBuf,
    /// Optimizer steps of the whole run, those done included, in place of what the run was started with
    #[arg(long, value_name = "N")]
    steps: Option<u64>,
    /// Train although the run will not fit: it stops at the budget
    #[arg(long)]
    anyway: bool,
    /// Write a JSON object a line, one for each event
    #[arg(long)]
    json: bool,
}

impl Resume {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let path = Checkpoint::at(&self.checkpoint)?;
        let mut experiment = Checkpoint::open(&path)?.experiment()?;
        if self.steps.is_some() {
            (experiment.run.steps, experiment.run.epochs) = (self.steps, None);
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let keep = Keep::in_folder(folder);
        let start = Start { anyway: self.anyway, keep, resume: Some(path), ..Start::new(experiment) };
        train::follow(&Trainer::new(|| {}), start, self.json)
    }
}
