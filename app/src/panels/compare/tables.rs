//! The settings that differ with their results, and the blocks that are alive at one peak and not at another: a column for
//! each subject.

use eframe::egui::{Align, Color32, Label, Layout, RichText, Role, Sense, TextStyle, Ui, WidgetInfo, text::LayoutJob};
use egui_extras::Column;
use plimsoll_engine::{
    Bytes,
    report::{Comparison, comparison::AliveRow},
};

use super::{color, columns, others};
use crate::{
    format,
    librarian::Compared,
    naming,
    runs::Runs,
    theme,
    widgets::{chip, table, text, tip::Tip as _},
};

/// The least width of a column of values.
const VALUE: f32 = 76.0;
/// The room for the name of a column's subject, in two lines, before the names of rows take more than their share.
const HEAD: f32 = 110.0;
/// Share of the width that the names of rows may take where values are long.
const NAMES: f32 = 0.36;

/// The row of the budgets.
const BUDGET: &str = "budget";

/// A row: its name, and a value for each.
type Row = (String, Vec<Option<String>>);

/// The settings that differ, then the predictions and the results.
pub(super) fn settings(ui: &mut Ui, compared: &Compared, called: &[String], runs: &Runs) {
    let comparison = &compared.comparison;
    let families = || comparison.subjects.iter().map(|subject| subject.experiment.model.kind);
    let mut rows: Vec<Row> = comparison
        .settings
        .iter()
        .map(|row| {
            let in_words = |value: &String| naming::value(row.key, value.trim_matches('"'), |key| runs.called(key));
            let words = |value: &Option<String>| value.as_ref().map(in_words);
            (naming::setting_among(row.key, families()), row.values.iter().map(words).collect())
        })
        .collect();
    let differing = rows.len();
    if rows.is_empty() {
        rows.push(("settings".to_owned(), comparison.subjects.iter().map(|_| Some("the same".to_owned())).collect()));
    }
    // A budget that differs is a setting already.
    let has_budget = comparison.settings.iter().any(|row| row.key == "budget");
    rows.extend(results(comparison).into_iter().filter(|(name, _)| !has_budget || name != BUDGET));
    grid(ui, called, "settings", &rows, differing.max(1));
}

/// The rows with the results of each subject.
fn results(comparison: &Comparison) -> Vec<Row> {
    let subjects = &comparison.subjects;
    let ran = |value: &dyn Fn(&plimsoll_engine::report::Ran) -> Option<String>| -> Vec<Option<String>> {
        subjects.iter().map(|subject| subject.ran.as_ref().and_then(value)).collect()
    };
    let predicted = subjects.iter().map(|subject| subject.predicted().map(|bytes| bytes.to_string())).collect();
    let measured = subjects.iter().map(|subject| subject.measured().map(|bytes| bytes.to_string())).collect();
    let budget = subjects.iter().map(|subject| Some(format::size(subject.experiment.budget))).collect();
    let places =
        comparison.places().into_iter().map(|place| place.map(|place| format!("{} in {}", place.op, place.layer)));
    let time = subjects.iter().map(format::estimate).collect();
    let mut rows = vec![
        (BUDGET.to_owned(), budget),
        ("predicted peak".to_owned(), predicted),
        ("measured peak".to_owned(), measured),
        ("the peak is at".to_owned(), places.collect()),
        ("a step, estimated".to_owned(), time),
        ("a step, measured".to_owned(), ran(&|ran| ran.step_secs.map(format::secs))),
        ("steps done".to_owned(), ran(&|ran| Some(format::count(ran.steps)))),
        ("the run".to_owned(), subjects.iter().map(format::cut_off).collect()),
        ("training loss".to_owned(), ran(&|ran| ran.train_loss.map(format::three))),
        ("best test accuracy".to_owned(), subjects.iter().map(format::best_score).collect()),
        ("the model in the end".to_owned(), subjects.iter().map(format::smaller).collect()),
    ];
    let bytes = |bytes: &Option<u64>| bytes.map(|bytes| Bytes(bytes).to_string());
    let category = |row: &plimsoll_engine::report::comparison::CategoryRow| {
        (format!("{} at the peak", row.category.name()), row.bytes.iter().map(bytes).collect())
    };
    rows.extend(comparison.categories.iter().map(category));
    rows.retain(|(_, values)| values.iter().any(Option::is_some));
    rows
}

/// The blocks alive at one peak, and missing or smaller at another.
pub(super) fn alive(ui: &mut Ui, compared: &Compared, called: &[String]) {
    let comparison = &compared.comparison;
    if comparison.alive.is_empty() {
        chip::empty(ui, format::nothing_alive(&comparison.subjects));
        return;
    }
    let bytes = |bytes: &Option<u64>| bytes.filter(|bytes| *bytes > 0).map(|bytes| Bytes(bytes).to_string());
    let rows: Vec<Row> =
        comparison.alive.iter().map(|row| (tensor(row), row.bytes.iter().map(bytes).collect())).collect();
    grid(ui, called, "alive", &rows, 0);
}

/// The name of a tensor. A weight and its master weight differ only by their category.
fn tensor(row: &AliveRow) -> String {
    format!("{} {} ({})", row.layer, row.name, row.category.name())
}

/// A table with a column for each that is compared; the first `strong` rows stand out.
fn grid(ui: &mut Ui, called: &[String], id: &str, rows: &[Row], strong: usize) {
    let gap = ui.spacing().item_spacing.x;
    let room = ui.available_width() - theme::GAP;
    let shown = columns::in_sight(ui, called.len(), ((room * (1.0 - NAMES)) / (VALUE + gap)) as usize);
    let count = shown.len();
    let widest = rows.iter().map(|(name, _)| table::text_width(ui, name)).fold(0.0, f32::max);
    let values = rows.iter().flat_map(|(_, values)| values[shown.clone()].iter().flatten());
    let font = TextStyle::Small.resolve(ui.style());
    let heads = called[shown.clone()].iter().map(|name| text::width(ui, name, &font)).fold(0.0, f32::max);
    let longest = values.map(|value| table::text_width(ui, value)).fold(heads.min(HEAD), f32::max);
    // The names have the room that short values leave.
    let names = widest.min((room - count as f32 * (longest + gap)).max(room * NAMES));
    let value = ((room - names) / count as f32 - gap).max(VALUE);
    // A second line is there only where one of the names needs it: it is a row of figures less.
    let lines = if heads <= value { 1 } else { 2 };
    let colors: Vec<Color32> = shown.clone().map(|i| color(ui, i)).collect();
    let mut table = table::filling(ui, (id, count))
        .cell_layout(Layout::left_to_right(Align::Center))
        .column(Column::exact(names).clip(true));
    for _ in 0..count {
        table = table.column(Column::exact(value).clip(true));
    }
    let table = table.header(theme::SMALL_ROW * lines as f32 + theme::GAP, |mut header| {
        header.col(|_| {});
        for (i, color) in shown.clone().zip(&colors) {
            header.col(|ui| head(ui, &called[i], others(called, i), *color));
        }
    });
    table.body(|body| {
        body.rows(theme::ROW_HEIGHT, rows.len(), |mut row| {
            let index = row.index();
            let (name, values) = &rows[index];
            row.col(|ui| drop(text::path(ui, name, "")));
            for value in &values[shown.clone()] {
                row.col(|ui| match value {
                    Some(value) => {
                        let words = RichText::new(value);
                        let words = if index < strong { words.strong() } else { words };
                        text::cut(ui, words, value);
                    }
                    None => table::nothing(ui),
                });
            }
        });
    });
}

/// Who a column belongs to, in two lines; a name that has no room in them keeps what tells it from the others, and is whole on
/// hover.
fn head<'a>(ui: &mut Ui, name: &str, others: impl Iterator<Item = &'a String>, color: Color32) {
    let font = TextStyle::Small.resolve(ui.style());
    let in_two = |words: &str| {
        let mut job = LayoutJob::simple(words.to_owned(), font.clone(), color, ui.available_width());
        job.wrap.max_rows = 2;
        job
    };
    let fits = |words: &str| !ui.painter().layout_job(in_two(words)).elided;
    // A cell that is cut off would have it in one line.
    let label = Label::new(in_two(&naming::fitting(name, others, fits))).wrap();
    let head = ui.add(label.show_tooltip_when_elided(false).sense(Sense::hover()));
    head.widget_info(|| WidgetInfo::labeled(Role::Label, true, name));
    head.tip_above(name);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use plimsoll_engine::{Experiment, experiment::Precision, hardware::Machine, plan::Plan, report::Subject};

    use super::*;

    #[test]
    fn a_weight_and_its_master_weight_are_told_apart() {
        let subject = |precision| {
            let experiment = Experiment { precision, ..Experiment::default() };
            let plan = Plan::of(&experiment, &Machine::nominal()).expect("a plan");
            Subject::of_plan(precision.key(), Arc::new(plan))
        };
        let compared = Comparison::of(vec![subject(Precision::F32), subject(Precision::Bf16Mixed)]).expect("two");
        let names: Vec<String> = compared.alive.iter().map(tensor).collect();
        let mut apart = names.clone();
        apart.sort();
        apart.dedup();
        assert_eq!(apart.len(), names.len(), "{names:?}");
        assert!(names.iter().any(|name| name.ends_with("weight (master weights)")), "{names:?}");
    }
}
