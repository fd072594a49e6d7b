//! Requests of callers to the trainer, and how a run obeys them.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use crossbeam_channel::{Receiver, TryRecvError};

use crate::{
    error::{Error, Result},
    experiment::Experiment,
    memory::probe::uncounted,
    train::{event::Event, event_sink::EventSink, keep::Keep},
};

/// The run to start.
#[derive(Debug, Clone)]
pub struct Start {
    /// The experiment.
    pub experiment: Experiment,
    /// Train although the prediction is past the budget; the run then stops at the line.
    pub anyway: bool,
    /// Begin paused, to go step by step.
    pub paused: bool,
    /// Where the run's checkpoints go.
    pub keep: Keep,
    /// The checkpoint to go on from.
    pub resume: Option<PathBuf>,
    /// Whether it goes on as the run that saved the checkpoint: all its settings must then be the checkpoint's, except for its
    /// length.
    pub is_same_run: bool,
    /// The run never came to its end: if its checkpoint has all its steps, only the missing parts of the end are done.
    pub lacks_end: bool,
}

impl Start {
    /// A run of `experiment` from its first step, without keeping anything.
    pub fn new(experiment: Experiment) -> Self {
        let keep = Keep::default();
        Self { experiment, anyway: false, paused: false, keep, resume: None, is_same_run: false, lacks_end: false }
    }
}

/// A request to the trainer.
#[derive(Debug, Clone)]
pub enum Command {
    /// Begin a run. The trainer stops the present run first.
    Start(Box<Start>),
    /// Wait after the present step.
    Pause,
    /// Go on after a pause.
    Resume,
    /// Do one step and wait.
    Step,
    /// Evaluate on the test data after the present step.
    Evaluate,
    /// End the run after the present step.
    Stop,
}

/// Commands as a run obeys them.
pub(super) struct Inbox<'a> {
    commands: &'a Receiver<Command>,
    is_paused: bool,
    steps_allowed: u64,
    wants_evaluation: bool,
    next: Option<Start>,
}

/// The action at a moment between two steps.
pub(super) enum Turn {
    Step,
    Evaluate,
}

impl<'a> Inbox<'a> {
    pub(super) fn new(commands: &'a Receiver<Command>, is_paused: bool) -> Self {
        Self { commands, is_paused, steps_allowed: 0, wants_evaluation: false, next: None }
    }

    /// The run that was asked for while this one ran.
    pub(super) fn into_next(self) -> Option<Start> {
        self.next
    }

    /// Obeys commands that have come, and waits while the run is paused. `waited` gets the time spent waiting.
    ///
    /// # Errors
    /// [`Error::Stopped`] when the run is to end.
    pub(super) fn turn(&mut self, events: &EventSink, waited: &mut Duration) -> Result<Turn> {
        loop {
            match self.next_command() {
                Ok(command) => self.obey(command, events)?,
                Err(TryRecvError::Disconnected) => return Err(Error::Stopped),
                Err(TryRecvError::Empty) if self.wants_evaluation => {
                    self.wants_evaluation = false;
                    return Ok(Turn::Evaluate);
                }
                Err(TryRecvError::Empty) if !self.is_paused => return Ok(Turn::Step),
                Err(TryRecvError::Empty) if self.steps_allowed > 0 => {
                    self.steps_allowed -= 1;
                    return Ok(Turn::Step);
                }
                Err(TryRecvError::Empty) => {
                    let since = Instant::now();
                    let command = uncounted(|| self.commands.recv()).map_err(|_| Error::Stopped)?;
                    *waited += since.elapsed();
                    self.obey(command, events)?;
                }
            }
        }
    }

    /// A command that has come. The sender allocated its memory.
    fn next_command(&self) -> Result<Command, TryRecvError> {
        uncounted(|| self.commands.try_recv())
    }

    /// Whether the run waits, except for steps that are allowed one by one.
    pub(super) fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Obeys commands that have come, without waiting. Called in the middle of long work.
    ///
    /// # Errors
    /// [`Error::Stopped`] when the run is to end.
    pub(super) fn listen(&mut self, events: &EventSink) -> Result<()> {
        loop {
            match self.next_command() {
                Ok(command) => self.obey(command, events)?,
                Err(TryRecvError::Disconnected) => return Err(Error::Stopped),
                Err(TryRecvError::Empty) => return Ok(()),
            }
        }
    }

    fn obey(&mut self, command: Command, events: &EventSink) -> Result<()> {
        match command {
            Command::Start(start) => {
                self.next = Some(*start);
                return Err(Error::Stopped);
            }
            Command::Stop => return Err(Error::Stopped),
            Command::Evaluate => self.wants_evaluation = true,
            Command::Step => {
                self.pause(true, events);
                self.steps_allowed += 1;
            }
            Command::Pause => self.pause(true, events),
            Command::Resume => self.pause(false, events),
        }
        Ok(())
    }

    fn pause(&mut self, is_paused: bool, events: &EventSink) {
        if std::mem::replace(&mut self.is_paused, is_paused) != is_paused {
            self.steps_allowed = 0;
            events.send(Event::Paused(is_paused));
        }
    }
}
