//! `plimsoll train`: a run inside its budget, reported as it goes.

use std::{
    cell::Cell,
    io::{self, IsTerminal, Write},
    ops::ControlFlow,
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use clap::Args;
use plimsoll_engine::{
    Bytes, Experiment, interop,
    plan::{Peak, Plan},
    train::{Event, Folder, Outcome, SaveReason, Start, StepRecord, Summary, Trainer},
};
use serde_json::json;

use crate::{
    cli::{
        Misuse,
        choice::Choice,
        events,
        interrupt::Interrupt,
        keeping::{self, KeepChoice, Keeping, Told},
        lost_reader, offers, out, run,
        table::Table,
        tried,
    },
    samples,
};

/// Progress on a terminal is written this often at most.
const REFRESH: Duration = Duration::from_millis(80);

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
    /// Write a JSON object a line, one for each event
    #[arg(long)]
    json: bool,
}

impl Train {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        self.checkpoints.as_deref().map(keeping::can_be_saved_in).transpose()?;
        let trainer = Trainer::new(|| {});
        let resolved = self.choice.resolve_to_run(&trainer.machine(), |e| {
            if self.steps.is_some() {
                (e.run.steps, e.run.epochs) = (self.steps, None);
            }
        })?;
        let mut experiment = Experiment::clone(resolved.experiment());
        let manner = Manner { json: self.json, is_quiet: self.choice.is_quiet() };
        if let Some(first) = resolved.to_train_first() {
            match self.teacher(&trainer, Experiment::clone(first), manner)? {
                Ok(folder) => experiment.distil.teacher = Some(folder),
                Err(status) => return Ok(status),
            }
        }
        // Before the run is kept: what cannot begin is not a run.
        interop::chosen(&experiment, resolved.info())?;
        let keeping = self.keep.begin(self.anyway);
        let mut keep = keeping.checkpoints();
        keep.folder = self.checkpoints.clone().map(Folder::from).or(keep.folder);
        let start = Start { anyway: self.anyway, keep, ..Start::new(experiment) };
        follow(&trainer, start, keeping, manner)
    }

    /// Trains a teacher, as a run of its own that is kept: the folder of its weights, or how the program ends instead.
    fn teacher(
        &self,
        trainer: &Trainer,
        first: Experiment,
        manner: Manner,
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
        let ended = follow(trainer, Start { keep, ..Start::new(first) }, keeping, manner)?;
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
) -> anyhow::Result<ExitCode> {
    let interrupt = Interrupt::listen()?;
    let Manner { json, is_quiet } = manner;
    let shows_progress = io::stderr().is_terminal() && !is_quiet;
    let mut report = Report {
        json,
        is_quiet,
        shows_progress,
        plan: None,
        tested: None,
        is_of_values: false,
        shown: Cell::default(),
    };
    let (mut failure, mut is_saved) = (None, false);
    let (outcome, summary) = run::run(trainer, start, &interrupt, |event| {
        // The run is kept even if its output is not read.
        let told = keeping.take(trainer, event);
        is_saved |= matches!(event, Event::Saved { .. });
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
        match outcome {
            Outcome::Finished | Outcome::Stopped => {}
            Outcome::OverBudget(refusal) => anyhow::bail!(offers::refused(&refusal)),
            Outcome::Failed(error) => return Err(error.into()),
        }
        let status = lost_reader::tell(failure, summary.steps, kept.filter(|_| is_saved).as_ref(), is_quiet)?;
        return Ok(if interrupt.has_come() { interrupt.exit_code() } else { status });
    }
    if let Some(warning) = keeping.finish() {
        report.told(&Told::Warning(warning))?;
    }
    if let Outcome::Finished | Outcome::Stopped = outcome
        && !json
        && !is_quiet
    {
        let is_gpu = report.plan.as_ref().is_some_and(|plan| plan.target.is_gpu());
        // As the run began with it: what was learned since is not a prediction.
        let predicted = report.plan.as_ref().map_or(summary.predicted, |plan| plan.peak);
        let kept = kept.map(|key| format!("\nKept as {key}: `plimsoll show {key}`\n")).unwrap_or_default();
        out::text(&format!("{}{kept}", result(&summary, &predicted, is_gpu)))?;
    }
    match outcome {
        Outcome::Finished => Ok(ExitCode::SUCCESS),
        Outcome::Stopped => Ok(interrupt.exit_code()),
        Outcome::OverBudget(refusal) => anyhow::bail!(offers::refused(&refusal)),
        Outcome::Failed(error) => Err(error.into()),
    }
}

/// Writes the run's events: as lines of JSON, or as lines for people.
struct Report {
    json: bool,
    /// Whether nothing is written but warnings and errors, and JSON if that is asked for.
    is_quiet: bool,
    shows_progress: bool,
    plan: Option<Arc<Plan>>,
    /// Accuracy of the last evaluation, of values R².
    tested: Option<f64>,
    /// Whether values are learned.
    is_of_values: bool,
    /// When progress was last written.
    shown: Cell<Option<Instant>>,
}

impl Report {
    fn event(&mut self, event: &Event) -> anyhow::Result<()> {
        match event {
            Event::Started { plan, .. } => self.plan = Some(Arc::clone(plan)),
            Event::Evaluated { accuracy, errors, .. } => {
                (self.tested, self.is_of_values) = (Some(*accuracy), errors.is_some());
            }
            _ => {}
        }
        if !self.json {
            return match event {
                Event::Warning(text) if self.is_quiet => {
                    self.warn(text);
                    Ok(())
                }
                _ if self.is_quiet => Ok(()),
                _ => self.show(event),
            };
        }
        events::as_json(event, self.plan.as_deref()).map_or(Ok(()), |object| out::json(&object))
    }

    /// Reports what there is to report about keeping the run.
    fn told(&self, told: &Told) -> anyhow::Result<()> {
        match told {
            Told::Kept(key) if self.json => out::json(&json!({"event": "kept", "run": key})),
            Told::Kept(_) => Ok(()),
            // What is lost is reported on stderr in any case.
            Told::Warning(message) => {
                self.warn(message);
                if self.json { out::json(&json!({"event": "warning", "message": message})) } else { Ok(()) }
            }
        }
    }

    fn warn(&self, text: &str) {
        self.clear_progress();
        out::say("warning", text);
    }

    fn show(&mut self, event: &Event) -> anyhow::Result<()> {
        match event {
            Event::Started { plan, .. } => {
                out::line(format!(
                    "{}: {} parameters, {} steps, {} predicted at the peak, a budget of {}",
                    plan.experiment.title,
                    plan.parameters,
                    plan.total_steps,
                    plan.load(),
                    plan.budget
                ))?;
                let table = plan.resolved.data().table_facts().into_iter().flat_map(samples::table_lines);
                // That comes as a warning.
                let caution = plan.resolved.caution();
                let notes =
                    plan.resolved.notes().into_iter().filter(|note| Some(note) != caution.as_ref()).chain(table);
                notes.into_iter().try_for_each(|note| out::line(format!("data: {note}")))?;
                let ranks = plan.resolved.ranks_in_words();
                ranks.into_iter().try_for_each(|words| out::line(format!("low rank: {words}")))
            }
            Event::Step(step) => {
                self.progress(step);
                Ok(())
            }
            Event::Evaluated { step, at_secs, loss, accuracy, errors } => {
                self.clear_progress();
                let reached = match errors {
                    Some(errors) => format!("test {}", tried::errors_in_words(errors)),
                    None => format!("test accuracy {:.2}%", accuracy * 100.0),
                };
                out::line(format!("step {step:>6}  {at_secs:>7.1} s  test loss {loss:.4}  {reached}"))
            }
            Event::Warning(text) => {
                self.warn(text);
                Ok(())
            }
            Event::Thinned { step, stripped } => {
                self.clear_progress();
                out::line(format!("step {step:>6}  {stripped}"))
            }
            Event::Saved { step, path, bytes, why: SaveReason::Best | SaveReason::Stop | SaveReason::End, .. } => {
                self.clear_progress();
                out::line(format!("step {step:>6}  saved to {} ({bytes})", path.display()))
            }
            Event::Compressed(compressed) => {
                self.clear_progress();
                out::line(compressed.to_string())
            }
            Event::Teaching { done, of } => {
                self.asked(*done, *of);
                Ok(())
            }
            Event::Machine(_)
            | Event::Evaluating { .. }
            | Event::Saved { why: SaveReason::Interval, .. }
            | Event::Paused(_)
            | Event::Ended { .. } => Ok(()),
        }
    }

    /// How far a teacher that is asked before the first step has come.
    fn asked(&self, done: usize, of: usize) {
        if self.shows_progress {
            let _ = write!(io::stderr(), "\r\x1b[Kteacher asked about {done}/{of} samples");
        }
    }

    fn progress(&self, step: &StepRecord) {
        let Some(plan) = self.plan.as_ref().filter(|_| self.shows_progress) else { return };
        if self.shown.get().is_some_and(|shown| shown.elapsed() < REFRESH) {
            return;
        }
        self.shown.set(Some(Instant::now()));
        let left = plan.total_steps.saturating_sub(step.step) as f64 * step.at_secs / step.step.max(1) as f64;
        let tested = match self.tested {
            Some(score) if self.is_of_values => format!("  test R² {score:.3}"),
            Some(share) => format!("  test {:.2}%", share * 100.0),
            None => String::new(),
        };
        let _ = write!(
            io::stderr(),
            "\r\x1b[K{} step {}/{}  loss {:.4}{tested}  {} live of {} predicted  {left:.0} s left",
            bar(step.step, plan.total_steps),
            step.step,
            plan.total_steps,
            step.loss,
            step.live,
            plan.peak.live
        );
    }

    fn clear_progress(&self) {
        if self.shows_progress && !self.json {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

/// A bar of what is done of a whole.
fn bar(done: u64, whole: u64) -> String {
    const LENGTH: usize = 20;
    let filled = (done as f64 / whole.max(1) as f64 * LENGTH as f64) as usize;
    let filled = filled.min(LENGTH);
    format!("[{}{}]", "#".repeat(filled), ".".repeat(LENGTH - filled))
}

/// What the run came to, for people, compared with what was predicted.
fn result(summary: &Summary, predicted: &Peak, is_gpu: bool) -> String {
    let percent = |share: Option<f64>| share.map_or("-".to_owned(), |share| format!("{:.2}%", share * 100.0));
    let mut table = Table::new(["peak", "predicted", "measured", "difference"]);
    let Summary { measured, is_process_sampled, .. } = summary;
    let process = match (is_gpu, is_process_sampled) {
        (true, _) => "process",
        (false, false) => "process (predicted: an estimate)",
        (false, true) => "process (an estimate; measured: samples)",
    };
    for (name, predicted, measured) in [
        ("live", predicted.live, measured.live),
        ("reserved", predicted.reserved, measured.reserved),
        (process, predicted.process, measured.process),
    ] {
        table.row([name.to_owned(), predicted.to_string(), measured.to_string(), predicted.difference(measured)]);
    }
    let host = summary.host;
    let difference = host.predicted.difference(host.measured);
    table.row(["data, in host memory".to_owned(), host.predicted.to_string(), host.measured.to_string(), difference]);
    if host.predicted_disk > Bytes::ZERO {
        let (predicted, measured) = (host.predicted_disk, host.measured_disk);
        let difference = predicted.difference(measured);
        table.row(["data, on disk".to_owned(), predicted.to_string(), measured.to_string(), difference]);
    }
    let skipped = match summary.skipped_steps {
        0 => String::new(),
        n => format!(", {n} skipped by loss scaling"),
    };
    let reached = match &summary.test_errors {
        Some(errors) => {
            let best = summary.best_test_accuracy.map_or("-".to_owned(), |best| format!("{best:.4}"));
            format!("test {} (best R² {best})", tried::errors_in_words(errors))
        }
        None => {
            format!("test accuracy {} (best {})", percent(summary.test_accuracy), percent(summary.best_test_accuracy))
        }
    };
    let pruned = summary.stripped.map_or(String::new(), |stripped| format!("\n{stripped}"));
    let compressed = summary.compressed.map_or(String::new(), |compressed| format!("\n{compressed}"));
    let factored = summary.factored.map_or(String::new(), |factored| format!("\n{factored}"));
    let Summary { steps, secs, data_secs, data_bytes, .. } = *summary;
    let read = match data_bytes {
        Bytes::ZERO => String::new(),
        bytes => format!(", {bytes} read"),
    };
    let made = pruned + &compressed + &factored;
    format!("{steps} steps in {secs:.1} s, {data_secs:.1} s of it for data{read}{skipped}; {reached}{made}\n\n{table}")
}
