//! The work of the thread: it takes wishes, reads and changes the store, and replies.
//!
//! Always holds: of several questions about the picked runs in a row, the last alone is answered; every change is counted,
//! also one that the store refused.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use jiff::SignedDuration;
use plimsoll_engine::{
    Error, Experiment,
    hardware::Machine,
    plan::Plan,
    report::{Comparison, Ran, Subject},
    store::{RunKey, RunState, Store, StoredRun},
    train::Checkpoint,
};

use super::{
    Change, Compare, Compared, Read, Reply, Wish,
    points::{light, points},
};
use crate::{
    naming::{self, Names},
    runs,
    session::{MeasuredStep, RunRecord},
    state::Wanted,
    widgets::series::Series,
};

/// How often it looks whether another program has written.
const LOOK: Duration = Duration::from_secs(1);
/// The pause between two readings is at least this many times the length of one: a store of thousands leaves a trainer its
/// cores.
const REST: u32 = 25;

/// Runs that were put away can be brought back for so long.
const AWAY: SignedDuration = SignedDuration::from_hours(24);

/// Carries out wishes one after the other, and looks again and again whether another program has written.
pub(super) struct Desk {
    inbox: Receiver<Wish>,
    replies: Sender<Reply>,
    wake: Box<dyn Fn() + Send>,
    machine: Machine,
    /// The wishes that were taken from the inbox and come next.
    next: Vec<Wish>,
    /// How many changes were made, or refused.
    changes: u64,
    /// The runs that are points, as they were last sent.
    sent: HashMap<RunKey, StoredRun>,
    /// What the runs are called: no name changes because another run is deleted.
    names: Arc<Names>,
}

impl Desk {
    /// A desk that takes wishes from `inbox` and calls `wake` after each of its `replies`.
    pub(super) fn new(inbox: Receiver<Wish>, replies: Sender<Reply>, wake: Box<dyn Fn() + Send>) -> Self {
        Self {
            inbox,
            replies,
            wake,
            machine: Machine::nominal(),
            next: Vec::new(),
            changes: 0,
            sent: HashMap::new(),
            names: Arc::default(),
        }
    }

    /// Works on the store in `folder`, or says why there is none, until the window closes.
    pub(super) fn run(mut self, folder: Result<PathBuf, String>) {
        let opened = folder.and_then(|folder| Store::open(&folder).map_err(|error| error.to_string()));
        let mut store = match opened {
            Ok(store) => store,
            Err(why) => {
                self.reply(Reply::Trouble(why));
                // Until the window closes.
                while let Ok(wish) = self.inbox.recv() {
                    drop(wish);
                }
                return;
            }
        };
        // Runs that were deleted long enough ago are not brought back. Where that fails, the next start tries again.
        let _ = store.empty(AWAY);
        store.tidy();
        let (mut version, mut due) = (None, Instant::now());
        loop {
            if Instant::now() >= due {
                let start = Instant::now();
                self.read(&store, &mut version);
                due = Instant::now() + LOOK.max(start.elapsed() * REST);
            }
            let wait = due.saturating_duration_since(Instant::now());
            match self.next_wish(wait) {
                Ok(wish) => {
                    if self.obey(&mut store, wish) {
                        (version, due) = (None, Instant::now());
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn reply(&self, reply: Reply) {
        // The window may be closing.
        let _ = self.replies.send(reply);
        (self.wake)();
    }

    /// Reads all rows, if someone has written since.
    fn read(&mut self, store: &Store, version: &mut Option<u64>) {
        let (sent, names, changes) = (&mut self.sent, &mut self.names, self.changes);
        let mut read = || -> plimsoll_engine::Result<Option<Read>> {
            let now = store.version()?;
            if version.replace(now) == Some(now) {
                return Ok(None);
            }
            let saved = |run: &StoredRun| {
                let is_over = run.state != RunState::Running;
                is_over.then(|| Checkpoint::at(store.files(&run.key)).ok()).flatten().filter(|path| path.is_file())
            };
            let listed = store.listed()?;
            let points = points(&listed.runs, sent);
            let missing = listed.damage.or_else(|| store.caution());
            let rows = runs::rows(listed.runs, saved, Arc::make_mut(names));
            Ok(Some(Read { rows, names: Arc::clone(names), points, missing, changes }))
        };
        match read() {
            Ok(Some(read)) => self.reply(Reply::Read(Box::new(read))),
            Ok(None) => {}
            Err(error) => self.reply(Reply::Trouble(error.to_string())),
        }
    }

    /// The next wish. Several looks in a row count as the last one.
    fn next_wish(&mut self, wait: Duration) -> Result<Wish, RecvTimeoutError> {
        let mut wish = match self.next.pop() {
            Some(wish) => wish,
            None => self.inbox.recv_timeout(wait)?,
        };
        while matches!(wish, Wish::Look(..)) {
            match self.inbox.try_recv() {
                Ok(newer @ Wish::Look(..)) => wish = newer,
                Ok(other) => {
                    self.next.push(other);
                    break;
                }
                Err(_) => break,
            }
        }
        Ok(wish)
    }

    /// Carries out a wish; returns whether the rows may have changed.
    fn obey(&mut self, store: &mut Store, wish: Wish) -> bool {
        let done = match wish {
            Wish::Machine(machine) => {
                self.machine = *machine;
                return false;
            }
            Wish::Change(change) => {
                self.changes += 1;
                let away = if let Change::Discard(keys) = &change { keys.clone() } else { Vec::new() };
                if let Err(error) = make(store, change) {
                    // The window has put their points away.
                    away.iter().for_each(|key| drop(self.sent.remove(key)));
                    self.reply(Reply::Refused(error.to_string(), away));
                }
                return true;
            }
            Wish::Look(keys, smoothing) => self.look(store, &keys, smoothing),
            Wish::Open(key, wanted, smoothing) => self.open(store, &key, wanted, smoothing),
            Wish::Compare(what, smoothing) => self.compare(store, what, smoothing),
        };
        if let Err(error) = done {
            self.reply(Reply::Refused(error.to_string(), Vec::new()));
        }
        false
    }

    fn look(&self, store: &Store, keys: &[RunKey], smoothing: f32) -> plimsoll_engine::Result<()> {
        let mut records = Vec::with_capacity(keys.len());
        for (i, key) in keys.iter().enumerate() {
            let run = store.get(key)?;
            records.push(if i + 1 == keys.len() { whole(store, &run, smoothing)? } else { light(&run) });
        }
        self.reply(Reply::Looked(records));
        Ok(())
    }

    fn open(&self, store: &Store, key: &RunKey, wanted: Wanted, smoothing: f32) -> plimsoll_engine::Result<()> {
        let run = store.get(key)?;
        let record = match wanted {
            Wanted::Loaded => RunRecord::kept(&run, store.details(key)?.experiment(key)?),
            Wanted::Shown | Wanted::Continued => whole(store, &run, smoothing)?,
        };
        self.reply(Reply::Opened(Box::new(record), wanted));
        Ok(())
    }

    fn compare(&self, store: &Store, what: Vec<Compare>, smoothing: f32) -> plimsoll_engine::Result<()> {
        let (mut subjects, mut runs, mut notes) = (Vec::new(), Vec::new(), Vec::new());
        for one in what {
            let (name, experiment, record, kept) = match one {
                Compare::Run(key, name) => {
                    let (run, details) = (store.get(&key)?, store.details(&key)?);
                    let record = whole(store, &run, smoothing)?;
                    (name, record.experiment().clone(), Some(record), Some((run, details)))
                }
                Compare::Plan(name, experiment) => (name, *experiment, None, None),
            };
            let plan = planned(&experiment, &self.machine);
            if let Err(why) = &plan {
                notes.push(format!("{name} cannot be planned here: {why}"));
            }
            let plan = plan.ok().map(|plan| match &kept {
                Some((_, details)) => details.recalled(plan),
                None => plan,
            });
            let ran = kept.map(|(run, details)| Ran::with(&run, &details.prediction));
            subjects.push(Subject { name, experiment: Arc::new(experiment), plan: plan.map(Arc::new), ran });
            runs.push(record);
        }
        let comparison = Comparison::of(subjects)?;
        let steps = comparison.subjects.iter().map(|subject| subject.plan.as_deref().map(step)).collect();
        self.reply(Reply::Compared(Box::new(Compared { comparison, runs, steps, notes })));
        Ok(())
    }
}

fn make(store: &mut Store, change: Change) -> plimsoll_engine::Result<()> {
    match change {
        Change::Star(keys, is_starred) => keys.iter().try_for_each(|key| store.star(key, is_starred)),
        Change::Name(key, name) => store.rename(&key, &name),
        Change::Note(key, note) => store.annotate(&key, &note),
        Change::Tags(key, tags) => store.tag(&key, &tags),
        Change::Discard(keys) => store.discard(&keys),
        Change::Restore(keys) => store.restore(&keys),
        Change::Delete(keys) => store.delete(&keys),
    }
}

/// Plans; a fault in the planning is a reason like any other.
fn planned(experiment: &Experiment, machine: &Machine) -> Result<Plan, String> {
    // In the words of the screen.
    let told = |error| match error {
        Error::Experiment(problem) => naming::problem(&problem, experiment.model.kind),
        other => other.to_string(),
    };
    let plan = std::panic::AssertUnwindSafe(|| Plan::of(experiment, machine).map_err(told));
    std::panic::catch_unwind(plan).unwrap_or_else(|_| Err("the planning met a fault in the engine".to_owned()))
}

/// A run with its curves.
fn whole(store: &Store, run: &StoredRun, smoothing: f32) -> plimsoll_engine::Result<RunRecord> {
    let details = store.details(&run.key)?;
    let mut record = RunRecord::kept(run, details.experiment(&run.key)?);
    record.measured_step = MeasuredStep::kept(details.measured_step);
    record.replay(&store.series(&run.key)?, smoothing);
    // Of a pruned run, those tests count whose model was pruned.
    record.best_accuracy = run.best_test_accuracy.or(record.best_accuracy);
    Ok(record)
}

/// The memory of a step, as one of the program's series: the highest of each op.
fn step(plan: &Plan) -> (Vec<f64>, Series) {
    let points = &plan.timeline(plan.peak_pass).points;
    let mut series = Series::default();
    points.iter().for_each(|point| series.push(point.live.as_mib() as f32));
    ((0..points.len()).map(|op| op as f64).collect(), series)
}
