//! The GPU of a run: the memory in addition to tensors, and the driver's figures.

use std::{
    cell::{Cell, OnceCell},
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    backend::{
        Cuda,
        cuda::{Device, Options, Pool, attention},
    },
    bytes::Bytes,
    device::{Profile, Target},
    error::{DeviceFull, Error, Problem, Result},
    experiment::{self, PoolPolicy, limits::MAX_BUDGET},
    hardware::{self, Machine, gpu},
    memory::{Ledger, guard::is_guarded, probe::Measure},
    plan::Plan,
    train::{attention_check, loaded::Loaded, process::Process},
};

/// The op that cuDNN is for, by its name in timelines.
const CONVOLUTION: &str = "convolution";
/// The interval at which the compiling of kernels is reported.
const COMPILING_EVERY: Duration = Duration::from_secs(5);

/// A GPU, open and warmed up.
pub(crate) struct Gpu {
    device: Rc<Device>,
    process: Process,
    /// Whether attention may use tensor cores.
    tensor_cores: Cell<bool>,
}

impl Gpu {
    /// Opens a GPU and starts the libraries on it. `machine` is updated with the new facts, also if opening fails, because
    /// the libraries may have started.
    ///
    /// # Errors
    /// Fails, and names the part that is missing on this machine.
    pub(crate) fn open(index: usize, machine: &mut Machine) -> Result<Self> {
        let uuid = machine.uuid(index).map_err(Error::NoDevice)?;
        let before;
        (*machine, before) = machine.with_usage_before(&uuid);
        let start = || {
            let device = Device::open(index)?;
            let pool = device.warm_up()?;
            Ok((device, pool))
        };
        let (device, pool) = start().map_err(|error| told_how_full(index, &uuid, machine, error))?;
        let process;
        (process, *machine) = Process::of(&device, &uuid, &before, pool, machine);
        let tensor_cores = attention::asked_for_tensor_cores().or(machine.tensor_cores(index)).unwrap_or(false);
        Ok(Self { device, process, tensor_cores: Cell::new(tensor_cores) })
    }

    /// Finds out whether attention on tensor cores is right on this card, unless that is known or the environment decides.
    /// `machine` keeps it.
    pub(crate) fn check_attention(&self, machine: &mut Machine) {
        let index = self.device.index();
        let has_cores = attention::has_tensor_cores(self.device.capability());
        let is_decided = attention::asked_for_tensor_cores().is_some() || machine.tensor_cores(index).is_some();
        let Some(profile) = machine.profile(&format!("cuda:{index}")).filter(|_| has_cores && !is_decided) else {
            return;
        };
        let (choice, target) = (experiment::Gpu::default(), Target::Gpu(Arc::clone(&profile)));
        let open = |tensor_cores| {
            self.tensor_cores.set(tensor_cores);
            self.backend(&profile, &choice, profile.capacity, false)
        };
        let account = || Ledger::for_target(&target, choice.pool, MAX_BUDGET, false, false);
        let found = attention_check::is_right(open, account);
        self.tensor_cores.set(found.as_ref().is_ok_and(|is_right| *is_right));
        // A check that could not be made is made again by the next program.
        if let Ok(is_right) = found {
            *machine = machine.with_tensor_cores(index, is_right);
        }
    }

    /// The GPU itself.
    pub(super) fn device(&self) -> &Rc<Device> {
        &self.device
    }

    /// The driver's number for it.
    pub(super) fn index(&self) -> usize {
        self.device.index()
    }

    /// A backend for one run that was planned for `profile`: its pool may grow to `budget` less the process's memory in
    /// addition to the pool. If `guarded`, or if the environment asks for it, every block has a gap behind it.
    ///
    /// # Errors
    /// Fails when the driver does, and, where the whole budget is taken at the start, when the card has no room for it.
    pub(crate) fn backend(
        &self,
        profile: &Arc<Profile>,
        choice: &experiment::Gpu,
        budget: Bytes,
        guarded: bool,
    ) -> Result<Cuda> {
        let context = profile.context;
        let left = budget.saturating_sub(context);
        if left == Bytes::ZERO {
            let [budget, context] = budget.beside(context);
            let message =
                format!("{budget} is not more than the driver and its libraries alone hold, which is {context}");
            return Err(Problem::new("budget", message, "raise it").into());
        }
        // A pool grows by whole pages, so the limit is whole pages; the one segment of planned places may be mapped in smaller
        // steps. The limit is at least a page, because to the driver a limit of zero means no limit; without room for a page,
        // the ledger refuses the first tensor.
        let mapped = profile.pool.mapped.filter(|_| choice.pool == PoolPolicy::Planned);
        let page = mapped.unwrap_or(profile.pool.page).0.max(1);
        let limit = if left.0 < page { left } else { Bytes(left.0 - left.0 % page) };
        let (gives_back, guarded) = (choice.pool == PoolPolicy::Release, guarded || is_guarded());
        let tensor_cores = self.tensor_cores.get();
        let (tf32, deterministic) = (choice.tf32, choice.deterministic);
        let options = Options { gives_back, tf32, deterministic, guarded, tensor_cores };
        let backend = Cuda::new(&self.device, Arc::clone(profile), Some(limit), options)?;
        // A pool grows by segments: one that has no room for any holds nothing, and the ledger refuses its first tensor.
        if choice.pool == PoolPolicy::Reserve && limit >= profile.pool.segment && !guarded {
            backend.pool().reserve_all().map_err(|error| match error {
                Error::DeviceFull(full) => DeviceFull { label: "the whole budget at once", ..full }.into(),
                error => error,
            })?;
        }
        Ok(backend)
    }

    /// Says to `warn`, until the next call, that kernels are being compiled, when the first of them is and every few seconds.
    pub(super) fn say_compiling(&self, warn: impl Fn(String) + 'static) {
        let said = Cell::new(None::<Instant>);
        let before = Cell::new(None::<usize>);
        self.device.tell_of_compiling(Some(Box::new(move |count| {
            if said.get().is_some_and(|at| at.elapsed() < COMPILING_EVERY) {
                return;
            }
            said.set(Some(Instant::now()));
            let first = before.get().unwrap_or(count);
            before.set(Some(first));
            let so_far = if count > first { format!(", {} so far", count - first) } else { String::new() };
            warn(format!("compiling kernels for this GPU{so_far}; they are kept, so that it is done once"));
        })));
    }

    /// Why a run of `plan` may not have the room that it was planned to have, if others hold too much of the card.
    pub(super) fn crowded(&self, plan: &Plan) -> Option<String> {
        let free = Bytes(self.device.free_bytes().ok()?);
        let needed = plan.peak.reserved;
        let follows = if hardware::spills_to_host() {
            "Windows moves the rest to the computer's memory, where steps take many times as long"
        } else {
            "the run ends where the card is full"
        };
        (needed > free).then(|| {
            format!("{free} of the card are free, and this run needs {needed}: {follows}; close other programs on it")
        })
    }

    /// What follows once the kernels of a run of `plan` are loaded, with the room for its graphs.
    pub(super) fn loading(&self, plan: &Plan, context: Bytes, pool: &Rc<Pool>) -> Loaded {
        Loaded {
            process: self.process.clone(),
            device: Rc::clone(&self.device),
            pool: Rc::clone(pool),
            graphs: Rc::new(Cell::new(plan.graphs)),
            context,
            is_told: OnceCell::new(),
        }
    }

    /// Reads the bytes that this process holds of the card.
    pub(super) fn process(&self) -> Box<dyn Fn() -> Bytes> {
        let process = self.process.clone();
        Box::new(move || process.bytes())
    }

    /// The bytes of the process while no run is active, if the driver reports them: a window, too, takes memory of its card.
    pub(super) fn held_idle(&self) -> Option<Bytes> {
        self.process.reported()
    }

    /// Waits until the GPU is idle.
    ///
    /// # Errors
    /// A failure that nothing has reported yet.
    pub(super) fn finish(&self) -> Result<()> {
        self.device.finish()
    }

    /// The bytes of the process in addition to the pool of a run that has ended. If the driver does not report memory by
    /// process, memory that others took meanwhile would count as well, so nothing is known then.
    pub(super) fn held_beside(&self, pool: &dyn Measure) -> Option<Bytes> {
        let (process, reserved) = (self.process.reported()?, pool.now().reserved);
        (process > reserved).then(|| process - reserved)
    }
}

/// Why a run takes longer on a GPU than it would elsewhere, if it does.
pub(super) fn slower(plan: &Plan) -> Option<String> {
    let convolves = plan.first.points.iter().any(|point| point.op == CONVOLUTION);
    let why = hardware::cudnn().err().filter(|_| convolves)?;
    Some(format!("convolutions run by kernels of our own, which takes longer than by cuDNN: {why}"))
}

/// An error of opening a GPU, with how full the card is if that is why.
fn told_how_full(index: usize, uuid: &str, machine: &Machine, error: Error) -> Error {
    let Error::DeviceFull(full) = error else { return error };
    let Ok(Target::Gpu(profile)) = machine.target(&format!("cuda:{index}")) else { return full.into() };
    let total = profile.capacity;
    let free = gpu::used(uuid).map(|used| total.saturating_sub(used)).unwrap_or_default();
    DeviceFull { free, total, ..full }.into()
}
