//! The devices that can be checked, by the names that `device` gives them.

use super::{Bench, Choice, Report, run};
use crate::{
    backend::thread_pool::{ThreadPool, ThreadPriority},
    device::target::{cuda_index, not_trained_on},
    error::Result,
    hardware::Machine,
};

/// Checks the device of this name, as [`run`] does: `cpu`, or a GPU that is here, such as `cuda:0`.
///
/// # Errors
/// Fails when the device is not here, or when it is a card that can only be planned for.
pub fn run_on(device: &str, choice: &Choice, report: &mut Report<'_>) -> Result<()> {
    if let Some(problem) = not_trained_on(device) {
        return Err(problem.into());
    }
    let machine = Machine::detect();
    machine.target(device)?;
    let index = cuda_index(device);
    let pool = ThreadPool::new(ThreadPriority::Normal)?;
    let meter = pool.meter();
    pool.run(|| match index {
        None => {
            run(&Bench::cpu(meter), choice, report);
            Ok(())
        }
        Some(index) => on_gpu(index as usize, &machine, choice, report),
    })
}

#[cfg(feature = "cuda")]
fn on_gpu(index: usize, machine: &Machine, choice: &Choice, report: &mut Report<'_>) -> Result<()> {
    run(&Bench::gpu(index, machine)?, choice, report);
    Ok(())
}

#[cfg(not(feature = "cuda"))]
fn on_gpu(_: usize, _: &Machine, _: &Choice, _: &mut Report<'_>) -> Result<()> {
    let (message, mend) = ("this program was built without CUDA", "build it with the feature `cuda`, or choose cpu");
    Err(crate::error::Problem::new("device", message, mend).into())
}

#[cfg(feature = "cuda")]
impl Bench<crate::backend::Cuda> {
    /// A GPU. Each time it is used, its tensors come from a new pool, whose counters are the measurement.
    ///
    /// # Errors
    /// Fails, and names the part that is missing on this machine.
    pub fn gpu(index: usize, machine: &Machine) -> Result<Self> {
        use std::{cell::RefCell, rc::Rc, sync::Arc};

        use crate::{
            backend::Executor,
            device::Target,
            error::Error,
            experiment::{self, Experiment},
            memory::probe::Measure,
            train::gpu::Gpu,
        };

        let (mut machine, device) = (machine.clone(), format!("cuda:{index}"));
        let gpu = Gpu::open(index, &mut machine)?;
        // As runs do.
        gpu.check_attention(&mut machine);
        machine.keep_gpu(index);
        let target = machine.target_of(&Experiment { device, ..Experiment::default() })?;
        let Target::Gpu(profile) = &target else { return Err(Error::Misused(format!("cuda:{index} is not a GPU"))) };
        let profile = Arc::clone(profile);
        let last: Rc<RefCell<Option<Rc<dyn Measure>>>> = Rc::default();
        let measured = {
            let last = Rc::clone(&last);
            move || last.borrow().as_ref().map(|pool| pool.now().live).unwrap_or_default()
        };
        let open = move |ledger: crate::memory::Ledger| {
            let budget = ledger.budget().unwrap_or(profile.capacity);
            // If no line is to be kept, every write behind a block is to be seen.
            let guarded = ledger.budget().is_none();
            let backend = gpu.backend(&profile, &experiment::Gpu::default(), budget, guarded)?;
            let pool: Rc<dyn Measure> = Rc::clone(backend.pool()) as Rc<dyn Measure>;
            *last.borrow_mut() = Some(pool);
            Ok(Executor::new(backend, ledger))
        };
        // The size to which the driver rounds a block up.
        Ok(Self { open: Box::new(open), target, measured: Rc::new(measured), beside: crate::bytes::Bytes(512) })
    }
}
