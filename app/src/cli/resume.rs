//! `plimsoll resume`: a run that was saved goes on from its checkpoint.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use plimsoll_engine::{
    store::{RunKey, RunState},
    train::{Checkpoint, Keep, Start, Trainer},
};

use crate::cli::{complete, keeping::KeepChoice, train};

/// Go on with a run that was saved
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  plimsoll train cnn-shapes                    Ctrl-C saves it
  plimsoll resume last                         from its last checkpoint
  plimsoll resume 20261122-1412 --steps 5000
  plimsoll resume best.safetensors

The losses are those of a run that was never stopped, to the last bit. A RUN is its key, the beginning of it, its name
or title where no other run has it, or `last`; `plimsoll runs` lists them. It goes on as the same run; steps after its checkpoint are done again. A checkpoint that is a
file goes on as a new run, whose checkpoints go to the file's folder.")]
pub(super) struct Resume {
    /// The run; or a checkpoint (.safetensors), or a folder of checkpoints
    #[arg(add = complete::runs_and_files())]
    run: PathBuf,
    /// Optimizer steps of the whole run, those done included, in place of what the run was started with
    #[arg(long, value_name = "N")]
    steps: Option<u64>,
    /// Train although the run will not fit: it stops at the budget
    #[arg(long)]
    anyway: bool,
    #[command(flatten)]
    keep: KeepChoice,
    /// Write no progress: only warnings, errors, and what --json writes
    #[arg(short, long)]
    quiet: bool,
    /// Write a JSON object a line, one for each event
    #[arg(long)]
    json: bool,
}

impl Resume {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let (key, place) = self.place()?;
        let path = Checkpoint::at(&place)?;
        let mut experiment = Checkpoint::open(&path)?.experiment()?;
        if self.steps.is_some() {
            (experiment.run.steps, experiment.run.epochs) = (self.steps, None);
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let keep = Keep::in_folder(folder);
        let keeping = match key {
            Some(key) => self.keep.go_on(self.anyway, key),
            None => self.keep.begin(self.anyway),
        };
        let start = Start { anyway: self.anyway, keep, resume: Some(path), ..Start::new(experiment) };
        let manner = train::Manner { json: self.json, is_quiet: self.quiet };
        train::follow(&Trainer::new(|| {}), start, keeping, manner)
    }

    /// Where its checkpoints lie, and the kept run whose those are.
    fn place(&self) -> anyhow::Result<(Option<RunKey>, PathBuf)> {
        let name = self.run.to_string_lossy();
        if self.run.exists() {
            return Ok((None, self.run.clone()));
        }
        let is_path = self.run.components().count() != 1 || name.ends_with(".safetensors");
        let (store, key) = match self.keep.store().run(&name) {
            // A run may be called what looks like a path.
            Err(_) if is_path => return Ok((None, self.run.clone())),
            found => found?,
        };
        let run = store.get(&key)?;
        anyhow::ensure!(run.state != RunState::Running, "run {key} still trains; stop it first");
        let files = store.files(&key);
        let has_any = fs::read_dir(&files).is_ok_and(|mut files| files.next().is_some());
        anyhow::ensure!(
            has_any,
            "run {key} has no checkpoint to go on from: it ended before the first was due; `--set run.save_every=N` saves \
             after every N steps, `--set run.save_minutes=N` after so many minutes (10 unless chosen), and `--keep all`, the \
             default, keeps them"
        );
        Ok((Some(key), files))
    }
}
