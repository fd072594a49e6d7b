//! This machine as it is when it is planned for: measured once, and with the memory that is free then.
//!
//! The rates of its processor are measured by the engine's own kernels. On a machine that was not measured, nominal
//! rates rank configurations, and seconds are only rough. A card's rates are the peaks of its profile: no step is faster, and
//! how much slower it is shows only when it runs.

use crate::{
    backend::thread_pool::{ThreadPool, ThreadPriority},
    bytes::Bytes,
    device::Target,
    error::Result,
    hardware::{Machine, Touched},
    memory::{host::FreeMemory, program},
    plan::{Plan, Resolved, predict, rates},
};

/// This machine, measured on `pool` while nothing else of the program runs: the GPUs that the driver shows, the rates of the
/// processor by the engine's own kernels, and the size of the process. Takes some tens of milliseconds, and longer where a
/// driver has to be woken.
pub fn measured_machine(pool: &ThreadPool) -> Machine {
    let machine = Machine::detect();
    // Where a kernel fails, nominal rates still rank: no reason not to plan.
    let machine = pool.run(rates::rates).map(|rates| machine.with_rates(rates)).unwrap_or(machine);
    // The heap that the kernels leave is no part of what a run comes on top of, as the run uses it again.
    pool.give_back();
    let is_mapped = pool.has_mapped_code() && program::map_ahead();
    machine.with_process_beside(Bytes::ZERO, if is_mapped { Touched::Mapped } else { Touched::Little })
}

/// Bytes of a process that trains in addition to one that plans: the trainer's thread, the queue of events, and the code that
/// makes them. `train` was 2.4 to 2.6 MB larger than `plan` at this point. Where the system's cache has the program in large
/// blocks, which a sequential reading of its file leaves, it is 1.5 MB more or less.
const TRAINS_WITH: Bytes = Bytes::kib(2624);

/// This machine, measured once by threads of its own, which end afterwards. The size of the process is that of one that trains.
pub fn this_machine() -> Machine {
    let pool = ThreadPool::new(ThreadPriority::Normal);
    let machine = pool.as_ref().map_or_else(|_| Machine::detect(), measured_machine);
    // Measured while its threads are there, as they are in a run.
    to_train_on(&machine.with_process_base(machine.process_base() + TRAINS_WITH), 0)
}

/// The same machine with the memory that a run would find free that begins now, however near it is to what was known. The run
/// has `more` threads than the usual two.
fn to_train_on(machine: &Machine, more: usize) -> Machine {
    machine.with_free_memory(None).with_free_memory(FreeMemory::to_train(more))
}

/// [`predict()`](predict::predict()) on this machine, for a run of another process: with the memory that the plan itself
/// leaves free, because a run holds a plan as well.
///
/// # Errors
/// The errors of [`predict()`](predict::predict()).
pub fn predict_here(resolved: &Resolved, machine: &Machine) -> Result<Plan> {
    let plan = predict::predict(resolved, machine)?;
    let threads = match &plan.target {
        Target::Cpu(processor) => processor.threads + plan.experiment.data.workers,
        Target::Gpu(_) => plan.experiment.data.workers,
    };
    Ok(Plan { machine: to_train_on(&plan.machine, threads.saturating_sub(2)), ..plan })
}
