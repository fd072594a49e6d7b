//! Changes of kept runs by `plimsoll runs`; each change is reported in a line.

use clap::Subcommand;
use plimsoll_engine::{
    experiment::shipped,
    store::{self, RunKey, Store},
};

use super::{PruneChoice, delete};
use crate::cli::{Misuse, complete, in_store::InStore, out};

#[derive(Debug, Subcommand)]
pub(super) enum Change {
    /// Give a run a name; an empty one takes its name away
    Rename {
        /// The run
        #[arg(add = complete::runs())]
        run: String,
        /// Its name
        name: String,
        #[command(flatten)]
        store: InStore,
    },
    /// Write a note on a run, in place of the one it has
    Note {
        /// The run
        #[arg(add = complete::runs())]
        run: String,
        /// The note; an empty one takes it away
        note: String,
        #[command(flatten)]
        store: InStore,
    },
    /// Add tags to a run
    Tag {
        /// The run
        #[arg(add = complete::runs())]
        run: String,
        /// The tags
        #[arg(required = true)]
        tags: Vec<String>,
        /// Take these tags away instead
        #[arg(long)]
        remove: bool,
        #[command(flatten)]
        store: InStore,
    },
    /// Star runs, which pruning then leaves
    Star {
        /// The runs
        #[arg(required = true, value_name = "RUN", add = complete::runs())]
        runs: Vec<String>,
        /// Take the star away instead
        #[arg(long)]
        remove: bool,
        #[command(flatten)]
        store: InStore,
    },
    /// Delete runs for good, with their checkpoints
    Delete {
        /// The runs
        #[arg(required = true, value_name = "RUN", add = complete::runs())]
        runs: Vec<String>,
        /// Do not ask
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        store: InStore,
    },
    Prune(PruneChoice),
}

impl Change {
    pub(super) fn run(&self) -> anyhow::Result<()> {
        match self {
            Self::Rename { run, name, store } => {
                let (store, key) = store.run(run)?;
                rename(store, &key, name)
            }
            Self::Note { run, note, store } => {
                let (mut store, key) = store.run(run)?;
                store.annotate(&key, note)?;
                let is_gone = note.trim().is_empty();
                out::line(if is_gone { format!("{key} has no note now.") } else { format!("Noted on {key}.") })
            }
            Self::Tag { run, tags, remove, store } => {
                let (mut store, key) = store.run(run)?;
                let mut all = store.get(&key)?.tags;
                all.retain(|tag| !tags.contains(tag));
                if !remove {
                    all.extend(tags.iter().cloned());
                }
                store.tag(&key, &all)?;
                let all = store.get(&key)?.tags;
                out::line(if all.is_empty() {
                    format!("{key} has no tags now.")
                } else {
                    format!("{key} is tagged {} now.", all.join(", "))
                })
            }
            Self::Star { runs, remove, store } => {
                let (mut store, keys) = store.runs(runs)?;
                keys.iter().try_for_each(|key| store.star(key, !remove))?;
                let keys = keys.iter().map(RunKey::as_str).collect::<Vec<_>>().join(", ");
                out::line(if *remove { format!("Took the star from {keys}.") } else { format!("Starred {keys}.") })
            }
            Self::Delete { runs, yes, store } => {
                let (store, mut keys) = store.runs(runs)?;
                keys.sort();
                keys.dedup();
                let runs = keys.iter().map(|key| store.get(key)).collect::<Result<Vec<_>, _>>()?;
                delete(store, &runs.iter().collect::<Vec<_>>(), &[], *yes, false)
            }
            Self::Prune(choice) => choice.run(),
        }
    }
}

/// Gives a run a name by which it can be meant; reports other meanings of the name.
fn rename(mut store: Store, key: &RunKey, name: &str) -> anyhow::Result<()> {
    Store::check_name(name).map_err(|error| Misuse(error.to_string()))?;
    store.rename(key, name)?;
    let Some(name) = store.get(key)?.name else { return out::line(format!("{key} has no name now.")) };
    out::line(format!("{key} is called {name} now."))?;
    let others = store.others_called(&name, key)?;
    if !others.is_empty() {
        let are =
            if others.len() == 1 { "another run is".to_owned() } else { format!("{} other runs are", others.len()) };
        let warning = format!("{are} called {name} as well: {}; name each by its key", store::listed(&others));
        out::say("warning", &warning);
    }
    if shipped::find(&name).is_some() {
        let warning =
            format!("{name} is a shipped preset, which `compare` and `export` take it for; write {key} there");
        out::say("warning", &warning);
    }
    Ok(())
}
