//! Reading the text of a preset: every mistake with its place and how to fix it.

use std::{collections::HashMap, ops::Range, path::Path};

use toml_edit::{Item, TableLike, TomlError};

use crate::{
    error::{Error, Problem},
    experiment::{
        Experiment, VERSION,
        settings::{self, Setting, find, is_group, names_in, too_large},
    },
    suggest::nearest,
};

/// The part of a preset that has been read so far.
#[derive(Default)]
pub(super) struct Reader {
    pub(super) experiment: Experiment,
    /// Notes on keys that have a new name.
    pub(super) notes: Vec<String>,
    pub(super) problems: Vec<Problem>,
    /// Where each key and group is in the file.
    spans: HashMap<String, Range<usize>>,
}

impl Reader {
    /// Reads the whole text; `top` is its parsed form.
    pub(super) fn read(&mut self, top: &dyn TableLike) {
        // A newer format may mean anything: its version is then the only thing worth saying.
        if let Some(found) = top.get("version").and_then(Item::as_integer).filter(|v| *v > i64::from(VERSION)) {
            self.key("version", top, "version");
            return self.problem(newer(found));
        }
        self.group("", top);
        if self.has("version") && (1..VERSION).contains(&self.experiment.version) {
            let text = format!("is of version {} of the format, and is saved as {VERSION}", self.experiment.version);
            self.notes.insert(0, text);
            self.experiment.version = VERSION;
        }
    }

    /// Whether the text gives this key.
    pub(super) fn has(&self, key: &str) -> bool {
        self.spans.contains_key(key)
    }

    /// Where `text` gives each of its keys, in words.
    pub(super) fn places(&self, text: &str) -> HashMap<String, String> {
        self.spans.iter().map(|(key, span)| (key.clone(), place(text, span.start))).collect()
    }

    fn group(&mut self, group: &str, table: &dyn TableLike) {
        for (name, _) in table.iter() {
            let dotted = if group.is_empty() { name.to_owned() } else { format!("{group}.{name}") };
            self.key(&dotted, table, name);
        }
    }

    fn key(&mut self, dotted: &str, table: &dyn TableLike, name: &str) {
        let Some((key, item)) = table.get_key_value(name) else { return };
        let span = key.span().or_else(|| item.span());
        // TOML gives no key twice, so a key that is given already was given under its earlier name.
        let is_given = self.has(dotted);
        self.spans.extend(span.clone().map(|span| (dotted.to_owned(), span)));
        let at_top = !dotted.contains('.');
        if at_top && is_group(name) {
            match item.as_table_like() {
                Some(table) => self.group(name, table),
                None => self.problem(Problem::new(
                    dotted,
                    "is a group, not a value",
                    format!("write [{name}] on a line of its own, and under it {}", list(&names_in(name))),
                )),
            }
            return;
        }
        let Some(setting) = find(dotted) else {
            let group = dotted.rsplit_once('.').map_or("", |(group, _)| group);
            return self.problem(unknown(dotted, group, name));
        };
        if is_given {
            let former = setting.former_key().unwrap_or_default();
            let message = format!("is given under its earlier name as well, {former}");
            return self.problem(Problem::new(dotted, message, format!("take {former} out")));
        }
        if dotted != setting.key {
            if self.has(setting.key) {
                let message = format!("is {} under its earlier name, and both are given", setting.key);
                return self.problem(Problem::new(dotted, message, "take this one out"));
            }
            self.spans.extend(span.map(|span| (setting.key.to_owned(), span)));
        }
        let read = match item.as_value() {
            Some(value) => setting.read(&mut self.experiment, dotted, value),
            None => Err(("is one value, not a group".to_owned(), setting.valid(&self.experiment))),
        };
        match read {
            Ok(note) => self.notes.extend(note),
            Err((message, mend)) => self.problem(Problem::new(dotted, message, mend)),
        }
    }

    pub(super) fn problem(&mut self, problem: Problem) {
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    /// All problems as one error, in the order of the file.
    pub(super) fn error(self, text: &str, path: &Path) -> Error {
        let mut placed: Vec<(Option<usize>, Problem)> = self
            .problems
            .into_iter()
            .map(|problem| {
                let group = problem.key.split_once('.').map_or("", |(group, _)| group);
                let span = self.spans.get(&problem.key).or_else(|| self.spans.get(group));
                (span.map(|span| span.start), problem)
            })
            .collect();
        placed.sort_by_key(|(start, _)| start.unwrap_or(usize::MAX));
        let mut errors = placed.into_iter().map(|(start, problem)| match start {
            Some(start) => Error::file_at(path, place(text, start), problem.to_string()),
            None => Error::file(path, problem.to_string()),
        });
        let mut first = errors.next().unwrap_or_else(|| Error::file(path, "cannot be read"));
        if let Error::File { message, .. } = &mut first {
            for error in errors {
                message.push('\n');
                message.push_str(&error.to_string());
            }
        }
        first
    }
}

/// The error for text that is not TOML: the fault, with its key if there is one.
pub(super) fn broken(error: &TomlError, text: &str, path: &Path) -> Error {
    if serde_json::from_str::<serde_json::Value>(text).is_ok() {
        let message = "is JSON, but neither a preset nor a model's config.json, which is one object of fields";
        return Error::file(path, message);
    }
    let span = error.span().unwrap_or(0..0);
    let line = text.get(..span.start).map_or("", |before| before.rsplit('\n').next().unwrap_or(""));
    let found = text.get(span.clone()).unwrap_or("").trim();
    let said = error.message().trim();
    let group = group_at(text, span.start);
    let key = key_of(group, line);
    let most = find(&key).and_then(Setting::most);
    let message = match too_large(found, most.as_deref()) {
        _ if said.contains("duplicate") => {
            let key = if line.trim_start().starts_with('[') {
                found.to_owned()
            } else {
                key_of(group, &format!("{line}{found}"))
            };
            format!("{key} is given twice; take one of the two out")
        }
        Some((message, mend)) if !key.is_empty() => format!("{key}: {message}; {mend}"),
        _ if said.contains("escape") => {
            format!(
                "{said}; a backslash in double quotes begins a sign of its own: write a path in single quotes, or with /"
            )
        }
        _ => {
            format!("{said}; a line is `key = value`, text is in double quotes, and a group begins with [its name]")
        }
    };
    Error::file_at(path, place(text, span.start), message)
}

/// The group whose lines a byte of a text that may be broken stands in; `""` at the top.
fn group_at(text: &str, byte: usize) -> &str {
    let before = text.get(..byte).unwrap_or("");
    let headers = before.lines().rev().filter_map(|line| line.trim_start().strip_prefix('[')?.split(']').next());
    headers.map(str::trim).find(|name| is_group(name)).unwrap_or("")
}

/// The dotted key that the beginning of a line gives: `batch.micro` for `micro = 1` under `[batch]`, and for
/// `batch = { micro = 1`.
fn key_of(group: &str, line: &str) -> String {
    let name =
        |part: &str| part.rsplit(',').next().and_then(|entry| entry.split('=').next()).unwrap_or("").trim().to_owned();
    let names: Vec<String> = std::iter::once(group.to_owned()).chain(line.split('{').map(name)).collect();
    names.into_iter().filter(|name| !name.is_empty()).collect::<Vec<_>>().join(".")
}

pub(super) fn newer(found: i64) -> Problem {
    Problem::new(
        "version",
        format!("{found} is newer than this program, which reads version {VERSION}"),
        "open it with a newer Plimsoll",
    )
}

/// A key that no setting has, with the one that was probably meant.
pub(super) fn unknown(dotted: &str, group: &str, name: &str) -> Problem {
    let known = names_in(group);
    let elsewhere = settings::all().find(|setting| setting.name() == name).map(|setting| setting.key.to_owned());
    let meant = elsewhere.or_else(|| {
        nearest(name, known.iter().copied()).map(|near| dotted.strip_suffix(name).unwrap_or("").to_owned() + near)
    });
    let place = if group.is_empty() { "the top".to_owned() } else { format!("[{group}]") };
    let mend = match meant {
        Some(meant) => format!("did you mean {meant}? The keys of {place} are {}", list(&known)),
        None => format!("the keys of {place} are {}", list(&known)),
    };
    Problem::new(dotted, "there is no such key", mend)
}

pub(super) fn list(words: &[&str]) -> String {
    words.join(", ")
}

/// Line and column of a byte, both from 1.
fn place(text: &str, byte: usize) -> String {
    let before: String = text.char_indices().take_while(|(at, _)| *at < byte).map(|(_, c)| c).collect();
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
    format!("line {line}, column {column}")
}
