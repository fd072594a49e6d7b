//! The trainer thread: it owns the device, takes commands, sends events, and survives anything that a run does.

use std::{
    borrow::Cow,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread::JoinHandle,
    time::Duration,
};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};

use crate::{
    backend::thread_pool::ThreadPriority,
    bytes::Bytes,
    data::{Dataset, TextFacts},
    device::Target,
    error::{BudgetError, Error, Problem, Result, panic_text},
    experiment::Experiment,
    hardware::Machine,
    interop::{self, Fitted},
    memory::{
        ballast, guard, heap,
        host::{FreeMemory, LimitedBy, Line},
    },
    plan::{self, Plan, Resolved},
    sync::Mutex,
    train::{
        checkpoint::{self, Checkpoint},
        command::{Command, Inbox, Start},
        event::{Event, Latest, Outcome, RunId, Summary},
        event_sink::EventSink,
        keep::RecordFirst,
        refused::refused,
        run,
        worker::Worker,
    },
};

/// Events that may wait to be read before the trainer waits for the reader.
const QUEUE: usize = 16_384;

/// The time between two looks at the size of a window's idle process.
const BETWEEN_LOOKS: Duration = Duration::from_secs(2);

/// The trainer thread's handle. Dropping it stops the run and joins the thread.
///
/// # Examples
///
/// ```
/// use plimsoll_engine::{Experiment, train::{Command, Event, Start, Trainer}};
///
/// let mut experiment = Experiment::default();
/// experiment.run.steps = Some(3);
///
/// let trainer = Trainer::new(|| {});
/// trainer.send(Command::Start(Box::new(Start::new(experiment))));
/// let mut losses = Vec::new();
/// for event in trainer.events() {
///     match event {
///         Event::Step(record) => losses.push(record.loss),
///         Event::Ended { .. } => break,
///         _ => {}
///     }
/// }
/// assert_eq!(losses.len(), 3);
/// assert!(losses.iter().all(|loss| loss.is_finite()));
/// ```
pub struct Trainer {
    commands: Option<Sender<Command>>,
    events: Receiver<Event>,
    latest: Arc<Mutex<Latest>>,
    machine: Arc<Mutex<Option<Machine>>>,
    /// Disconnected once the machine was measured.
    measured: Receiver<()>,
    thread: Option<JoinHandle<()>>,
}

impl Trainer {
    /// Starts the thread. `wake` is called after every event, from an engine thread; it must not block.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self::with_priority(ThreadPriority::Normal, Arc::new(wake))
    }

    /// The same trainer for a window: the computing threads have a low priority, so other programs stay responsive.
    pub fn in_background(wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self::with_priority(ThreadPriority::Background, Arc::new(wake))
    }

    fn with_priority(priority: ThreadPriority, wake: Arc<dyn Fn() + Send + Sync>) -> Self {
        let (commands, inbox) = crossbeam_channel::unbounded();
        let (outbox, events) = crossbeam_channel::bounded(QUEUE);
        let (latest, machine) = (Arc::<Mutex<Latest>>::default(), Arc::<Mutex<Option<Machine>>>::default());
        let sink = EventSink { outbox, wake, latest: Arc::clone(&latest), machine: Arc::clone(&machine) };
        let (unmeasured, measured) = crossbeam_channel::bounded(0);
        let serve = move || serve(&inbox, &sink, priority, unmeasured);
        let thread = std::thread::Builder::new().name("trainer".to_owned()).spawn(serve).ok();
        Self { commands: Some(commands), events, latest, machine, measured, thread }
    }

    /// Asks for something; returns at once.
    pub fn send(&self, command: Command) {
        if let Some(commands) = &self.commands {
            // Only a thread that is gone does not take commands, and then no run is left to command.
            let _ = commands.send(command);
        }
    }

    /// The events, in order. Disconnected when the thread is gone.
    pub fn events(&self) -> &Receiver<Event> {
        &self.events
    }

    /// The machine as far as it is known now. The first call waits until it was measured.
    pub fn machine(&self) -> Machine {
        // The thread lets go of its end once it has measured, or when it is gone: there is nothing to receive.
        let _ = self.measured.recv();
        let machine = self.machine.lock().clone();
        machine.unwrap_or_else(Machine::detect)
    }

    /// The latest values.
    pub fn latest(&self) -> Latest {
        self.latest.lock().clone()
    }
}

impl Drop for Trainer {
    fn drop(&mut self) {
        self.commands = None;
        // The thread may be waiting for room in the queue: it will not be read any more.
        self.events = crossbeam_channel::never();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The data of the last run, kept for the next run on the same data.
#[derive(Default)]
struct DatasetCache {
    dataset: Option<Arc<Dataset>>,
    /// The bytes of it that the last run wrote.
    written: Bytes,
    /// The experiment of the last run: files that were listed for it need not be listed again.
    resolved: Option<Resolved>,
}

impl DatasetCache {
    /// The host memory of the last run's data.
    fn bytes(&self) -> Bytes {
        self.dataset.as_ref().map_or(Bytes::ZERO, |dataset| dataset.host_bytes())
    }

    /// The part of it that is written.
    fn written(&self) -> Bytes {
        self.dataset.as_ref().map_or(Bytes::ZERO, |_| self.written)
    }

    /// The bytes of the data of `experiment` that are here already.
    fn held(&self, experiment: &Experiment) -> Bytes {
        let is_here = |dataset: &&Arc<Dataset>| dataset.is_for(&experiment.whole_data(), &experiment.run);
        self.dataset.as_ref().filter(is_here).map_or(Bytes::ZERO, |dataset| dataset.host_bytes())
    }

    fn open(&mut self, plan: &Plan) -> Result<Arc<Dataset>> {
        let (data, run) = (&plan.experiment.whole_data(), &plan.experiment.run);
        if let Some(dataset) = self.dataset.as_ref().filter(|dataset| dataset.is_for(data, run)) {
            return Ok(Arc::clone(dataset));
        }
        // The old data are freed before the new ones are read.
        self.dataset = None;
        let dataset = Arc::new(Dataset::open_inspected(data, run, plan.resolved.data())?);
        (self.dataset, self.written) = (Some(Arc::clone(&dataset)), dataset.host_bytes());
        Ok(dataset)
    }
}

fn serve(inbox: &Receiver<Command>, events: &EventSink, priority: ThreadPriority, unmeasured: Sender<()>) {
    // The reserved address space counts before the machine is measured, as it will in a run.
    ballast::set_aside();
    let mut worker = Worker::new(priority);
    events.set_machine(worker.machine());
    drop(unmeasured);
    let mut datasets = DatasetCache::default();
    let mut next = None;
    for id in 1.. {
        let start = match next.take() {
            Some(start) => start,
            None => match wait_for_start(inbox, &mut worker, datasets.written(), events) {
                Some(start) => start,
                None => return,
            },
        };
        let mut inbox = Inbox::new(inbox, start.paused);
        ballast::set_aside();
        let mut run = Attempt { id, start, plan: None, summary: Summary::default() };
        let attempt = catch_unwind(AssertUnwindSafe(|| run.begin(&mut worker, &mut datasets, events, &mut inbox)));
        if attempt.is_err() {
            worker.abandon();
        }
        heap::give_back();
        let outcome = match attempt {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(Error::Stopped)) => Outcome::Stopped,
            Ok(Err(Error::Budget(error))) => Outcome::OverBudget(Box::new(refused(error, run.plan, worker.machine()))),
            Ok(Err(error)) => Outcome::Failed(error),
            Err(panic) => Outcome::Failed(Error::Panic(panic_text(&*panic).to_owned())),
        };
        next = inbox.into_next();
        worker.measure_memory(datasets.bytes());
        events.set_machine(worker.machine());
        events.send(Event::Ended { run: id, outcome, summary: Box::new(run.summary) });
    }
}

/// The next run to start; `None` if none will come. The process has `held` bytes of data in place meanwhile.
fn wait_for_start(inbox: &Receiver<Command>, worker: &mut Worker, held: Bytes, events: &EventSink) -> Option<Start> {
    let wait = if worker.has_window() { BETWEEN_LOOKS } else { Duration::MAX };
    loop {
        match inbox.recv_timeout(wait) {
            Ok(Command::Start(start)) => return Some(*start),
            // Nothing runs, so there is nothing to pause, step, evaluate or stop.
            Ok(_) => {}
            Err(RecvTimeoutError::Timeout) => {
                worker.look_at_idle_process(held);
                events.set_machine(worker.machine());
            }
            Err(RecvTimeoutError::Disconnected) => return None,
        }
    }
}

/// A run from its start to its end.
struct Attempt {
    id: RunId,
    start: Start,
    /// The run's prediction, once there is one.
    plan: Option<Arc<Plan>>,
    summary: Summary,
}

impl Attempt {
    /// Plans the run, refuses it if it does not fit, and trains.
    fn begin(
        &mut self,
        worker: &mut Worker,
        datasets: &mut DatasetCache,
        events: &EventSink,
        inbox: &mut Inbox<'_>,
    ) -> Result<Outcome> {
        self.start.keep.make_folder().into_iter().for_each(|words| events.send(Event::Warning(words)));
        // Before the checkpoint is read: no other process writes one from here to the end of the run.
        let folder = self.start.keep.folder.as_ref();
        let _claim = folder.map(|folder| checkpoint::prepare(folder.path())).transpose()?;
        let checkpoint = self.start.checkpoint()?;
        worker.prepare(&self.start.experiment, events)?;
        worker.measure_memory(datasets.bytes());
        events.set_machine(worker.machine());
        let plan = self.plan(worker.machine(), datasets, checkpoint.as_ref())?;
        events.set_latest(Latest { run: self.id, ..Latest::default() });
        events.send(Event::Started { run: self.id, plan: Arc::clone(&plan) });
        if self.start.paused {
            events.send(Event::Paused(true));
        }
        if guard::is_guarded() {
            events.send(Event::Warning(guard::note()));
        }
        has_room(&plan, datasets.held(&self.start.experiment), self.start.anyway)?;
        let weights = match &checkpoint {
            // It has weights of its own.
            Some(_) => None,
            None => interop::chosen(&plan.experiment, plan.resolved.info())?,
        };
        weights.iter().flat_map(Fitted::notes).for_each(|note| events.send(Event::Warning(format!("weights: {note}"))));
        let (teacher, teacher_checksum) = self.teacher(&plan, checkpoint.as_ref(), events)?;
        plan.resolved.caution().into_iter().for_each(|caution| events.send(Event::Warning(caution)));
        if let Some(note) = plan.resolved.data().text_facts().and_then(TextFacts::left_out) {
            events.send(Event::Warning(note));
        }
        let dataset = datasets.open(&plan)?;
        if let Some(checkpoint) = &checkpoint {
            checkpoint.goes_on_with(&dataset, plan.experiment.batch.effective())?;
        }
        let line = self::line(plan.budget, &plan.target, plan.host.total().saturating_sub(dataset.host_bytes()));
        // With the data in place, and without the plan's heap, the size of the process is known better.
        self.start.keep.record.iter().for_each(RecordFirst::wait_until_open);
        datasets.written = dataset.host_bytes().min(plan::predict::process::host(&plan.resolved));
        worker.measure_process(datasets.written);
        events.set_machine(worker.machine());
        self.summary.predicted.process = plan::predict::process::running(&plan, worker.machine(), self.is_kept());
        let spec = run::RunSpec {
            id: self.id,
            plan: &plan,
            line,
            dataset,
            events,
            keep: &self.start.keep,
            from: checkpoint.as_ref().map(|checkpoint| checkpoint.progress().clone()),
            checkpoint: Mutex::new(checkpoint),
            weights: Mutex::new(weights),
            teacher: Mutex::new(teacher),
            teacher_checksum,
        };
        worker.train(&spec, inbox, &mut self.summary)?;
        worker.saw(&plan, self.is_kept(), &self.summary);
        Ok(Outcome::Finished)
    }

    /// Whether the run is kept in a store.
    fn is_kept(&self) -> bool {
        self.start.keep.record.is_some()
    }

    /// The plan of the run. The findings of the beginning stay as they are in a run that goes on.
    fn plan(
        &mut self,
        machine: &Machine,
        datasets: &mut DatasetCache,
        checkpoint: Option<&Checkpoint>,
    ) -> Result<Arc<Plan>> {
        let Start { experiment, is_same_run, lacks_end, .. } = &self.start;
        let own = checkpoint.map(Checkpoint::experiment).transpose()?;
        let decided = own.as_ref().map_or(Cow::Borrowed(experiment), |own| experiment.decided_as(own));
        let resolved = Resolved::after(datasets.resolved.as_ref(), &decided, machine).map_err(plan::first)?;
        datasets.resolved = Some(resolved.clone());
        if let Some(checkpoint) = checkpoint {
            checkpoint.has_work_left(resolved.steps().1, *lacks_end)?;
        }
        let resolved = resolved.resuming(checkpoint.map(|checkpoint| checkpoint.resumed(*is_same_run)));
        let mut plan = plan::predict(&resolved, machine)?;
        plan.peak.process = plan::predict::process::beginning(&plan, self.is_kept());
        let plan = Arc::new(plan);
        self.plan = Some(Arc::clone(&plan));
        self.summary.predicted = plan.peak;
        (self.summary.host.predicted, self.summary.host.predicted_disk) = (plan.host.total(), plan.host.disk);
        Ok(plan)
    }

    /// The weights of the teacher with their checksum, which are those that a run began with that goes on.
    fn teacher(
        &self,
        plan: &Plan,
        checkpoint: Option<&Checkpoint>,
        events: &EventSink,
    ) -> Result<(Option<Fitted>, Option<u32>)> {
        let experiment = &self.start.experiment;
        let teacher = interop::teaching(experiment, plan.resolved.teacher(), plan.resolved.info())?;
        let checksum = teacher.as_ref().map(Fitted::checksum).transpose()?;
        teacher.iter().flat_map(Fitted::notes).for_each(|note| events.send(Event::Warning(format!("teacher: {note}"))));
        if let Some(checkpoint) = checkpoint {
            checkpoint.goes_on_under(&experiment.distil, checksum)?;
        }
        Ok((teacher, checksum))
    }
}

impl Start {
    /// The checkpoint that the run goes on from, if it belongs to the experiment.
    fn checkpoint(&self) -> Result<Option<Checkpoint>> {
        let checkpoint = self.resume.as_deref().map(Checkpoint::open).transpose()?;
        if let Some(checkpoint) = &checkpoint {
            let is_same = self.is_same_run;
            if is_same { checkpoint.is_of_run(&self.experiment) } else { checkpoint.goes_on_as(&self.experiment) }?;
        }
        Ok(checkpoint)
    }
}

/// Refuses a run that the host cannot feed, `held` bytes of whose data are in memory already; and one past the line, unless it
/// is to begin `anyway`.
fn has_room(plan: &Plan, held: Bytes, anyway: bool) -> Result<()> {
    has_room_for_host(plan, held)?;
    let line = line(plan.budget, &plan.target, plan.host.total().saturating_sub(held));
    if !anyway
        && plan.load() > line.bytes
        && let Some(error) = plan::predict::refusal(&plan.resolved.held_to(line.bytes), &plan.machine)?
    {
        return Err(BudgetError { limited_by: line.limited_by, ..error }.into());
    }
    Ok(())
}

/// Refuses a run whose data, `held` bytes of which are in memory already, are past the budget of the host, or past the
/// memory and the disk that are free now.
fn has_room_for_host(plan: &Plan, held: Bytes) -> Result<()> {
    let free = FreeMemory::now().map(|free| free.bytes + held);
    plan.host_obstacle(free).map_or(Ok(()), |obstacle| Err(obstacle.problem(plan, &plan.ways_to_feed(free)).into()))
}

/// Refuses data if this process cannot hold `to_read` bytes of them.
pub(super) fn has_room_for_data(to_read: Bytes) -> Result<()> {
    match FreeMemory::now().map(|free| free.bytes).filter(|free| to_read > *free) {
        None => Ok(()),
        Some(free) => {
            let [to_read, free] = to_read.beside(free);
            let message = format!("the data take {to_read} of memory, and this process can have {free} more");
            Err(Problem::new("data.placement", message, "write \"streamed\", or take fewer or smaller samples").into())
        }
    }
}

/// The line of a run that begins now, when data of `to_read` bytes are read: on a GPU the budget, on the CPU the budget or
/// the memory that the system can give.
pub(super) fn line(budget: Bytes, target: &Target, to_read: Bytes) -> Line {
    let chosen = Line { bytes: budget, limited_by: LimitedBy::Budget };
    if target.is_gpu() { chosen } else { Line::now(budget, to_read) }
}
