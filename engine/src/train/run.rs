//! A run on its target: its parts, and the memory before, during and after it.

use std::{rc::Rc, sync::Arc};

#[cfg(feature = "cuda")]
use crate::{
    backend::Backend,
    bytes::Bytes,
    device::Target,
    error::Error,
    memory::probe::{Measure, Reading},
    train::{
        event::Event,
        gpu::{self, Gpu},
    },
};
use crate::{
    backend::{Cpu, Executor, thread_pool::ThreadPool},
    data::{Answers, Dataset, Loader, Position},
    error::Result,
    experiment::Experiment,
    interop::Fitted,
    memory::{
        Ledger,
        host::Line,
        probe::{self, uncounted},
    },
    plan::{Plan, predict::places::are_in_range},
    sync::Mutex,
    train::{
        checkpoint::{Checkpoint, Progress},
        command::Inbox,
        event::{RunId, Summary},
        event_sink::EventSink,
        keep::Keep,
        memory_sampler::MemorySampler,
        run_loop::RunLoop,
    },
};

/// The parts that a run is made of.
pub(super) struct RunSpec<'a> {
    pub(super) id: RunId,
    pub(super) plan: &'a Arc<Plan>,
    /// The line of a run on the CPU.
    pub(super) line: Line,
    pub(super) dataset: Arc<Dataset>,
    pub(super) events: &'a EventSink,
    /// Where the run's checkpoints go.
    pub(super) keep: &'a Keep,
    /// Where it stood in the checkpoint that it goes on from.
    pub(super) from: Option<Progress>,
    /// That checkpoint, until it is read: Windows replaces no file that is open, and the run's next one has its name.
    pub(super) checkpoint: Mutex<Option<Checkpoint>>,
    /// The weights that its model begins with, until they are loaded.
    pub(super) weights: Mutex<Option<Fitted>>,
    /// The weights of its teacher, until they are loaded.
    pub(super) teacher: Mutex<Option<Fitted>>,
    /// The checksum of that.
    pub(super) teacher_checksum: Option<u32>,
}

/// Trains on the processor to the end of the run. `summary` holds the progress, however the run ends.
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
        let ledger = Ledger::within(spec.line, are_in_range(&spec.plan.experiment));
        ledger.keep_books(spec.plan.bookkeeping);
        ledger.follow(spec.plan.places.as_ref());
        let backend = Cpu::of_run(pool.count(), spec.plan.peak.reserved);
        let result = backend.and_then(|backend| run.run(Executor::new(backend, ledger), inbox));
        let sampler = run.into_sampler();
        uncounted(|| drop(sampler));
        // The error leaves this thread as a copy that its meter does not count.
        result.map_err(|error| uncounted(|| error.clone()))
    });
    summary.left_over = meter.now().live.saturating_sub(idle.live);
    summary.is_process_sampled = !is_reset;
    if is_reset && let Some(process) = probe::process() {
        // The system keeps its mark from counters that each of its processors has a share of, so the mark may be a few hundred
        // KiB below a size that was read.
        summary.measured.process = summary.measured.process.max(process.peak_resident);
    }
    result
}

/// Trains on a GPU, as [`on_cpu`] does; also returns the bytes of the process in addition to the pool at the end, if the
/// driver reports them.
#[cfg(feature = "cuda")]
pub(super) fn on_gpu(
    spec: &RunSpec<'_>,
    gpu: &Gpu,
    inbox: &mut Inbox<'_>,
    summary: &mut Summary,
) -> (Result<()>, Option<Bytes>) {
    let experiment = &*spec.plan.experiment;
    let Target::Gpu(profile) = &spec.plan.target else {
        return (Err(Error::Misused(format!("{} is not a GPU", experiment.device))), None);
    };
    if let Some(slower) = gpu::slower(spec.plan) {
        spec.events.send(Event::Warning(slower));
    }
    if let Some(crowded) = gpu.crowded(spec.plan) {
        spec.events.send(Event::Warning(crowded));
    }
    gpu.say_compiling(spec.events.warner());
    let backend = match gpu.backend(profile, &experiment.gpu, spec.plan.budget, false) {
        Ok(backend) => backend,
        Err(error) => return (Err(error), None),
    };
    let pool = Rc::clone(backend.pool());
    let loading = gpu.loading(spec.plan, profile.context, &pool);
    let room = Rc::clone(&loading.graphs);
    backend.capture(move || room.get());
    let result = spec.loader().and_then(|loader| {
        let sampler = MemorySampler::new(Rc::clone(&pool) as Rc<dyn Measure>, Reading::default(), gpu.process());
        let mut run = RunLoop::new(spec, loader, sampler, summary);
        run.settling(Box::new(|ledger| loading.settle(spec.plan, ledger, spec.events.warner())));
        let ledger = Ledger::for_target(backend.target(), experiment.gpu.pool, spec.plan.budget, true, false);
        ledger.follow(spec.plan.places.as_ref());
        run.run(Executor::new(backend, ledger), inbox)
    });
    let (captured, device) = (gpu.device().captured(), gpu.device());
    summary.graphs = (captured.graphs > 0).then_some(captured);
    if result.is_ok()
        && let Some(why) = device.why_not_captured()
    {
        spec.events.send(Event::Warning(format!("not every step was launched as a graph: {why}")));
    }
    if result.is_ok()
        && let Some(why) = pool.why_not_mapped()
    {
        spec.events.send(Event::Warning(format!(
            "tensors lay in blocks of the driver's pool, in place of mapped memory: {why}"
        )));
    }
    if result.is_ok()
        && let Some(why) = device.why_no_epilogue()
    {
        spec.events.send(Event::Warning(format!("kernels of our own ran for some biases and their gradients: {why}")));
    }
    summary.left_over = pool.now().live;
    summary.is_process_sampled = true;
    let held = gpu.held_beside(&*pool);
    // A driver may keep what graphs took.
    let allowed = profile.context + spec.plan.graphs;
    // A run that ended for it says so itself.
    let is_told = matches!(result, Err(Error::Budget(_)));
    if let Some(held) = held.filter(|held| *held > allowed && !is_told) {
        // The driver takes the memory of kernels by itself, and nothing can refuse it.
        spec.events.send(Event::Warning(format!(
            "driver and kernels hold {held} on the GPU, {} more than was allowed for: the process came to {} of a budget of \
             {}; the next plan accounts for it",
            held - allowed,
            summary.measured.process,
            spec.plan.budget
        )));
    }
    (result, held)
}

impl RunSpec<'_> {
    /// The loader of the first samples. If a teacher is asked before the first step, they are the samples that it is asked
    /// about.
    fn loader(&self) -> Result<Loader> {
        if self.plan.resolved.answers().is_none() {
            return self.training_loader(None);
        }
        let micro = self.plan.experiment.batch.micro;
        Loader::lessons(Arc::clone(&self.dataset), micro, self.plan.resolved.feed())
    }

    /// The loader of the steps, from where the run goes on; with the teacher's answers, if it was asked before.
    pub(super) fn training_loader(&self, answers: Option<Arc<Answers>>) -> Result<Loader> {
        let Experiment { batch, run, .. } = &*self.plan.experiment;
        let from = self.from.as_ref().map_or(Position::default(), |from| from.position);
        let (dataset, feed) = (Arc::clone(&self.dataset), self.plan.resolved.feed());
        Loader::train_taught(from, dataset, run.seed, [batch.micro, batch.accumulation], feed, answers)
    }
}
