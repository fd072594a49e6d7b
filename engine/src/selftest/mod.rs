//! Checks that the program runs on itself: a device's results are right, and its memory is as predicted.
//!
//! Owns the checks and their references; they run from the program alone, on any [`Backend`]. Kernels are compared with the
//! CPU in f64, gradients with finite differences, allocations with the dry run. Always holds: a check that fails, or faults,
//! ends itself and not the others. Refuses: to time anything.

pub mod cases;
pub mod compare;
mod device;
pub mod draw;
pub mod experiments;
mod families;
pub mod gradients;
mod kernels;
mod memory;
mod runs;
pub mod steps;
mod weights;

pub use device::run_on;
pub use kernels::{Outcome, launch};

use std::{
    ops::ControlFlow,
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
    time::Instant,
};

use serde::Serialize;

use crate::{
    backend::{Backend, Cpu, DryRun, Executor, Rates},
    bytes::Bytes,
    device::{Processor, Target, cpu_threads},
    error::{Error, Result, panic_text},
    experiment::{Experiment, limits::MAX_BUDGET},
    memory::{Ledger, probe::Meter},
};
use cases::Extent;
use compare::Worst;

/// A device to check.
pub struct Bench<B: Backend> {
    /// Takes the device in use, with an account; where the account has a budget, the device keeps it as well.
    pub open: Box<dyn Fn(Ledger) -> Result<Executor<B>>>,
    /// The target of the device.
    pub target: Target,
    /// The bytes that are alive on the device, as it reports them.
    pub measured: Rc<dyn Fn() -> Bytes>,
    /// The most that one tensor takes in addition to its bytes: the device's rounding, and the engine's bookkeeping.
    pub beside: Bytes,
}

impl Bench<Cpu> {
    /// The CPU, as the threads see it that `meter` counts.
    pub fn cpu(meter: &'static Meter) -> Self {
        Self {
            open: Box::new(|ledger| {
                // If no line is to be kept, every write behind a block is to be seen.
                let guarded = if ledger.budget().is_none() { Cpu::guarded(cpu_threads()) } else { None };
                Ok(Executor::new(guarded.unwrap_or_else(|| Cpu::new(cpu_threads())), ledger))
            }),
            target: cpu(),
            measured: Rc::new(|| meter.now().live),
            beside: Bytes::kib(1),
        }
    }
}

fn cpu() -> Target {
    Target::Cpu(Processor::detect())
}

impl<B: Backend> Bench<B> {
    /// The device without a line, each op recorded or not.
    fn open_free(&self, experiment: &Experiment, recording: bool) -> Result<Executor<B>> {
        (self.open)(self.account(experiment, None, recording))
    }

    /// A dry run of the device.
    fn open_dry(&self, account: Ledger) -> Executor<DryRun> {
        Executor::new(DryRun::new(self.target.clone(), Rates::NOMINAL), account)
    }

    /// An account of the device for a run of `experiment`; a budget is its line.
    fn account(&self, experiment: &Experiment, budget: Option<Bytes>, recording: bool) -> Ledger {
        let line = budget.unwrap_or(MAX_BUDGET);
        Ledger::for_target(&self.target, experiment.gpu.pool, line, budget.is_some(), recording)
    }
}

/// Which checks, on which numbers.
#[derive(Debug, Clone)]
pub struct Choice {
    /// Decides every random number.
    pub seed: u64,
    /// How many sizes are tried.
    pub extent: Extent,
    /// Only checks whose names contain one of these; all checks if there is none.
    pub only: Vec<String>,
}

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Check {
    /// The check's name, such as `kernel/f32/matmul`.
    pub name: String,
    /// Whether all was as it should be.
    pub ok: bool,
    /// The two things that were compared.
    pub compared: String,
    /// The largest difference in relation to its tolerance.
    pub worst_error: f64,
    /// The tolerance there.
    pub tolerance: f64,
    /// How long it took.
    pub secs: f64,
    /// The fault, if there was one.
    pub fault: Option<String>,
}

/// The result of a check that found no fault.
struct Found {
    compared: String,
    worst: Worst,
}

impl Found {
    fn new(compared: impl Into<String>, worst: Worst) -> Self {
        Self { compared: compared.into(), worst }
    }
}

/// The fault that a check found.
#[derive(Debug)]
pub struct Fault {
    message: String,
    worst: Worst,
}

impl Fault {
    fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), worst: Worst::default() }
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::new(error.to_string())
    }
}

/// Takes a check as soon as it is done, and says whether the next is to be made.
pub type Report<'a> = dyn FnMut(Check) -> ControlFlow<()> + Send + 'a;

/// Checks a device. Every check is reported as soon as it is done.
pub fn run<B: Backend>(bench: &Bench<B>, choice: &Choice, report: &mut Report<'_>) {
    let mut runner = Runner { only: &choice.only, is_ended: false, report };
    kernels::run(bench, choice, &mut runner);
    gradients::run(bench, choice, &mut runner);
    steps::run(bench, choice, &mut runner);
    runs::run(bench, choice, &mut runner);
    memory::run(bench, choice, &mut runner);
}

/// Runs checks one by one.
struct Runner<'a> {
    only: &'a [String],
    /// No further check is to be made.
    is_ended: bool,
    report: &'a mut Report<'a>,
}

impl Runner<'_> {
    /// Whether a check of this name is asked for.
    fn wants(&self, name: &str) -> bool {
        !self.is_ended && (self.only.is_empty() || self.only.iter().any(|part| name.contains(part.as_str())))
    }

    /// Runs a check, if it is asked for.
    fn check(&mut self, name: impl Into<String>, of: impl FnOnce() -> Result<Found, Fault>) {
        let name = name.into();
        if !self.wants(&name) {
            return;
        }
        let start = Instant::now();
        let result = catch_unwind(AssertUnwindSafe(of))
            .unwrap_or_else(|panic| Err(Fault::new(format!("a fault in the engine: {}", panic_text(&*panic)))));
        let secs = start.elapsed().as_secs_f64();
        let (compared, worst, fault) = match result {
            Ok(found) => (found.compared, found.worst, None),
            Err(fault) => (String::new(), fault.worst, Some(fault.message)),
        };
        let Worst { error: worst_error, tolerance } = worst;
        let check = Check { name, ok: fault.is_none(), compared, worst_error, tolerance, secs, fault };
        self.is_ended = (self.report)(check).is_break();
    }
}

#[cfg(test)]
mod tests;
