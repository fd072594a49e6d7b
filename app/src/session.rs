//! The runs of this session: what each was, its curves, its trail and how it ended.
//!
//! Owns every [`RunRecord`]. Always holds: figures called measured come from the events of the trainer. Nothing here is
//! on disk: a session ends with the window.

mod record;

use std::sync::Arc;

use plimsoll_engine::train::Event;

pub(crate) use self::record::{RunRecord, Status};
use crate::naming::{self, Differing};

/// Numbers the runs of this session.
pub(crate) type RunKey = u64;

/// Settings that a run's name lists at most.
const NAMED: usize = 3;

/// Every run of this session, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Session {
    runs: Vec<RunRecord>,
}

impl Session {
    /// Every run, oldest first.
    pub(crate) fn runs(&self) -> &[RunRecord] {
        &self.runs
    }

    /// Every run, to set how it is drawn.
    pub(crate) fn runs_mut(&mut self) -> &mut [RunRecord] {
        &mut self.runs
    }

    /// A run by its number.
    pub(crate) fn get(&self, key: RunKey) -> Option<&RunRecord> {
        self.runs.iter().find(|run| run.key == key)
    }

    /// The newest run.
    pub(crate) fn latest(&self) -> Option<&RunRecord> {
        self.runs.last()
    }

    /// The run that holds the device.
    pub(crate) fn active(&self) -> Option<&RunRecord> {
        self.latest().filter(|run| run.status.is_active())
    }

    /// What a run is called: its number with the name it was given, else with what sets it apart from the other runs.
    pub(crate) fn name(&self, run: &RunRecord) -> String {
        format!("Run {}: {}", run.key, self.short_name(run))
    }

    /// The same without its number.
    pub(crate) fn short_name(&self, run: &RunRecord) -> String {
        if let Some(name) = &run.own_name {
            return name.clone();
        }
        let title = &run.experiment().title;
        let title = if title.is_empty() { "Untitled" } else { title };
        let words: Vec<String> = run.differing.iter().map(Differing::words).collect();
        let words = naming::listed(&words, NAMED);
        let is_only_title = self.runs.iter().all(|other| other.experiment().title == run.experiment().title);
        match (words.is_empty(), is_only_title) {
            (true, _) => title.to_owned(),
            (false, true) => words,
            (false, false) => format!("{title}, {words}"),
        }
    }

    /// Gives a run a name; an empty one takes its name away.
    pub(crate) fn rename(&mut self, key: RunKey, name: &str) {
        let name = name.trim();
        if let Some(run) = self.runs.iter_mut().find(|run| run.key == key) {
            run.own_name = (!name.is_empty()).then(|| name.to_owned());
        }
    }

    /// Adds a run: what sets it apart from those before, and them from it, is noted.
    fn begin(&mut self, mut new: RunRecord) {
        let experiment = new.experiment().clone();
        for old in self.runs.iter_mut().filter(|old| old.experiment().title == experiment.title) {
            naming::merge(&mut new.differing, naming::differing(old.experiment(), &experiment));
            let others = naming::differing(&experiment, old.experiment());
            naming::merge(&mut old.differing, others);
        }
        self.runs.push(new);
    }

    /// Takes one event in.
    pub(crate) fn receive(&mut self, event: &Event) {
        if let Event::Started { run, plan } = event {
            self.begin(RunRecord::new(*run, Arc::clone(plan)));
            return;
        }
        let Some(record) = self.runs.last_mut() else { return };
        match event {
            Event::Step(step) => record.step(*step),
            Event::Evaluating { .. } => record.is_evaluating = true,
            Event::Evaluated { step, at_secs, loss, accuracy } => {
                record.is_evaluating = false;
                record.evaluated(*step, *at_secs, *loss, *accuracy);
            }
            Event::Paused(paused) => record.status = if *paused { Status::Paused } else { Status::Running },
            Event::Ended { outcome, summary, .. } => record.ended(outcome, *summary),
            Event::Machine(_) | Event::Started { .. } | Event::Saved { .. } | Event::Warning(_) => {}
        }
    }
}

/// The runs that no other beats in both memory and accuracy, by rising memory: indices into `points`.
pub(crate) fn frontier(points: &[[f64; 2]]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..points.len()).collect();
    order.sort_by(|a, b| points[*a][0].total_cmp(&points[*b][0]).then(points[*b][1].total_cmp(&points[*a][1])));
    let mut best = [0.0, f64::NEG_INFINITY];
    order.retain(|i| {
        // A run repeated is as good as the first.
        let stands = points[*i][1] > best[1] || points[*i] == best;
        if stands {
            best = points[*i];
        }
        stands
    });
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_frontier_holds_what_nothing_beats() {
        let points = [[10.0, 0.9], [5.0, 0.8], [7.0, 0.7], [5.0, 0.85], [20.0, 0.9], [30.0, 0.99]];
        assert_eq!(frontier(&points), [3, 0, 5]);
        assert_eq!(frontier(&[[5.0, 0.8], [5.0, 0.8]]), [0, 1]);
        assert!(frontier(&[]).is_empty());
    }
}
