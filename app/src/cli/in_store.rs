//! The store that a command reads or writes, and the runs named in it.

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use clap::{Args, Command};
use plimsoll_engine::{
    error::Error,
    experiment::shipped,
    store::{self, EventKind, RunKey, Store, StoredDetails, StoredRun},
};

use crate::cli::out;

/// Where kept runs are.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct InStore {
    /// The folder of kept runs, in place of the user's own and of PLIMSOLL_STORE; for the window, and for commands about runs
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
}

impl InStore {
    /// The folder.
    ///
    /// # Errors
    /// A system that has no place for a user's data.
    pub(super) fn folder(&self) -> anyhow::Result<PathBuf> {
        Ok(store::folder(self.store.as_deref())?)
    }

    /// The store of this folder, or the user's own.
    pub(super) fn at(store: Option<PathBuf>) -> Self {
        Self { store }
    }

    /// The store; `None` if nothing was ever kept. Parts that cannot be read are reported.
    ///
    /// # Errors
    /// A store that cannot be opened.
    pub(super) fn existing(&self) -> anyhow::Result<Option<Store>> {
        let store = Store::open_existing(&self.folder()?)?;
        if let Some(caution) = store.as_ref().and_then(Store::caution) {
            out::say("warning", &caution);
        }
        Ok(store)
    }

    /// The store, if there is one that can be read. Reports nothing.
    pub(super) fn existing_quietly(&self) -> Option<Store> {
        Store::open_existing(&self.folder().ok()?).ok()?
    }

    /// The folder of the run that a word names where a path is asked for; `None` if it is a path, or a shipped preset.
    ///
    /// # Errors
    /// A word that looks like the name of a run and is neither one nor a file.
    pub(super) fn folder_of(&self, word: &Path) -> anyhow::Result<Option<PathBuf>> {
        let Some(name) = word.to_str().filter(|name| !name.is_empty() && !name.contains(['/', '\\'])) else {
            return Ok(None);
        };
        if word.symlink_metadata().is_ok() || shipped::find(name).is_some() {
            return Ok(None);
        }
        let found = self.existing_quietly().map(|store| {
            let key = store.find(name)?;
            Ok::<_, Error>(store::files(store.folder(), &key))
        });
        match found {
            Some(Ok(folder)) => Ok(Some(folder)),
            // The file that is not there is told of where it is opened.
            _ if word.extension().is_some() => Ok(None),
            Some(Err(Error::Experiment(several))) if several.key == "run" => Err(Error::Experiment(several).into()),
            Some(Err(Error::Experiment(_))) | None => {
                let meant = shipped::near(name).map(|near| format!("did you mean the preset {near}? "));
                let meant = meant.unwrap_or_default();
                anyhow::bail!("no kept run and no file is called `{name}`; {meant}`plimsoll runs` lists the runs")
            }
            // A store that cannot be read.
            Some(Err(_)) => Ok(None),
        }
    }

    /// The runs of a store, newest first. Parts of a damaged one that cannot be read are reported.
    ///
    /// # Errors
    /// A store that cannot be read at all.
    pub(super) fn list(store: &Store) -> anyhow::Result<Vec<StoredRun>> {
        let listed = store.listed()?;
        if let Some(damage) = &listed.damage {
            out::say("warning", damage);
        }
        Ok(listed.runs)
    }

    /// The store, and the run of this name in it.
    ///
    /// # Errors
    /// A store that cannot be opened, and a name that means no run or several.
    pub(super) fn run(&self, name: &str) -> anyhow::Result<(Store, RunKey)> {
        let (store, mut keys) = self.runs(&[name.to_owned()])?;
        Ok((store, keys.remove(0)))
    }

    /// The store, and the runs of these names in it, one for each.
    ///
    /// # Errors
    /// The errors of [`InStore::run`].
    pub(super) fn runs(&self, names: &[String]) -> anyhow::Result<(Store, Vec<RunKey>)> {
        let folder = self.folder()?;
        let Some(store) = self.existing()? else {
            anyhow::bail!("no runs are kept in {}; `plimsoll train` keeps them", folder.display());
        };
        let keys = names.iter().map(|name| store.find(name)).collect::<Result<Vec<_>, _>>()?;
        Ok((store, keys))
    }
}

/// The arguments of a program with these commands, in which a `--store DIR` that stood before a command stands at the end: it is
/// an option of the commands that read or keep runs, and the others refuse it.
pub(super) fn behind_command(program: &Command, arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = arguments.collect();
    let (mut command, mut at) = (program, 1);
    let (mut stores, mut before_command) = (Vec::new(), 0);
    while let Some(argument) = arguments.get(at) {
        if let Some(length) = store_length(&arguments[at..]) {
            stores.push(at..at + length);
            at += length;
        } else if let Some(named) = command.find_subcommand(argument) {
            (command, at, before_command) = (named, at + 1, stores.len());
        } else {
            break;
        }
    }
    let mut moved: Vec<OsString> = Vec::new();
    for store in stores.into_iter().take(before_command).rev() {
        moved.splice(0..0, arguments.drain(store));
    }
    // Arguments after `--` are not options.
    let end = arguments.iter().position(|argument| argument == "--").unwrap_or(arguments.len());
    arguments.splice(end..end, moved);
    arguments
}

/// The first argument of the program that is not of a `--store DIR`.
pub(super) fn first_but_store(arguments: &[OsString]) -> Option<&OsStr> {
    let mut at = 1;
    while let Some(length) = store_length(arguments.get(at..)?) {
        at += length;
    }
    arguments.get(at).map(OsString::as_os_str)
}

/// How many arguments a `--store DIR` takes that they begin with.
fn store_length(arguments: &[OsString]) -> Option<usize> {
    match arguments {
        [option, _, ..] if option == "--store" => Some(2),
        [option, ..] if option.to_str().is_some_and(|option| option.starts_with("--store=")) => Some(1),
        _ => None,
    }
}

/// Why no checkpoint of a run is where the store keeps them, and what to do, in words. `elsewhere` has the use of a
/// checkpoint that lies elsewhere: `` `plimsoll resume FILE` goes on from ``.
pub(super) fn without_checkpoint(details: &StoredDetails, elsewhere: &str) -> String {
    match details.events.iter().rev().find(|event| event.kind == EventKind::Saved) {
        Some(saved) => format!(
            "it has none in the store; the last one it wrote, after step {}, was {}. {elsewhere} a checkpoint that lies \
             elsewhere",
            saved.step, saved.text
        ),
        None => "it wrote none. `--set run.save_every=N` saves after every N steps, `--set run.save_minutes=N` every N minutes \
                 (10 by default), and `--keep all`, the default, keeps them; `plimsoll show` lists what a run could not write"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_before_a_command_goes_behind_it() {
        let program = Command::new("plimsoll")
            .subcommands([Command::new("train"), Command::new("runs").subcommand(Command::new("prune"))]);
        let behind = |line: &str| {
            let arguments = behind_command(&program, line.split(' ').map(OsString::from));
            arguments.join(OsStr::new(" ")).into_string().expect("text")
        };
        for (line, moved) in [
            ("plimsoll --store x train a --json", "plimsoll train a --json --store x"),
            ("plimsoll --store=x train a -- b", "plimsoll train a --store=x -- b"),
            ("plimsoll --store x runs --store=y prune", "plimsoll runs prune --store x --store=y"),
            // In their place already, or before a preset.
            ("plimsoll runs --store x --json", "plimsoll runs --store x --json"),
            ("plimsoll --store x my-preset.toml", "plimsoll --store x my-preset.toml"),
            ("plimsoll --store train", "plimsoll --store train"),
            ("plimsoll train --store", "plimsoll train --store"),
        ] {
            assert_eq!(behind(line), moved);
        }
        let first = |line: &str| {
            let arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            first_but_store(&arguments).map(OsStr::to_owned)
        };
        assert_eq!(first("plimsoll --store x --store=y trian a"), Some("trian".into()));
        assert_eq!(first("plimsoll --store x"), None);
    }
}
