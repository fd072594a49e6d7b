//! The content of each pane, as it is shown now.

use std::path::PathBuf;

use plimsoll_engine::{
    Bytes,
    experiment::Labelled,
    report::tables::{self, Table},
    store::RunKey,
};
use serde_json::json;

use super::Take;
use crate::{
    figure::{
        Figure, compared,
        curves::{self, Look},
        layers,
        timeline::{self, Step},
        tradeoff::{self, Dot},
    },
    format,
    panels::{self, pane::Pane},
    session::RunRecord,
    state::State,
    view::{Axis, ComparePart, View},
};

/// Something that is taken.
#[derive(Debug, Clone)]
pub(crate) enum Content {
    /// A chart.
    Figure(Figure),
    /// A table.
    Text(String),
    /// The compressed model of a run, which is kept in the store of a folder.
    Model(PathBuf, RunKey),
}

/// The content of a pane in this form, and a name for its file; `None` while there is nothing to see.
pub(crate) fn content(pane: Pane, take: Take, state: &State, view: &View) -> Option<(Content, String)> {
    let content = if take.is_picture() {
        Content::Figure(figure(pane, state, view)?)
    } else {
        Content::Text(table(pane, state, view)?)
    };
    let of_run = matches!(pane, Pane::Live | Pane::Gradients);
    let run = state.shown_run().filter(|_| of_run).map(|run| run.name());
    let name = run.unwrap_or_else(|| state.document.name());
    Some((content, format!("{} {}", file_name(&name), file_name(pane.title())).replace(' ', "-")))
}

/// Words as the name of a file: small letters, digits and dashes.
pub(crate) fn file_name(words: &str) -> String {
    let parts = words.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|part| !part.is_empty());
    let name = parts.take(8).collect::<Vec<_>>().join("-").to_lowercase();
    if name.is_empty() { "plimsoll".to_owned() } else { name }
}

fn figure(pane: Pane, state: &State, view: &View) -> Option<Figure> {
    match pane {
        Pane::Step => {
            let shown = panels::timeline::Shown::of(state, view)?;
            let outline = shown.outline.map(|plan| (if view.show_before { "after" } else { "before" }, plan));
            Some(timeline::figure(Step { plan: shown.filled, pass: shown.pass, outline, measured: &shown.measured }))
        }
        Pane::Live => with_curves(state, view, curves::live),
        Pane::Gradients => with_curves(state, view, curves::gradients),
        Pane::Tradeoff => {
            let (task, dots) = panels::tradeoff::in_focus(state)?;
            let is_of_values = dots.first()?.0.experiment().data.labelled() == Labelled::Value;
            let dot = |(run, at): panels::tradeoff::Placed<'_>| {
                let is_cut_off = run.status.is_over_budget();
                Dot { number: run.short_label(), name: run.short_name(), at, is_cut_off }
            };
            let dots: Vec<Dot> = dots.into_iter().map(dot).collect();
            let budget = state.document.experiment.budget.as_mib();
            let budget = (panels::tradeoff::BUDGET_OF, budget);
            let measure = if is_of_values { format::R2 } else { "accuracy" };
            Some(tradeoff::figure(&format!("Memory against {measure}: {task}"), &dots, budget, is_of_values))
        }
        Pane::Layers => state.newest_plan().map(|plan| layers::figure(plan)),
        Pane::Compare => compared_figure(state, view),
        Pane::Experiment | Pane::Runs | Pane::Alive | Pane::Devices | Pane::Log | Pane::TryOut => None,
    }
}

fn table(pane: Pane, state: &State, view: &View) -> Option<String> {
    match pane {
        Pane::Step => {
            let shown = panels::timeline::Shown::of(state, view)?;
            let measured: Vec<Bytes> = shown.measured.iter().map(|mib| Bytes::from_mib(*mib)).collect();
            let measured = (!measured.is_empty()).then_some((shown.pass, &measured[..]));
            Some(tables::ops(shown.filled, &[shown.pass], measured).csv())
        }
        Pane::Live | Pane::Gradients => Some(state.shown_run()?.curves().csv()),
        Pane::Tradeoff => {
            let (_, dots) = panels::tradeoff::in_focus(state)?;
            let mut table = Table::new(["run", "title", "measured_bytes", "predicted_bytes", "best_test_accuracy"]);
            table.rows.extend(dots.into_iter().map(|(run, [_, accuracy])| {
                let title = json!(run.experiment().title);
                vec![json!(run.name()), title, run.peak_load.0.into(), run.predicted.0.into(), accuracy.into()]
            }));
            Some(table.csv())
        }
        Pane::Layers => state.newest_plan().map(|plan| tables::layers(plan).csv()),
        Pane::Alive => state.newest_plan().map(|plan| tables::alive(plan).csv()),
        Pane::Compare => Some(tables::comparison(&state.compared.as_ref()?.comparison).csv()),
        Pane::Runs => {
            (!state.runs.rows().is_empty()).then(|| tables::runs(state.runs.rows().iter().map(|row| &row.run)).csv())
        }
        Pane::Experiment | Pane::Devices | Pane::Log | Pane::TryOut => None,
    }
}

/// A figure of the comparison: the curves of those that ran if these are shown, and one step of each otherwise.
fn compared_figure(state: &State, view: &View) -> Option<Figure> {
    let compared = state.compared.as_ref()?;
    let subjects = &compared.comparison.subjects;
    if view.compare != ComparePart::Curves {
        return Some(compared::steps(subjects));
    }
    let curves: Vec<_> = compared.runs.iter().map(|run| run.as_ref().map(RunRecord::curves)).collect();
    let named = subjects.iter().zip(&curves).map(|(subject, curves)| (&*subject.name, curves.as_ref()));
    Some(compared::curves(&named.collect::<Vec<_>>(), look(view)))
}

/// How curves are drawn.
fn look(view: &View) -> Look {
    Look {
        smoothing: view.smoothing,
        in_steps: view.axis == Axis::Step,
        log_loss: view.log_loss,
        log_norm: view.log_norm,
    }
}

/// The curves of the run that is looked at, drawn as its pane draws them.
fn with_curves(state: &State, view: &View, draw: fn(&curves::Run<'_>) -> Figure) -> Option<Figure> {
    let run = state.shown_run().filter(|run| run.last.is_some())?;
    let (curves, experiment) = (run.curves(), run.experiment());
    Some(draw(&curves::Run {
        title: run.name(),
        curves: &curves,
        predicted: Some(run.predicted),
        budget: run.budget,
        accuracy: format::accuracy(&experiment.data),
        clip_norm: experiment.optimizer.clip_norm,
        look: look(view),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_a_file_is_safe_everywhere() {
        assert_eq!(file_name("Run 3: batch 64/../x, λ"), "run-3-batch-64-x");
        assert_eq!(file_name("…"), "plimsoll");
    }
}
