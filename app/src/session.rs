//! The runs of this session, and those of other sessions that are looked at: each with its settings, its curves and its end.
//!
//! Owns every [`RunRecord`]. Always holds: figures called measured come from the events of the trainer, now or when the run was
//! kept. Nothing here is on disk: the recorder keeps the runs of this session, the librarian reads the others.

mod record;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use plimsoll_engine::{
    store::RunKey as Kept,
    train::{Event, Latest},
};

pub(crate) use self::record::{
    HELD_BACK, MeasuredStep, RunRecord, Status, USUAL_OF, Ways, is_one_task, numbered, tested_on,
};
use crate::{
    librarian::Points,
    naming::{Differing, Names},
    runs::{self, Runs},
};

/// Numbers the runs of this session.
pub(crate) type RunKey = u64;

/// Kept runs of other sessions are numbered from here on.
const OTHERS: RunKey = 1 << 32;

/// Every run of this session, oldest first, the runs of other sessions that are looked at, and the points of the others.
#[derive(Debug, Default)]
pub(crate) struct Session {
    runs: Vec<RunRecord>,
    looked: Vec<RunRecord>,
    /// Kept runs, without their curves, that are neither of this session nor looked at.
    points: Vec<RunRecord>,
    /// The others of them, which take their places again.
    covered: Vec<RunRecord>,
    /// Runs of this session that were deleted, and can be brought back.
    put_away: Vec<RunRecord>,
    /// The run that the next one goes on with.
    earlier: Option<RunRecord>,
    /// The keys that runs of other sessions were given.
    numbers: HashMap<Kept, RunKey>,
    /// The highest number that any run is known to have had.
    highest: u64,
    /// What the runs are called by their settings, as far as they are known.
    names: Arc<Names>,
}

impl Session {
    /// Every run, oldest first.
    pub(crate) fn runs(&self) -> &[RunRecord] {
        &self.runs
    }

    /// Every run of this session, and the runs of other sessions that are looked at.
    pub(crate) fn all(&self) -> impl DoubleEndedIterator<Item = &RunRecord> {
        self.looked.iter().chain(&self.runs)
    }

    /// These, and the kept runs that have a point but no curves in memory.
    pub(crate) fn every(&self) -> impl Iterator<Item = &RunRecord> {
        self.points.iter().chain(self.all())
    }

    fn every_mut(&mut self) -> impl Iterator<Item = &mut RunRecord> {
        self.points.iter_mut().chain(&mut self.covered).chain(&mut self.looked).chain(&mut self.runs)
    }

    /// The runs that have curves, to set how they are drawn.
    pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = &mut RunRecord> {
        self.looked.iter_mut().chain(&mut self.runs)
    }

    /// A run by its number.
    pub(crate) fn get(&self, key: RunKey) -> Option<&RunRecord> {
        self.every().find(|run| run.key == key)
    }

    /// The run of this session that is kept under this name.
    pub(crate) fn own(&self, kept: &Kept) -> Option<&RunRecord> {
        self.runs.iter().find(|run| run.kept.as_ref() == Some(kept))
    }

    /// The number of the run that is kept under this name.
    pub(crate) fn number(&self, kept: &Kept) -> Option<RunKey> {
        self.every().find(|run| run.kept.as_ref() == Some(kept)).map(|run| run.key)
    }

    /// Notes under which name a run of this session is kept.
    pub(crate) fn is_kept_as(&mut self, key: RunKey, kept: Kept) {
        if let Some(run) = self.runs.iter_mut().find(|run| run.key == key) {
            run.kept = Some(kept);
        }
        self.part();
    }

    /// Looks at these runs of other sessions, in place of the ones before; returns the number of the last.
    pub(crate) fn look(&mut self, records: Vec<RunRecord>) -> Option<RunKey> {
        self.looked = records;
        self.looked.iter_mut().for_each(|run| give_key(&mut self.numbers, run));
        self.part();
        self.looked.last().map(|run| run.key)
    }

    /// Takes in the points of kept runs as they are now.
    pub(crate) fn has_points(&mut self, points: Points) {
        let Points { keys, mut new, .. } = points;
        new.iter_mut().for_each(|run| give_key(&mut self.numbers, run));
        let newer: HashSet<RunKey> = new.iter().map(|run| run.key).collect();
        let kept: HashSet<Kept> = keys.into_iter().collect();
        let is_there = |run: &RunRecord| run.kept.as_ref().is_some_and(|key| kept.contains(key));
        for known in [&mut self.points, &mut self.covered] {
            known.retain(|run| is_there(run) && !newer.contains(&run.key));
        }
        self.points.extend(new);
        self.part();
    }

    /// Parts the points of kept runs: a run that is of this session, or looked at, stands among the others once.
    fn part(&mut self) {
        let elsewhere: HashSet<&Kept> =
            self.runs.iter().chain(&self.looked).filter_map(|run| run.kept.as_ref()).collect();
        let mut all = std::mem::take(&mut self.points);
        all.append(&mut self.covered);
        all.sort_by_key(|run| run.shown_as);
        let is_elsewhere = |run: &RunRecord| run.kept.as_ref().is_some_and(|key| elsewhere.contains(key));
        (self.covered, self.points) = all.into_iter().partition(is_elsewhere);
    }

    /// Takes runs that were deleted out of the window, of this session and of others.
    pub(crate) fn put_away(&mut self, deleted: &[Kept]) {
        let is_deleted = |run: &RunRecord| run.kept.as_ref().is_some_and(|kept| deleted.contains(kept));
        self.put_away.extend(self.runs.extract_if(.., |run| is_deleted(run)));
        self.looked.clear();
        self.points.retain(|run| !is_deleted(run));
        self.covered.retain(|run| !is_deleted(run));
        self.part();
    }

    /// Puts runs of this session back at their places.
    pub(crate) fn bring_back(&mut self, restored: &[Kept]) {
        let is_restored = |run: &mut RunRecord| run.kept.as_ref().is_some_and(|kept| restored.contains(kept));
        self.runs.extend(self.put_away.extract_if(.., is_restored));
        self.runs.sort_by_key(|run| run.key);
        self.part();
    }

    /// The newest run.
    pub(crate) fn latest(&self) -> Option<&RunRecord> {
        self.runs.last()
    }

    /// The run that holds the device.
    pub(crate) fn active(&self) -> Option<&RunRecord> {
        self.latest().filter(|run| run.status.is_active())
    }

    /// Gives a run a name, as the store keeps it: in one line; an empty one takes its name away.
    pub(crate) fn rename(&mut self, key: RunKey, name: &str) {
        let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
        for run in self.every_mut().filter(|run| run.key == key) {
            run.own_name = Some(name.clone()).filter(|name| !name.is_empty());
        }
    }

    /// Takes over the numbers of kept runs, and what they are called: the next run has the next number, and a name of its own.
    pub(crate) fn count_with(&mut self, kept: &Runs) {
        let highest = kept.rows().iter().map(|row| row.run.number).max().unwrap_or_default();
        self.highest = self.highest.max(highest);
        self.names = Arc::clone(&kept.names);
        // A run that was not in the store yet when its runs were listed has a name all the same.
        for run in &self.runs {
            if run.kept.as_ref().is_none_or(|key| kept.get(key).is_none()) {
                tell(&mut self.names, run);
            }
        }
        for run in self.every_mut() {
            let Some(row) = run.kept.as_ref().and_then(|key| kept.get(key)) else { continue };
            run.shown_as = row.run.number;
        }
    }

    /// Takes over the names of kept runs, which another program may have given.
    pub(crate) fn follow(&mut self, kept: &Runs) {
        for run in self.every_mut() {
            let Some(row) = run.kept.as_ref().and_then(|key| kept.get(key)) else { continue };
            run.own_name.clone_from(&row.run.name);
            run.told = Some(row.told().to_owned());
            if run.when.is_some() {
                run.when = Some(row.when.clone());
            }
        }
    }

    /// The next run goes on with `earlier`, or with none.
    pub(crate) fn expect(&mut self, earlier: Option<RunRecord>) {
        self.earlier = earlier;
    }

    /// Takes in the memory measured op by op in a step of a run.
    pub(crate) fn has_measured(&mut self, latest: &Latest) {
        let run = self.runs.iter_mut().rev().find(|run| run.key == latest.run);
        if let Some((run, measured)) = run.zip(MeasuredStep::told(latest)) {
            run.measured_step = Some(measured);
            run.fed = Some((latest.waiting, latest.feeding));
        }
    }

    /// Adds a run, and notes the settings that distinguish it from those before.
    fn begin(&mut self, mut new: RunRecord) {
        if let Some(mut earlier) = self.earlier.take() {
            // It is the same run: it stands once among the others, under the number that it had.
            if let Some(own) = earlier.kept.as_ref().and_then(|kept| self.own(kept)) {
                earlier.is_called_as(own);
            }
            let is_other = |run: &RunRecord| run.kept.is_none() || run.kept != earlier.kept;
            self.runs.retain(is_other);
            self.looked.retain(is_other);
            new.goes_on_with(earlier);
        } else {
            // Neither a refusal nor a run that went on has used a number up.
            self.highest += 1;
            new.shown_as = self.highest;
        }
        let told = tell(&mut self.names, &new);
        new.differing = told.into_iter().map(|differing| differing.with_runs(|key| self.called(key))).collect();
        self.runs.push(new);
        self.part();
    }

    /// The name of the run that is kept under this key for the words about another one.
    fn called(&self, key: &str) -> Option<String> {
        let run = self.every().find(|run| run.kept.as_ref().is_some_and(|kept| kept.as_str() == key))?;
        Some(run.own_name.clone().unwrap_or_else(|| run.label()))
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
            Event::Teaching { done, of } => record.asked = Some((*done, *of)).filter(|_| done < of),
            Event::Evaluating { .. } => record.is_evaluating = true,
            Event::Evaluated { step, at_secs, loss, accuracy, .. } => {
                record.is_evaluating = false;
                record.evaluated(*step, *at_secs, *loss, *accuracy);
            }
            Event::Saved { .. } => record.has_checkpoint = true,
            Event::Paused(paused) => record.status = if *paused { Status::Paused } else { Status::Running },
            // A start that was refused has no run.
            Event::Ended { run, outcome, summary } if record.key == *run => record.ended(outcome, **summary),
            Event::Machine(_)
            | Event::Started { .. }
            | Event::Ways { .. }
            | Event::Thinned { .. }
            | Event::Compressed(_)
            | Event::Warning(_)
            | Event::Ended { .. } => {}
        }
    }
}

/// The settings that tell a run from those before it. A kept run goes by the key that the store will have it under, another by its
/// label.
fn tell(names: &mut Arc<Names>, run: &RunRecord) -> Vec<Differing> {
    let experiment = run.experiment();
    let key = run.kept.as_ref().map_or_else(|| run.label(), ToString::to_string);
    Arc::make_mut(names).of(&key, &experiment.title, &runs::settings(experiment))
}

/// Gives a run of another session its key: the one that it had before, or the next.
fn give_key(numbers: &mut HashMap<Kept, RunKey>, run: &mut RunRecord) {
    let Some(kept) = run.kept.clone() else { return };
    let next = OTHERS + numbers.len() as RunKey;
    run.key = *numbers.entry(kept).or_insert(next);
}

/// The runs that no other beats in both memory and accuracy, of those that count, by rising memory: indices into `points`.
pub(crate) fn frontier(points: &[[f64; 2]], counts: impl Fn(usize) -> bool) -> Vec<usize> {
    let mut order: Vec<usize> = (0..points.len()).filter(|i| counts(*i)).collect();
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
pub(crate) mod tests {
    use plimsoll_engine::{Bytes, Experiment, hardware::Machine, plan::Plan, train::StepRecord};

    use super::*;

    #[test]
    fn a_run_that_the_store_does_not_list_yet_keeps_its_place_among_names() {
        let mut session = Session::default();
        for (run, width) in [(1, 32), (2, 48)] {
            let mut experiment = Experiment { title: "Mine".to_owned(), ..Experiment::default() };
            experiment.model.width = width;
            let plan = Plan::of(&experiment, &Machine::nominal()).expect("a plan");
            session.receive(&Event::Started { run, plan: Arc::new(plan) });
            // The store was read before the run was written to it.
            session.count_with(&Runs::default());
        }
        let names: Vec<String> = session.runs().iter().map(RunRecord::short_name).collect();
        assert_eq!(names, ["Mine", "width 48"]);
    }

    /// A step as the trainer tells it.
    pub(crate) fn step() -> StepRecord {
        StepRecord {
            step: 1,
            loss: 1.0,
            accuracy: 0.5,
            learning_rate: 0.1,
            gradient_norm: 1.0,
            loss_scale: 1.0,
            skipped: false,
            at_secs: 1.0,
            secs: 1.0,
            live: Bytes(1),
            reserved: Bytes(1),
            process: Bytes(1),
        }
    }

    #[test]
    fn the_usual_time_of_a_step_is_that_of_the_last_ones_without_the_long_ones() {
        let mut session = Session::default();
        let plan = Plan::of(&Experiment::default(), &Machine::nominal()).expect("a plan");
        session.receive(&Event::Started { run: 1, plan: Arc::new(plan) });
        let mut usual = |secs: f64| {
            session.receive(&Event::Step(StepRecord { secs, ..step() }));
            session.latest().and_then(RunRecord::usual_step_secs).expect("a step is there")
        };
        assert_eq!([9.0, 0.5, 0.5, 7.0, 0.5].map(&mut usual)[2..], [0.5, 7.0, 0.5]);
        for _ in 0..USUAL_OF / 2 {
            usual(0.25);
        }
        assert_eq!(usual(0.25), 0.25, "most of the last ones");
        for _ in 0..USUAL_OF {
            usual(3.0);
        }
        assert_eq!(usual(0.25), 3.0, "older ones do not count");
    }

    #[test]
    fn the_frontier_holds_what_nothing_beats() {
        let points = [[10.0, 0.9], [5.0, 0.8], [7.0, 0.7], [5.0, 0.85], [20.0, 0.9], [30.0, 0.99]];
        assert_eq!(frontier(&points, |_| true), [3, 0, 5]);
        assert_eq!(frontier(&points, |i| i != 3), [1, 0, 5]);
        assert_eq!(frontier(&[[5.0, 0.8], [5.0, 0.8]], |_| true), [0, 1]);
        assert!(frontier(&[], |_| true).is_empty());
    }
}
