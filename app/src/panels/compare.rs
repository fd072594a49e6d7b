//! Two to six runs or plans side by side: the settings that differ and their results, the curves, the memory of one step on
//! one axis, and the blocks that are alive at one peak and not at another.
//!
//! Always holds: a colour belongs to the same subject in every part; a subject without a plan here says why.

mod columns;
mod plots;
mod tables;

use eframe::egui::{Button, Color32, RichText, Ui, vec2};

use super::PanelContext;
use crate::{
    command::{Action, RunsAction},
    librarian::Compare,
    naming, theme,
    view::ComparePart,
    widgets::{chip, tip::Tip as _},
};

const PARTS: [(ComparePart, &str, &str); 4] = [
    (ComparePart::Settings, "Settings", "The settings that differ, and their results."),
    (ComparePart::Curves, "Curves", "Loss and accuracy of those that ran."),
    (ComparePart::Step, "One step", "Predicted memory op by op, and the budgets."),
    (ComparePart::Alive, "Alive at the peak", "What is alive at one peak, and not or not as large at another."),
];

/// Letters of a name.
const LETTERS: usize = 48;

/// Draws the pane.
pub(crate) fn ui(ui: &mut Ui, context: &mut PanelContext<'_>) {
    let Some(compared) = &context.state.compared else {
        empty(ui, context);
        return;
    };
    ui.horizontal_wrapped(|ui| {
        for (part, name, about) in PARTS {
            if ui.add(Button::selectable(context.view.compare == part, name)).tip(about).clicked() {
                context.view.compare = part;
            }
        }
    });
    let called: Vec<String> = compared.comparison.subjects.iter().map(|subject| subject.name.clone()).collect();
    // A table has them at the heads of its columns.
    if context.view.compare.is_chart() {
        names(ui, &called);
    }
    let deleted = deleted(context);
    for note in compared.notes.iter().chain(&deleted) {
        ui.add(eframe::egui::Label::new(RichText::new(note).small().color(theme::palette(ui).warn)).wrap());
    }
    ui.push_id(context.view.compare, |ui| match context.view.compare {
        ComparePart::Settings => tables::settings(ui, compared, &called, &context.state.runs),
        ComparePart::Curves => plots::curves(ui, context.view, compared),
        ComparePart::Step => plots::step(ui, compared),
        ComparePart::Alive => tables::alive(ui, compared, &called),
    });
}

/// Which of the runs there are no more, in words.
fn deleted(context: &PanelContext<'_>) -> Option<String> {
    let what = context.state.comparing.iter().flat_map(|comparing| &comparing.what);
    let gone = what.filter_map(|one| match one {
        Compare::Run(key, name) if context.state.runs.get(key).is_none() => Some(name.as_str()),
        Compare::Run(..) | Compare::Plan(..) => None,
    });
    let gone: Vec<&str> = gone.collect();
    (!gone.is_empty()).then(|| format!("Deleted since: {}", gone.join("; ")))
}

fn empty(ui: &mut Ui, context: &PanelContext<'_>) {
    if context.state.pin.is_some() {
        let hover = "Put the settings of the pinned plan next to the present ones.";
        if ui.button("Compare the present settings with the pinned ones").tip(hover).clicked() {
            context.send.send(Action::Runs(RunsAction::ComparePin));
        }
    }
    chip::empty(ui, "Pick one run in Runs, or up to six, and press Compare there: they are shown side by side here.");
}

/// Who is compared, each with its colour.
fn names(ui: &mut Ui, called: &[String]) {
    ui.horizontal_wrapped(|ui| {
        ui.spacing_mut().item_spacing = vec2(theme::GAP * 1.5, 2.0);
        for (i, name) in called.iter().enumerate() {
            let short = naming::fitting(name, others(called, i), |words| words.chars().count() <= LETTERS);
            chip::chip(ui, color(ui, i), RichText::new(short).small()).tip(name);
        }
    });
}

/// The names of all but one.
fn others(called: &[String], but: usize) -> impl Iterator<Item = &String> {
    called.iter().enumerate().filter(move |(i, _)| *i != but).map(|(_, name)| name)
}

/// The colour of one that is compared.
fn color(ui: &Ui, index: usize) -> Color32 {
    let colors = &theme::palette(ui).compared;
    colors[index % colors.len()]
}
