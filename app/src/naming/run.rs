//! The name of a run: its number, then the name that it was given or its distinguishing settings.
//!
//! Always holds: a run has one name in all panes, messages and pictures. Its title comes after that, if there is room for more.

use std::{borrow::Cow, path::Path};

use plimsoll_engine::train::Checkpoint;

use super::Differing;
use crate::session;

/// Settings whose value may be a kept run, by its folder.
const OF_A_RUN: [&str; 2] = ["distil.teacher", "weights.path"];

/// Settings that the name of a run lists at most.
pub(crate) const NAMED: usize = 4;

/// What stands between the number of a run and its name.
const AFTER_NUMBER: &str = ": ";

/// The name of a run in every pane: its number, then the name that it was given or its distinguishing settings.
pub(crate) fn of_run(number: u64, name: &str) -> String {
    format!("{}{AFTER_NUMBER}{name}", session::numbered(number))
}

/// The number that such a name begins with, and the rest of it.
pub(super) fn number_apart(name: &str) -> (&str, &str) {
    let number = name.split_once(AFTER_NUMBER).map_or("", |(number, _)| number);
    let is_one = number.rsplit(' ').next().and_then(|digits| digits.parse().ok()).map(session::numbered);
    if is_one.as_deref() == Some(number) { name.split_at(number.len() + AFTER_NUMBER.len()) } else { ("", name) }
}

/// The name, after its number, of a run without one of its own: its distinguishing settings, or its title without any.
pub(crate) fn told<'a>(differs: &'a str, title: &'a str) -> &'a str {
    match (differs, title.trim()) {
        ("", "") => "Untitled",
        ("", title) => title,
        (differs, _) => differs,
    }
}

/// Whether the value of a setting may be a kept run.
pub(super) fn may_be_one(key: &str) -> bool {
    OF_A_RUN.contains(&key)
}

/// The name of a path to weights: the folder of a run, else the file or folder.
pub(crate) fn place(path: &Path) -> String {
    let is_checkpoint = path.file_name().is_some_and(|name| Checkpoint::NAMES.iter().any(|own| name == *own));
    let known = if is_checkpoint { path.parent().unwrap_or(path) } else { path };
    known.file_name().unwrap_or(known.as_os_str()).to_string_lossy().into_owned()
}

/// A text with the names of kept runs in place of their keys, as far as `called` has them. A key that is part of a path, or of
/// a command in backticks, stays: there it is what is needed.
pub(crate) fn in_words(text: &str, called: impl Fn(&str) -> Option<String>) -> Cow<'_, str> {
    let (mut told, mut copied) = (String::new(), 0);
    let (mut is_command, mut before, mut at) = (false, ' ', 0);
    for part in text.split_inclusive(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-') {
        let word = part.trim_end_matches(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-');
        let after = part[word.len()..].chars().next().unwrap_or(' ');
        let is_path = [before, after].iter().any(|sign| ['/', '\\'].contains(sign));
        if let Some(name) =
            Some(word).filter(|word| looks_like_a_key(word) && !is_path && !is_command).and_then(&called)
        {
            told.push_str(&text[copied..at]);
            // "run 20261122-141205-0000" is not to be "run Run 4".
            let name = if told.ends_with("run ") { name.strip_prefix("Run ").unwrap_or(&name) } else { &name };
            told.push_str(name);
            copied = at + word.len();
        }
        is_command ^= after == '`';
        (before, at) = (after, at + part.len());
    }
    if copied == 0 { Cow::Borrowed(text) } else { Cow::Owned(told + &text[copied..]) }
}

/// Whether a word begins as a key does: with a day.
fn looks_like_a_key(word: &str) -> bool {
    let day = word.split('-').next().unwrap_or_default();
    day.len() == 8 && word.len() > day.len() + 1 && day.bytes().all(|digit| digit.is_ascii_digit())
}

impl Differing {
    /// The same, with the name that `called` has for a kept run in place of its key, by which users do not know it.
    pub(crate) fn with_runs(self, called: impl Fn(&str) -> Option<String>) -> Self {
        let name = if may_be_one(&self.key) { called(&self.value) } else { None };
        Self { value: name.unwrap_or(self.value), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_called_by_what_differs_else_by_its_title() {
        assert_eq!(of_run(4, told("micro-batch 32, every block", "Digits")), "Run 4: micro-batch 32, every block");
        assert_eq!([told("", "Digits"), told("", ""), told("", "  ")], ["Digits", "Untitled", "Untitled"]);
        assert_eq!(number_apart("Run 4: seed 2: b"), ("Run 4: ", "seed 2: b"));
        for none in ["Run 3 of 4: a", "seed: 2", "Run 4", ": a"] {
            assert_eq!(number_apart(none), ("", none));
        }
    }

    #[test]
    fn a_text_names_a_run_and_leaves_paths_and_commands_alone() {
        let key = "20261127-011105-pwfw";
        let called = |word: &str| (word == key).then(|| "Run 4".to_owned());
        let told = |text: &str| in_words(&text.replace("KEY", key), called).replace(key, "KEY");
        assert_eq!(told("Taught by KEY, KEY"), "Taught by Run 4, Run 4");
        assert_eq!(told("KEY: run KEY is in use"), "Run 4: run 4 is in use");
        for same in ["`plimsoll resume KEY` and /runs/KEY/last", "runs/KEY", "20261127-011105-othr", "steps 20261127"] {
            assert_eq!(told(same), same);
        }
        assert_eq!(told("see `show KEY`, of KEY"), "see `show KEY`, of Run 4");
    }
}
