//! The words that a shell completes while a command is typed: commands and options, the names of presets, of devices and of
//! kept runs.
//!
//! The shell asks this program, so that it offers only names that exist. Always holds: an answer writes no word of its own
//! and fails in silence, because it stands in the line that is typed. The shell asks by setting [`VARIABLE`].

use std::{
    env,
    ffi::{OsStr, OsString},
    io,
    path::Path,
};

use clap::Command;
use clap_complete::{
    CompleteEnv, Shell,
    engine::{ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter},
    env::Shells,
};
use jiff::Timestamp;
use plimsoll_engine::{device::profile, experiment::shipped, store::StoredRun};

use crate::cli::{age::ago, in_store::InStore, plain};

/// A shell that asks sets this to its name.
const VARIABLE: &str = "PLIMSOLL_COMPLETE";
/// Runs that are offered: the newest that begin with the typed text.
const RUNS: usize = 100;
/// How checkpoints end.
const CHECKPOINTS: &[&str] = &["safetensors"];
/// How images end.
const PICTURES: &[&str] = &["png", "jpg", "jpeg", "webp"];
/// How locks end.
const LOCKS: &[&str] = &["lock", "toml"];
/// How presets end.
const PRESETS: &[&str] = &["toml", "json"];

/// The end of the script for zsh: as a file of fpath, it is run at the first completion of a shell, which it then has to
/// answer as well.
const ZSH_AUTOLOADED: &str = "
if [[ $funcstack[1] == _plimsoll ]]; then
    _clap_dynamic_completer_plimsoll \"$@\"
fi
";

/// Answers a shell and ends the program, where one asks.
pub(super) fn answer(command: fn() -> Command) {
    CompleteEnv::with_factory(command).var(VARIABLE).complete();
}

/// The script that makes a shell ask this program.
///
/// # Errors
/// A shell that is not one of [`Shell`].
pub(super) fn script(shell: Shell) -> io::Result<Vec<u8>> {
    let name = shell.to_string();
    let shells = Shells::builtins();
    let shell = shells.completer(&name).ok_or_else(|| io::Error::other(format!("{name} has no completions")))?;
    let mut script = Vec::new();
    shell.write_registration(VARIABLE, "plimsoll", "plimsoll", &this_program(), &mut script)?;
    if name == "zsh" {
        script.extend(ZSH_AUTOLOADED.as_bytes());
    }
    Ok(script)
}

/// How a shell calls this program: as it was called now, in any folder of the shell.
fn this_program() -> String {
    let called = env::args_os().next().unwrap_or_else(|| "plimsoll".into());
    let path = Path::new(&called);
    let is_path = path.components().count() > 1;
    let absolute = is_path.then(|| std::path::absolute(path).ok()).flatten();
    absolute.map_or(called.clone(), OsString::from).to_string_lossy().into_owned()
}

/// Presets: shipped ones and files.
pub(super) fn presets() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| all([presets_like(typed), files(typed, PRESETS)]))
}

/// Kept runs.
pub(super) fn runs() -> ArgValueCompleter {
    ArgValueCompleter::new(runs_like)
}

/// Kept runs, and presets.
pub(super) fn subjects() -> ArgValueCompleter {
    let like = |typed: &OsStr| all([runs_like(typed), presets_like(typed), files(typed, PRESETS)]);
    ArgValueCompleter::new(like)
}

/// Kept runs, checkpoints and presets.
pub(super) fn models() -> ArgValueCompleter {
    let like =
        |typed: &OsStr| all([runs_like(typed), files(typed, CHECKPOINTS), presets_like(typed), files(typed, PRESETS)]);
    ArgValueCompleter::new(like)
}

/// JPEG and PNG files.
pub(super) fn pictures() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| files(typed, PICTURES))
}

/// Kept runs, and checkpoints.
pub(super) fn runs_and_files() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| all([runs_like(typed), files(typed, CHECKPOINTS)]))
}

/// Locks, and the folders on the way to them.
pub(super) fn locks() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        let is_lock = |path: &Path| path.extension().is_some_and(|end| LOCKS.iter().any(|known| end == *known));
        PathCompleter::any().filter(is_lock).complete(typed)
    })
}

/// The processor, and cards to plan for.
pub(super) fn devices() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        let cards = profile::shipped().iter().map(|card| (card.slug.clone(), card.title.clone()));
        offered(typed, std::iter::once(("cpu".to_owned(), "the processor".to_owned())).chain(cards))
    })
}

fn all<const N: usize>(lists: [Vec<CompletionCandidate>; N]) -> Vec<CompletionCandidate> {
    lists.into_iter().flatten().collect()
}

/// The names that begin with the typed text, each with its description.
fn offered(typed: &OsStr, names: impl Iterator<Item = (String, String)>) -> Vec<CompletionCandidate> {
    let typed = typed.to_string_lossy();
    let begun = names.filter(|(name, _)| name.starts_with(&*typed));
    begun
        .map(|(name, about)| CompletionCandidate::new(name).help(Some(plain::line(&about).into_owned().into())))
        .collect()
}

fn presets_like(typed: &OsStr) -> Vec<CompletionCandidate> {
    let title = |name: &str| shipped::find(name).and_then(Result::ok).map(|preset| preset.title).unwrap_or_default();
    offered(typed, shipped::shipped().iter().map(|(name, _)| ((*name).to_owned(), title(name))))
}

/// Files with one of these endings, and folders on the way to them once a path is begun.
fn files(typed: &OsStr, endings: &'static [&'static str]) -> Vec<CompletionCandidate> {
    let is_one = |path: &Path| path.extension().is_some_and(|end| endings.iter().any(|known| end == *known));
    let mut found = PathCompleter::any().filter(is_one).complete(typed);
    if typed.is_empty() {
        found.retain(|candidate| !candidate.get_value().to_string_lossy().ends_with(std::path::MAIN_SEPARATOR));
    }
    found
}

/// The runs of the store that the typed command names: their keys, and the names that are one word.
fn runs_like(typed: &OsStr) -> Vec<CompletionCandidate> {
    let runs = InStore::at(store_of(env::args_os().skip(1))).existing_quietly();
    let runs = runs.and_then(|store| store.list().ok()).unwrap_or_default();
    let now = Timestamp::now();
    let about = |run: &StoredRun| format!("{}, {}, {}", run.label(), run.status(), ago(run.started, now));
    let is_word = |name: &str| name.chars().all(|c| c.is_alphanumeric() || "-_.+".contains(c));
    let last = runs.first().map(|run| ("last".to_owned(), about(run)));
    let names = runs.iter().filter_map(|run| Some((run.name.clone().filter(|name| is_word(name))?, about(run))));
    let keys = runs.iter().map(|run| (run.key.to_string(), about(run)));
    let mut offered = offered(typed, last.into_iter().chain(names).chain(keys));
    offered.truncate(RUNS);
    offered
}

/// The store that a command line names.
fn store_of(arguments: impl Iterator<Item = OsString>) -> Option<std::path::PathBuf> {
    let mut arguments = arguments;
    while let Some(argument) = arguments.next() {
        if argument == "--store" {
            return arguments.next().map(Into::into);
        }
        if let Some(folder) = argument.to_str().and_then(|argument| argument.strip_prefix("--store=")) {
            return Some(folder.into());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_store_of_a_typed_command_is_found() {
        let of = |line: &str| store_of(line.split(' ').map(OsString::from));
        assert_eq!(of("-- plimsoll show --store x "), Some("x".into()));
        assert_eq!(of("-- plimsoll show --store=a/b la"), Some("a/b".into()));
        assert_eq!(of("-- plimsoll show la"), None);
    }

    #[test]
    fn presets_and_devices_are_offered_by_their_beginning() {
        let names = |candidates: Vec<CompletionCandidate>| -> Vec<String> {
            candidates.iter().map(|candidate| candidate.get_value().to_string_lossy().into_owned()).collect()
        };
        let presets = names(presets_like(OsStr::new("cnn-digits-p")));
        assert_eq!(presets, ["cnn-digits-pruned"]);
        assert_eq!(names(presets_like(OsStr::new(""))).len(), shipped::shipped().len());
        assert_eq!(names(devices().complete(OsStr::new("cp"))), ["cpu"]);
        assert!(names(devices().complete(OsStr::new("rtx"))).contains(&"rtx4060-8g".to_owned()));
    }
}
