//! The choice of the runs that a clearing takes.
//!
//! Holds: a run that is starred or still trains is never taken.

use jiff::{SignedDuration, Timestamp};

use crate::store::{RunState, StoredRun};

/// The runs that a clearing leaves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Prune {
    /// The number of runs with the best test accuracy that stay.
    pub keep_best: usize,
    /// Runs that began less long ago stay.
    pub older_than: Option<SignedDuration>,
}

impl Prune {
    /// The runs among `runs` that are deleted, as of `now`. Among equals, the newer one is the better.
    pub fn choose<'a>(&self, runs: &'a [StoredRun], now: Timestamp) -> Vec<&'a StoredRun> {
        let mut ranked: Vec<&StoredRun> = runs.iter().filter(|run| run.best_test_accuracy.is_some()).collect();
        let accuracy = |run: &StoredRun| run.best_test_accuracy.unwrap_or_default();
        ranked.sort_by(|a, b| accuracy(b).total_cmp(&accuracy(a)).then_with(|| b.key.cmp(&a.key)));
        ranked.truncate(self.keep_best);
        let is_old = |run: &StoredRun| self.older_than.is_none_or(|age| now.duration_since(run.started) >= age);
        let stays = |run: &StoredRun| {
            run.is_starred
                || run.state == RunState::Running
                || !is_old(run)
                || ranked.iter().any(|best| best.key == run.key)
        };
        runs.iter().filter(|run| !stays(run)).collect()
    }
}
