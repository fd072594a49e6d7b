//! The facts of this machine that a prediction needs, as a value.
//!
//! Owns [`Machine`]: the processor's threads and rates, the process's memory before a run, the memory that the system can
//! still give it, and the GPUs that are here with their measurements. Always holds: a `Machine` never changes; a measurement
//! makes another one of a higher version, so plans compare only where they were made for the same version. Refuses a
//! device's name that means nothing here, and names the valid ones.

mod measured;

#[cfg(feature = "cuda")]
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::{
    backend::Rates,
    bytes::Bytes,
    device::{
        Description, Instructions, Processor, Profile, Target,
        profile::{self, PoolProfile},
        target::{cuda_index, problem},
    },
    error::{Problem, Result},
    experiment::Experiment,
    hardware::{Begun, Figure, Ran, RunKind, Touched, known_gpu::KnownGpu, seen_runs::SeenRuns},
    memory::host::FreeMemory,
};
#[cfg(feature = "cuda")]
use crate::{device::graphs::Captured, hardware::usage::UsageBefore};

/// This machine as far as it is known. Cheap to clone.
///
/// # Examples
///
/// ```
/// use plimsoll_engine::hardware::Machine;
///
/// // `Machine::detect` asks the driver for GPUs; the nominal machine asks nothing.
/// let machine = Machine::nominal();
/// assert!(!machine.target("cpu")?.is_gpu());
///
/// // A card that ships with the program can be planned for without having it.
/// assert!(machine.target("rtx4060-8g")?.is_gpu());
/// assert!(machine.target("rtx-no-such-card").is_err());
/// # Ok::<(), plimsoll_engine::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Machine(Arc<Known>);

#[derive(Debug, Clone, PartialEq)]
struct Known {
    version: u64,
    processor: Processor,
    rates: Rates,
    process_base: Bytes,
    /// How the process has begun.
    begun: Begun,
    /// Bytes of the program's code.
    code: Bytes,
    /// The growth by runs that were made before.
    seen: Arc<SeenRuns>,
    /// The free memory; `None` if the system does not report it, and for a nominal machine.
    free_memory: Option<FreeMemory>,
    /// `None` before they were looked for.
    gpus: Option<Figure<Vec<KnownGpu>>>,
    /// How full each GPU was before this process opened it, by the driver's name for it.
    #[cfg(feature = "cuda")]
    before: BTreeMap<String, UsageBefore>,
}

impl Machine {
    /// A machine before any measurement: nominal rates, a process of 0 bytes, memory without limit, no GPU. It reads only
    /// the processor's properties, so it is the same on every call.
    pub fn nominal() -> Self {
        let (processor, rates) = (Processor::detect(), Rates::NOMINAL);
        let known = Known {
            version: 0,
            processor,
            rates,
            process_base: Bytes::ZERO,
            begun: Begun { touched: Touched::Little, has_window: false },
            code: Bytes::ZERO,
            seen: Arc::default(),
            free_memory: None,
            gpus: None,
            #[cfg(feature = "cuda")]
            before: BTreeMap::new(),
        };
        Self(Arc::new(known))
    }

    /// This machine: the GPUs that the driver shows, with earlier measurements of them, the size of this process, and the
    /// memory that the system can still give it. The rates of the processor are nominal until they are
    /// [measured](Self::with_rates). Waking a driver may take a second.
    pub fn detect() -> Self {
        let found = super::describe()
            .map(|found| (0..).zip(found).map(|(index, gpu)| KnownGpu::remembered(index, gpu)).collect());
        Self::nominal()
            .changed(|known| (known.gpus, known.seen) = (Some(found), Arc::new(SeenRuns::kept())))
            .with_process_measured()
            .with_free_memory(FreeMemory::now())
    }

    /// Rises with everything that is measured.
    pub fn version(&self) -> u64 {
        self.0.version
    }

    /// Rates of the kernels on `target`; with `tf32`, products of f32 are rounded to TF32.
    pub fn rates(&self, target: &Target, tf32: bool) -> Rates {
        match target {
            Target::Cpu(processor) => self.0.rates.of_threads(processor.threads, self.0.processor.threads),
            Target::Gpu(profile) => Rates::of_card(profile, tf32),
        }
    }

    /// The bytes of the process before a run and without its data.
    pub fn process_base(&self) -> Bytes {
        self.0.process_base
    }

    /// The most bytes that a process comes to in a run of this kind, which takes `bytes` beside the pages of the program that it
    /// is the first to touch.
    pub(crate) fn process_in_a_run(&self, run: RunKind<'_>, bytes: Bytes) -> Bytes {
        self.0.process_base + self.0.seen.growth(run, self.0.begun, self.allowed(run, bytes))
    }

    /// What such a run is allowed for that was never seen.
    fn allowed(&self, run: RunKind<'_>, bytes: Bytes) -> Bytes {
        self.0.begun.to_come(self.0.code, run.goes_on) + bytes
    }

    /// The memory that the system can give this process before a run and its data; `None` if it does not report it.
    pub fn free_memory(&self) -> Option<FreeMemory> {
        self.0.free_memory
    }

    /// The GPUs that are here and can be trained on, in the driver's order.
    ///
    /// # Errors
    /// The reason why nothing can be trained on a GPU here.
    pub fn gpus(&self) -> Figure<impl Iterator<Item = &Arc<Profile>>> {
        Ok(self.known_gpus()?.iter().map(KnownGpu::profile))
    }

    /// Whether `device` is a GPU of this machine and the GPUs were not looked for yet: their facts come with a later
    /// version.
    pub fn is_yet_to_find(&self, device: &str) -> bool {
        self.0.gpus.is_none() && cuda_index(device).is_some()
    }

    /// The profile of this name, for a GPU that is here or a card that ships.
    pub fn profile(&self, name: &str) -> Option<Arc<Profile>> {
        match cuda_index(name) {
            Some(index) => self.gpu(index as usize).map(|gpu| Arc::clone(gpu.profile())),
            None => profile::named(name),
        }
    }

    /// The target that `device` names: the processor, a GPU that is here, or a card to plan for.
    ///
    /// # Errors
    /// Fails for an unknown name, and for a GPU that is not here.
    pub fn target(&self, device: &str) -> Result<Target> {
        if let Some(problem) = problem(device) {
            return Err(problem.into());
        }
        if device == "cpu" {
            return Ok(Target::Cpu(self.0.processor));
        }
        self.profile(device).map(Target::Gpu).ok_or_else(|| {
            let why = self.known_gpus().err().map(|why| format!(" ({why})")).unwrap_or_default();
            let example = profile::shipped().first().map_or("", |profile| &profile.slug);
            let mend = format!("choose cpu, or plan for a card by its name, such as {example}");
            Problem::new("device", format!("there is no GPU {device} here{why}"), mend).into()
        })
    }

    /// The target of `experiment`. The context of a GPU that is here allows for the kernels that this run has yet to load.
    ///
    /// # Errors
    /// Fails if [`target`](Self::target) does.
    pub fn target_of(&self, experiment: &Experiment) -> Result<Target> {
        let target = match self.target(&experiment.device)? {
            Target::Cpu(processor) if experiment.run.threads > 0 => {
                Target::Cpu(Processor { threads: experiment.run.threads, ..processor })
            }
            target => target,
        };
        let gpu = cuda_index(&experiment.device).and_then(|index| self.gpu(index as usize));
        let (Target::Gpu(profile), Some(gpu)) = (&target, gpu) else { return Ok(target) };
        let context = profile.context + gpu.kernels_of(experiment);
        Ok(Target::Gpu(Arc::new(Profile { context, ..(**profile).clone() })))
    }

    /// The driver's permanent name for the GPU at an index.
    ///
    /// # Errors
    /// The reason why there is no such GPU.
    pub fn uuid(&self, index: usize) -> Figure<String> {
        let gpu = self.known_gpus()?.get(index).ok_or_else(|| format!("there is no GPU cuda:{index}"))?;
        Ok(gpu.description().uuid.clone())
    }

    /// The same machine after a look at how full the GPU of this name is, unless this process has opened it before; and that
    /// look.
    #[cfg(feature = "cuda")]
    #[must_use]
    pub(crate) fn with_usage_before(&self, uuid: &str) -> (Self, UsageBefore) {
        if let Some(known) = self.0.before.get(uuid) {
            return (self.clone(), known.clone());
        }
        let before = UsageBefore::now(uuid);
        (self.changed(|known| drop(known.before.insert(uuid.to_owned(), before.clone()))), before)
    }

    /// The same machine with another number of threads of the processor.
    #[must_use]
    pub fn with_threads(&self, threads: usize) -> Self {
        self.changed(|known| known.processor.threads = threads)
    }

    /// The same with a processor that has these instructions.
    #[must_use]
    pub fn with_instructions(&self, instructions: Instructions) -> Self {
        self.changed(|known| known.processor.instructions = instructions)
    }

    /// The same machine with these GPUs in place of those that are here.
    #[must_use]
    pub fn with_gpus(&self, gpus: Vec<Description>) -> Self {
        let gpus = (0..).zip(gpus).map(|(index, gpu)| KnownGpu::new(index, gpu)).collect();
        self.changed(|known| known.gpus = Some(Ok(gpus)))
    }

    /// The same machine after a GPU was opened, with the process's bytes on it: as the driver `reported` them, or else the
    /// most that they may be. `bound` is the growth of the card's use, from which that follows. `pool` is how its pool hands
    /// out memory.
    #[must_use]
    pub fn with_gpu_opened(
        &self,
        index: usize,
        reported: &Figure<Bytes>,
        bound: Bytes,
        pool: PoolProfile,
    ) -> (Self, Bytes) {
        let mut held = reported.clone().unwrap_or(bound);
        let machine = self.with_gpu(index, |gpu| {
            let (opened, bytes) = gpu.opened(reported, bound, pool);
            held = bytes;
            opened
        });
        (machine, held)
    }

    /// The same machine with the process's present bytes on an open GPU in addition to its pool, after this.
    #[must_use]
    pub fn with_gpu_held(&self, index: usize, held: Bytes, ran: Ran<'_>) -> Self {
        self.with_gpu(index, |gpu| gpu.holding(held, ran))
    }

    /// The same machine after a GPU was closed: all that the process held of kernels and libraries is gone.
    #[must_use]
    pub fn with_gpu_closed(&self, index: usize) -> Self {
        self.with_gpu(index, KnownGpu::closed)
    }

    /// Whether attention on the tensor cores of the GPU at an index was right; `None` if it was not checked.
    #[cfg(feature = "cuda")]
    pub(crate) fn tensor_cores(&self, index: usize) -> Option<bool> {
        self.gpu(index)?.tensor_cores(&crate::backend::cuda::attention::tensor_kernels())
    }

    /// The same machine after a check of attention on tensor cores.
    #[cfg(feature = "cuda")]
    #[must_use]
    pub(crate) fn with_tensor_cores(&self, index: usize, is_right: bool) -> Self {
        let kernels = crate::backend::cuda::attention::tensor_kernels();
        self.with_gpu(index, |gpu| gpu.with_tensor_cores(kernels, is_right))
    }

    /// The same machine after a run on the GPU at an index whose graphs took this much of it.
    #[cfg(feature = "cuda")]
    #[must_use]
    pub(crate) fn with_graphs(&self, index: usize, captured: &Captured) -> Self {
        self.with_gpu(index, |gpu| gpu.with_graphs(captured))
    }

    fn known_gpus(&self) -> Figure<&[KnownGpu]> {
        match &self.0.gpus {
            Some(Ok(gpus)) => Ok(gpus),
            Some(Err(why)) => Err(why.clone()),
            None => Err("the GPUs were not looked for yet".to_owned()),
        }
    }

    fn gpu(&self, index: usize) -> Option<&KnownGpu> {
        self.known_gpus().ok()?.get(index)
    }

    /// Writes the measurements of the GPU at an index for the next program. A disk that is full costs a measurement, which
    /// the next program makes again.
    pub fn keep_gpu(&self, index: usize) {
        if let Some(gpu) = self.gpu(index) {
            gpu.keep();
        }
    }

    fn with_gpu(&self, index: usize, change: impl FnOnce(&KnownGpu) -> KnownGpu) -> Self {
        self.changed(|known| {
            if let Some(gpu) =
                known.gpus.as_mut().and_then(|gpus| gpus.as_mut().ok()).and_then(|gpus| gpus.get_mut(index))
            {
                *gpu = change(gpu);
            }
        })
    }

    fn changed(&self, change: impl FnOnce(&mut Known)) -> Self {
        let mut known = Known::clone(&self.0);
        change(&mut known);
        if known == *self.0 {
            return self.clone();
        }
        known.version += 1;
        Self(Arc::new(known))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described() -> Description {
        Description {
            name: "Measured".to_owned(),
            uuid: "1234".to_owned(),
            capability: (8, 9),
            multiprocessors: 20,
            total_bytes: 8 << 30,
            clock_hz: 1e9,
            memory_bytes_per_sec: 1e11,
            driver: "12.9".to_owned(),
            maps_memory: true,
        }
    }

    #[test]
    fn names_mean_the_processor_a_gpu_by_number_or_a_card() {
        let machine = Machine::nominal();
        assert!(matches!(machine.target("cpu"), Ok(Target::Cpu(Processor { threads: 1.., .. }))));
        let card = machine.target("rtx4060-8g").expect("ships");
        assert_eq!(card.profile().map(|p| p.slug.as_str()), Some("rtx4060-8g"));
    }

    #[test]
    fn a_gpu_that_is_not_here_is_answered_with_what_can_be_planned_for() {
        let said = Machine::nominal().target("cuda:97").expect_err("none").to_string();
        assert!(said.contains("no GPU cuda:97 here") && said.contains("gtx1660-6g"), "{said}");
    }

    #[test]
    fn a_slip_of_the_finger_finds_its_card() {
        let machine = Machine::nominal();
        let said = machine.target("rtx4060-8gb").expect_err("none").to_string();
        assert!(said.contains("did you mean rtx4060-8g?"), "{said}");
        assert!(machine.target("toaster").expect_err("none").to_string().contains("write cpu, cuda:0"));
    }

    #[test]
    fn a_gpu_that_is_here_is_found_by_its_number() {
        let target = Machine::nominal().with_gpus(vec![described()]).target("cuda:0").expect("known");
        assert_eq!(target.profile().map(|p| (p.slug.as_str(), p.title.as_str())), Some(("cuda:0", "Measured")));
    }

    #[test]
    fn a_measurement_makes_another_machine_and_leaves_the_first_as_it_was() {
        let first = Machine::nominal();
        let second = first.with_process_base(Bytes::mib(20));
        assert_eq!((first.process_base(), second.process_base()), (Bytes::ZERO, Bytes::mib(20)));
        assert!(second.version() > first.version());
        assert_eq!(second.with_process_base(Bytes::mib(20)).version(), second.version(), "nothing new is known");
    }
}
