//! The thread that reads and changes the store of runs for the window.
//!
//! Owns the store and the one order of what is done with it. Always holds: the window waits for nothing here; a question
//! that a newer one took the place of is not answered; what another program writes is read soon after. A store that cannot
//! be opened or written is said in words, and the window goes on without.

mod points;

use std::{
    cell::Cell,
    collections::HashMap,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use jiff::SignedDuration;
use plimsoll_engine::{
    Experiment,
    hardware::Machine,
    plan::Plan,
    report::{Comparison, Ran, Subject},
    store::{RunKey, RunState, Store, StoredRun},
    train::Checkpoint,
};

pub(crate) use self::points::Points;
use self::points::{light, points};
use crate::{
    runs::{self, Row},
    session::RunRecord,
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

/// A change of the store.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    /// A star, or none.
    Star(Vec<RunKey>, bool),
    /// A name; an empty one takes it away.
    Name(RunKey, String),
    /// What was noted.
    Note(RunKey, String),
    /// Tags.
    Tags(RunKey, Vec<String>),
    /// Puts runs away.
    Discard(Vec<RunKey>),
    /// Brings them back.
    Restore(Vec<RunKey>),
    /// Deletes them for good.
    Delete(Vec<RunKey>),
}

/// What is compared.
#[derive(Debug, Clone)]
pub(crate) enum Compare {
    /// A kept run, with what it is called.
    Run(RunKey, String),
    /// A plan, with what it is called.
    Plan(String, Box<Experiment>),
}

#[derive(Debug)]
enum Wish {
    Change(Change),
    /// The runs that are picked, the one that is looked at last, and how strongly curves are smoothed.
    Look(Vec<RunKey>, f32),
    /// One run: as it was, or its settings alone.
    Open(RunKey, Wanted, f32),
    /// Several side by side.
    Compare(Vec<Compare>, f32),
    /// What a plan is made for.
    Machine(Box<Machine>),
}

/// Runs or plans side by side.
#[derive(Debug)]
pub(crate) struct Compared {
    /// What differs.
    pub(crate) comparison: Comparison,
    /// The curves of each; `None` of a plan.
    pub(crate) runs: Vec<Option<RunRecord>>,
    /// Predicted live memory in MiB, op by op, of the step with the peak; `None` of what cannot be planned.
    pub(crate) steps: Vec<Option<(Vec<f64>, Series)>>,
    /// Why one could not be planned, in words.
    pub(crate) notes: Vec<String>,
}

/// What the store holds.
#[derive(Debug)]
pub(crate) struct Read {
    /// Every run.
    pub(crate) rows: Vec<Row>,
    /// The points of those that were tested.
    pub(crate) points: Points,
    /// What of the store cannot be read.
    pub(crate) missing: Option<String>,
    /// How many changes were made before it was read.
    pub(crate) changes: u64,
}

/// What the thread sends back.
#[derive(Debug)]
pub(crate) enum Reply {
    /// What the store holds.
    Read(Box<Read>),
    /// The store cannot be read.
    Trouble(String),
    /// Something was not done, and why.
    Refused(String),
    /// The runs that are picked; the last has its curves.
    Looked(Vec<RunRecord>),
    /// A run, and what it was asked for.
    Opened(Box<RunRecord>, Wanted),
    /// A comparison.
    Compared(Box<Compared>),
}

/// The thread's handle. Dropping it ends the thread once what was asked for is done.
#[derive(Debug)]
pub(crate) struct Librarian {
    wishes: Option<Sender<Wish>>,
    /// How many changes were asked for.
    changes: Cell<u64>,
    replies: Receiver<Reply>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Librarian {
    /// Starts the thread on the store in `folder`, or on none, for a reason. `wake` is called after every reply.
    pub(crate) fn new(folder: Result<PathBuf, String>, wake: impl Fn() + Send + 'static) -> std::io::Result<Self> {
        let (wishes, inbox) = crossbeam_channel::unbounded();
        let (replies, answers) = crossbeam_channel::unbounded();
        let wake = Box::new(wake);
        let desk = Desk {
            inbox,
            replies,
            wake,
            machine: Machine::nominal(),
            next: Vec::new(),
            changes: 0,
            sent: HashMap::new(),
        };
        let thread = std::thread::Builder::new().name("librarian".to_owned()).spawn(move || desk.run(folder))?;
        Ok(Self { wishes: Some(wishes), changes: Cell::new(0), replies: answers, thread: Some(thread) })
    }

    /// Changes the store.
    pub(crate) fn change(&self, change: Change) {
        self.changes.update(|changes| changes + 1);
        self.wish(Wish::Change(change));
    }

    /// Whether all changes that were asked for are among the first `changes`.
    pub(crate) fn has_made(&self, changes: u64) -> bool {
        changes == self.changes.get()
    }

    /// Asks for the runs that are picked.
    pub(crate) fn look(&self, keys: Vec<RunKey>, smoothing: f32) {
        self.wish(Wish::Look(keys, smoothing));
    }

    /// Asks for a run as it was, or for its settings alone.
    pub(crate) fn open(&self, key: RunKey, wanted: Wanted, smoothing: f32) {
        self.wish(Wish::Open(key, wanted, smoothing));
    }

    /// Asks for a comparison.
    pub(crate) fn compare(&self, what: Vec<Compare>, smoothing: f32) {
        self.wish(Wish::Compare(what, smoothing));
    }

    /// Tells what is known of the machine by now.
    pub(crate) fn learn(&self, machine: &Machine) {
        self.wish(Wish::Machine(Box::new(machine.clone())));
    }

    fn wish(&self, wish: Wish) {
        // The thread lives as long as this handle.
        let _ = self.wishes.as_ref().map(|wishes| wishes.send(wish));
    }

    /// The replies so far.
    pub(crate) fn replies(&self) -> impl Iterator<Item = Reply> + '_ {
        self.replies.try_iter()
    }
}

impl Drop for Librarian {
    fn drop(&mut self) {
        self.wishes = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has no one left to be told to.
            let _ = thread.join();
        }
    }
}

struct Desk {
    inbox: Receiver<Wish>,
    replies: Sender<Reply>,
    wake: Box<dyn Fn() + Send>,
    machine: Machine,
    /// What was taken from the inbox and comes next.
    next: Vec<Wish>,
    /// How many changes were made, or refused.
    changes: u64,
    /// The runs that are points, as they were last sent.
    sent: HashMap<RunKey, StoredRun>,
}

impl Desk {
    fn run(mut self, folder: Result<PathBuf, String>) {
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
        // What was deleted long enough ago is not brought back. Where that fails, the next start tries again.
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
        let (sent, changes) = (&mut self.sent, self.changes);
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
            Ok(Some(Read { rows: runs::rows(listed.runs, saved), points, missing, changes }))
        };
        match read() {
            Ok(Some(read)) => self.reply(Reply::Read(Box::new(read))),
            Ok(None) => {}
            Err(error) => self.reply(Reply::Trouble(error.to_string())),
        }
    }

    /// The next wish. Of several looks in a row, the last.
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

    /// Does what is wished; whether the rows may be others now.
    fn obey(&mut self, store: &mut Store, wish: Wish) -> bool {
        let done = match wish {
            Wish::Machine(machine) => {
                self.machine = *machine;
                return false;
            }
            Wish::Change(change) => {
                self.changes += 1;
                if let Err(error) = make(store, change) {
                    self.reply(Reply::Refused(error.to_string()));
                }
                return true;
            }
            Wish::Look(keys, smoothing) => self.look(store, &keys, smoothing),
            Wish::Open(key, wanted, smoothing) => self.open(store, &key, wanted, smoothing),
            Wish::Compare(what, smoothing) => self.compare(store, what, smoothing),
        };
        if let Err(error) = done {
            self.reply(Reply::Refused(error.to_string()));
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
    let plan = std::panic::AssertUnwindSafe(|| Plan::of(experiment, machine).map_err(|error| error.to_string()));
    std::panic::catch_unwind(plan).unwrap_or_else(|_| Err("the planning met a fault in the engine".to_owned()))
}

/// A run with its curves.
fn whole(store: &Store, run: &StoredRun, smoothing: f32) -> plimsoll_engine::Result<RunRecord> {
    let details = store.details(&run.key)?;
    let mut record = RunRecord::kept(run, details.experiment(&run.key)?);
    let (step, measured) = details.measured_step;
    record.measured_step = (!measured.is_empty()).then(|| (step, measured.into()));
    record.replay(&store.series(&run.key)?, smoothing);
    Ok(record)
}

/// The memory of a step, as one of the program's series: the highest of each op.
fn step(plan: &Plan) -> (Vec<f64>, Series) {
    let points = &plan.timeline(plan.peak_pass).points;
    let mut series = Series::default();
    points.iter().for_each(|point| series.push(point.live.as_mib() as f32));
    ((0..points.len()).map(|op| op as f64).collect(), series)
}
