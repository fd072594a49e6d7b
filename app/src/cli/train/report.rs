//! A run as it is reported: as lines of JSON, or as lines, progress and a summary for people.

use std::{
    cell::Cell,
    io::{self, IsTerminal, Write},
    sync::Arc,
    time::{Duration, Instant},
};

use plimsoll_engine::{
    Bytes,
    plan::{Pass, Plan},
    train::{Event, SaveReason, StepRecord, Summary},
};
use serde_json::{Value, json};

use super::Manner;
use crate::{
    cli::{events, keeping::Told, out, table::Table, tried},
    format, samples,
    unfinished::Came,
};

/// Progress on a terminal is written this often at most.
const REFRESH: Duration = Duration::from_millis(80);

/// Writes the run's events: as lines of JSON, or as lines for people.
pub(super) struct Report {
    json: bool,
    /// Whether the run is that of a teacher, whose lines of JSON say so.
    is_teachers: bool,
    /// Whether nothing is written but warnings and errors, and JSON if that is asked for.
    is_quiet: bool,
    shows_progress: bool,
    plan: Option<Arc<Plan>>,
    /// Accuracy of the last evaluation, of values R².
    tested: Option<f64>,
    /// The step after which the model was tested last.
    tested_after: u64,
    /// Whether values are learned.
    is_of_values: bool,
    /// When progress was last written.
    shown: Cell<Option<Instant>>,
}

impl Report {
    /// A report in this manner, with progress where the user sees a terminal.
    pub(super) fn new(Manner { json, is_quiet, is_teachers }: Manner) -> Self {
        let shows_progress = io::stderr().is_terminal() && !is_quiet;
        Self {
            json,
            is_teachers,
            is_quiet,
            shows_progress,
            plan: None,
            tested: None,
            tested_after: 0,
            is_of_values: false,
            shown: Cell::default(),
        }
    }

    /// The plan that the run began with.
    pub(super) fn plan(&self) -> Option<&Plan> {
        self.plan.as_deref()
    }

    /// How far a run came that was stopped after so many steps.
    pub(super) fn came(&self, steps: u64) -> Option<Came> {
        let plan = self.plan()?;
        let (total, gets_smaller) = (plan.total_steps, plan.smaller.is_some());
        Some(Came { steps, total, is_tested: self.tested_after >= steps, gets_smaller })
    }

    pub(super) fn event(&mut self, event: &Event) -> anyhow::Result<()> {
        match event {
            Event::Started { plan, .. } => {
                self.tested_after = plan.resolved.resumed().map_or(0, |resumed| resumed.so_far.tested);
                self.plan = Some(Arc::clone(plan));
            }
            Event::Evaluated { step, accuracy, errors, .. } => {
                (self.tested, self.is_of_values) = (Some(*accuracy), errors.is_some());
                self.tested_after = *step;
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
        events::as_json(event, self.plan.as_deref()).map_or(Ok(()), |object| self.line(object))
    }

    /// Prints an event as a line of JSON.
    fn line(&self, mut event: Value) -> anyhow::Result<()> {
        if self.is_teachers {
            event["is_teachers"] = true.into();
        }
        out::json(&event)
    }

    /// Prints a report about keeping the run.
    pub(super) fn told(&self, told: &Told) -> anyhow::Result<()> {
        match told {
            Told::Kept(key) if self.json => self.line(json!({"event": "kept", "run": key})),
            Told::Kept(_) => Ok(()),
            // Losses are reported on stderr in any case.
            Told::Warning(message) => {
                self.warn(message);
                if self.json { self.line(json!({"event": "warning", "message": message})) } else { Ok(()) }
            }
        }
    }

    pub(super) fn warn(&self, text: &str) {
        self.clear_progress();
        out::say("warning", text);
    }

    fn show(&mut self, event: &Event) -> anyhow::Result<()> {
        match event {
            Event::Started { plan, .. } => {
                out::line(format!(
                    "{}: {}, {}, {} predicted at the peak, a budget of {}",
                    plan.experiment.title,
                    format::counted(plan.parameters, "parameter"),
                    format::counted(plan.total_steps, "step"),
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
                let steps = |pass| self.plan.as_ref().map_or(Bytes::ZERO, |plan| plan.timeline(pass).peak());
                let falls = match [Pass::Steady, Pass::Pruned].map(steps) {
                    [before, after] if after > Bytes::ZERO => format!("; a step takes {after}, and took {before}"),
                    _ => String::new(),
                };
                out::line(format!("step {step:>6}  {stripped}{falls}"))
            }
            Event::Saved { step, path, bytes, why: SaveReason::Best | SaveReason::Stop | SaveReason::End, .. } => {
                self.clear_progress();
                out::line(format!("step {step:>6}  saved to {} ({bytes})", path.display()))
            }
            Event::Teaching { done, of } => {
                self.asked(*done, *of);
                Ok(())
            }
            // What was compressed stands in the summary, which comes next.
            Event::Compressed(_)
            | Event::Machine(_)
            | Event::Ways { .. }
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

    pub(super) fn clear_progress(&self) {
        if self.shows_progress && !self.json {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

/// A bar with the done part of a whole.
fn bar(done: u64, whole: u64) -> String {
    const LENGTH: usize = 20;
    let filled = (done as f64 / whole.max(1) as f64 * LENGTH as f64) as usize;
    let filled = filled.min(LENGTH);
    format!("[{}{}]", "#".repeat(filled), ".".repeat(LENGTH - filled))
}

/// What zeros do not save.
const ZEROS: &str = ". Zeros take as much memory in training, and as many bytes in a file, as other weights; a compressed file \
                     (gzip) is smaller";

/// The results of the run, for people, compared with the prediction.
pub(super) fn result(summary: &Summary, plan: Option<&Plan>) -> String {
    let is_gpu = plan.is_some_and(|plan| plan.target.is_gpu());
    let percent = |share: Option<f64>| share.map_or("-".to_owned(), |share| format!("{:.2}%", share * 100.0));
    let mut table = Table::new(["peak", "predicted", "measured", "difference"]);
    let Summary { predicted, measured, is_process_sampled, .. } = summary;
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
    let pruned = summary.stripped.map_or(String::new(), |stripped| {
        let channels = plan.and_then(|plan| format::of_channels(&plan.experiment.prune));
        match channels {
            Some(why) if stripped.gone > 0 => format!("\n{stripped}. {why}"),
            _ if stripped.are_zeros && stripped.gone > 0 => format!("\n{stripped}{ZEROS}"),
            _ => format!("\n{stripped}"),
        }
    });
    let compressed = summary.compressed.map_or(String::new(), |compressed| format!("\n{compressed}"));
    let factored = summary.factored.map_or(String::new(), |factored| format!("\n{factored}"));
    let Summary { steps, secs, data_secs, data_bytes, .. } = *summary;
    let read = match data_bytes {
        Bytes::ZERO => String::new(),
        bytes => format!(", {bytes} read"),
    };
    let graphs = summary.graphs.map_or(String::new(), |graphs| format!("\n{}", graphs.in_words()));
    let made = pruned + &compressed + &factored + &graphs;
    let steps = format::counted(steps, "step");
    format!("{steps} in {secs:.1} s, {data_secs:.1} s of it for data{read}{skipped}; {reached}{made}\n\n{table}")
}
