//! Runs: beginning and recording the runs of this window, and the actions on kept runs.

use std::time::Duration;

use plimsoll_engine::{
    Experiment,
    plan::Pass,
    store::{Origin, Recorder, Recording, RunKey, RunState, Store},
    train::{Command, Event, Start},
};

use super::Dispatcher;
use crate::{
    command::RunsAction,
    format,
    librarian::{Change, Compare, Read, Reply},
    naming,
    panels::pane::Pane,
    runs::{self, Deletion},
    session::{RunRecord, Status},
    state::{Awaited, Level, State, Wanted},
    widgets::control,
};

/// Runs that are drawn as points at most, in addition to those of this window: for a larger selection, the newest ones.
const MOST_LOOKED: usize = 200;
/// How often those are asked that write the last records of a run.
const ENDING: Duration = Duration::from_secs(1);

impl Dispatcher<'_> {
    /// Carries out a request about kept runs.
    pub(super) fn runs(&mut self, action: RunsAction) {
        let librarian = &self.services.librarian;
        match action {
            RunsAction::Pick(keys) => self.pick(keys),
            RunsAction::Open(key) => self.want(key, Wanted::Shown),
            RunsAction::Load(key) => self.want(key, Wanted::Loaded),
            RunsAction::Continue(key) => self.want(key, Wanted::Continued),
            RunsAction::Export(key) => self.take_model(key),
            RunsAction::Star(keys, is_starred) => librarian.change(Change::Star(keys, is_starred)),
            RunsAction::Name(key, name) => self.name_run(self.state.session.number(&key), Some(key), name),
            RunsAction::Note(key, note) => librarian.change(Change::Note(key, note)),
            RunsAction::Tags(key, tags) => librarian.change(Change::Tags(key, tags)),
            RunsAction::Delete(keys) => self.delete(keys),
            RunsAction::Restore => self.restore_runs(),
            RunsAction::Compare(keys) => self.compare(self.kept(&keys), false),
            RunsAction::CompareWithPresent(key) => self.compare(self.kept(&[key]), true),
            RunsAction::ComparePin => {
                let pin = self.state.pin.as_ref().map(|pin| Experiment::clone(&pin.experiment));
                if let Some(pin) = pin {
                    self.compare(vec![Compare::Plan("The pinned settings".to_owned(), Box::new(pin))], true);
                }
            }
        }
    }

    /// Kept runs, each called as it is everywhere.
    fn kept(&self, keys: &[RunKey]) -> Vec<Compare> {
        let rows = keys.iter().filter_map(|key| self.state.runs.get(key));
        rows.map(|row| Compare::Run(row.run.key.clone(), row.name())).collect()
    }

    fn want(&mut self, key: RunKey, wanted: Wanted) {
        self.state.wanted = Some((key.clone(), wanted));
        self.services.librarian.open(key, wanted, self.view.smoothing);
    }

    /// Gives a run a name, wherever it is: in this window under its number, and where it is kept.
    pub(super) fn name_run(&mut self, number: Option<crate::state::RunKey>, kept: Option<RunKey>, name: String) {
        if let Err(error) = Store::check_name(&name) {
            let text = error.to_string();
            self.toasts.error(text.as_str());
            return self.state.log.add(Level::Error, text);
        }
        if let Some(number) = number {
            self.state.session.rename(number, &name);
        }
        if let Some(kept) = kept {
            self.services.librarian.change(Change::Name(kept, name));
        }
    }

    fn pick(&mut self, keys: Vec<RunKey>) {
        let session = &self.state.session;
        let own = keys.last().and_then(|key| session.own(key)).map(|run| run.key);
        // The runs of this window are there already.
        let looked = keys.iter().filter(|key| session.own(key).is_none()).cloned().collect();
        let (looked, left_out) = newest(looked, MOST_LOOKED, |key| self.state.runs.get(key).map(|row| row.run.started));
        self.state.runs.pick(keys);
        self.state.runs.left_out = left_out;
        if self.state.runs.picked().is_empty() {
            // A search may have hidden the picked run, which is still the one that the panes show.
            return;
        }
        if own.is_some() {
            self.state.shows(own);
        }
        if looked.is_empty() {
            self.state.session.look(Vec::new());
        } else {
            self.services.librarian.look(looked, self.view.smoothing);
        }
    }

    /// Shows the curves of a run, and picks it in the table of runs. Curves that are not in memory are read first.
    pub(super) fn show_run(&mut self, key: crate::state::RunKey) {
        self.state.shows(Some(key));
        let Some(run) = self.state.session.get(key) else { return };
        let is_unread = run.when.is_some() && run.last.is_none();
        let Some(kept) = run.kept.clone() else { return };
        // A run among several picked ones becomes the last; any other is picked in their place.
        let mut picked = self.state.runs.picked().to_vec();
        picked.retain(|picked| *picked != kept);
        if picked.len() == self.state.runs.picked().len() {
            picked.clear();
        }
        picked.push(kept);
        if is_unread { self.pick(picked) } else { self.state.runs.pick(picked) }
    }

    fn delete(&mut self, keys: Vec<RunKey>) {
        // A run that trains stays, here or in another program.
        let is_own = |key: &RunKey| self.state.session.active().is_some_and(|run| run.kept.as_ref() == Some(key));
        let trains = |key: &RunKey| {
            is_own(key) || self.state.runs.get(key).is_some_and(|row| row.run.state == RunState::Running)
        };
        let (stay, keys): (Vec<RunKey>, Vec<RunKey>) = keys.into_iter().partition(trains);
        if !stay.is_empty() {
            self.toasts.warning("A run that trains cannot be deleted: stop it first.");
        }
        if keys.is_empty() {
            return;
        }
        let name = self.state.runs.get(&keys[0]).map(runs::Row::name).unwrap_or_default();
        self.state.runs.put_away.extend(keys.iter().cloned());
        self.state.runs.hide(&keys);
        self.state.session.put_away(&keys);
        let at = self.state.document.depth();
        self.state.runs.deletions.push(Deletion { keys: keys.clone(), name, at });
        self.state.runs.had_deletions = true;
        self.services.librarian.change(Change::Discard(keys));
    }

    /// Shows runs again that could not be deleted.
    fn stay(&mut self, keys: &[RunKey]) {
        let runs = &mut self.state.runs;
        runs.deletions.iter_mut().for_each(|deletion| deletion.keys.retain(|key| !keys.contains(key)));
        runs.deletions.retain(|deletion| !deletion.keys.is_empty());
        runs.put_away.retain(|key| !keys.contains(key));
        self.state.session.bring_back(keys);
    }

    /// Brings back the runs that were deleted last, and says so.
    pub(super) fn restore_runs(&mut self) {
        let Some(Deletion { keys, .. }) = self.state.runs.deletions.pop() else { return };
        let count = keys.len();
        self.state.runs.put_away.retain(|key| !keys.contains(key));
        self.state.session.bring_back(&keys);
        self.state.runs.coming_back.clone_from(&keys);
        self.services.librarian.change(Change::Restore(keys));
        self.toasts.info(format!(
            "{} {} back.",
            format::counted(count as u64, "deleted run"),
            format::are(count as u64)
        ));
    }

    /// Goes on with a run from its last checkpoint.
    fn continue_run(&mut self, key: &RunKey, record: RunRecord) {
        if self.state.session.active().is_some() || self.state.is_starting {
            return;
        }
        let Some(checkpoint) = self.state.runs.get(key).and_then(|row| row.checkpoint().cloned()) else { return };
        let start = Start::new(record.experiment().clone());
        // One that came to its end is not offered.
        let start = Start { resume: Some(checkpoint), is_same_run: true, lacks_end: true, ..start };
        self.start(start, Some((key.clone(), record)));
    }

    /// Begins a run of the present experiment, once its plan is there; or says why none can.
    pub(super) fn train(&mut self, anyway: bool, paused: bool) {
        if self.state.session.active().is_some() || self.state.is_starting {
            return;
        }
        if self.was_just_refused() {
            return;
        }
        if let Some(reason) = self.state.why_no_training()
            && !(anyway && self.state.may_train_anyway())
        {
            self.toasts.refused(reason);
            return;
        }
        if self.state.is_planning() {
            let generation = self.state.document.generation;
            self.state.prediction.awaited = Some(Awaited { generation, anyway, paused });
            return;
        }
        let experiment = self.state.document.experiment.clone();
        let start = Start { anyway, paused, ..Start::new(experiment) };
        match self.state.plan().and_then(|plan| plan.resolved.to_train_first()).cloned() {
            Some(first) => self.teach(Start::new(Experiment::clone(&first)), start),
            None => self.train_now(start),
        }
    }

    /// Begins the run that waited for its plan, or says why it cannot.
    pub(super) fn begin_awaited(&mut self) {
        if let Some(awaited) = self.state.prediction.awaited.filter(|_| !self.state.is_planning()) {
            self.state.prediction.awaited = None;
            if awaited.generation == self.state.document.generation {
                self.train(awaited.anyway, awaited.paused);
            }
        }
    }

    pub(super) fn pause(&mut self) {
        match self.state.session.active().map(|run| &run.status) {
            Some(Status::Paused) => self.services.trainer.send(Command::Resume),
            Some(_) => self.services.trainer.send(Command::Pause),
            None => {}
        }
    }

    pub(super) fn to_active(&self, command: Command) {
        if self.state.session.active().is_some() {
            self.services.trainer.send(command);
        }
    }

    /// Begins and records a run. One that goes on has the facts that are known of it.
    pub(super) fn start(&mut self, start: Start, continued: Option<(RunKey, RunRecord)>) {
        let (continued, earlier) = continued.unzip();
        self.state.session.expect(earlier);
        self.state.notice = None;
        self.state.is_starting = true;
        // The run has the settings as they are.
        control::forget_refused(self.ctx);
        self.toasts.refused_is_over();
        self.services.planner.trains(!start.paused);
        let mut start = start;
        if let Some(folder) = self.services.store.clone() {
            let recording = Recording { folder, origin: Origin::Window, is_forced: start.anyway, continued };
            let recorder = Recorder::new(recording);
            start.keep = recorder.keep();
            self.recorders.begin(recorder);
        }
        self.services.trainer.send(Command::Start(Box::new(start)));
    }

    /// Records an event of the trainer.
    pub(super) fn record(&mut self, event: &Event) {
        self.recorders.take(event, &self.services.trainer);
        if let (Event::Started { run, .. }, Some(key)) = (event, self.recorders.key()) {
            self.state.session.is_kept_as(*run, key);
        }
    }

    /// Says what is wrong with the records of runs. The last of it comes after the last event of a run.
    pub(super) fn tell_of_records(&mut self) {
        for text in self.recorders.warnings() {
            self.toasts.warning(text.as_str());
            self.state.log.add(Level::Warning, text);
        }
        if self.recorders.are_ending() {
            self.ctx.request_repaint_after(ENDING);
        }
    }

    /// Takes in a reply of the librarian.
    pub(super) fn reply(&mut self, reply: Reply) {
        match reply {
            Reply::Read(read) => self.read(*read),
            Reply::Trouble(why) => {
                // It is looked again and again.
                if self.state.runs.trouble.as_ref() != Some(&why) {
                    let words = format!("Runs are not kept: {why}");
                    self.toasts.warning(words.as_str());
                    self.state.log.add(Level::Warning, words);
                }
                self.state.runs.trouble = Some(why);
            }
            Reply::Refused(why, undeleted) => {
                self.stay(&undeleted);
                let told = naming::in_words(&why, |key| self.state.runs.called(key));
                self.toasts.warning(&*told);
                self.state.log.add(Level::Warning, why);
                // What was refused may be the comparison.
                self.state.comparing.take_if(|comparing| comparing.is_asked);
            }
            Reply::Looked(records) => {
                let shown = self.look(records);
                let is_own = self.state.runs.picked().last().is_some_and(|key| self.state.session.own(key).is_some());
                if !is_own {
                    self.state.shows(shown.or(self.state.shown));
                }
            }
            Reply::Opened(record, wanted) => self.opened(*record, wanted),
            Reply::Compared(compared) => self.has_compared(*compared),
        }
    }

    /// Takes in the content of the store.
    fn read(&mut self, read: Read) {
        let Read { rows, names, points, missing, changes } = read;
        if let Some(missing) = missing.as_ref().filter(|text| self.state.runs.missing.as_ref() != Some(text)) {
            if !self.layout.is_in_front(Pane::Runs) {
                self.toasts.warning(missing.as_str());
            }
            self.state.log.add(Level::Warning, missing.clone());
        }
        let State { runs, session, .. } = &mut *self.state;
        runs.read(rows);
        runs.names = names;
        (runs.missing, runs.without_point) = (missing, points.left_out);
        session.has_points(points);
        session.count_with(runs);
        // An earlier reading does not take back a name that was given here a moment ago.
        if self.services.librarian.has_made(changes) {
            session.follow(runs);
        }
        let returned = std::mem::take(&mut self.state.runs.returned);
        if !returned.is_empty() {
            self.pick(returned);
        }
    }

    /// Looks at runs of other sessions; answers the number of the last.
    fn look(&mut self, mut records: Vec<RunRecord>) -> Option<crate::state::RunKey> {
        for record in &mut records {
            let row = record.kept.as_ref().and_then(|key| self.state.runs.get(key));
            record.told = row.map(|row| row.told().to_owned());
            record.when = row.map(|row| row.when.clone()).or(record.when.take());
        }
        self.state.session.look(records)
    }

    fn opened(&mut self, record: RunRecord, wanted: Wanted) {
        let Some(key) = record.kept.clone() else { return };
        // A reading that a newer wish replaced is dropped.
        if self.state.wanted.take_if(|known| *known == (key.clone(), wanted)).is_none() {
            return;
        }
        match wanted {
            // An edit like any other: undo takes it back.
            Wanted::Loaded => self.adopt_kept(record.experiment().clone()),
            Wanted::Continued => self.continue_run(&key, record),
            Wanted::Shown => self.show(&key, record),
        }
    }

    /// Opens a run as it was: its settings, its curves in Live, and its step with the measured memory over the predicted.
    fn show(&mut self, key: &RunKey, record: RunRecord) {
        self.open_kept(record.experiment().clone());
        let measured_in_step = record.measured_step.as_ref().map(|measured| measured.step);
        let own = self.state.session.own(key).map(|run| run.key);
        let shown = own.or_else(|| self.look(vec![record]));
        self.state.runs.pick(vec![key.clone()]);
        self.state.shows(shown.or(self.state.shown));
        self.view.show_before = false;
        self.view.pass = measured_in_step.map(|step| if step == 1 { Pass::First } else { Pass::Steady });
        self.layout.set_shown(Pane::Step, true);
        self.layout.set_shown(Pane::Live, true);
    }
}

/// As many as `most`, and how many are left out: the last one, which is looked at, and the newest of the others.
fn newest<T, W: Ord>(mut runs: Vec<T>, most: usize, when: impl Fn(&T) -> W) -> (Vec<T>, usize) {
    let left_out = runs.len().saturating_sub(most);
    if left_out > 0 {
        let last = runs.pop();
        runs.sort_by_key(when);
        runs.drain(..left_out);
        runs.extend(last);
    }
    (runs, left_out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_more_runs_than_are_drawn_the_newest_are_and_the_last_stays_last() {
        assert_eq!(newest(vec![9, 1, 5, 7, 2], 3, |when| *when), (vec![7, 9, 2], 2));
        assert_eq!(newest(vec![9, 1, 5], 3, |when| *when), (vec![9, 1, 5], 0));
    }
}
