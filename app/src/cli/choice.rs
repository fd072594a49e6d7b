//! The choice that most commands take: a preset and changes to it.

use std::{
    io,
    path::{Path, PathBuf},
    str::FromStr,
};

use clap::Args;
use plimsoll_engine::{
    Bytes, Experiment,
    error::Problem,
    experiment::{
        check::hints,
        preset::{self, Opened, Places},
        shipped,
    },
    hardware::Machine,
    interop,
    plan::Resolved,
};

use crate::{
    budgets,
    cli::{Misuse, complete, in_store::InStore, out},
    format,
};

/// Stands for a preset that is written to this program.
const STANDARD_INPUT: &str = "-";

/// A preset and changes to it.
#[derive(Debug, Clone, Args)]
pub(super) struct Choice {
    /// A preset file, `-` for standard input, or the name of a shipped preset
    #[arg(add = complete::presets())]
    preset: PathBuf,
    #[command(flatten)]
    changes: Changes,
    /// Where the runs are that changes name.
    #[arg(skip)]
    runs: InStore,
    /// Write no progress and no notes: only warnings, errors, and what --json writes
    #[arg(short, long)]
    quiet: bool,
}

/// Changes to a preset.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct Changes {
    /// The device: cpu, a GPU such as cuda:0, or a card to plan for such as rtx4060-8g (`plimsoll devices` lists them)
    #[arg(long, value_name = "D", add = complete::devices())]
    device: Option<String>,
    /// The most memory it may take, such as 512MiB or 8GiB
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    budget: Option<Size>,
    /// Change a key of the preset, such as batch.micro=32; may be given more than once
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
}

/// A size as it was written.
#[derive(Debug, Clone, Copy)]
struct Size {
    bytes: Bytes,
    has_unit: bool,
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(Self { bytes: budgets::read(text)?, has_unit: budgets::has_unit(text) })
    }
}

impl Changes {
    /// Makes the changes: `--set` in order, then `--device` and `--budget`. Weights and a teacher may be named as one of `runs`.
    /// Returns notes about the changes.
    ///
    /// # Errors
    /// A change that cannot be made.
    pub(super) fn make(&self, experiment: &mut Experiment, runs: &InStore) -> anyhow::Result<Vec<String>> {
        let Self { device, budget, set } = self;
        let notes = preset::set_all(experiment, set.iter().map(String::as_str))
            .map_err(|(assignment, problem)| Misuse(format!("--set {assignment}: {problem}")))?;
        for (key, path) in
            [("weights.path", &mut experiment.weights.path), ("distil.teacher", &mut experiment.distil.teacher)]
        {
            let is_set = |change: &String| change.split('=').next().is_some_and(|set| set.trim() == key);
            if let Some(word) = path.as_deref().filter(|_| set.iter().any(is_set)) {
                let run = runs.folder_of(word).map_err(|error| error.context(format!("--set {key}")))?;
                *path = run.or(path.take());
            }
        }
        let mut notes: Vec<String> = notes.iter().map(|note| format!("--set: {note}")).collect();
        if let Some(Size { bytes, .. }) = budget.filter(|size| !size.has_unit && size.bytes < Bytes::mib(1)) {
            notes.push(format!("--budget {bytes}: a number without a unit is bytes; write 64MiB or 8GiB for more"));
        }
        if let Some(device) = device {
            experiment.device.clone_from(device);
        }
        if let Some(Size { bytes, .. }) = budget {
            experiment.budget = *bytes;
        }
        let unused = preset::unused(experiment, set.iter().map(String::as_str));
        notes.extend(unused.iter().map(|note| format!("--set: {note}")));
        Ok(notes)
    }
}

impl Choice {
    /// A preset with changes that were written for it.
    pub(super) fn changed(preset: impl Into<PathBuf>, changes: Changes, quiet: bool) -> Self {
        Self { preset: preset.into(), changes, runs: InStore::default(), quiet }
    }

    /// A preset as it is, on another device where one is given.
    pub(super) fn of(preset: impl Into<PathBuf>, device: Option<String>) -> Self {
        Self::changed(preset, Changes { device, ..Changes::default() }, false)
    }

    /// The same, whose changes name runs of this store.
    pub(super) fn with_runs(self, runs: &InStore) -> Self {
        Self { runs: runs.clone(), ..self }
    }

    /// The preset's name or path, as it was given.
    pub(super) fn name(&self) -> String {
        self.preset.to_string_lossy().into_owned()
    }

    /// Whether only errors are to be written.
    pub(super) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// The preset without the changes.
    ///
    /// # Errors
    /// A preset that cannot be read.
    pub(super) fn preset(&self) -> anyhow::Result<Opened> {
        Ok(match self.preset.to_str() {
            Some(STANDARD_INPUT) => preset::from_reader(io::stdin().lock(), "standard input")?,
            Some(name) => shipped::open(name)?,
            // No shipped preset has such a name.
            None => preset::open(&self.preset)?,
        })
    }

    /// The experiment, resolved on `machine`: the preset, then `--set` in order, then `--device` and `--budget`. `change`
    /// comes last.
    ///
    /// # Errors
    /// A preset that cannot be read, a change that cannot be made, and every problem of the experiment that results.
    pub(super) fn resolve(&self, machine: &Machine, change: impl FnOnce(&mut Experiment)) -> anyhow::Result<Resolved> {
        self.resolve_for(machine, change, |_, _| Ok(()))
    }

    /// Resolves in the same way for a model that computes: weights next to it that cannot be read are not replaced by random
    /// ones.
    ///
    /// # Errors
    /// The errors of [`Choice::resolve`], and weights that are pickled.
    pub(super) fn resolve_to_run(
        &self,
        machine: &Machine,
        change: impl FnOnce(&mut Experiment),
    ) -> anyhow::Result<Resolved> {
        self.resolve_for(machine, change, Opened::refuse_pickled)
    }

    fn resolve_for(
        &self,
        machine: &Machine,
        change: impl FnOnce(&mut Experiment),
        check: impl FnOnce(Option<&Path>, &Experiment) -> plimsoll_engine::Result<()>,
    ) -> anyhow::Result<Resolved> {
        let Opened { mut experiment, notes, places, pickled, .. } = self.preset()?;
        self.note(notes.iter().map(|note| format!("{}: {note}", self.name())));
        // Without a budget, the line is drawn where the card ends.
        if let Some(card) = machine.profile(&experiment.device).filter(|_| places.of("budget").is_none()) {
            experiment.budget = card.usable_memory();
        }
        let own = experiment.clone();
        let of_changes = self.changes.make(&mut experiment, &self.runs)?;
        check(pickled.as_deref(), &experiment)?;
        let unused = places.unused(&own, &experiment);
        self.note(unused.iter().map(|unused| format!("{} ({}): {}", self.name(), unused.place, unused.words)));
        self.note(of_changes);
        let budget = self.changes.budget.map(|size| size.bytes);
        change(&mut experiment);
        let resolved = Resolved::new(&experiment, machine).map_err(|problems| {
            let lines: Vec<String> = problems.iter().map(|p| format!("{}: {p}", self.source(p, &places))).collect();
            anyhow::anyhow!(lines.join("\n"))
        })?;
        let (ranks, found) = (&experiment.low_rank.ranks, &resolved.experiment().low_rank.ranks);
        if !ranks.is_empty() && ranks != found {
            let words =
                "do not follow from these weights and this energy or size, which give other ranks; leave them out";
            self.note([format!("low_rank.ranks: `{ranks}` {words}")]);
        }
        let hints = hints(resolved.experiment(), Some(resolved.info()));
        self.note(hints.iter().map(|hint| hint.problem.to_string()));
        match (resolved.target().profile(), budget) {
            (Some(card), Some(budget)) if budget > card.usable_memory() => {
                let [budget, usable] = budget.beside(card.usable_memory());
                Err(Misuse(format!(
                    "--budget: {budget} is more than a process may use of {}: {usable} of its {}; write {} or less",
                    card.title,
                    card.capacity,
                    card.usable_memory().exact()
                ))
                .into())
            }
            _ => Ok(resolved),
        }
    }

    /// Compares the weights that the experiment begins with with its model, and a teacher's weights with the teacher's
    /// model, and prints the notes for the user.
    ///
    /// # Errors
    /// Weights that cannot be read, or are of another model.
    pub(super) fn look_at_weights(&self, resolved: &Resolved) -> anyhow::Result<()> {
        let weights = interop::chosen(resolved.experiment(), resolved.info())?;
        if let Some(weights) = &weights {
            let tensors = format::counted(weights.tensors() as u64, "tensor");
            self.note([format!("weights: {tensors} by {} names", weights.naming())]);
            self.note(weights.notes().iter().map(|note| format!("weights: {note}")));
        }
        if resolved.to_train_first().is_some() {
            return Ok(());
        }
        let teacher = interop::teaching(resolved.experiment(), resolved.teacher(), resolved.info())?;
        if let Some(teacher) = &teacher {
            let tensors = format::counted(teacher.tensors() as u64, "tensor");
            self.note([format!("teacher: {tensors} by {} names", teacher.naming())]);
            self.note(teacher.notes().iter().map(|note| format!("teacher: {note}")));
        }
        Ok(())
    }

    fn note(&self, notes: impl IntoIterator<Item = String>) {
        if !self.quiet {
            notes.into_iter().for_each(|note| out::say("note", &note));
        }
    }

    /// Where the value of a problem's key came from.
    fn source(&self, problem: &Problem, places: &Places) -> String {
        let Changes { device, budget, set } = &self.changes;
        let sets = |assignment: &&String| assignment.split('=').next().is_some_and(|key| key.trim() == problem.key);
        match (problem.key.as_str(), set.iter().rfind(sets)) {
            ("budget", _) if budget.is_some() => "--budget".to_owned(),
            ("device", _) if device.is_some() => "--device".to_owned(),
            (_, Some(assignment)) => format!("--set {assignment}"),
            (key, None) => places.of(key).map_or_else(|| self.name(), |place| format!("{} ({place})", self.name())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_told_with_and_without_its_unit() {
        let has_unit = |text: &str| text.parse::<Size>().map(|size| size.has_unit);
        assert_eq!(["100KiB", "100 b", "2 G "].map(has_unit), [Ok(true), Ok(true), Ok(true)]);
        assert_eq!(["100", "1e5", " 7 "].map(has_unit), [Ok(false), Ok(false), Ok(false)]);
        assert!(has_unit("lots").is_err());
        let said = has_unit("99999999999TiB").expect_err("too large");
        assert!(said.ends_with("write 1048576 GiB or less"), "{said}");
    }
}
