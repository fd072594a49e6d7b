//! A GPU that runs take place on: what it holds beside tensors, and what the driver says of it.

use std::{rc::Rc, sync::Arc};

use crate::{
    backend::{
        Cuda,
        cuda::{Device, Options},
    },
    bytes::Bytes,
    device::{Profile, Target},
    error::{DeviceFull, Error, Result},
    experiment::{self, Experiment, PoolPolicy},
    hardware::{self, Figure, detected, gpu},
    memory::probe::Measure,
    plan::Plan,
    train::process::Process,
};

/// The op that cuDNN is for, by its name in timelines.
const CONVOLUTION: &str = "convolution";

/// A GPU, open and warmed up.
pub(crate) struct Gpu {
    device: Rc<Device>,
    process: Process,
}

impl Gpu {
    /// Opens a GPU, starts the libraries on it, and makes known what they hold.
    ///
    /// # Errors
    /// What is missing.
    pub(crate) fn open(index: usize) -> Result<Self> {
        let before = detected::before(index);
        let start = || {
            let device = Device::open(index)?;
            let pool = device.warm_up()?;
            Ok((device, pool))
        };
        let (device, pool) = start().map_err(|error| told_how_full(index, error))?;
        let process = Process::of(&device, &before, pool);
        Ok(Self { device, process })
    }

    /// The driver's number for it.
    pub(super) fn index(&self) -> usize {
        self.device.index()
    }

    /// A backend for one run of what `profile` was planned for: its pool ends where `budget` does, less what the process
    /// holds beside it.
    ///
    /// # Errors
    /// The driver's, and a card that has no room for the whole budget where that is to be taken at the start.
    pub(crate) fn backend(&self, profile: &Arc<Profile>, choice: &experiment::Gpu, budget: Bytes) -> Result<Cuda> {
        let context = profile.context;
        let left = budget.saturating_sub(context);
        if left == Bytes::ZERO {
            return Err(Error::Device(format!(
                "the driver and its libraries alone hold {context}, which leaves nothing of a budget of {budget}"
            )));
        }
        // Of whole pages, which is how a pool grows: a driver that rounds a limit up would let a pool past the line. Where there
        // is room for none, the ledger refuses the first tensor; to the driver, a limit of nothing would be none.
        let page = profile.pool.page.0.max(1);
        let limit = if left.0 < page { left } else { Bytes(left.0 - left.0 % page) };
        let gives_back = choice.pool == PoolPolicy::Release;
        let options = Options { gives_back, tf32: choice.tf32, deterministic: choice.deterministic };
        let backend = Cuda::new(&self.device, Arc::clone(profile), Some(limit), options)?;
        // A pool grows by segments: one that has no room for any holds nothing, and the ledger refuses its first tensor.
        if choice.pool == PoolPolicy::Reserve && limit >= profile.pool.segment {
            backend.pool().reserve_all().map_err(|error| match error {
                Error::DeviceFull(full) => DeviceFull { label: "the whole budget at once", ..full }.into(),
                error => error,
            })?;
        }
        Ok(backend)
    }

    /// Reads what this process holds of the card.
    pub(super) fn process(&self) -> Box<dyn Fn() -> Bytes> {
        let process = self.process.clone();
        Box::new(move || process.bytes())
    }

    /// Looks again at what the process holds, while no run is under way: a window, too, takes memory of its card.
    pub(super) fn look_again(&self) {
        if let Some(held) = self.process.reported() {
            detected::set_held(self.index(), held, None);
        }
    }

    /// Waits until it has nothing to do.
    ///
    /// # Errors
    /// It failed, and nobody has noticed yet.
    pub(super) fn finish(&self) -> Result<()> {
        self.device.finish()
    }

    /// Remembers what the process holds beside the pool of a run that has ended, and returns it; `ran` is the run that went to
    /// its end. Where the driver does not tell memory by process, what others took meanwhile would count as well: nothing is
    /// learnt.
    pub(super) fn learn(&self, pool: &dyn Measure, ran: Option<&Experiment>) -> Option<Bytes> {
        let (process, reserved) = (self.process.reported()?, pool.now().reserved);
        let held = (process > reserved).then(|| process - reserved)?;
        detected::set_held(self.index(), held, ran);
        Some(held)
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        detected::closed(self.index());
    }
}

/// Why a run takes longer on a GPU than it would elsewhere, if it does.
pub(super) fn slower(plan: &Plan) -> Option<String> {
    let convolves = plan.first.points.iter().any(|point| point.op == CONVOLUTION);
    let why = hardware::cudnn().err().filter(|_| convolves)?;
    Some(format!("convolutions run by kernels of our own, which takes longer than by cuDNN: {why}"))
}

/// Bytes of a GPU that anyone holds.
fn used(index: usize) -> Figure<Bytes> {
    detected::uuid(index).and_then(|uuid| gpu::used(&uuid))
}

/// An error of opening a GPU, with how full the card is where that is why.
fn told_how_full(index: usize, error: Error) -> Error {
    let Error::DeviceFull(full) = error else { return error };
    let Ok(Target::Gpu(profile)) = hardware::target(&format!("cuda:{index}")) else { return full.into() };
    let total = profile.capacity;
    let free = used(index).map(|used| total.saturating_sub(used)).unwrap_or_default();
    DeviceFull { free, total, ..full }.into()
}
