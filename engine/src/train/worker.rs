//! The devices that runs train on: the processor's threads, and the GPU that was used last.
//!
//! Always holds: a GPU stays open from run to run, because starting its libraries takes a second; a GPU that failed is closed,
//! however its run ended, and the next run opens it again. Everything here belongs to the trainer's thread.

#[cfg(feature = "cuda")]
use std::rc::Rc;

use crate::{
    backend::{
        Backend, Cpu, Executor,
        thread_pool::{ThreadPool, ThreadPriority},
    },
    bytes::Bytes,
    device::target,
    error::{Error, Result},
    experiment::Experiment,
    hardware::{Machine, Touched},
    memory::{Ledger, guard::is_guarded, heap, host::Line, probe::uncounted, program},
    plan::{
        Forward, Plan, Resolved,
        predict::{places::are_in_range, process},
        time,
    },
    train::{
        command::Inbox,
        event::Summary,
        event_sink::EventSink,
        run::{self, RunSpec},
    },
};
#[cfg(feature = "cuda")]
use crate::{
    device::Target,
    hardware::Ran,
    memory::probe::Measure,
    tensor::DType,
    train::{
        event::Event,
        gpu::Gpu,
        loaded::{SHORT, is_short_by_itself},
    },
};

/// Work on a device that is not training.
pub(super) trait Use {
    /// The result, made where no meter counts.
    type Output;

    /// Does the work.
    ///
    /// # Errors
    /// [`crate::Error::Budget`] if it would cross the line, and the failures of the device.
    fn run<B: Backend>(self, executor: Executor<B>) -> Result<Self::Output>;
}

/// The memory that such work took.
#[derive(Debug, Clone, Copy)]
pub(super) struct Measured {
    /// Most bytes alive.
    pub(super) live: Bytes,
}

/// The devices that runs train on.
pub(super) struct Worker {
    threads: Result<ThreadPool>,
    priority: ThreadPriority,
    machine: Machine,
    /// Whether a run on the processor has begun before.
    has_trained: bool,
    #[cfg(feature = "cuda")]
    gpu: Option<Gpu>,
    /// The GPU that failed last.
    #[cfg(feature = "cuda")]
    failed: Option<usize>,
}

impl Worker {
    /// The processor, its threads ready and its rates measured.
    pub(super) fn new(priority: ThreadPriority) -> Self {
        let threads = ThreadPool::new(priority);
        let machine = threads.as_ref().map_or_else(|_| Machine::detect(), time::measured_machine);
        Self {
            priority,
            machine: if priority == ThreadPriority::Background { machine.with_window() } else { machine },
            threads,
            has_trained: false,
            #[cfg(feature = "cuda")]
            gpu: None,
            #[cfg(feature = "cuda")]
            failed: None,
        }
    }

    /// The processor, of a machine that was measured before.
    pub(super) fn knowing(machine: Machine, priority: ThreadPriority) -> Self {
        Self {
            threads: ThreadPool::new(priority),
            priority,
            machine,
            has_trained: false,
            #[cfg(feature = "cuda")]
            gpu: None,
            #[cfg(feature = "cuda")]
            failed: None,
        }
    }

    /// The machine as far as it is known now.
    pub(super) fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Takes over facts about the machine that were found elsewhere.
    pub(super) fn learn(&mut self, machine: Machine) {
        self.machine = machine;
    }

    /// Measures the size of the process before a run, when only its data are loaded, of `held` bytes, and hands free memory back
    /// to the system: before that, but in a window, which takes the memory again as it is drawn.
    pub(super) fn measure_process(&mut self, held: Bytes) {
        if !self.has_window() {
            self.give_back();
        }
        let has_mapped_code = self.threads.as_ref().is_ok_and(ThreadPool::has_mapped_code) && program::map_ahead();
        let touched = match (self.has_trained, has_mapped_code) {
            (true, _) => Touched::Trained,
            (false, true) => Touched::Prepared,
            (false, false) => Touched::Unmapped,
        };
        self.machine = self.machine.with_process_beside(held, touched);
        if self.has_window() {
            self.give_back();
        }
    }

    /// Looks again at the size of an idle process, which has `held` bytes of data of the last run in place: a window grows as it
    /// is drawn.
    pub(super) fn look_at_idle_process(&mut self, held: Bytes) {
        self.machine = self.machine.with_process_between_runs(held);
    }

    /// Whether the process shows a window.
    pub(super) fn has_window(&self) -> bool {
        self.priority == ThreadPriority::Background
    }

    /// Keeps how the process has grown by a run of `plan` on the processor, for later ones. A process whose size is only read
    /// now and then may have been larger in between, and that of a guarded run has gaps.
    pub(super) fn saw(&mut self, plan: &Plan, is_kept: bool, summary: &Summary) {
        if plan.target.is_gpu() || summary.is_process_sampled || is_guarded() {
            return;
        }
        self.machine = process::seen(plan, &self.machine, is_kept, summary.measured.process);
    }

    /// Hands free memory back to the system, that of the processor's threads included.
    pub(super) fn give_back(&self) {
        self.threads.as_ref().map_or_else(|_| heap::give_back(), ThreadPool::give_back);
    }

    /// Measures the memory that the system can give between runs; the last run left `held` bytes of data in place.
    pub(super) fn measure_memory(&mut self, held: Bytes) {
        self.give_back();
        self.machine = self.machine.with_free_memory_measured(held);
    }

    /// The processor's threads.
    ///
    /// # Errors
    /// Fails when the system gives no threads.
    pub(super) fn threads(&self) -> Result<&ThreadPool> {
        self.threads.as_ref().map_err(Clone::clone)
    }

    /// Makes the device of `experiment` ready and measures it; reports slow work to `events`.
    ///
    /// # Errors
    /// Fails when the device is not here, or when nothing trains on it.
    pub(super) fn prepare(&mut self, experiment: &Experiment, events: &EventSink) -> Result<()> {
        if let Some(problem) = target::not_trained_on(&experiment.device) {
            return Err(problem.into());
        }
        self.machine.target(&experiment.device)?;
        match target::cuda_index(&experiment.device) {
            Some(index) => {
                self.open(index as usize)?;
                self.check(experiment, events);
                Ok(())
            }
            None => {
                self.use_threads(experiment.run.threads());
                Ok(())
            }
        }
    }

    /// Changes the number of the processor's threads, if it differs.
    fn use_threads(&mut self, count: usize) {
        if self.threads.as_ref().is_ok_and(|pool| pool.count() == count) {
            return;
        }
        // The old ones end first, so that their memory is given back.
        self.threads = Err(Error::Stopped);
        self.threads = ThreadPool::of(count, self.priority);
    }

    /// Finds out, once for each card, whether attention may use its tensor cores.
    #[cfg(feature = "cuda")]
    fn check(&mut self, experiment: &Experiment, events: &EventSink) {
        let is_narrow = matches!(experiment.precision.compute(), DType::Bf16 | DType::F16);
        if let Some(gpu) = self.gpu.as_ref().filter(|_| is_narrow && experiment.model.kind.has_attention()) {
            gpu.say_compiling(events.warner());
            gpu.check_attention(&mut self.machine);
            // The kernels that the check loaded stay.
            if let Some(held) = gpu.held_idle() {
                self.machine = self.machine.with_gpu_held(gpu.index(), held, Ran::Nothing);
            }
            self.machine.keep_gpu(gpu.index());
        }
    }

    #[cfg(not(feature = "cuda"))]
    fn check(&mut self, _: &Experiment, _: &EventSink) {}

    #[cfg(feature = "cuda")]
    fn open(&mut self, index: usize) -> Result<()> {
        if let Some(gpu) = self.gpu.as_ref().filter(|gpu| gpu.index() == index) {
            if let Some(held) = gpu.held_idle() {
                self.machine = self.machine.with_gpu_held(index, held, Ran::Nothing);
            }
            return Ok(());
        }
        // The memory of one GPU is freed before that of another is taken.
        self.close();
        let has_failed = self.failed == Some(index);
        let gpu = Gpu::open(index, &mut self.machine).map_err(|error| match error {
            Error::Device(_) | Error::NoDevice(_) | Error::DeviceLost(_) if has_failed => Error::Device(format!(
                "cuda:{index} failed in an earlier run, and since then the driver does not serve this program there; start \
                 the program again, or train on the processor ({error})"
            )),
            error => error,
        })?;
        self.gpu = Some(gpu);
        self.machine.keep_gpu(index);
        Ok(())
    }

    #[cfg(feature = "cuda")]
    fn close(&mut self) {
        if let Some(gpu) = self.gpu.take() {
            self.machine = self.machine.with_gpu_closed(gpu.index());
        }
    }

    #[cfg(not(feature = "cuda"))]
    fn open(&mut self, _: usize) -> Result<()> {
        let message = "this program was built without CUDA";
        Err(crate::error::Problem::new("device", message, "build it with the feature `cuda`, or choose cpu").into())
    }

    /// Trains to the end of the run, on the prepared device.
    ///
    /// # Errors
    /// The error that ended the run.
    pub(super) fn train(&mut self, spec: &RunSpec<'_>, inbox: &mut Inbox<'_>, summary: &mut Summary) -> Result<()> {
        if target::cuda_index(&spec.plan.experiment.device).is_none() {
            self.has_trained = true;
            return run::on_cpu(spec, self.threads()?, inbox, summary);
        }
        self.train_on_gpu(spec, inbox, summary)
    }

    #[cfg(feature = "cuda")]
    fn train_on_gpu(&mut self, spec: &RunSpec<'_>, inbox: &mut Inbox<'_>, summary: &mut Summary) -> Result<()> {
        let gpu = self.gpu.as_ref().ok_or_else(|| Error::Misused("the GPU was not opened".to_owned()))?;
        let (result, held) = run::on_gpu(spec, gpu, inbox, summary);
        if let Some(held) = held {
            let experiment = &*spec.plan.experiment;
            let begun = spec.from.as_ref().map_or(0, |from| from.step);
            let ran = match &result {
                Ok(()) => Ran::Whole(experiment),
                Err(Error::Budget(_)) if summary.steps > begun => Ran::Step(experiment),
                Err(Error::DeviceFull(full)) if is_short_by_itself(full, spec.plan, held) => {
                    spec.events.send(Event::Warning(SHORT.to_owned()));
                    Ran::Short(experiment)
                }
                Err(_) => Ran::Nothing,
            };
            self.machine = self.machine.with_gpu_held(gpu.index(), held, ran);
        }
        if let Some(captured) = &summary.graphs {
            self.machine = self.machine.with_graphs(gpu.index(), captured);
        }
        self.machine.keep_gpu(gpu.index());
        // A run that was stopped, or ended by something else, may not have noticed.
        if let Err(fault) = gpu.finish() {
            self.failed = Some(gpu.index());
            self.close();
            return if matches!(result, Err(Error::Device(_))) { Err(fault) } else { result };
        }
        if matches!(result, Err(Error::Device(_))) {
            self.close();
        }
        result
    }

    #[cfg(not(feature = "cuda"))]
    fn train_on_gpu(&mut self, spec: &RunSpec<'_>, _: &mut Inbox<'_>, _: &mut Summary) -> Result<()> {
        self.prepare(&spec.plan.experiment, spec.events)
    }

    /// Uses the device that was prepared for forward passes alone, inside `line`; returns the result, and the most bytes
    /// that were alive meanwhile.
    ///
    /// # Errors
    /// The errors of `work`.
    pub(super) fn answer<U: Use + Send>(
        &self,
        work: U,
        resolved: &Resolved,
        forward: &Forward,
        line: Line,
    ) -> Result<(U::Output, Measured)>
    where
        U::Output: Send,
    {
        if resolved.target().is_gpu() {
            return self.answer_on_gpu(work, resolved, forward);
        }
        let pool = self.threads()?;
        let meter = pool.meter();
        let idle = meter.now();
        meter.reset_peak();
        let result = pool.run(|| {
            let ledger = Ledger::within(line, are_in_range(resolved.experiment()));
            ledger.keep_books(forward.bookkeeping);
            ledger.follow(forward.places.as_ref());
            // The error leaves this thread as a copy that its meter does not count.
            let executor = Executor::new(Cpu::of_run(pool.count(), forward.reserved)?, ledger);
            work.run(executor).map_err(|error| uncounted(|| error.clone()))
        });
        let live = meter.peak().live.saturating_sub(idle.live);
        heap::give_back();
        result.map(|output| (output, Measured { live }))
    }

    #[cfg(feature = "cuda")]
    fn answer_on_gpu<U: Use>(&self, work: U, resolved: &Resolved, forward: &Forward) -> Result<(U::Output, Measured)> {
        let (gpu, experiment) = (self.gpu.as_ref(), resolved.experiment());
        let (Some(gpu), Target::Gpu(profile)) = (gpu, resolved.target()) else {
            return Err(Error::Misused("the GPU was not opened".to_owned()));
        };
        let backend = gpu.backend(profile, &experiment.gpu, forward.budget, false)?;
        let pool = Rc::clone(backend.pool());
        let ledger = Ledger::for_target(backend.target(), experiment.gpu.pool, forward.budget, true, false);
        ledger.follow(forward.places.as_ref());
        let result = work.run(Executor::new(backend, ledger));
        let live = pool.peak().live;
        gpu.finish()?;
        result.map(|output| (output, Measured { live }))
    }

    #[cfg(not(feature = "cuda"))]
    fn answer_on_gpu<U: Use>(&self, _: U, resolved: &Resolved, _: &Forward) -> Result<(U::Output, Measured)> {
        self.machine.target(&resolved.experiment().device)?;
        Err(Error::Misused("this program was built without CUDA".to_owned()))
    }

    /// Drops the parts that a panic may have left in an unknown state.
    pub(super) fn abandon(&mut self) {
        #[cfg(feature = "cuda")]
        self.close();
    }
}
