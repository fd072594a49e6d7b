//! One run: steps, evaluations, commands and measurements, from the first allocation to the last free.

use std::{
    collections::VecDeque,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    backend::{Backend, Cpu, Executor, HostSlice, thread_pool::ThreadPool},
    bytes::Bytes,
    data::{Batch, Dataset, Loader},
    device::cpu_threads,
    error::{DeviceLost, Error, Result},
    experiment::Experiment,
    memory::{
        Ledger, Phase,
        host::Line,
        probe::{self, Measure, Reading, uncounted},
    },
    plan::{Peak, Plan},
    step::{MicroBatch, PendingStep, Session, schedule::learning_rate},
    train::{
        command::{Inbox, Turn},
        event::{Event, Latest, RunId, StepRecord, Summary},
        event_sink::EventSink,
    },
};
#[cfg(feature = "cuda")]
use crate::{
    device::Target,
    train::gpu::{self, Gpu},
};

/// How often the memory of a whole step is read op by op.
const SAMPLE_EVERY: Duration = Duration::from_millis(250);
/// Steps that may be queued on a device beyond the last one whose numbers are here.
const AHEAD: usize = 2;
/// How often the operating system is asked for the size of the process.
const PROCESS_EVERY: Duration = Duration::from_millis(200);

/// What a run is made of.
pub(super) struct RunSpec<'a> {
    pub(super) id: RunId,
    pub(super) plan: &'a Arc<Plan>,
    /// The line of a run on the CPU.
    pub(super) line: Line,
    pub(super) dataset: Arc<Dataset>,
    pub(super) events: &'a EventSink,
}

/// Trains on the processor to the end of the run. `summary` holds what was reached, however it ends.
pub(super) fn on_cpu(
    spec: &RunSpec<'_>,
    pool: &ThreadPool,
    inbox: &mut Inbox<'_>,
    summary: &mut Summary,
) -> Result<()> {
    let meter = pool.meter();
    let idle = meter.now();
    let is_reset = probe::reset_peak_resident();
    let loader = spec.loader()?;
    let result = pool.run(|| {
        let sampler = uncounted(|| {
            let process = || probe::process().map(|p| p.resident).unwrap_or_default();
            MemorySampler::new(Rc::new(meter), idle, Box::new(process))
        });
        let mut run = RunLoop::new(spec, loader, sampler, summary);
        let ledger = Ledger::within(spec.line);
        ledger.keep_books(spec.plan.bookkeeping);
        let executor = Executor::new(Cpu::new(cpu_threads()), ledger);
        let result = run.run(executor, inbox);
        let RunLoop { sampler, .. } = run;
        uncounted(|| drop(sampler));
        // The error leaves this thread: what goes is a copy that its meter does not count.
        result.map_err(|error| uncounted(|| error.clone()))
    });
    summary.left_over = meter.now().live.saturating_sub(idle.live);
    summary.is_process_sampled = !is_reset;
    if is_reset && let Some(process) = probe::process() {
        summary.measured.process = process.peak_resident;
    }
    result
}

/// Trains on a GPU, as [`on_cpu`] does; also returns what the process held besides the pool in the end, if the driver
/// reports it.
#[cfg(feature = "cuda")]
pub(super) fn on_gpu(
    spec: &RunSpec<'_>,
    gpu: &Gpu,
    inbox: &mut Inbox<'_>,
    summary: &mut Summary,
) -> (Result<()>, Option<Bytes>) {
    let experiment = &*spec.plan.experiment;
    let Target::Gpu(profile) = &spec.plan.target else {
        return (Err(Error::Misused(format!("{} is no GPU", experiment.device))), None);
    };
    if let Some(slower) = gpu::slower(spec.plan) {
        spec.events.send(Event::Warning(slower));
    }
    let backend = match gpu.backend(profile, &experiment.gpu, spec.plan.budget) {
        Ok(backend) => backend,
        Err(error) => return (Err(error), None),
    };
    let pool = Rc::clone(backend.pool());
    let result = spec.loader().and_then(|loader| {
        let sampler = MemorySampler::new(Rc::clone(&pool) as Rc<dyn Measure>, Reading::default(), gpu.process());
        let mut run = RunLoop::new(spec, loader, sampler, summary);
        let ledger = Ledger::for_target(backend.target(), experiment.gpu.pool, spec.plan.budget, true, false);
        run.run(Executor::new(backend, ledger), inbox)
    });
    summary.left_over = pool.now().live;
    summary.is_process_sampled = true;
    let held = gpu.held_beside(&*pool);
    if let Some(held) = held.filter(|held| *held > profile.context) {
        // The driver takes what kernels need by itself, and nothing can refuse it.
        spec.events.send(Event::Warning(format!(
            "driver and kernels hold {held} on the GPU, {} more than was allowed for: the process came to {} of a budget of \
             {}; the next plan knows",
            held - profile.context,
            summary.measured.process,
            spec.plan.budget
        )));
    }
    (result, held)
}

impl RunSpec<'_> {
    fn loader(&self) -> Result<Loader> {
        let Experiment { batch, run, .. } = &*self.plan.experiment;
        Loader::train(Arc::clone(&self.dataset), run.seed, batch.micro, batch.accumulation)
    }
}

/// Measured memory of a run, above the idle level.
struct MemorySampler {
    meter: Rc<dyn Measure>,
    idle: Reading,
    peak: Peak,
    read_process: Box<dyn Fn() -> Bytes>,
    process_read: Option<Instant>,
    process: Bytes,
    sampled: Option<Instant>,
}

impl MemorySampler {
    fn new(meter: Rc<dyn Measure>, idle: Reading, read_process: Box<dyn Fn() -> Bytes>) -> Self {
        meter.reset_peak();
        Self {
            meter,
            idle,
            peak: Peak::default(),
            read_process,
            process_read: None,
            process: Bytes::ZERO,
            sampled: None,
        }
    }

    /// Whether this step's memory is to be read op by op.
    fn is_sample_due(&mut self) -> bool {
        let due = self.sampled.is_none_or(|at| at.elapsed() >= SAMPLE_EVERY);
        if due {
            self.sampled = Some(Instant::now());
        }
        due
    }

    /// The highest memory since the last call, `earlier` high-water marks of the same stretch included.
    fn read(&mut self, earlier: Bytes) -> Peak {
        let reading = self.meter.peak();
        self.meter.reset_peak();
        if self.process_read.is_none_or(|at| at.elapsed() >= PROCESS_EVERY) {
            self.process = (self.read_process)();
            self.process_read = Some(Instant::now());
        }
        let now = Peak {
            live: reading.live.max(earlier).saturating_sub(self.idle.live),
            reserved: reading.reserved.saturating_sub(self.idle.reserved),
            process: self.process,
        };
        self.peak = Peak {
            live: self.peak.live.max(now.live),
            reserved: self.peak.reserved.max(now.reserved),
            process: self.peak.process.max(now.process),
        };
        now
    }
}

impl MicroBatch for Batch {
    fn samples(&self) -> usize {
        self.len
    }

    fn inputs(&self) -> HostSlice<'_> {
        self.inputs.slice()
    }

    fn labels(&self) -> &[u32] {
        &self.labels
    }
}

/// The next training batch; there is always one.
fn next(loader: &mut Loader) -> Result<Batch> {
    loader.recv()?.ok_or_else(|| Error::Misused("the loader ended before the run".to_owned()))
}

/// A run under way.
struct RunLoop<'a, 'j> {
    spec: &'a RunSpec<'j>,
    experiment: &'a Experiment,
    loader: Loader,
    sampler: MemorySampler,
    waited: Duration,
    began: Instant,
    summary: &'a mut Summary,
    /// Images that the user knows are skipped.
    skipped: usize,
    /// Steps whose numbers are on their way, in order.
    pending: VecDeque<Queued>,
    /// When the numbers of the last step came.
    came: Instant,
}

/// A step whose numbers are on their way.
struct Queued {
    step: u64,
    learning_rate: f64,
    pending: PendingStep,
    began: Instant,
    memory: Peak,
}

impl<'a, 'j> RunLoop<'a, 'j> {
    fn new(spec: &'a RunSpec<'j>, loader: Loader, sampler: MemorySampler, summary: &'a mut Summary) -> Self {
        let experiment = &*spec.plan.experiment;
        let (waited, began, pending) = (Duration::ZERO, Instant::now(), VecDeque::with_capacity(AHEAD + 1));
        Self { spec, experiment, loader, sampler, waited, began, summary, skipped: 0, pending, came: began }
    }

    fn run<B: Backend>(&mut self, executor: Executor<B>, inbox: &mut Inbox<'_>) -> Result<()> {
        let result = self.steps(executor, inbox);
        // The last reading must be a fresh one.
        self.sampler.process_read = None;
        self.sampler.read(Bytes::ZERO);
        self.summary.measured = self.sampler.peak;
        self.summary.secs = self.secs();
        result
    }

    /// Seconds since the run began, pauses excluded.
    fn secs(&self) -> f64 {
        self.began.elapsed().saturating_sub(self.waited).as_secs_f64()
    }

    fn steps<B: Backend>(&mut self, executor: Executor<B>, inbox: &mut Inbox<'_>) -> Result<()> {
        let plan = self.spec.plan;
        let mut session = Session::new(executor, self.experiment, self.spec.plan.resolved.info())?;
        session.upload_dataset(&self.spec.dataset)?;
        let every = match self.experiment.run.evaluate_every {
            0 => plan.steps_per_epoch,
            every => every,
        };
        self.report_skipped();
        let mut step = 0;
        while step < plan.total_steps {
            if inbox.is_paused() {
                // A user who goes step by step sees each step before the next.
                self.tell(&mut session, 0)?;
            }
            match inbox.turn(self.spec.events, &mut self.waited)? {
                Turn::Evaluate => self.evaluate(&mut session, step, inbox)?,
                Turn::Step => {
                    step += 1;
                    self.step(&mut session, step)?;
                    if step % every.max(1) == 0 && step < plan.total_steps {
                        self.evaluate(&mut session, step, inbox)?;
                    }
                }
            }
        }
        self.evaluate(&mut session, step, inbox)
    }

    fn step<B: Backend>(&mut self, session: &mut Session<B>, step: u64) -> Result<()> {
        let learning_rate = learning_rate(&self.experiment.optimizer, step, self.spec.plan.total_steps);
        // Sampled steps are drawn over the steady step's prediction; the first step has another timeline.
        let is_sampled = step > 1 && self.sampler.is_sample_due();
        if is_sampled {
            session.executor().sample(Rc::clone(&self.sampler.meter));
        }
        let start = Instant::now();
        let loader = &mut self.loader;
        let pending = session.begin_step(learning_rate, || next(loader));
        let sampled = if is_sampled { self.show_sample(session, step) } else { Bytes::ZERO };
        let memory = self.sampler.read(sampled);
        self.pending.push_back(Queued { step, learning_rate, pending: pending?, began: start, memory });
        self.tell(session, AHEAD)
    }

    /// Reports the steps whose numbers have come, and waits for those before the last `ahead`.
    fn tell<B: Backend>(&mut self, session: &mut Session<B>, ahead: usize) -> Result<()> {
        while self.pending.len() > ahead || self.pending.front().is_some_and(|queued| queued.pending.is_ready()) {
            let Some(queued) = self.pending.pop_front() else { break };
            self.tell_of(session, queued)?;
        }
        Ok(())
    }

    fn tell_of<B: Backend>(&mut self, session: &mut Session<B>, queued: Queued) -> Result<()> {
        let Queued { step, learning_rate, pending, began, memory } = queued;
        let output = pending.wait().map_err(|error| match error {
            Error::DeviceLost(lost) => DeviceLost { place: format!("step {step}"), ..lost }.into(),
            error => error,
        })?;
        // A step that was queued behind another began when that one was done.
        let now = Instant::now();
        let secs = now.duration_since(began.max(self.came)).as_secs_f64();
        self.came = now;
        self.summary.steps = step;
        self.summary.train_loss = Some(output.loss);
        self.summary.skipped_steps += u64::from(output.skipped);
        self.spec.events.send(Event::Step(StepRecord {
            step,
            loss: output.loss,
            accuracy: output.accuracy,
            learning_rate,
            gradient_norm: output.gradient_norm,
            loss_scale: output.loss_scale,
            skipped: output.skipped,
            at_secs: self.secs(),
            secs,
            live: memory.live,
            reserved: memory.reserved,
            process: memory.process,
        }));
        if output.skipped {
            let half = output.loss_scale / 2.0;
            self.warn(|| format!("step {step}: a gradient overflowed f16, so the update was skipped and the loss scale halved to {half}"));
        }
        if output.loss.is_finite() && (output.gradient_norm.is_finite() || output.skipped) {
            return Ok(());
        }
        let batch = next(&mut self.loader)?;
        Err(Error::NotFinite(uncounted(|| session.not_finite(step, batch))))
    }

    /// Shows the measured memory of the step, op by op; returns its highest value, the idle level included.
    fn show_sample<B: Backend>(&self, session: &Session<B>, step: u64) -> Bytes {
        let mut samples = session.executor().take_samples();
        let highest = samples.iter().copied().max().unwrap_or_default();
        uncounted(|| {
            // A long accumulation is predicted by its first micro-batches: the repetitions before the update go.
            let points = &self.spec.plan.steady.points;
            let update = points.iter().position(|p| p.phase == Phase::Optimizer).unwrap_or(points.len());
            let repeated = samples.len().saturating_sub(points.len());
            samples.drain(update.min(samples.len())..(update + repeated).min(samples.len()));
            let idle = self.sampler.idle.live;
            let measured_step: Arc<[Bytes]> = samples.iter().map(|high| high.saturating_sub(idle)).collect();
            drop(samples);
            self.spec.events.set_latest(Latest { run: self.spec.id, measured_step, measured_in_step: step });
        });
        highest
    }

    /// Tests the model. Commands are obeyed between batches: so a long test does not delay the end of the run.
    fn evaluate<B: Backend>(&mut self, session: &mut Session<B>, step: u64, inbox: &mut Inbox<'_>) -> Result<()> {
        let events = self.spec.events;
        self.tell(session, 0)?;
        events.send(Event::Evaluating { step });
        let samples = self.spec.plan.resolved.evaluation_batch();
        let mut test = Loader::test(Arc::clone(&self.spec.dataset), samples)?;
        let (loss, accuracy) = session.evaluate(|| {
            inbox.listen(events)?;
            test.recv()
        })?;
        drop(test);
        self.report_skipped();
        self.sampler.read(Bytes::ZERO);
        self.summary.test_accuracy = Some(accuracy);
        self.summary.best_test_accuracy = Some(self.summary.best_test_accuracy.unwrap_or(0.0).max(accuracy));
        self.spec.events.send(Event::Evaluated { step, at_secs: self.secs(), loss, accuracy });
        Ok(())
    }

    /// Says what of the data could not be read, when it is more than was said before.
    fn report_skipped(&mut self) {
        uncounted(|| {
            if let Some(skipped) = self.spec.dataset.skipped().filter(|skipped| skipped.count > self.skipped) {
                self.skipped = skipped.count;
                self.spec.events.send(Event::Warning(skipped.to_string()));
            }
        });
    }

    fn warn(&self, text: impl FnOnce() -> String) {
        uncounted(|| self.spec.events.send(Event::Warning(text())));
    }
}
