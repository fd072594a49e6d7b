//! Models that are tried in the window: a thread that evaluates, answers pictures and continues prompts, and its findings.
//!
//! Owns the thread and its [`Tester`], which has an account and a meter of its own: a run that trains at the same time keeps
//! its line. Always holds: the window waits for nothing here; of several drawings in a row the last is answered; the
//! findings about one model are never shown for another. A failure is reported in words.

mod found;
pub(crate) mod strokes;
mod subject;

use std::{
    ops::ControlFlow,
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use crossbeam_channel::{Receiver, Sender};
use plimsoll_engine::{
    Experiment,
    data::Picture,
    experiment::{DataKind, Task},
    hardware::Machine,
    store::RunState,
    train::{Checkpoint, Evaluation, Reply, Sampling, Shown, Tester, Took, Tried},
};

use self::strokes::{Stroke, ink};
pub(crate) use self::{
    found::{Drawn, Trial},
    subject::{Of, Subject},
};
use crate::state::State;

/// The device that everything is tried on: a run may hold the other.
const DEVICE: &str = "cpu";

/// The progress of a test is reported this often.
const TELLS: Duration = Duration::from_millis(100);

/// Why the model of a run that trains cannot be tried.
const NOT_YET: &str = "The run has no checkpoint yet: its model can be tried once it is saved. \"Save (steps)\" of the \
    experiment saves it sooner, and Stop does at once.";
/// Why that of a run that is over cannot be.
const NONE_LEFT: &str = "The run left no checkpoint to try: train it again, and it is saved at its end.";

/// Why a model cannot be tried, if its run is known to have no checkpoint.
pub(crate) fn without_checkpoint(state: &State, tried: Subject<'_>) -> Option<&'static str> {
    let Subject::Run(run) = tried else { return None };
    if run.has_checkpoint {
        return None;
    }
    if run.status.is_active() {
        return Some(NOT_YET);
    }
    let row = run.kept.as_ref().and_then(|kept| state.runs.get(kept))?;
    // Of a run that another program trains the checkpoints are not looked for.
    (row.saved.is_none() && row.run.state != RunState::Running).then_some(NONE_LEFT)
}

/// A model that is tried.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Model {
    /// Its experiment.
    pub(crate) experiment: Experiment,
    /// The files that its run left; without a run, it has the weights that the experiment begins with.
    pub(crate) run: Option<Left>,
}

/// The files of a model that a run left.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Left {
    /// The folder of its checkpoints.
    pub(crate) folder: PathBuf,
    /// Whether it trains now: its last checkpoint counts then, and not the best one.
    pub(crate) trains: bool,
}

impl Model {
    /// The model as it is tried: on the processor.
    ///
    /// # Errors
    /// Says what to do if no checkpoint is there yet.
    fn tried(&self) -> Result<Tried, String> {
        let experiment = Experiment { device: DEVICE.to_owned(), ..self.experiment.clone() };
        let checkpoint = self.run.as_ref().map(Left::checkpoint).transpose()?;
        Ok(Tried { experiment, checkpoint })
    }
}

impl Left {
    /// The best checkpoint, or while the run trains its last.
    fn checkpoint(&self) -> Result<PathBuf, String> {
        let best = self.folder.join(Checkpoint::BEST);
        if !self.trains && best.is_file() {
            return Ok(best);
        }
        self.folder
            .is_dir()
            .then(|| Checkpoint::at(&self.folder).ok())
            .flatten()
            .ok_or_else(|| if self.trains { NOT_YET } else { NONE_LEFT }.to_owned())
    }
}

/// The input that a model is tried with.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TryWith {
    /// Its test set.
    TestSet,
    /// Pictures or rows of its test set, to be looked at.
    Samples(Vec<usize>),
    /// A JPEG, PNG or WebP.
    File(PathBuf),
    /// A drawing.
    Drawing(Vec<Stroke>),
    /// A prompt.
    Prompt(String, Sampling),
}

#[derive(Debug)]
enum Wish {
    Try(u64, Box<Model>, TryWith),
    Machine(Box<Machine>),
}

/// The thread's findings, for the model of this number.
#[derive(Debug)]
pub(crate) struct Found {
    /// The number.
    pub(crate) number: u64,
    /// The finding.
    pub(crate) what: What,
}

/// A finding about a model.
#[derive(Debug)]
pub(crate) enum What {
    /// So many samples of the test set, of so many, were answered.
    Testing(usize, usize),
    /// The test set was evaluated.
    Evaluated(Box<Evaluation>),
    /// A picture of it, and the mask that was answered if that is the task.
    Sample(usize, Box<Picture>, Vec<u32>),
    /// A row of it, and the answer.
    Row(usize, Box<Reply>),
    /// A picture was answered.
    Replied(Box<Reply>),
    /// Text came.
    Text(String),
    /// The text is at its end: its memory, and a warning about it.
    Wrote(Took, Option<String>),
    /// It was not done, and why.
    Failed(String),
}

/// The thread's handle. Dropping it ends the thread once the work under way is done.
#[derive(Debug)]
pub(crate) struct Trials {
    wishes: Sender<Wish>,
    found: Receiver<Found>,
    is_over: Arc<AtomicBool>,
}

impl Trials {
    /// Starts the thread. `wake` is called whenever something was found.
    pub(crate) fn new(wake: impl Fn() + Send + Sync + 'static) -> std::io::Result<Self> {
        let (wishes, inbox) = crossbeam_channel::unbounded();
        let (outbox, found) = crossbeam_channel::unbounded();
        let is_over = Arc::<AtomicBool>::default();
        let (outbox, over) = (Outbox { found: outbox, wake: Box::new(wake) }, Arc::clone(&is_over));
        // A tester stays on the thread that made it.
        let serve = move || Bench { outbox, is_over: over, machine: Machine::nominal(), tester: None }.serve(&inbox);
        std::thread::Builder::new().name("trials".to_owned()).spawn(serve)?;
        Ok(Self { wishes, found, is_over })
    }

    /// Asks for something to be tried with a model.
    pub(crate) fn ask(&self, number: u64, model: Model, with: TryWith) {
        self.is_over.store(false, Relaxed);
        // The thread lives as long as this handle.
        let _ = self.wishes.send(Wish::Try(number, Box::new(model), with));
    }

    /// Ends the text that is being written.
    pub(crate) fn stop(&self) {
        self.is_over.store(true, Relaxed);
    }

    /// Passes on the newest facts about the machine.
    pub(crate) fn learn(&self, machine: &Machine) {
        let _ = self.wishes.send(Wish::Machine(Box::new(machine.clone())));
    }

    /// The findings since the last call.
    pub(crate) fn found(&self) -> impl Iterator<Item = Found> + '_ {
        self.found.try_iter()
    }
}

impl Drop for Trials {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The place where findings go.
struct Outbox {
    found: Sender<Found>,
    wake: Box<dyn Fn() + Send + Sync>,
}

impl Outbox {
    fn tell(&self, number: u64, what: What) {
        // The window may be closing.
        let _ = self.found.send(Found { number, what });
        (self.wake)();
    }
}

struct Bench {
    outbox: Outbox,
    is_over: Arc<AtomicBool>,
    machine: Machine,
    /// Made when the first model is tried.
    tester: Option<Tester>,
}

impl Bench {
    fn serve(mut self, inbox: &Receiver<Wish>) {
        while let Ok(first) = inbox.recv() {
            let mut wishes: Vec<Wish> = std::iter::once(first).chain(inbox.try_iter()).collect();
            let is_drawing = |wish: &Wish| matches!(wish, Wish::Try(.., TryWith::Drawing(_)));
            let last = wishes.iter().rposition(is_drawing);
            let mut at = 0;
            wishes.retain(|wish| {
                at += 1;
                !is_drawing(wish) || last == Some(at - 1)
            });
            for wish in wishes {
                match wish {
                    Wish::Machine(machine) => {
                        self.tester.iter_mut().for_each(|tester| tester.learn(Machine::clone(&machine)));
                        self.machine = *machine;
                    }
                    Wish::Try(number, model, with) => self.attempt(number, &model, with),
                }
            }
        }
    }

    fn attempt(&mut self, number: u64, model: &Model, with: TryWith) {
        let attempt = catch_unwind(AssertUnwindSafe(|| self.done(number, model, with)));
        let failure = match attempt {
            Ok(Ok(())) => return,
            Ok(Err(why)) => why,
            Err(_) => {
                // Its threads may be in the middle of something.
                self.tester = None;
                "The model met a fault in the engine.".to_owned()
            }
        };
        self.outbox.tell(number, What::Failed(failure));
    }

    fn done(&mut self, number: u64, model: &Model, with: TryWith) -> Result<(), String> {
        let tried = model.tried()?;
        let machine = &self.machine;
        let mut tester = self.tester.take().unwrap_or_else(|| Tester::in_background(machine.clone()));
        let done = self.tried_with(number, &tried, with, &mut tester).map_err(|error| error.to_string());
        self.tester = Some(tester);
        done
    }

    fn tried_with(
        &self,
        number: u64,
        tried: &Tried,
        with: TryWith,
        tester: &mut Tester,
    ) -> plimsoll_engine::Result<()> {
        let (outbox, is_over) = (&self.outbox, &self.is_over);
        match with {
            TryWith::TestSet => {
                let mut last = Instant::now();
                let evaluation = tester.evaluate_telling(tried, &mut |done, of| {
                    if last.elapsed() >= TELLS {
                        last = Instant::now();
                        outbox.tell(number, What::Testing(done, of));
                    }
                })?;
                outbox.tell(number, What::Evaluated(Box::new(evaluation)));
            }
            TryWith::Samples(indices) => {
                for index in indices {
                    if tried.experiment.data.kind == DataKind::Table {
                        let reply = tester.show(tried, Shown::Sample(index))?;
                        outbox.tell(number, What::Row(index, Box::new(reply)));
                        continue;
                    }
                    let (picture, mask) = match tried.task() {
                        Task::Mask => {
                            let reply = tester.show(tried, Shown::Sample(index))?;
                            (reply.picture, reply.mask)
                        }
                        Task::Class | Task::Next | Task::Value => {
                            (Some(tester.data(tried)?.test_picture(index)?), Vec::new())
                        }
                    };
                    if let Some(picture) = picture {
                        outbox.tell(number, What::Sample(index, Box::new(picture), mask));
                    }
                }
            }
            TryWith::File(path) => {
                outbox.tell(number, What::Replied(Box::new(tester.show(tried, Shown::File(&path))?)))
            }
            TryWith::Drawing(strokes) => {
                let [height, width, _] = tester.data(tried)?.facts().image()?;
                let reply = tester.show(tried, Shown::Drawing(&ink(&strokes, height, width)))?;
                outbox.tell(number, What::Replied(Box::new(reply)));
            }
            TryWith::Prompt(prompt, sampling) => {
                let written = tester.write(tried, &prompt, sampling, &mut |text| {
                    outbox.tell(number, What::Text(text.to_owned()));
                    if is_over.load(Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                })?;
                outbox.tell(number, What::Wrote(written.took, written.caution));
            }
        }
        Ok(())
    }
}
