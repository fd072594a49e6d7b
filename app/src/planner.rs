//! The planning thread: dry runs off the screen's path, the latest request wins.
//!
//! Owns the thread, its inbox of one plan and one question about neighbours, the machine that is planned for, and a cache of
//! the results of changed configurations on it. Always holds: an answer carries the generation it was asked for, so that a
//! late one is known as late; when more is known of the machine, the last plan is made again. Refuses to queue: a newer
//! request takes the place of the older.

mod search;
mod weights;

use std::{collections::VecDeque, sync::Arc, thread::JoinHandle};

use crossbeam_channel::{Receiver, Sender};
use parking_lot::{Condvar, Mutex, MutexGuard};
use plimsoll_engine::{
    Bytes, Error, Experiment,
    error::Problem,
    hardware::Machine,
    plan::{self, Plan, Resolved},
};

pub(crate) use self::search::Options;
use self::{
    search::{Searched, Turns},
    weights::{fits_teacher, fits_weights},
};

/// Configurations whose outcome is remembered.
const CACHE: usize = 512;

/// Numbers the states of the experiment, from 1.
pub(crate) type Generation = u64;

/// Why there is no plan.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Obstacle {
    /// The experiment cannot be; one entry a problem, each at its key.
    Problems(Vec<Problem>),
    /// Something outside the experiment failed, such as a missing file.
    Failure(String),
}

/// The result of one configuration, in a few figures.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Outcome {
    /// The predicted peak.
    pub(crate) peak: Bytes,
    /// The host memory of its data, which is outside the budget.
    pub(crate) host: Bytes,
    /// Predicted seconds for the whole effective batch of one step.
    pub(crate) step_secs: f64,
    /// Samples in that batch.
    pub(crate) samples: usize,
}

/// A neighbour of the present value, with its result.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Neighbour {
    /// The neighbour's name, such as `128` or `bf16-mixed`.
    pub(crate) name: String,
    /// The result, or why it cannot be.
    pub(crate) outcome: Result<Outcome, String>,
}

/// Neighbours, and the configuration that they are compared with.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Compared {
    /// The result of the experiment as it is.
    pub(crate) now: Result<Outcome, String>,
    /// The results of its neighbours.
    pub(crate) neighbours: Vec<Neighbour>,
}

/// A question about neighbours.
#[derive(Debug)]
pub(crate) struct Question {
    /// The generation it is asked in.
    pub(crate) generation: Generation,
    /// The key of the control.
    pub(crate) control: &'static str,
    /// The experiment as it is.
    pub(crate) now: Experiment,
    /// The control's neighbours, each with its name.
    pub(crate) neighbours: Vec<(String, Experiment)>,
}

/// The answer of the thread.
#[derive(Debug)]
pub(crate) enum Answer {
    /// The plan of a generation, or the obstacle to it.
    Plan(Generation, Result<Arc<Plan>, Obstacle>),
    /// Other configurations that fit, for a generation: the best for the budget and, if the plan does not fit, the nearest
    /// changes.
    Options(Generation, Box<Options>),
    /// An experiment to compare with: one that was asked for, or the pinned one again, with the newest rates of the time
    /// model.
    Pin(Result<Arc<Plan>, Obstacle>),
    /// The neighbours of a control with their results, for a generation.
    Neighbours(Generation, &'static str, Compared),
}

#[derive(Debug, Default)]
struct Inbox {
    plan: Option<(Generation, Experiment)>,
    neighbours: Option<Question>,
    pin: Option<Experiment>,
    machine: Option<Machine>,
    /// A run takes the processor.
    is_training: bool,
    /// The thread has done all that it was asked for.
    is_idle: bool,
    closing: bool,
}

impl Inbox {
    /// Whether the plan under way is already out of date.
    fn supersedes(&self) -> bool {
        self.plan.is_some() || self.machine.is_some() || self.closing
    }
}

#[derive(Debug, Default)]
struct Shared {
    inbox: Mutex<Inbox>,
    bell: Condvar,
}

impl Shared {
    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock()
    }
}

/// The thread's handle. Dropping it ends the thread.
#[derive(Debug)]
pub(crate) struct Planner {
    shared: Arc<Shared>,
    answers: Receiver<Answer>,
    thread: Option<JoinHandle<()>>,
}

impl Planner {
    /// Starts the thread, which plans for `machine` until it hears of a newer one. `wake` is called after every answer.
    pub(crate) fn new(machine: Machine, wake: impl Fn() + Send + 'static) -> std::io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let (sender, answers) = crossbeam_channel::unbounded();
        let worker = Worker {
            shared: Arc::clone(&shared),
            answers: sender,
            machine,
            last: None,
            resolved: None,
            searched: None,
            cache: VecDeque::new(),
        };
        let thread = std::thread::Builder::new().name("planner".to_owned()).spawn(move || worker.run(&wake))?;
        Ok(Self { shared, answers, thread: Some(thread) })
    }

    /// Asks for a plan, in place of any that was asked for before.
    pub(crate) fn plan(&self, generation: Generation, experiment: Experiment) {
        let mut inbox = self.shared.inbox();
        inbox.plan = Some((generation, experiment));
        inbox.neighbours = None;
        self.shared.bell.notify_one();
    }

    /// Asks for the plan of an experiment to compare with, in place of any that was asked for before.
    pub(crate) fn pin(&self, experiment: Experiment) {
        self.shared.inbox().pin = Some(experiment);
        self.shared.bell.notify_one();
    }

    /// Passes on the newest facts about the machine: the last plan, and the plan of the pinned experiment, are made again.
    pub(crate) fn learn(&self, machine: Machine, pinned: Option<Experiment>) {
        let mut inbox = self.shared.inbox();
        (inbox.machine, inbox.pin) = (Some(machine), pinned);
        self.shared.bell.notify_one();
    }

    /// Tells the thread whether a run takes the processor. The search for other configurations then takes turns with it.
    pub(crate) fn trains(&self, is_training: bool) {
        self.shared.inbox().is_training = is_training;
        self.shared.bell.notify_one();
    }

    /// Asks for the effect of a control's neighbours.
    pub(crate) fn neighbours(&self, question: Question) {
        self.shared.inbox().neighbours = Some(question);
        self.shared.bell.notify_one();
    }

    /// Whether all that was asked for is answered and every answer was taken.
    #[cfg(test)]
    pub(crate) fn is_at_rest(&self) -> bool {
        let inbox = self.shared.inbox();
        let asked =
            inbox.plan.is_some() || inbox.machine.is_some() || inbox.pin.is_some() || inbox.neighbours.is_some();
        inbox.is_idle && !asked && self.answers.is_empty()
    }

    /// The answers so far.
    pub(crate) fn answers(&self) -> impl Iterator<Item = Answer> + '_ {
        self.answers.try_iter()
    }
}

impl Drop for Planner {
    fn drop(&mut self) {
        self.shared.inbox().closing = true;
        self.shared.bell.notify_one();
        if let Some(thread) = self.thread.take() {
            // There is no one left to report a panic of the thread to.
            let _ = thread.join();
        }
    }
}

struct Worker {
    shared: Arc<Shared>,
    answers: Sender<Answer>,
    machine: Machine,
    /// The last plan that was asked for.
    last: Option<(Generation, Experiment)>,
    /// The last valid one, because the next experiment mostly has the same data.
    resolved: Option<Resolved>,
    /// The subject of the last search that came to its end.
    searched: Option<Searched>,
    /// Newest last, each without its title and description.
    cache: VecDeque<(Experiment, Result<Outcome, String>)>,
}

enum Job {
    Plan(Generation, Experiment),
    Pin(Experiment),
    Neighbours(Question),
}

impl Worker {
    fn run(mut self, wake: &dyn Fn()) {
        while let Some(job) = self.next() {
            let open = match job {
                Job::Plan(generation, experiment) => self.plan(generation, &experiment, wake),
                Job::Pin(experiment) => self.answer(Answer::Pin(self.plan_one(&experiment)), wake),
                Job::Neighbours(question) => self.neighbours(question, wake),
            };
            if !open {
                return;
            }
        }
    }

    /// Waits for work; `None` when the handle is gone.
    fn next(&mut self) -> Option<Job> {
        let shared = Arc::clone(&self.shared);
        let mut inbox = shared.inbox();
        inbox.is_idle = false;
        loop {
            if inbox.closing {
                return None;
            }
            if let Some(machine) = inbox.machine.take().filter(|machine| *machine != self.machine) {
                // Plans for another machine cannot be compared with new ones.
                self.cache.clear();
                self.machine = machine;
                inbox.plan = inbox.plan.take().or_else(|| self.last.clone());
            }
            match inbox.plan.take() {
                // The next machine that is passed on has the GPUs, and the last plan is made then.
                Some(plan) if self.machine.is_yet_to_find(&plan.1.device) => self.last = Some(plan),
                Some((generation, experiment)) => return Some(Job::Plan(generation, experiment)),
                None => {}
            }
            if let Some(experiment) = inbox.pin.take() {
                return Some(Job::Pin(experiment));
            }
            if let Some(question) = inbox.neighbours.take() {
                return Some(Job::Neighbours(question));
            }
            inbox.is_idle = true;
            self.shared.bell.wait(&mut inbox);
            inbox.is_idle = false;
        }
    }

    fn answer(&self, answer: Answer, wake: &dyn Fn()) -> bool {
        let open = self.answers.send(answer).is_ok();
        wake();
        open
    }

    fn plan(&mut self, generation: Generation, experiment: &Experiment, wake: &dyn Fn()) -> bool {
        self.last = Some((generation, experiment.clone()));
        let planned = self.plan_one(experiment);
        if let Ok(plan) = &planned {
            self.resolved = Some(plan.resolved.clone());
            self.remember(experiment, Ok(outcome_of(plan)));
        }
        if !self.answer(Answer::Plan(generation, planned.clone()), wake) {
            return false;
        }
        let Ok(plan) = planned else { return true };
        let searched = Searched::of(generation, &plan);
        if self.searched == Some(searched) {
            return true;
        }
        // The search for other configurations takes many dry runs, so it is only made for a plan that is not yet replaced.
        let turns = Turns::new(&self.shared);
        if turns.is_over() {
            return true;
        }
        let options = search::options(&plan, &turns);
        // A search that was cut short for a newer plan answers nothing.
        if turns.is_over() {
            return true;
        }
        self.searched = Some(searched);
        self.answer(Answer::Options(generation, Box::new(options)), wake)
    }

    fn neighbours(&mut self, question: Question, wake: &dyn Fn()) -> bool {
        let now = self.outcome(&question.now);
        let neighbours = question.neighbours.into_iter();
        let neighbours =
            neighbours.map(|(name, experiment)| Neighbour { name, outcome: self.outcome(&experiment) }).collect();
        self.answer(Answer::Neighbours(question.generation, question.control, Compared { now, neighbours }), wake)
    }

    fn outcome(&mut self, experiment: &Experiment) -> Result<Outcome, String> {
        let plain = plain(experiment);
        if let Some((_, known)) = self.cache.iter().rev().find(|(known, _)| *known == plain) {
            return known.clone();
        }
        let resolved = match &self.resolved {
            Some(resolved) => resolved.revised(experiment, &self.machine),
            None => Resolved::new(experiment, &self.machine),
        };
        let outcome = match resolved.map_err(Obstacle::Problems).and_then(|resolved| self.predict(&resolved)) {
            Ok(plan) => Ok(outcome_of(&plan)),
            Err(Obstacle::Problems(problems)) => Err(problems.first().map(|p| p.message.clone()).unwrap_or_default()),
            Err(Obstacle::Failure(text)) => Err(text),
        };
        self.remember(experiment, outcome.clone());
        outcome
    }

    fn remember(&mut self, experiment: &Experiment, outcome: Result<Outcome, String>) {
        if self.cache.len() >= CACHE {
            self.cache.pop_front();
        }
        self.cache.push_back((plain(experiment), outcome));
    }

    /// Looks at the data, checks and plans.
    fn plan_one(&self, experiment: &Experiment) -> Result<Arc<Plan>, Obstacle> {
        let resolved = Resolved::after(self.resolved.as_ref(), experiment, &self.machine);
        let resolved = resolved.map_err(Obstacle::Problems)?;
        fits_weights(&resolved)?;
        fits_teacher(&resolved)?;
        self.predict(&resolved)
    }

    /// Plans; a fault in the planning is an obstacle like any other, not the end of the thread.
    fn predict(&self, resolved: &Resolved) -> Result<Arc<Plan>, Obstacle> {
        let predict = std::panic::AssertUnwindSafe(|| plan::predict(resolved, &self.machine));
        match std::panic::catch_unwind(predict) {
            Ok(Ok(plan)) => Ok(Arc::new(plan)),
            Ok(Err(Error::Experiment(problem))) => Err(Obstacle::Problems(vec![problem])),
            Ok(Err(error)) => Err(Obstacle::Failure(error.to_string())),
            Err(_) => Err(Obstacle::Failure("the planning met a fault in the engine".to_owned())),
        }
    }
}

/// The parts of an experiment that decide a plan: all but its title and description.
fn plain(experiment: &Experiment) -> Experiment {
    Experiment { title: String::new(), description: String::new(), ..experiment.clone() }
}

fn outcome_of(plan: &Plan) -> Outcome {
    let samples = plan.experiment.batch.effective();
    Outcome { peak: plan.load(), host: plan.host.total(), step_secs: plan.step_secs, samples }
}
