//! The name of a run: its number, then the name that it was given or its distinguishing settings.
//!
//! Always holds: a run has one name in all panes, messages and pictures. Its title comes after that, if there is room for more.

use std::path::Path;

use plimsoll_engine::train::Checkpoint;

use super::Differing;
use crate::session;

/// Settings whose value may be a kept run, by its folder.
const OF_A_RUN: [&str; 2] = ["distil.teacher", "weights.path"];

/// Settings that the name of a run lists at most.
pub(crate) const NAMED: usize = 4;

/// The name of a run in every pane: its number, then the name that it was given or its distinguishing settings.
pub(crate) fn of_run(number: u64, name: &str) -> String {
    format!("{}: {name}", session::numbered(number))
}

/// The name, after its number, of a run without one of its own: its distinguishing settings, or its title without any.
pub(crate) fn told<'a>(differs: &'a str, title: &'a str) -> &'a str {
    match (differs, title) {
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
        assert_eq!(of_run(4, told("batch 32, every block", "Digits")), "Run 4: batch 32, every block");
        assert_eq!([told("", "Digits"), told("", "")], ["Digits", "Untitled"]);
    }
}
