//! The names of a table's columns: its first line, and those that settings give.

use super::{
    column::{self, Field},
    records::Rows,
};
use crate::{
    error::{Error, Problem, Result},
    suggest::nearest,
};

/// Columns that a message lists.
const LISTED: usize = 30;

/// The names in the first row.
pub(super) fn names(rows: &Rows<'_>) -> Result<Vec<String>> {
    let refused = |message: String| Err(Error::file_at(rows.path, format!("line {}", rows.line()), message));
    if rows.record.iter().all(is_number) {
        return refused(
            "the first line has numbers in the place of names; put a line with a name for each column before it"
                .to_owned(),
        );
    }
    let mut names: Vec<String> = Vec::with_capacity(rows.record.len());
    for (at, field) in rows.record.iter().enumerate() {
        let mut name = String::from_utf8_lossy(field.trim_ascii()).into_owned();
        if name.is_empty() {
            // As other programs write a column of numbers of rows.
            name = format!("column {}", at + 1);
        }
        if let Some(first) = names.iter().position(|known| *known == name) {
            return refused(format!("columns {} and {} are both called `{name}`; rename one", first + 1, at + 1));
        }
        names.push(name);
    }
    Ok(names)
}

/// The columns of a list by their names, as `key` has it. A name with a comma stands in quotation marks.
pub(super) fn listed(key: &str, list: &str, names: &[String]) -> Result<Vec<usize>> {
    let mut is_quoted = false;
    let parts = list.split(|sign| {
        is_quoted ^= sign == '"';
        sign == ',' && !is_quoted
    });
    let wanted = parts.map(|name| name.trim().trim_matches('"').trim()).filter(|name| !name.is_empty());
    wanted.map(|name| place(key, name, names)).collect()
}

/// The column of the label: the last, where none is named.
pub(super) fn label_at(label: &str, names: &[String]) -> Result<usize> {
    if label.is_empty() { Ok(names.len().saturating_sub(1)) } else { place("data.label", label, names) }
}

/// The column of a name.
fn place(key: &str, name: &str, names: &[String]) -> Result<usize> {
    if let Some(at) = names.iter().position(|known| known == name) {
        return Ok(at);
    }
    let near = nearest(name, names.iter().map(String::as_str)).map(|near| format!("did you mean \"{near}\"? "));
    let all: Vec<&str> = names.iter().take(LISTED).map(String::as_str).collect();
    let more = if names.len() > LISTED { format!(" and {} more", names.len() - LISTED) } else { String::new() };
    let mend = format!("{}the columns are {}{more}", near.unwrap_or_default(), all.join(", "));
    Err(Problem::new(key, format!("there is no column `{name}`"), mend).into())
}

/// Says that the first line may be a sample, where some of its names are numbers.
pub(super) fn note(names: &[String]) -> Option<String> {
    let mut numbers = names.iter().filter(|name| is_number(name.as_bytes()));
    let first = numbers.next()?;
    let (count, all) = (1 + numbers.count(), names.len());
    Some(format!(
        "The first line has the names of the columns, and {count} of {all} are numbers, `{first}` first. If it is a sample, put \
         a line of names before it."
    ))
}

fn is_number(field: &[u8]) -> bool {
    matches!(column::field(field, false, &mut false), Field::Number(_))
}
