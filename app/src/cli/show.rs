//! `plimsoll show`: one kept run.

use std::{ops::Range, process::ExitCode};

use clap::Args;
use plimsoll_engine::{
    Bytes,
    plan::Peak,
    store::{Became, EventKind, KeptEvent, MeasuredStep, Prediction, Series, SmallerModel, StoredDetails, StoredRun},
};
use serde::Serialize;

use crate::{
    cli::{complete, in_store::InStore, out, plain, runs::Row, table::Table},
    format,
    unfinished::Came,
};

/// Evaluations and events that are listed for people: this many of the first, and of the last.
const LISTED: [usize; 2] = [3, 9];

/// Show a kept run: its settings, predictions and measurements
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  plimsoll show last
  plimsoll show 20261122-1412
  plimsoll show last --preset > again.toml
  plimsoll show last --json | jq '.series.steps.loss | last'

A RUN is its key, the beginning of it, its name, title or shipped preset if no other run has it, or `last`;
`plimsoll runs` lists them.")]
pub(super) struct Show {
    /// The run
    #[arg(add = complete::runs())]
    run: String,
    /// Write the preset as it was run, and nothing else
    #[arg(long, conflicts_with = "json")]
    preset: bool,
    /// Write one JSON object, with every value of every series
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: InStore,
}

#[derive(Serialize)]
struct Json<'a> {
    #[serde(flatten)]
    row: Row<'a>,
    /// The preset as it was run.
    preset: &'a str,
    predicted: Predicted<'a>,
    measured: Measured<'a>,
    events: &'a [KeptEvent],
    series: &'a Series,
}

#[derive(Serialize)]
struct Predicted<'a> {
    #[serde(flatten)]
    peak: Peak,
    #[serde(flatten)]
    prediction: &'a Prediction,
}

#[derive(Serialize)]
struct Measured<'a> {
    #[serde(flatten)]
    peak: Peak,
    process_is_sampled: Option<bool>,
    left_over_bytes: Option<u64>,
    /// The step that was measured op by op.
    step: Option<u64>,
    /// The highest bytes alive at each op of it.
    step_live_bytes: Vec<&'a u64>,
}

impl Show {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let (store, key) = self.store.run(&self.run)?;
        let (run, details) = (store.get(&key)?, store.details(&key)?);
        if self.preset {
            out::text(&details.preset)?;
            return Ok(ExitCode::SUCCESS);
        }
        let series = store.series(&key)?;
        match self.json {
            true => out::json(&as_json(&run, &details, &series))?,
            false => out::text(&describe(&run, &details, &series))?,
        }
        for damage in [&details.damage, &series.damage].into_iter().flatten() {
            out::say("warning", damage);
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn as_json<'a>(run: &'a StoredRun, details: &'a StoredDetails, series: &'a Series) -> Json<'a> {
    let MeasuredStep { step, bytes: measured, .. } = &details.measured_step;
    Json {
        row: Row::of(run),
        preset: &details.preset,
        predicted: Predicted { peak: run.predicted, prediction: &details.prediction },
        measured: Measured {
            peak: run.measured,
            process_is_sampled: details.is_process_sampled,
            left_over_bytes: details.left_over.map(|bytes| bytes.0),
            step: (!measured.is_empty()).then_some(*step),
            step_live_bytes: measured.iter().map(|bytes| &bytes.0).collect(),
        },
        events: &details.events,
        series,
    }
}

/// The run in words and tables.
fn describe(run: &StoredRun, details: &StoredDetails, series: &Series) -> String {
    let mut text = format!("{}: {}\n", run.key, plain::line(run.label()));
    if run.name.is_some() {
        text.push_str(&format!("Preset: {}\n", plain::line(&run.title)));
    }
    let state = run.message.as_ref().map_or(run.status().to_owned(), |why| format!("{}: {why}", run.status()));
    text.push_str(&format!("State: {state}\n"));
    text.push_str(&lacks(run, details, series));
    let device = if run.device_name.is_empty() { String::new() } else { format!(" ({})", run.device_name) };
    text.push_str(&format!(
        "Began {} on {}{device}, by the {} of version {}; seed {}\n",
        run.started.strftime("%Y-%m-%d %H:%M:%S UTC"),
        run.device,
        run.origin.key(),
        run.version,
        run.seed
    ));
    let secs = run.step_secs.map(|secs| format!(", {} a step", format::secs(secs))).unwrap_or_default();
    let took = format::secs(run.secs);
    let of = format::counted(run.total_steps, "step");
    text.push_str(&format!("{} of {of} in {took}{secs}; {} on disk\n", format::count(run.steps), run.on_disk));
    for (what, value) in [("Tags", run.tags.join(", ")), ("Note", run.note.clone())] {
        if !value.is_empty() {
            text.push_str(&format!("{what}: {value}\n"));
        }
    }
    text.push_str(&smaller(run));
    text.push_str(&format!("\n{}", peaks(run)));
    text.push_str(&phases(&details.prediction));
    text.push_str(&evaluations(series, run));
    if !run.settings.is_empty() {
        text.push_str("\nSettings that are not the defaults:\n");
        run.settings.iter().for_each(|setting| text.push_str(&format!("  {setting}\n")));
    }
    text.push_str(&happened(&details.events));
    text
}

/// What a run lacks that ended before its last test, or before its model was made smaller.
fn lacks(run: &StoredRun, details: &StoredDetails, series: &Series) -> String {
    if !run.lacks_end() && !run.lacks_smaller() {
        return String::new();
    }
    let tested = series.evaluations.records().map(|evaluation| evaluation.step).max().unwrap_or(0);
    let (steps, total) = (run.steps, run.total_steps);
    let came = Came { steps, total, is_tested: tested >= steps, gets_smaller: run.gets_smaller() };
    let is_saved = details.events.iter().any(|event| event.kind == EventKind::Saved);
    let goes_on = if is_saved { format!("; `plimsoll resume {}` finishes it", run.key) } else { String::new() };
    format!("Unfinished: {}{goes_on}\n", came.lacks())
}

/// The model in the end, where it is smaller than the trained one.
fn smaller(run: &StoredRun) -> String {
    let Some(SmallerModel { became, bytes, whole_bytes, accuracy, trained_accuracy }) = run.smaller else {
        return String::new();
    };
    let score = |score| if run.learns_values() { format::plain_score(score) } else { format::share(score) };
    let measure = if run.learns_values() { "R²" } else { "accuracy" };
    let trained = match became {
        Became::Pruned | Became::Factored => String::new(),
        Became::Integers | Became::Weights8 | Became::Weights4 => format!(" (as trained {})", score(trained_accuracy)),
    };
    let became = became.in_words();
    format!("The model {became}: {bytes} in place of {whole_bytes}, test {measure} {}{trained}\n", score(accuracy))
}

fn peaks(run: &StoredRun) -> String {
    let mut table = Table::new(["peak", "predicted", "measured", "difference"]);
    let (predicted, measured) = (run.predicted, run.measured);
    for (name, predicted, measured) in [
        ("live", predicted.live, measured.live),
        ("reserved", predicted.reserved, measured.reserved),
        ("process (predicted: an estimate)", predicted.process, measured.process),
    ] {
        let difference = if measured == Bytes::ZERO { String::new() } else { predicted.difference(measured) };
        table.row([name.to_owned(), predicted.to_string(), measured.to_string(), difference]);
    }
    format!("{table}Budget {}\n", run.budget)
}

fn phases(prediction: &Prediction) -> String {
    if prediction.passes.is_empty() {
        return String::new();
    }
    let mut table = Table::new(["predicted in", "memory", "layer", "op"]).words(1);
    for pass in &prediction.passes {
        let bytes = Bytes(pass.live_bytes).to_string();
        table.row([pass.pass.name().to_owned(), bytes, pass.layer.clone(), pass.op.clone()]);
    }
    format!("\n{table}")
}

fn evaluations(series: &Series, run: &StoredRun) -> String {
    let evaluations = &series.evaluations;
    if evaluations.is_empty() {
        return String::new();
    }
    let mut table =
        Table::new(["after step", "time", "test loss", if run.learns_values() { "test R²" } else { "test accuracy" }]);
    let left_out = left_out(evaluations.len());
    for (at, evaluation) in evaluations.records().enumerate() {
        if at == left_out.start && !left_out.is_empty() {
            table.row([format!("… {} more", left_out.len()), String::new(), String::new(), String::new()]);
        }
        if !left_out.contains(&at) {
            table.row([
                evaluation.step.to_string(),
                format::secs(evaluation.at_secs),
                format!("{:.4}", evaluation.loss),
                match run.learns_values() {
                    true => format::plain_score(evaluation.accuracy),
                    false => format::share(evaluation.accuracy),
                },
            ]);
        }
    }
    format!("\n{table}")
}

/// The events, a line each. Of saves that follow each other only the first and the last are listed, so that a run that saves
/// at every step does not hide other events.
fn happened(events: &[KeptEvent]) -> String {
    if events.is_empty() {
        return String::new();
    }
    let line =
        |event: &KeptEvent| format!("  step {}: {} {}", event.step, event.kind.key(), event.text).trim_end().to_owned();
    let mut lines = Vec::new();
    for group in events.chunk_by(|a, b| a.kind == EventKind::Saved && b.kind == EventKind::Saved) {
        match group {
            [first, between @ .., last] if between.len() > 1 => {
                lines.extend([line(first), format!("  … {} more saves", between.len()), line(last)]);
            }
            _ => lines.extend(group.iter().map(line)),
        }
    }
    let (count, left_out) = (lines.len(), left_out(lines.len()));
    let mut text = "\nWhat happened (all of it with --json):\n".to_owned();
    if count == events.len() && left_out.is_empty() {
        text = "\nWhat happened:\n".to_owned();
    }
    for (at, line) in lines.iter().enumerate() {
        if at == left_out.start && !left_out.is_empty() {
            text.push_str(&format!("  … {} more\n", left_out.len()));
        }
        if !left_out.contains(&at) {
            text.push_str(&format!("{line}\n"));
        }
    }
    text
}

/// Which of this many lines are left out.
fn left_out(count: usize) -> Range<usize> {
    let [first, last] = LISTED;
    if count > first + last + 1 { first..count - last } else { 0..0 }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn event(step: u64, kind: EventKind) -> KeptEvent {
        KeptEvent { at: Timestamp::UNIX_EPOCH, step, kind, text: String::new() }
    }

    #[test]
    fn many_saves_are_counted_and_hide_nothing() {
        let saves = |from: u64, to: u64| (from..=to).map(|step| event(step, EventKind::Saved));
        let warning = event(1500, EventKind::Warning);
        let all: Vec<_> = saves(1, 1500).chain([warning]).chain(saves(1501, 3000)).collect();
        let told = happened(&all);
        let lines: Vec<&str> = told.trim().lines().collect();
        assert_eq!(
            lines,
            [
                "What happened (all of it with --json):",
                "  step 1: saved",
                "  … 1498 more saves",
                "  step 1500: saved",
                "  step 1500: warning",
                "  step 1501: saved",
                "  … 1498 more saves",
                "  step 3000: saved",
            ]
        );
        assert_eq!(happened(&all[..3]).lines().count(), 5, "few are told each");
        let warnings: Vec<_> = (1..=3000).map(|step| event(step, EventKind::Warning)).collect();
        let told = happened(&warnings);
        assert!(told.contains("step 3: warning\n  … 2988 more\n  step 2992: warning"), "{told}");
        assert_eq!((left_out(13), left_out(14)), (0..0, 3..5));
    }
}
