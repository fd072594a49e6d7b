//! The choice that most commands take: a preset, and what is changed in it.

use std::path::PathBuf;

use clap::Args;
use plimsoll_engine::{
    Bytes, Error, Experiment, data,
    error::Problem,
    experiment::{
        check::check,
        preset::{self, Opened},
        shipped,
    },
    hardware,
};

use crate::cli::Misuse;

/// A preset and changes to it.
#[derive(Debug, Args)]
pub(super) struct Choice {
    /// A preset file, or the name of a shipped preset
    preset: PathBuf,
    #[command(flatten)]
    changes: Changes,
}

/// Changes to a preset.
#[derive(Debug, Args)]
struct Changes {
    /// Where it runs: cpu, a GPU such as cuda:0, or a card to plan for such as rtx4060-8g (`plimsoll devices` lists them)
    #[arg(long, value_name = "D")]
    device: Option<String>,
    /// The most memory it may take, such as 512MiB or 8GiB
    #[arg(long, value_name = "SIZE")]
    budget: Option<Bytes>,
    /// Change a key of the preset, such as batch.micro=32; may be given more than once
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
}

impl Choice {
    /// The preset's name or path, as it was given.
    pub(super) fn name(&self) -> String {
        self.preset.to_string_lossy().into_owned()
    }

    /// The experiment: the preset, then `--set` in order, then `--device` and `--budget`. `change` comes last.
    ///
    /// # Errors
    /// A preset that cannot be read, a change that cannot be made, and every problem of the experiment that results.
    pub(super) fn experiment(&self, change: impl FnOnce(&mut Experiment)) -> anyhow::Result<Experiment> {
        let Opened { mut experiment, notes, .. } = match self.preset.to_str() {
            Some(name) => shipped::open(name)?,
            // No shipped preset has such a name.
            None => preset::open(&self.preset)?,
        };
        notes.iter().for_each(|note| eprintln!("note: {}: {note}", self.name()));
        let Changes { device, budget, set } = &self.changes;
        let notes = preset::set_all(&mut experiment, set.iter().map(String::as_str))
            .map_err(|(assignment, problem)| Misuse(format!("--set {assignment}: {problem}")))?;
        notes.iter().for_each(|note| eprintln!("note: --set: {note}"));
        if let Some(small) = budget.filter(|budget| *budget < Bytes::mib(1)) {
            eprintln!("note: --budget {small}: a number without a unit is bytes; write 64MiB or 8GiB for more");
        }
        if let Some(device) = device {
            experiment.device.clone_from(device);
        }
        if let Some(budget) = budget {
            experiment.budget = *budget;
        }
        change(&mut experiment);
        let mut problems = check(&experiment, None);
        if problems.is_empty() {
            let facts = data::facts(&experiment.data)?;
            problems = check(&experiment, Some(&facts));
        }
        if problems.is_empty() {
            let target = hardware::target(&experiment.device).map_err(|error| match error {
                Error::Experiment(problem) => anyhow::anyhow!("{}: {problem}", self.source(&problem)),
                other => other.into(),
            })?;
            return match (target.profile(), budget) {
                (Some(card), Some(budget)) if *budget > card.usable_memory() => Err(Misuse(format!(
                    "--budget: {budget} is more than a process may use of {}: {} of its {}; write {} or less",
                    card.title,
                    card.usable_memory(),
                    card.capacity,
                    card.usable_memory().exact()
                ))
                .into()),
                _ => Ok(experiment),
            };
        }
        let lines: Vec<String> = problems.iter().map(|p| format!("{}: {p}", self.source(p))).collect();
        anyhow::bail!(lines.join("\n"))
    }

    /// Where the value of a problem's key came from.
    fn source(&self, problem: &Problem) -> String {
        let Changes { device, budget, set } = &self.changes;
        let sets = |assignment: &&String| assignment.split('=').next().is_some_and(|key| key.trim() == problem.key);
        match (problem.key.as_str(), set.iter().rfind(sets)) {
            ("budget", _) if budget.is_some() => "--budget".to_owned(),
            ("device", _) if device.is_some() => "--device".to_owned(),
            (_, Some(assignment)) => format!("--set {assignment}"),
            (_, None) => self.name(),
        }
    }
}
