//! The trainer thread: it owns the device, takes commands, sends events, and survives whatever a run does.

use std::sync::{Arc, Mutex};

use crossbeam_channel::{Receiver, Sender};

use crate::{
    experiment::Experiment,
    train::event::{Event, Latest},
};

/// What to run.
#[derive(Debug, Clone)]
pub struct Start {
    /// The experiment.
    pub experiment: Experiment,
    /// Train although the prediction is past the budget; the run then stops at the line.
    pub anyway: bool,
    /// Begin paused, to go step by step.
    pub paused: bool,
}

/// What the outside may ask of the trainer.
#[derive(Debug, Clone)]
pub enum Command {
    /// Begin a run; the present one, if any, is stopped first.
    Start(Box<Start>),
    /// Wait after the present step.
    Pause,
    /// Go on.
    Resume,
    /// Do one step and wait.
    Step,
    /// Evaluate on the test data after the present step.
    Evaluate,
    /// End the run after the present step.
    Stop,
}

/// The trainer thread's handle. Dropping it stops the run and joins the thread.
pub struct Trainer {
    commands: Option<Sender<Command>>,
    events: Receiver<Event>,
    latest: Arc<Mutex<Latest>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Trainer {
    /// Starts the thread. `wake` is called after every event, from the trainer thread; it must not block.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        let _ = &wake;
        let (commands, _) = crossbeam_channel::unbounded();
        let (_, events) = crossbeam_channel::bounded(1);
        Self { commands: Some(commands), events, latest: Arc::default(), thread: None }
    }

    /// Asks for something; returns at once.
    pub fn send(&self, command: Command) {
        if let Some(commands) = &self.commands {
            let _ = commands.send(command);
        }
    }

    /// The events, in order.
    pub fn events(&self) -> &Receiver<Event> {
        &self.events
    }

    /// The latest values.
    pub fn latest(&self) -> Latest {
        self.latest.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }
}

impl Drop for Trainer {
    fn drop(&mut self) {
        self.commands = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
