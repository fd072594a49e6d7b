//! Facts of texts and tables before a run, in lines and as JSON: one place, so that window and command line say the same.

use plimsoll_engine::{
    data::{ColumnFacts, ColumnUse, TableFacts, TextFacts},
    experiment::TableTask,
};
use serde::Serialize;

use crate::format;

/// The facts, a line each.
pub(crate) fn lines(facts: &TextFacts) -> Vec<String> {
    let TextFacts { samples, looked_at, mean_tokens, is_packed, truncated, unscored, .. } = facts;
    let count = |n: usize| format::count(n as u64);
    let counted = |n: usize, one| format::counted(n as u64, one);
    let tokens = match &facts.tokenizer {
        Some(path) => format!("tokens of {}, {} of them", path.display(), count(facts.vocabulary)),
        None => "no tokenizer: bytes are the tokens, and one ends a text".to_owned(),
    };
    let is_exact = looked_at == samples;
    let (about, of) =
        if is_exact { ("", String::new()) } else { ("about ", format!(" ({} looked at)", count(*looked_at))) };
    let mut lines = vec![
        tokens,
        format!("{} of {about}{mean_tokens:.1} tokens on average{of}", counted(*samples, "sample")),
        format!("the longest has {}: {}", counted(facts.longest_tokens, "token"), facts.longest),
    ];
    lines.push(match is_packed {
        true => "samples are joined and cut: no position is padding".to_owned(),
        false => format!("{about}{} of positions are padding", format::share(facts.padding_share)),
    });
    lines.push(format!("{about}{} of positions are scored", format::share(facts.scored_share)));
    if *truncated > 0 {
        lines.push(format!(
            "cut, because longer than a sequence: {} of {}",
            count(*truncated),
            counted(*looked_at, "sample")
        ));
    }
    if *unscored > 0 {
        lines.push(format!(
            "without anything scored in its sequence: {} of {}",
            count(*unscored),
            counted(*looked_at, "sample")
        ));
    }
    lines.extend(facts.left_out());
    lines
}

/// Classes and columns that a line names.
const NAMED: usize = 8;

/// Some names of a list.
fn some<'a>(names: impl Iterator<Item = &'a str> + Clone) -> String {
    let count = names.clone().count();
    let shown: Vec<&str> = names.take(NAMED).collect();
    let more = if count > NAMED { format!(" and {} more", count - NAMED) } else { String::new() };
    format!("{}{more}", shown.join(", "))
}

/// The categories of a column, and the treatment of those that have no input of their own.
fn categories(column: &ColumnFacts) -> Option<String> {
    let ColumnUse::Categories { count, shared } = column.used else { return None };
    let line = format!("{}: {}", column.name, format::counted(count as u64, "category"));
    let own = TableFacts::MOST_CATEGORIES - 1;
    Some(match shared {
        0 => line,
        _ => format!("{line}; the {own} commonest have an input each, the other {shared} share one"),
    })
}

/// The facts of a table, a line each.
pub(crate) fn table_lines(facts: &TableFacts) -> Vec<String> {
    let TableFacts { rows, columns, label, classes, features, .. } = facts;
    let counted = |n: usize, one| format::counted(n as u64, one);
    let commas = if facts.has_decimal_commas { ", with decimal commas" } else { "" };
    let mut lines = vec![format!(
        "{} of {}, separated by {}{commas}",
        counted(*rows, "row"),
        counted(columns.len(), "column"),
        facts.separator
    )];
    lines.push(match facts.task {
        TableTask::Regression => {
            format!("learned: the value of {label}, scaled to mean 0 and deviation 1; errors are in its units")
        }
        _ => format!(
            "learned: the class of {label}, one of {}: {}",
            classes.len(),
            some(classes.iter().map(String::as_str))
        ),
    });
    let used = |used: ColumnUse| columns.iter().filter(move |column| column.used == used).map(|column| &*column.name);
    let numbers = used(ColumnUse::Numbers);
    if numbers.clone().next().is_some() {
        lines.push(format!("numbers, scaled to mean 0 and deviation 1 of the training rows: {}", some(numbers)));
    }
    lines.extend(columns.iter().filter_map(categories));
    for ColumnFacts { name, used, number_like, .. } in columns {
        let Some([text, number]) = number_like else { continue };
        let read = if *used == ColumnUse::Label { "classes" } else { "categories" };
        lines.push(format!("read as {read}: '{name}' (for example \"{text}\"); write {number} for a number"));
    }
    let left_out = used(ColumnUse::LeftOut);
    if left_out.clone().next().is_some() {
        lines.push(format!("left out: {}", some(left_out)));
    }
    let missing = |column: &ColumnFacts| {
        let instead =
            if column.used == ColumnUse::Numbers { "the mean of the column" } else { "a category of their own" };
        let rows = counted(column.missing, "row");
        format!("{} is missing in {rows}, with {instead} in its place", column.name)
    };
    lines.extend(columns.iter().filter(|column| column.missing > 0).take(NAMED).map(missing));
    lines.push(format!("the model sees {} a row", counted(*features, "input")));
    if let Some(first) = &facts.first_left_out {
        let (rows, are) = (counted(facts.left_out_count, "broken row"), format::are(facts.left_out_count as u64));
        lines.push(format!("{rows} {are} left out; the first: {first}"));
    }
    lines
}

/// The facts of a table for programs.
#[derive(Serialize)]
pub(crate) struct TableJson<'a> {
    rows: usize,
    features: usize,
    label: &'a str,
    task: TableTask,
    classes: &'a [String],
    separator: &'a str,
    decimal_commas: bool,
    columns: Vec<ColumnJson<'a>>,
    left_out: usize,
    first_left_out: Option<&'a str>,
}

#[derive(Serialize)]
struct ColumnJson<'a> {
    name: &'a str,
    used: &'static str,
    categories: Option<usize>,
    missing: usize,
    /// One of its texts that look like numbers.
    number_like: Option<&'a str>,
}

impl<'a> TableJson<'a> {
    pub(crate) fn of(facts: &'a TableFacts) -> Self {
        let column = |ColumnFacts { name, used, missing, number_like }: &'a ColumnFacts| {
            let (used, categories) = match used {
                ColumnUse::Numbers => ("numbers", None),
                ColumnUse::Categories { count, .. } => ("categories", Some(*count)),
                ColumnUse::Label => ("label", None),
                ColumnUse::LeftOut => ("left out", None),
            };
            let number_like = number_like.as_ref().map(|[text, _]| text.as_str());
            ColumnJson { name, used, categories, missing: *missing, number_like }
        };
        Self {
            rows: facts.rows,
            features: facts.features,
            label: &facts.label,
            task: facts.task,
            classes: &facts.classes,
            separator: facts.separator,
            decimal_commas: facts.has_decimal_commas,
            columns: facts.columns.iter().map(column).collect(),
            left_out: facts.left_out_count,
            first_left_out: facts.first_left_out.as_deref(),
        }
    }
}

/// The facts for programs.
#[derive(Serialize)]
pub(crate) struct Json<'a> {
    tokenizer: Option<String>,
    tokenizer_vocabulary: usize,
    files: usize,
    bytes: u64,
    samples: usize,
    looked_at: usize,
    mean_tokens: f64,
    packing: bool,
    padding_share: f64,
    scored_share: f64,
    truncated: usize,
    unscored: usize,
    longest_tokens: usize,
    longest: &'a str,
    left_out: usize,
    first_left_out: Option<&'a str>,
}

impl<'a> Json<'a> {
    pub(crate) fn of(facts: &'a TextFacts) -> Self {
        Self {
            tokenizer: facts.tokenizer.as_ref().map(|path| path.display().to_string()),
            tokenizer_vocabulary: facts.vocabulary,
            files: facts.files,
            bytes: facts.bytes.0,
            samples: facts.samples,
            looked_at: facts.looked_at,
            mean_tokens: facts.mean_tokens,
            packing: facts.is_packed,
            padding_share: facts.padding_share,
            scored_share: facts.scored_share,
            truncated: facts.truncated,
            unscored: facts.unscored,
            longest_tokens: facts.longest_tokens,
            longest: &facts.longest,
            left_out: facts.left_out_count,
            first_left_out: facts.first_left_out.as_deref(),
        }
    }
}
