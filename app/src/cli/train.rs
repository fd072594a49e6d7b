//! `plimsoll train`: a run inside its budget, reported as it goes.

mod report;

use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use plimsoll_engine::{
    Experiment, interop,
    store::{self, RunKey},
    train::{Event, Folder, Outcome, Start, Trainer},
};

use self::report::Report;
use crate::cli::{
    Misuse,
    choice::Choice,
    interrupt::Interrupt,
    keeping::{self, KeepChoice, Keeping, Told},
    lost_reader, offers, out, run,
};

/// Train inside the budget
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  plimsoll train mlp-digits
  plimsoll train cnn-shapes --steps 100 --set optimizer.learning_rate=0.002
  plimsoll train cnn-digits --json | jq -c 'select(.event == \"evaluated\")'

A run that would cross its budget is refused before anything is allocated (exit status 1). Ctrl-C, SIGTERM and SIGHUP end
a run after the current step, saved where it is kept, with its summary (exit status 130, 143 and 129); a second one ends the
program at once. A run ends in the same way when the reader of standard output goes away (exit status 141). `plimsoll resume`
goes on with a run that was saved.

The run is kept from its first step; `plimsoll runs` lists what is kept. A refused run is not kept.")]
pub(super) struct Train {
    #[command(flatten)]
    choice: Choice,
    /// Optimizer steps, in place of the preset's steps or epochs
    #[arg(long, value_name = "N")]
    steps: Option<u64>,
    /// Train although the run will not fit: it stops at the budget
    #[arg(long)]
    anyway: bool,
    #[command(flatten)]
    keep: KeepChoice,
    /// Write checkpoints to this folder, in place of the run's own
    #[arg(long, value_name = "DIR")]
    checkpoints: Option<PathBuf>,
    /// Write a JSON object a line, one for each event. Those of a teacher that is trained first have `is_teachers`
    #[arg(long)]
    json: bool,
}

impl Train {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        self.checkpoints.as_deref().map(keeping::can_be_saved_in).transpose()?;
        let trainer = Trainer::new(|| {});
        let resolved = self.choice.clone().with_runs(self.keep.store()).resolve_to_run(&trainer.machine(), |e| {
            if self.steps.is_some() {
                (e.run.steps, e.run.epochs) = (self.steps, None);
            }
        })?;
        let mut experiment = Experiment::clone(resolved.experiment());
        let manner = Manner { json: self.json, is_quiet: self.choice.is_quiet(), is_teachers: false };
        let interrupt = Interrupt::listen()?;
        if let Some(first) = resolved.to_train_first() {
            match self.teacher(&trainer, Experiment::clone(first), manner, &interrupt)? {
                Ok(folder) => experiment.distil.teacher = Some(folder),
                Err(status) => return Ok(status),
            }
        }
        // Before the run is kept, because a run that cannot begin is not kept.
        interop::chosen(&experiment, resolved.info())?;
        let keeping = self.keep.begin(self.anyway);
        let mut keep = keeping.checkpoints();
        keep.folder = self.checkpoints.clone().map(Folder::from).or(keep.folder);
        let start = Start { anyway: self.anyway, keep, ..Start::new(experiment) };
        follow(&trainer, start, keeping, manner, &interrupt)
    }

    /// Trains a teacher, as a run of its own that is kept: the folder of its weights, or how the program ends instead.
    fn teacher(
        &self,
        trainer: &Trainer,
        first: Experiment,
        manner: Manner,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Result<PathBuf, ExitCode>> {
        if !self.keep.has_checkpoints() {
            let message = "the teacher is trained first, and its weights have to be kept; leave it out, or choose a \
                           teacher that is trained";
            return Err(Misuse(format!("--keep: {message}")).into());
        }
        let keeping = self.keep.begin(false);
        let keep = keeping.checkpoints();
        let Some(folder) = keep.folder.as_ref().map(|folder| folder.path().to_owned()) else {
            anyhow::bail!(
                "the teacher is trained first, and there is no folder for its weights; choose one that is trained"
            );
        };
        if !manner.is_quiet {
            out::say("note", &format!("trains the teacher first: {}", first.title));
        }
        let manner = Manner { is_teachers: true, ..manner };
        let ended = follow(trainer, Start { keep, ..Start::new(first) }, keeping, manner, interrupt)?;
        // A signal after its last step finds it finished.
        if ended == ExitCode::SUCCESS && interrupt.has_come() {
            return Ok(Err(interrupt.exit_code()));
        }
        Ok(if ended == ExitCode::SUCCESS { Ok(folder) } else { Err(ended) })
    }
}

/// How a run is reported.
#[derive(Debug, Clone, Copy)]
pub(super) struct Manner {
    /// Whether each event is a line of JSON.
    pub(super) json: bool,
    /// Whether nothing is written but warnings and errors, and JSON if that is asked for.
    pub(super) is_quiet: bool,
    /// Whether it is the run of a teacher that is trained first.
    pub(super) is_teachers: bool,
}

/// Runs to the end, keeps the run and reports it.
///
/// # Errors
/// A run that fails or is refused, and output that cannot be written.
pub(super) fn follow(
    trainer: &Trainer,
    start: Start,
    mut keeping: Keeping,
    manner: Manner,
    interrupt: &Interrupt,
) -> anyhow::Result<ExitCode> {
    let mut report = Report::new(manner);
    let (mut failure, mut saved) = (None, None);
    let (outcome, summary) = run::run(trainer, start, interrupt, |event| {
        // The run is kept even if its output is not read.
        let told = keeping.take(trainer, event);
        if let Event::Saved { path, .. } = event {
            saved = Some(path.clone());
        }
        if failure.is_none() {
            failure = told.iter().try_for_each(|told| report.told(told)).and_then(|()| report.event(event)).err();
        }
        if failure.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    report.clear_progress();
    let kept = keeping.key().cloned();
    if let Some(failure) = failure {
        if let Some(warning) = keeping.finish() {
            report.warn(&warning);
        }
        if !matches!(outcome, Outcome::Finished | Outcome::Stopped) {
            return ended(outcome, interrupt);
        }
        let kept = kept.filter(|_| saved.is_some());
        let status = lost_reader::tell(failure, summary.steps, kept.as_ref(), manner.is_quiet)?;
        return Ok(if interrupt.has_come() { interrupt.exit_code() } else { status });
    }
    if let Some(warning) = keeping.finish() {
        report.told(&Told::Warning(warning))?;
    }
    if let Outcome::Finished | Outcome::Stopped = outcome
        && !manner.json
        && !manner.is_quiet
    {
        let lacks = match outcome {
            Outcome::Stopped => lacks(&report, summary.steps, kept.as_ref(), saved.as_deref()),
            _ => String::new(),
        };
        let kept = kept.map(|key| format!("\nKept as {key}: `plimsoll show {key}`\n")).unwrap_or_default();
        out::text(&format!("{}{kept}{lacks}", report::result(&summary, report.plan())))?;
    }
    ended(outcome, interrupt)
}

/// What a run lacks that was stopped, and how it goes on from the checkpoint that it saved.
fn lacks(report: &Report, steps: u64, kept: Option<&RunKey>, saved: Option<&Path>) -> String {
    let Some(came) = report.came(steps) else { return String::new() };
    // The name of a run means a checkpoint in its own folder.
    let is_own = saved.and_then(Path::parent).is_some_and(store::is_of_run);
    let goes_on = match (saved, kept) {
        (Some(_), Some(key)) if is_own => format!("; `plimsoll resume {key}` finishes it"),
        (Some(path), _) => format!("; `plimsoll resume {}` finishes it", path.display()),
        (None, _) => String::new(),
    };
    format!("The run was stopped: {}{goes_on}.\n", came.lacks())
}

/// How the program ends after a run.
fn ended(outcome: Outcome, interrupt: &Interrupt) -> anyhow::Result<ExitCode> {
    match outcome {
        Outcome::Finished => Ok(ExitCode::SUCCESS),
        Outcome::Stopped => Ok(interrupt.exit_code()),
        Outcome::OverBudget(refusal) => anyhow::bail!(offers::refused(&refusal)),
        Outcome::Failed(error) => Err(error.into()),
    }
}
