//! The preset format: TOML text to [`Experiment`] and back.
//!
//! Owns reading (every mistake answered with its place and what would mend it), writing (aside, then renamed, so that
//! a failed save leaves the old file whole) and setting one key from text. Always holds: an experiment without problems
//! reads back equal, for the keys its kinds use. Refuses files over 1 MiB, unknown keys, wrong types, newer versions
//! and whatever [`check`] calls impossible. A key that is missing has its default, `optimizer.beta2` that of
//! the rule, and `budget` what a process may have of the card that `device` names; a missing `version` is read as 1.

mod value;

use std::{
    collections::HashMap,
    fs::{self, File},
    io::{self, Read},
    ops::Range,
    path::Path,
};

use toml_edit::{Document, Item, TableLike, Value};
use value::Wrong;

use crate::{
    bytes::Bytes,
    data,
    device::profile::named,
    error::{Error, Problem, Result},
    experiment::{
        Experiment, VERSION,
        check::check,
        hugging_face,
        schema::{KEYS, Slot, is_group, is_used, names_in, slot},
    },
    suggest::nearest,
    whole_file,
};

/// The largest preset that is read.
pub const MAX_BYTES: u64 = 1 << 20;

/// A file that was opened.
#[derive(Debug, Clone, PartialEq)]
pub struct Opened {
    /// What it says.
    pub experiment: Experiment,
    /// Whether it is a preset, over which changes may be saved: not so a model's `config.json`.
    pub is_preset: bool,
    /// Whether it says where it is to run.
    pub names_device: bool,
}

/// Reads an experiment from a file.
///
/// # Errors
/// Those of [`open`].
pub fn read(path: impl AsRef<Path>) -> Result<Experiment> {
    open(path).map(|opened| opened.experiment)
}

/// Opens a preset, or a model's `config.json`, which is told by its first brace.
///
/// # Errors
/// A file that cannot be read, or whatever [`parse`] or [`hugging_face::parse`] finds in it.
pub fn open(path: impl AsRef<Path>) -> Result<Opened> {
    let path = path.as_ref();
    let file = |error: io::Error| Error::file(path, format!("cannot be read: {}", reason(&error)));
    if path.is_dir() {
        return Err(Error::file(path, "is a folder; choose a preset (.toml) or a model's config.json in it"));
    }
    let mut bytes = Vec::new();
    File::open(path).map_err(file)?.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(file)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(Error::file(path, format!("is larger than {}: no preset is", Bytes(MAX_BYTES))));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Error::file_at(path, format!("byte {at}"), "is not UTF-8 text; save it as UTF-8")
    })?;
    if hugging_face::is_config(&text) {
        let experiment = hugging_face::parse(&text, path)?;
        return Ok(Opened { experiment, is_preset: false, names_device: false });
    }
    let experiment = parse(&text, path)?;
    let names_device = Document::parse(&text).is_ok_and(|document| document.as_table().contains_key("device"));
    Ok(Opened { experiment, is_preset: true, names_device })
}

/// Reads a preset from text; `path` is for messages.
///
/// # Errors
/// [`Error::File`] with the place of the first mistake; the others follow in the message, a line each.
pub fn parse(text: &str, path: impl AsRef<Path>) -> Result<Experiment> {
    let path = path.as_ref();
    if text.len() as u64 > MAX_BYTES {
        return Err(Error::file(path, format!("is larger than {}: no preset is", Bytes(MAX_BYTES))));
    }
    let document = Document::parse(text).map_err(|error| {
        let message = format!(
            "{}; a line is `key = value`, text stands in double quotes, and a group begins with [its name]",
            error.message()
        );
        Error::file_at(path, place(text, error.span().map_or(0, |span| span.start)), message)
    })?;
    let mut reader = Reader::default();
    reader.group("", document.as_table());
    if !reader.spans.contains_key("optimizer.beta2") {
        reader.experiment.optimizer.beta2 = reader.experiment.optimizer.kind.usual_beta2();
    }
    // Without a budget, the line is drawn where the card ends.
    if let Some(profile) = named(&reader.experiment.device)
        && !reader.spans.contains_key("budget")
    {
        reader.experiment.budget = profile.usable_memory();
    }
    if reader.problems.is_empty() {
        let facts = match reader.experiment.data.kind {
            // A folder that is gone must not keep a preset from being opened.
            kind if kind.is_on_disk() => None,
            _ => data::facts(&reader.experiment.data).ok(),
        };
        for problem in check(&reader.experiment, facts.as_ref()) {
            reader.problem(problem);
        }
    }
    if reader.problems.is_empty() { Ok(reader.experiment) } else { Err(reader.error(text, path)) }
}

#[derive(Default)]
struct Reader {
    experiment: Experiment,
    /// Where each key and group that the file has stands.
    spans: HashMap<String, Range<usize>>,
    problems: Vec<Problem>,
}

impl Reader {
    fn group(&mut self, group: &str, table: &dyn TableLike) {
        // A newer format may mean anything: its version is then the only thing worth saying.
        if group.is_empty() && table.get("version").and_then(Item::as_integer).is_some_and(|v| v > i64::from(VERSION)) {
            return self.key("version", table, "version");
        }
        for (name, _) in table.iter() {
            let dotted = if group.is_empty() { name.to_owned() } else { format!("{group}.{name}") };
            self.key(&dotted, table, name);
        }
    }

    fn key(&mut self, dotted: &str, table: &dyn TableLike, name: &str) {
        let Some((key, item)) = table.get_key_value(name) else { return };
        if let Some(span) = key.span().or_else(|| item.span()) {
            self.spans.insert(dotted.to_owned(), span);
        }
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
        } else if let Some(read) = self.value(dotted, item) {
            if let Err((message, mend)) = read {
                self.problem(Problem::new(dotted, message, mend));
            }
            if dotted == "version" && self.experiment.version > VERSION {
                let found = self.experiment.version;
                self.problem(newer(found));
            }
        } else {
            let group = dotted.rsplit_once('.').map_or("", |(group, _)| group);
            self.problem(unknown(dotted, group, name));
        }
    }

    /// Reads the value of a key; `None` for a name that is no key.
    fn value(&mut self, dotted: &str, item: &Item) -> Option<Result<(), Wrong>> {
        let mut slot = slot(&mut self.experiment, dotted)?;
        Some(match item.as_value() {
            Some(value) => slot.read(value),
            None => Err(("is one value, not a group".to_owned(), slot.valid())),
        })
    }

    fn problem(&mut self, problem: Problem) {
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    /// All problems as one error, in the order of the file.
    fn error(self, text: &str, path: &Path) -> Error {
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

fn newer(found: u32) -> Problem {
    Problem::new(
        "version",
        format!("{found} is newer than this program, which reads version {VERSION}"),
        "open it with a newer Plimsoll",
    )
}

fn unknown(dotted: &str, group: &str, name: &str) -> Problem {
    let known = names_in(group);
    let elsewhere = KEYS.iter().copied().find(|key| key.rsplit('.').next() == Some(name));
    let meant = elsewhere.map(str::to_owned).or_else(|| {
        nearest(name, known.iter().copied()).map(|near| dotted.strip_suffix(name).unwrap_or("").to_owned() + near)
    });
    let place = if group.is_empty() { "the top".to_owned() } else { format!("[{group}]") };
    let mend = match meant {
        Some(meant) => format!("did you mean {meant}? The keys of {place} are {}", list(&known)),
        None => format!("the keys of {place} are {}", list(&known)),
    };
    Problem::new(dotted, "there is no such key", mend)
}

fn list(words: &[&str]) -> String {
    words.join(", ")
}

/// Line and column of a byte, both from 1.
fn place(text: &str, byte: usize) -> String {
    let before: String = text.char_indices().take_while(|(at, _)| *at < byte).map(|(_, c)| c).collect();
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
    format!("line {line}, column {column}")
}

/// Writes a preset: aside, in the same folder, then renamed onto `path`.
///
/// # Errors
/// An experiment that could not be read back, or a file that cannot be written; what stood at `path` is then as before.
pub fn write(path: impl AsRef<Path>, experiment: &Experiment) -> Result<()> {
    let path = path.as_ref();
    if let Some(problem) = check(experiment, None).into_iter().next() {
        return Err(problem.into());
    }
    // Through a link, the file it leads to is replaced, not the link.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let failed = |error: &io::Error| {
        let kept = if target.exists() { "; the file is as it was before" } else { "; nothing was written" };
        Error::file(path, format!("cannot be saved: {}{kept}", reason(error)))
    };
    if fs::metadata(&target).is_ok_and(|old| old.permissions().readonly()) {
        return Err(Error::file(path, "is write-protected; save under another name, or lift the protection"));
    }
    if target.file_name().is_none() {
        return Err(Error::file(path, "is not a file name; choose one that ends in .toml"));
    }
    whole_file::write_durably(&target, to_text(experiment).as_bytes()).map_err(|error| failed(&error))
}

/// An input or output error in plain words.
fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "there is no such file or folder".to_owned(),
        io::ErrorKind::PermissionDenied => "this user has no rights to it".to_owned(),
        io::ErrorKind::StorageFull => "the disk is full".to_owned(),
        io::ErrorKind::ReadOnlyFilesystem => "the disk is read-only".to_owned(),
        _ => error.to_string(),
    }
}

/// The preset as text: the top keys, then the groups, each in a fixed order; keys that the chosen kinds do not use are
/// left out.
pub fn to_text(experiment: &Experiment) -> String {
    let mut experiment = experiment.clone();
    let mut text = String::new();
    let mut group = "";
    for key in KEYS {
        if !is_used(&experiment, key) {
            continue;
        }
        let Some(value) = slot(&mut experiment, key).and_then(|slot| slot.write(key)) else { continue };
        let (of, name) = key.split_once('.').unwrap_or(("", key));
        if of != group {
            group = of;
            text.push_str(&format!("\n[{group}]\n"));
        }
        text.push_str(&format!("{name} = {value}\n"));
    }
    text
}

/// Sets one key from `dotted.key=value`. The value is TOML; a bare word is text. Setting `run.steps` takes `run.epochs`
/// away, and the other way round; a rule brings its usual `optimizer.beta2` where the one before had its own.
///
/// # Errors
/// No `=`, no such key, or a value of the wrong type. Whether the experiment makes sense is for [`check`] to say.
pub fn set(experiment: &mut Experiment, assignment: &str) -> Result<(), Problem> {
    let Some((key, text)) = assignment.split_once('=') else {
        return Err(Problem::new(assignment, "has no value", "write key=value, such as batch.micro=32"));
    };
    let (key, text) = (key.trim(), text.trim());
    let rule_before = experiment.optimizer.kind;
    let Some(mut slot) = slot(experiment, key) else { return Err(no_such_key(key)) };
    let bare = || Value::from(text);
    let value = match (&slot, text.parse::<Value>()) {
        // `title=1` and `device=true` are text whatever they look like.
        (Slot::Text(_) | Slot::Path(_), Ok(value)) if value.is_str() => value,
        (Slot::Text(_) | Slot::Path(_), _) | (_, Err(_)) => bare(),
        (_, Ok(value)) => value,
    };
    slot.read(&value).map_err(|(message, mend)| Problem::new(key, message, mend))?;
    drop(slot);
    match key {
        "optimizer.kind" => {
            let chosen = std::mem::replace(&mut experiment.optimizer.kind, rule_before);
            experiment.optimizer.choose(chosen);
        }
        "run.steps" => experiment.run.epochs = None,
        "run.epochs" => experiment.run.steps = None,
        "version" if experiment.version > VERSION => return Err(newer(experiment.version)),
        _ => {}
    }
    Ok(())
}

fn no_such_key(key: &str) -> Problem {
    if is_group(key) {
        let mend = format!("name one of its keys: {}", list(&names_in(key)));
        return Problem::new(key, "is a group, not a key", mend);
    }
    match key.rsplit_once('.') {
        Some((group, name)) if is_group(group) => unknown(key, group, name),
        _ => match KEYS.iter().copied().find(|known| known.rsplit('.').next() == Some(key)) {
            Some(meant) => Problem::new(key, "there is no such key", format!("did you mean {meant}?")),
            None => match nearest(key, KEYS.iter().copied()) {
                Some(meant) => Problem::new(key, "there is no such key", format!("did you mean {meant}?")),
                None => Problem::new(key, "there is no such key", format!("the keys are {}", list(KEYS))),
            },
        },
    }
}

#[cfg(test)]
mod tests;
