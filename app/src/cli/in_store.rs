//! The store that a command reads or writes.

use std::path::PathBuf;

use clap::Args;
use plimsoll_engine::store::{self, Store};

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

    /// The store; `None` where nothing was ever kept.
    ///
    /// # Errors
    /// A store that cannot be opened.
    pub(super) fn existing(&self) -> anyhow::Result<Option<Store>> {
        Ok(Store::open_existing(&self.folder()?)?)
    }
}
