//! The content of a plan as tables: the ops of a pass, the layers, the blocks alive at the peak.
//!
//! Always holds: bytes are whole numbers, and the first line names the columns.

use std::fmt::Write;

use serde_json::{Map, Value, json};

use super::{Comparison, Ran, Subject, curves::quoted};
use crate::{
    bytes::Bytes,
    experiment::Labelled,
    memory::{Categories, Category, Point},
    plan::{Pass, Plan},
    store::StoredRun,
};

/// A table: the names of its columns, and its rows. A field is text or a number.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The rows, each with a field for every column; null for a missing value.
    pub rows: Vec<Vec<Value>>,
}

impl Table {
    /// A table without rows.
    pub fn new<'a>(columns: impl IntoIterator<Item = &'a str>) -> Self {
        Self { columns: columns.into_iter().map(str::to_owned).collect(), rows: Vec::new() }
    }

    /// The table as CSV (RFC 4180).
    pub fn csv(&self) -> String {
        let mut text = self.columns.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(",");
        text.push('\n');
        for row in &self.rows {
            let field = |value: &Value| match value {
                Value::Null => String::new(),
                Value::String(text) => quoted(text),
                other => other.to_string(),
            };
            text.push_str(&row.iter().map(field).collect::<Vec<_>>().join(","));
            text.push('\n');
        }
        text
    }

    /// One object a line.
    pub fn json_lines(&self) -> String {
        let mut text = String::new();
        for row in &self.rows {
            let object: Map<String, Value> = self.columns.iter().cloned().zip(row.iter().cloned()).collect();
            // Writing to text does not fail.
            let _ = writeln!(text, "{}", Value::from(object));
        }
        text
    }
}

/// The categories as columns, such as `optimizer_state_bytes`.
fn category_columns() -> impl Iterator<Item = String> {
    Category::ALL.into_iter().map(|category| format!("{}_bytes", category.name().replace(' ', "_")))
}

fn category_bytes(categories: &Categories) -> impl Iterator<Item = Value> + '_ {
    categories.iter().map(|(_, bytes)| bytes.0.into())
}

/// The ops of some passes in order, with the memory of each; `measured` has the measured bytes of each op of a pass, if
/// there are some.
pub fn ops(plan: &Plan, passes: &[Pass], measured: Option<(Pass, &[Bytes])>) -> Table {
    let mut table = Table::new(["pass", "op", "name", "layer", "phase", "live_bytes"]);
    table.columns.extend(category_columns());
    table.columns.extend(measured.map(|_| "measured_bytes".to_owned()));
    for pass in passes.iter().copied() {
        let timeline = plan.timeline(pass);
        for (i, point) in timeline.points.iter().enumerate() {
            let Point { op, layer, phase, live, categories } = point;
            let row =
                [pass.name().into(), (i + 1).into(), (*op).into(), timeline.layer(*layer).into(), phase.name().into()];
            let mut row: Vec<Value> =
                row.into_iter().chain([live.0.into()]).chain(category_bytes(categories)).collect();
            if let Some((of, measured)) = measured {
                row.push(measured.get(i).filter(|_| of == pass).map_or(Value::Null, |bytes| bytes.0.into()));
            }
            table.rows.push(row);
        }
    }
    table
}

/// The layers of a plan with the memory of each.
pub fn layers(plan: &Plan) -> Table {
    let bytes = ["weight_bytes", "saved_bytes", "gradient_bytes", "optimizer_bytes", "peak_bytes"];
    let mut table = Table::new(["layer", "parameters", "trained"].into_iter().chain(bytes));
    table.rows.extend(plan.layers.iter().map(|layer| {
        let figures = [
            layer.parameters,
            layer.trained,
            layer.weight_bytes,
            layer.saved_bytes,
            layer.gradient_bytes,
            layer.optimizer_bytes,
            layer.peak_bytes,
        ];
        std::iter::once(json!(layer.path)).chain(figures.into_iter().map(Value::from)).collect()
    }));
    table
}

/// The blocks alive at the peak of a plan, the largest first.
pub fn alive(plan: &Plan) -> Table {
    let mut table = Table::new(["name", "layer", "category", "bytes"]);
    let row = |block: &crate::memory::Alive| {
        vec![json!(block.name), json!(block.layer), json!(block.category.name()), json!(block.bytes)]
    };
    table.rows.extend(plan.alive_at_peak.iter().map(row));
    table
}

/// The differences between the subjects: settings, categories at the peaks, tensors; a column for each subject.
pub fn comparison(comparison: &Comparison) -> Table {
    let names = comparison.subjects.iter().map(|subject| subject.name.as_str());
    let mut table = Table::new(["part", "what"].into_iter().chain(names));
    let row = |part: &str, what: &str, values: Vec<Value>| {
        [part.into(), what.into()].into_iter().chain(values).collect::<Vec<Value>>()
    };
    let bytes = |bytes: &[Option<u64>]| bytes.iter().map(|bytes| json!(bytes)).collect();
    for setting in &comparison.settings {
        let value = |value: &Option<String>| value.as_ref().map_or(Value::Null, |value| value.trim_matches('"').into());
        table.rows.push(row("setting", setting.key, setting.values.iter().map(value).collect()));
    }
    for of in &comparison.categories {
        table.rows.push(row("bytes at the peak", of.category.name(), bytes(&of.bytes)));
    }
    let figures = |value: fn(&Subject) -> Value| comparison.subjects.iter().map(value).collect::<Vec<Value>>();
    table.rows.push(row("predicted bytes", "", figures(|s| json!(s.predicted().map(|bytes| bytes.0)))));
    table.rows.push(row("measured bytes", "", figures(|s| json!(s.measured().map(|bytes| bytes.0)))));
    let is_of_values = |s: &Subject| s.experiment.data.labelled() == Labelled::Value;
    let best = |s: &Subject| s.ran.as_ref().and_then(|ran| ran.best_test_accuracy);
    let scores = |values: bool| {
        let own = |s: &Subject| json!(best(s).filter(|_| is_of_values(s) == values));
        comparison.subjects.iter().map(own).collect::<Vec<Value>>()
    };
    table.rows.push(row("best test accuracy", "", scores(false)));
    if comparison.subjects.iter().any(is_of_values) {
        table.rows.push(row("best test r2", "", scores(true)));
    }
    table.rows.push(row(
        "measured seconds of a step",
        "",
        figures(|s| json!(s.ran.as_ref().and_then(|r| r.step_secs))),
    ));
    for of in &comparison.alive {
        let what = format!("{} {} ({})", of.layer, of.name, of.category.name());
        table.rows.push(row("bytes alive at the peak", &what, bytes(&of.bytes)));
    }
    table
}

/// Kept runs, a row each.
pub fn runs<'a>(runs: impl IntoIterator<Item = &'a StoredRun>) -> Table {
    let what =
        ["run", "title", "name", "note", "tags", "starred", "state", "started", "device", "seed", "steps", "step_secs"];
    let measured = ["predicted_bytes", "measured_bytes", "train_loss", "test_accuracy", "best_test_accuracy"];
    // The columns of values, in the place of accuracies.
    let of_values = ["test_r2", "best_test_r2"];
    let mut table = Table::new(what.into_iter().chain(measured).chain(of_values).chain(["settings"]));
    table.rows.extend(runs.into_iter().map(|run| {
        let ran = Ran::of(run);
        vec![
            json!(run.key),
            json!(run.title),
            json!(run.name),
            json!(run.note),
            json!(run.tags.join(", ")),
            json!(run.is_starred),
            json!(run.state.key()),
            json!(run.started.to_string()),
            json!(run.device),
            json!(run.seed),
            json!(ran.steps),
            json!(ran.step_secs),
            json!(ran.predicted_bytes),
            json!(ran.measured_bytes),
            json!(ran.train_loss),
            json!(ran.test_accuracy.filter(|_| !run.learns_values())),
            json!(ran.best_test_accuracy.filter(|_| !run.learns_values())),
            json!(ran.test_accuracy.filter(|_| run.learns_values())),
            json!(ran.best_test_accuracy.filter(|_| run.learns_values())),
            json!(run.settings.join(" ")),
        ]
    }));
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{experiment::Experiment, hardware::Machine};

    fn plan() -> Plan {
        Plan::of(&Experiment::default(), &Machine::nominal()).expect("a plan")
    }

    /// The fields of the rows, by the names of the columns. No field here needs quotes.
    fn read(csv: &str) -> Vec<Vec<(&str, &str)>> {
        let mut lines = csv.lines();
        let names: Vec<&str> = lines.next().expect("names").split(',').collect();
        lines.map(|line| names.iter().copied().zip(line.split(',')).collect()).collect()
    }

    fn number(row: &[(&str, &str)], name: &str) -> u64 {
        row.iter().find(|(column, _)| *column == name).and_then(|(_, field)| field.parse().ok()).expect(name)
    }

    #[test]
    fn the_ops_read_back_and_their_categories_add_up() {
        let plan = plan();
        let measured: Vec<Bytes> = plan.steady.points.iter().map(|point| Bytes(point.live.0 / 2)).collect();
        let csv = ops(&plan, &Pass::ALL, Some((Pass::Steady, &measured))).csv();
        let rows = read(&csv);
        assert_eq!(rows.len(), Pass::ALL.iter().map(|pass| plan.timeline(*pass).points.len()).sum::<usize>());
        for row in &rows {
            let live = number(row, "live_bytes");
            let bytes = row
                .iter()
                .filter(|(name, _)| name.ends_with("_bytes") && !["live_bytes", "measured_bytes"].contains(name));
            assert_eq!(bytes.map(|(_, field)| field.parse::<u64>().expect("bytes")).sum::<u64>(), live, "{row:?}");
            let is_measured = row[0] == ("pass", "training");
            assert_eq!(row[row.len() - 1].1.is_empty(), !is_measured);
            assert!(!is_measured || number(row, "measured_bytes") == live / 2);
        }
        assert_eq!(rows.iter().map(|row| number(row, "live_bytes")).max(), Some(plan.peak.live.0));
    }

    #[test]
    fn layers_and_what_is_alive_read_back_whole() {
        let plan = plan();
        let (layers, alive) = (layers(&plan).csv(), alive(&plan).csv());
        let parameters: u64 = read(&layers).iter().map(|row| number(row, "parameters")).sum();
        assert_eq!(parameters, plan.parameters);
        assert_eq!(read(&alive).iter().map(|row| number(row, "bytes")).sum::<u64>(), plan.peak.live.0);
    }

    #[test]
    fn a_comparison_reads_back_with_a_column_for_each() {
        let subject = |micro: usize| {
            let mut experiment = Experiment::default();
            experiment.batch.micro = micro;
            let plan = Plan::of(&experiment, &Machine::nominal()).expect("a plan");
            Subject::of_plan(format!("m{micro}"), std::sync::Arc::new(plan))
        };
        let compared = Comparison::of(vec![subject(8), subject(16)]).expect("two");
        let csv = comparison(&compared).csv();
        let rows = read(&csv);
        assert_eq!(rows[0], [("part", "setting"), ("what", "batch.micro"), ("m8", "8"), ("m16", "16")]);
        let predicted = rows.iter().find(|row| row[0].1 == "predicted bytes").expect("a row");
        let bytes = |part: &str| rows.iter().filter(|row| row[0].1 == part).map(|row| number(row, "m16")).sum::<u64>();
        assert_eq!(number(predicted, "m16"), bytes("bytes at the peak"));
    }

    #[test]
    fn fields_that_need_quotes_have_them_and_lines_are_objects() {
        let mut table = Table::new(["a", "b"]);
        table.rows.push(vec![json!("x,\"y\""), Value::Null]);
        assert_eq!(table.csv(), "a,b\n\"x,\"\"y\"\"\",\n");
        let line: Value = serde_json::from_str(table.json_lines().trim()).expect("an object");
        assert_eq!(line, json!({"a": "x,\"y\"", "b": null}));
    }
}
