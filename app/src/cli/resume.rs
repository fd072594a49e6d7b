//! `plimsoll resume`: a run that was saved goes on from its checkpoint.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use plimsoll_engine::{
    Experiment,
    experiment::Schedule,
    store::{self, RunState, StoredRun},
    train::{Checkpoint, Keep, Start, Trainer},
};

use crate::{
    cli::{
        complete, in_store,
        interrupt::Interrupt,
        keeping::{KeepChoice, Keeping},
        out, train,
    },
    format,
};

/// Go on with a run that was saved
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  plimsoll train cnn-shapes                    Ctrl-C saves it
  plimsoll resume last                         from its last checkpoint
  plimsoll resume 20261122-1412 --steps 5000
  plimsoll resume best.safetensors

The losses are those of a run that was never stopped, to the last bit. With --steps they differ if something is spread over
the whole run: a learning rate that falls (optimizer.schedule is cosine or linear), or weights that are pruned up to a part of it
(prune.begin_step or prune.end_step is 0). After the checkpoint it is that of a run of that many steps, and may jump there.

A RUN is its key, the beginning of it, its name, title or shipped preset if no other run has it, or `last`; `plimsoll
runs` lists them. It goes on as the same run; steps after its checkpoint are done again. A checkpoint that is a file goes on
as a new run, whose checkpoints go to the file's folder, or to its own where that is the folder of a kept run. With
`--keep nothing` and `--keep series` no checkpoint is written.")]
pub(super) struct Resume {
    /// The run; or a checkpoint (.safetensors), or a folder of checkpoints
    #[arg(add = complete::runs_and_files())]
    run: PathBuf,
    /// Optimizer steps of the whole run, those done included, in place of the run's own number
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
        let (kept, path) = self.place()?;
        let (run, mut experiment) = match kept {
            Some((run, experiment)) => (Some(run), experiment),
            None => (None, Checkpoint::open(&path)?.experiment()?),
        };
        if let Some(steps) = self.steps {
            if let Some(note) = other_schedule(&experiment, steps).filter(|_| !self.quiet) {
                out::say("note", &note);
            }
            (experiment.run.steps, experiment.run.epochs) = (self.steps, None);
        }
        let is_same_run = run.is_some();
        let lacks_end = run.as_ref().is_some_and(|run| run.state != RunState::Finished);
        let keeping = match run {
            Some(run) => self.keep.go_on(self.anyway, run.key),
            None => self.keep.begin(self.anyway),
        };
        let keep = self.checkpoints(&path, is_same_run, &keeping)?;
        let start = Start::new(experiment);
        let start = Start { anyway: self.anyway, keep, resume: Some(path), is_same_run, lacks_end, ..start };
        let manner = train::Manner { json: self.json, is_quiet: self.quiet, is_teachers: false };
        train::follow(&Trainer::new(|| {}), start, keeping, manner, &Interrupt::listen()?)
    }

    /// Why the folder of this name cannot be gone on from, and which run is called so as well.
    fn or_run(&self, name: &str, error: plimsoll_engine::Error) -> anyhow::Error {
        let run = self.keep.store().existing_quietly().and_then(|store| store.find(name).ok());
        match run {
            Some(key) => anyhow::anyhow!("{error}; for the run of this name write its key: `plimsoll resume {key}`"),
            None => error.into(),
        }
    }

    /// Where the checkpoints go: next to the one at `path`, but never into the folder of another run that is kept.
    fn checkpoints(&self, path: &Path, is_same_run: bool, keeping: &Keeping) -> anyhow::Result<Keep> {
        let own = keeping.checkpoints();
        if !self.keep.has_checkpoints() {
            return Ok(Keep { folder: None, ..own });
        }
        let beside = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if is_same_run || !store::is_of_run(beside) {
            return Ok(Keep { folder: Some(beside.to_owned().into()), ..own });
        }
        if own.folder.is_none() {
            anyhow::bail!(
                "{}: lies in the folder of a kept run, which a new run leaves as it is, and the new one has no folder of its \
                 own; name another place for it with --store, or copy the checkpoint to a folder of its own",
                path.display()
            );
        }
        Ok(own)
    }

    /// The checkpoint, and the kept run that goes on from it.
    fn place(&self) -> anyhow::Result<(Option<(StoredRun, Experiment)>, PathBuf)> {
        let name = self.run.to_string_lossy();
        if self.run.exists() {
            return Ok((None, Checkpoint::at(&self.run).map_err(|error| self.or_run(&name, error))?));
        }
        let is_path = self.run.components().count() != 1 || name.ends_with(".safetensors");
        let (store, key) = match self.keep.store().run(&name) {
            // The name of a run may look like a path.
            Err(_) if is_path => return Ok((None, Checkpoint::at(&self.run)?)),
            found => found?,
        };
        if let Some(pid) = store.trained_by(&key)? {
            anyhow::bail!(
                "run {key} is being trained by process {pid}; stop it there first (Ctrl-C saves it), or wait until it has ended"
            );
        }
        // A folder that is not there is no checkpoint either.
        let Some(path) = Some(store.files(&key)).filter(|f| f.is_dir()).and_then(|f| Checkpoint::at(f).ok()) else {
            anyhow::bail!(
                "run {key} has no checkpoint to go on from: {}",
                in_store::without_checkpoint(&store.details(&key)?, "`plimsoll resume FILE` goes on from")
            );
        };
        let experiment = store.details(&key)?.experiment(&key)?;
        Ok((Some((store.get(&key)?, experiment)), path))
    }
}

/// A note that another number of steps means another learning rate, if it does.
fn other_schedule(experiment: &Experiment, steps: u64) -> Option<String> {
    let schedule = experiment.optimizer.schedule;
    match schedule {
        Schedule::Cosine | Schedule::Linear if experiment.run.steps != Some(steps) => Some(format!(
            "the learning rate falls over the whole run (optimizer.schedule={}), so from the checkpoint on it is that of a run \
             of {}",
            schedule.key(),
            format::counted(steps, "step")
        )),
        Schedule::Constant | Schedule::Cosine | Schedule::Linear => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_steps_are_said_to_change_a_learning_rate_that_falls_over_all_of_them() {
        let mut experiment = Experiment::default();
        (experiment.run.steps, experiment.optimizer.schedule) = (Some(20), Schedule::Constant);
        assert_eq!(other_schedule(&experiment, 30), None);
        experiment.optimizer.schedule = Schedule::Cosine;
        assert_eq!(other_schedule(&experiment, 20), None);
        assert!(other_schedule(&experiment, 30).is_some_and(|note| note.contains("schedule=cosine")));
    }
}
