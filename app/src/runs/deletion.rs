//! Deletions of kept runs that can be undone.

use plimsoll_engine::store::RunKey;

/// A deletion of runs.
#[derive(Debug)]
pub(crate) struct Deletion {
    /// The runs.
    pub(crate) keys: Vec<RunKey>,
    /// The name of the first of them.
    pub(crate) name: String,
    /// How many steps of the experiment could be undone then.
    pub(crate) at: (usize, usize),
}
