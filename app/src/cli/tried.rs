//! The model that a command tries: a kept run's, a checkpoint's or a preset's, with changes to it.

use std::path::{Path, PathBuf};

use clap::Args;
use plimsoll_engine::{
    Bytes, Experiment,
    data::ValueErrors,
    hardware::Machine,
    store::{RunKey, Store},
    train::{Checkpoint, Took, Tried, WeightsFrom},
};
use serde_json::{Value, json};

use crate::cli::{
    choice::{Changes, Choice},
    complete,
    in_store::{self, InStore},
    out, subject,
};
use crate::format;

/// A model and changes to its experiment.
#[derive(Debug, Args)]
pub(super) struct ModelChoice {
    /// A kept run, a checkpoint (.safetensors) or a folder of checkpoints, a preset, or a folder with weights
    #[arg(value_name = "RUN|PRESET", add = complete::models())]
    model: PathBuf,
    /// Take the last checkpoint of a run, even if it has a best one
    #[arg(long)]
    last: bool,
    #[command(flatten)]
    changes: Changes,
    #[command(flatten)]
    store: InStore,
    /// Write no notes: only warnings, errors, and the result
    #[arg(short, long)]
    quiet: bool,
}

impl ModelChoice {
    /// Its name in a sentence.
    pub(super) fn name(&self) -> String {
        self.model.to_string_lossy().into_owned()
    }

    /// Whether nothing but warnings, errors and the result is written.
    pub(super) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// The model, of an experiment that can be on `machine`.
    ///
    /// # Errors
    /// A name that means no run and no preset, a run without a checkpoint, a change that cannot be made.
    pub(super) fn tried(&self, machine: &Machine) -> anyhow::Result<Tried> {
        if let Some(path) = self.checkpoint_file()? {
            let experiment = Checkpoint::open(&path)?.experiment()?;
            return self.changed(experiment, path);
        }
        if let Some((store, key)) = subject::run_of(&self.model, &self.store)? {
            let experiment = store.details(&key)?.experiment(&key)?;
            return self.changed(experiment, self.checkpoint_of(&store, &key)?);
        }
        let choice = Choice::changed(&self.model, self.changes.clone(), self.quiet).with_runs(&self.store);
        Ok(Tried::begun(Experiment::clone(choice.resolve_to_run(machine, |_| {})?.experiment())))
    }

    /// The checkpoint that is named by its path.
    fn checkpoint_file(&self) -> anyhow::Result<Option<PathBuf>> {
        let model = &self.model;
        let is_file = model.extension().is_some_and(|end| end == "safetensors");
        let in_folder = || Checkpoint::NAMES.iter().any(|name| model.join(name).is_file());
        if model.is_dir() && in_folder() {
            return self.of_folder(model).map(Some);
        }
        Ok(is_file.then(|| model.clone()))
    }

    fn of_folder(&self, folder: &Path) -> anyhow::Result<PathBuf> {
        let best = folder.join(Checkpoint::BEST);
        if !self.last && best.is_file() { Ok(best) } else { Ok(Checkpoint::at(folder)?) }
    }

    fn checkpoint_of(&self, store: &Store, key: &RunKey) -> anyhow::Result<PathBuf> {
        let folder = store.files(key);
        if folder.is_dir()
            && let Ok(path) = self.of_folder(&folder)
        {
            return Ok(path);
        }
        let elsewhere = "`plimsoll try FILE` and `plimsoll evaluate FILE` take";
        let why = in_store::without_checkpoint(&store.details(key)?, elsewhere);
        anyhow::bail!("run {key} has no checkpoint to try: {why}")
    }

    fn changed(&self, mut experiment: Experiment, checkpoint: PathBuf) -> anyhow::Result<Tried> {
        let notes = self.changes.make(&mut experiment, &self.store)?;
        if !self.quiet {
            notes.iter().for_each(|note| out::say("note", note));
        }
        Ok(Tried { experiment, checkpoint: Some(checkpoint) })
    }
}

/// Where weights came from, in words that follow a name.
pub(super) fn weights_in_words(weights: &WeightsFrom) -> String {
    match weights {
        WeightsFrom::Checkpoint { path, step } => format!("after step {step} ({})", path.display()),
        WeightsFrom::Files(path) => format!("with the weights of {}", path.display()),
        WeightsFrom::Initialised => "as it is initialised: nothing is trained yet".to_owned(),
    }
}

/// The same for scripts.
pub(super) fn weights_as_json(weights: &WeightsFrom) -> Value {
    match weights {
        WeightsFrom::Checkpoint { path, step } => json!({"from": "checkpoint", "path": path, "step": step}),
        WeightsFrom::Files(path) => json!({"from": "files", "path": path}),
        WeightsFrom::Initialised => json!({"from": "initialised"}),
    }
}

/// The memory that it took, in a line.
pub(super) fn took_in_words(took: &Took) -> String {
    let Took { budget, predicted, measured, .. } = took;
    let cache = format::cache(took).map(|cache| format!(" {cache}")).unwrap_or_default();
    format!("{measured} measured of {predicted} predicted, inside a budget of {budget}.{cache}\n")
}

/// The same for scripts.
pub(super) fn took_as_json(took: &Took) -> Value {
    let bytes = |bytes: Bytes| bytes.0;
    json!({
        "budget_bytes": bytes(took.budget),
        "predicted_live_bytes": bytes(took.predicted),
        "measured_live_bytes": bytes(took.measured),
    })
}

/// How far values are from the labels, in words.
pub(super) fn errors_in_words(errors: &ValueErrors) -> String {
    let ValueErrors { rmse, mae, r2 } = errors;
    format!("RMSE {}, MAE {}, R² {r2:.4}", format::figures(*rmse), format::figures(*mae))
}
