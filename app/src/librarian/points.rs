//! Kept runs as points of memory against accuracy: the newest that were tested, without their curves.
//!
//! Always holds: a run is sent once, and again when the store has something else of it.

use std::collections::HashMap;

use plimsoll_engine::{
    Experiment,
    experiment::preset,
    store::{RunKey, StoredRun},
};

use crate::session::RunRecord;

/// Kept runs that are points at most: the newest.
const MOST_POINTS: usize = 200;

/// Kept runs as points.
#[derive(Debug, Default)]
pub(crate) struct Points {
    /// Those that are points, newest first.
    pub(crate) keys: Vec<RunKey>,
    /// Those of them that have changed since they were last sent.
    pub(crate) new: Vec<RunRecord>,
    /// How many have no point because others are newer.
    pub(crate) left_out: usize,
}

/// The points of the newest runs that were tested; a point that was `sent` and has not changed is not sent again.
pub(super) fn points(runs: &[StoredRun], sent: &mut HashMap<RunKey, StoredRun>) -> Points {
    let tested: Vec<&StoredRun> = runs.iter().filter(|run| run.best_test_accuracy.is_some()).collect();
    let left_out = tested.len().saturating_sub(MOST_POINTS);
    let mut points = Points { left_out, ..Points::default() };
    let mut now = HashMap::new();
    for run in tested.into_iter().take(MOST_POINTS) {
        points.keys.push(run.key.clone());
        let known = sent.remove(&run.key).filter(|known| known == run);
        points.new.extend(known.is_none().then(|| light(run)));
        now.insert(run.key.clone(), known.unwrap_or_else(|| run.clone()));
    }
    *sent = now;
    points
}

/// A run without its curves, which is enough for a point.
pub(super) fn light(run: &StoredRun) -> RunRecord {
    let mut experiment = Experiment { title: run.title.clone(), ..Experiment::default() };
    for setting in &run.settings {
        // A setting that this version does not know keeps its default.
        let _ = preset::set(&mut experiment, setting);
    }
    RunRecord::kept(run, experiment)
}
