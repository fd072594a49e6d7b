//! The names of a table's columns: its first line, and those that settings give.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

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
    let mut places = HashMap::with_capacity(rows.record.len());
    for (at, field) in rows.record.iter().enumerate() {
        let mut name = String::from_utf8_lossy(field.trim_ascii()).into_owned();
        if name.is_empty() {
            // As other programs write a column of numbers of rows.
            name = format!("column {}", at + 1);
        }
        if let Some(first) = places.insert(name.clone(), at) {
            return refused(format!("columns {} and {} are both called `{name}`; rename one", first + 1, at + 1));
        }
        names.push(name);
    }
    Ok(names)
}

/// The columns of a list by their names, as `key` has it. The list is a record as a file of comma-separated values has it: a name
/// may stand in quotation marks, and those in it are then doubled. Without them a name may have commas too: of the names that
/// begin at a place of the list, the longest is meant.
pub(super) fn listed(key: &str, list: &str, names: &[String]) -> Result<Vec<usize>> {
    let mut found = Vec::new();
    if list.is_empty() {
        return Ok(found);
    }
    let all: HashSet<&str> = names.iter().map(String::as_str).collect();
    let mut rest = list.trim_start_matches([',', ' ']);
    while !rest.is_empty() {
        let ends = rest.match_indices(',').map(|(at, _)| at).chain([rest.len()]);
        let as_it_is = ends.clone().rfind(|end| all.contains(rest[..*end].trim()));
        let (name, after) = match (as_it_is, quoted(rest)) {
            (Some(end), _) => (Cow::Borrowed(rest[..end].trim()), &rest[end..]),
            (None, Some((name, after))) => (Cow::Owned(name.trim().to_owned()), after),
            (None, None) => {
                let end = ends.clone().next().unwrap_or(rest.len());
                (Cow::Borrowed(rest[..end].trim()), &rest[end..])
            }
        };
        found.push(place(key, &name, names)?);
        rest = after.trim_start_matches([',', ' ']);
    }
    Ok(found)
}

/// The name in quotation marks that `list` begins with, and what comes after it: the end, or a comma.
fn quoted(list: &str) -> Option<(String, &str)> {
    let (mut name, mut rest) = (String::new(), list.strip_prefix('"')?);
    loop {
        let (part, after) = rest.split_once('"')?;
        name.push_str(part);
        match after.strip_prefix('"') {
            Some(more) => {
                name.push('"');
                rest = more;
            }
            None => {
                let after = after.trim_start();
                return (after.is_empty() || after.starts_with(',')).then_some((name, after));
            }
        }
    }
}

/// A name as it stands in a list.
pub(super) fn in_list(name: &str) -> Cow<'_, str> {
    if name.contains([',', '"']) {
        Cow::Owned(format!("\"{}\"", name.replace('"', "\"\"")))
    } else {
        Cow::Borrowed(name)
    }
}

/// The column of the label: the last one if none is named.
pub(super) fn label_at(label: &str, names: &[String]) -> Result<usize> {
    if label.is_empty() { Ok(names.len().saturating_sub(1)) } else { place("data.label", label, names) }
}

/// The column of a name.
fn place(key: &str, name: &str, names: &[String]) -> Result<usize> {
    if let Some(at) = names.iter().position(|known| known == name) {
        return Ok(at);
    }
    let near = nearest(name, names.iter().map(String::as_str)).map(|near| format!("did you mean \"{near}\"? "));
    let all: Vec<Cow<'_, str>> = names.iter().take(LISTED).map(|name| in_list(name)).collect();
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
        "The first line has the names of the columns, and {count} of {all} are numbers, `{first}` first; if it is a \
         sample, put a line of names before it"
    ))
}

fn is_number(field: &[u8]) -> bool {
    matches!(column::field(field, false, &mut false), Field::Number(_))
}
