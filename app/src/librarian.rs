//! The thread that reads and changes the store of runs for the window.
//!
//! Owns the store and the order of all work on it. Always holds: the window waits for nothing here; a question is not
//! answered once a newer one replaced it; changes by other programs are read soon after. If a store cannot be opened or
//! written, a message says so, and the window goes on without it.

mod desk;
mod points;

use std::{cell::Cell, path::PathBuf, sync::Arc};

use crossbeam_channel::{Receiver, Sender};
use plimsoll_engine::{Experiment, hardware::Machine, report::Comparison, store::RunKey};

use self::desk::Desk;
pub(crate) use self::points::Points;
use crate::{naming::Names, runs::Row, session::RunRecord, state::Wanted, widgets::series::Series};

/// A change of the store.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    /// A star, or none.
    Star(Vec<RunKey>, bool),
    /// A name; an empty one takes it away.
    Name(RunKey, String),
    /// The note of a run.
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

/// The subject of a comparison.
#[derive(Debug, Clone)]
pub(crate) enum Compare {
    /// A kept run, with its name.
    Run(RunKey, String),
    /// A plan, with its name.
    Plan(String, Box<Experiment>),
}

/// A request to put runs and plans side by side.
#[derive(Debug)]
pub(crate) struct Comparing {
    /// The runs, and plans that stay as they are.
    pub(crate) what: Vec<Compare>,
    /// The present settings as they were asked for, if they are put next to those: once they change, they are asked for again.
    pub(crate) present: Option<Experiment>,
    /// Whether the answer is on its way.
    pub(crate) is_asked: bool,
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
    /// The machine that a plan is made for.
    Machine(Box<Machine>),
}

/// Runs or plans side by side.
#[derive(Debug)]
pub(crate) struct Compared {
    /// The differences.
    pub(crate) comparison: Comparison,
    /// The curves of each; `None` of a plan.
    pub(crate) runs: Vec<Option<RunRecord>>,
    /// Predicted live memory in MiB, op by op, of the step with the peak; `None` if it cannot be planned.
    pub(crate) steps: Vec<Option<(Vec<f64>, Series)>>,
    /// Why one could not be planned, in words.
    pub(crate) notes: Vec<String>,
}

/// The content of the store.
#[derive(Debug)]
pub(crate) struct Read {
    /// Every run.
    pub(crate) rows: Vec<Row>,
    /// What they are called by their settings.
    pub(crate) names: Arc<Names>,
    /// The points of those that were tested.
    pub(crate) points: Points,
    /// A part of the store that cannot be read, in words.
    pub(crate) missing: Option<String>,
    /// How many changes were made before it was read.
    pub(crate) changes: u64,
}

/// The reply of the thread.
#[derive(Debug)]
pub(crate) enum Reply {
    /// The content of the store.
    Read(Box<Read>),
    /// The store cannot be read.
    Trouble(String),
    /// Something was not done, and why; the runs that stay because of it.
    Refused(String, Vec<RunKey>),
    /// The runs that are picked; the last has its curves.
    Looked(Vec<RunRecord>),
    /// A run, and the purpose of the request.
    Opened(Box<RunRecord>, Wanted),
    /// A comparison.
    Compared(Box<Compared>),
}

/// The thread's handle. Dropping it ends the thread once all requests are done.
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
        let desk = Desk::new(inbox, replies, Box::new(wake));
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

    /// Passes on the newest facts about the machine.
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
            // There is no one left to report a panic of the thread to.
            let _ = thread.join();
        }
    }
}
