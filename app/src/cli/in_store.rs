//! The store that a command reads or writes, and the runs named in it.

use std::path::PathBuf;

use clap::Args;
use plimsoll_engine::store::{self, EventKind, RunKey, Store, StoredDetails, StoredRun};

use crate::cli::out;

/// Where kept runs are.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct InStore {
    /// The folder of kept runs, in place of the user's own and of PLIMSOLL_STORE
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

    /// The store; `None` where nothing was ever kept. What of it cannot be read is said.
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

    /// The store, where there is one that can be read; nothing is said.
    pub(super) fn existing_quietly(&self) -> Option<Store> {
        Store::open_existing(&self.folder().ok()?).ok()?
    }

    /// The runs of a store, newest first. What of a damaged one cannot be read is said.
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

/// Why no checkpoint of a run is where the store keeps them, and what to do, in words. `elsewhere` says what a checkpoint that
/// lies elsewhere is good for: `` `plimsoll resume FILE` goes on from ``.
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
