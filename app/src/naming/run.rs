//! The name of a run: its number, then the name that it was given or what sets it apart.
//!
//! Always holds: a run has one name in all panes, messages and pictures. Its title comes after that, where there is room for more.

use crate::session;

/// Settings that the name of a run lists at most.
pub(crate) const NAMED: usize = 4;

/// What a run is called, in every pane: its number, then the name that it was given or what sets it apart from the others.
pub(crate) fn of_run(number: u64, name: &str) -> String {
    format!("{}: {name}", session::numbered(number))
}

/// What a run without a name of its own is called after its number: what sets it apart, or its title where nothing does.
pub(crate) fn told<'a>(differs: &'a str, title: &'a str) -> &'a str {
    match (differs, title) {
        ("", "") => "Untitled",
        ("", title) => title,
        (differs, _) => differs,
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
