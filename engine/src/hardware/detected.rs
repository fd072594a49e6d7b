//! The GPUs that are here: made known with what the driver says of them and what was measured on them before.
//!
//! Owns what a process holds of a GPU beside its pool: what it held when it was opened, kept for each kind of card and
//! version of CUDA, what it holds now, and what the kernels of each run add to it. Holds: a run's kernels that were never
//! seen are allowed for, so that a plan is not below what comes; what the driver does not tell is not kept, nor called
//! measured. Refuses nothing: without a driver there are none.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    path::PathBuf,
    sync::{MutexGuard, OnceLock},
};

use serde::{Deserialize, Serialize};

use crate::{
    backend::cuda::{self, Description},
    bytes::Bytes,
    cache,
    device::profile::{self, PeakRates, PoolProfile, Profile},
    experiment::{Experiment, Likeness, step},
    hardware::{Figure, gpu, host_pid},
    sync::Mutex,
};

/// What was measured on a kind of GPU, kept from program to program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Measured {
    /// The most that a process held beside its pool once the libraries were started.
    opened: Option<Bytes>,
    /// How the pool hands out memory.
    pool: Option<PoolProfile>,
    /// What a process held more after a run, by the [`kernels`] of the run: kernels are loaded when they are first used. Of
    /// several measurements the least, for each counts what other runs had loaded as well.
    loaded: BTreeMap<String, Bytes>,
}

/// What this process holds of a GPU that it opened.
#[derive(Debug, Clone, Default)]
struct OpenGpu {
    /// Whether the driver tells what the process holds; else it is only a bound.
    is_reported: bool,
    opened: Bytes,
    /// Beside the pool, when it was last asked.
    held: Bytes,
    /// The kernels that are loaded.
    loaded: BTreeSet<String>,
}

/// What the kernels of a run may take that was never seen: a bound.
const KERNELS: Bytes = Bytes::mib(96);
/// The same where a run of other sizes has loaded all but those that the libraries choose by sizes.
const OTHER_SIZES: Bytes = Bytes::mib(32);
/// What a run of known kernels may take more than it did: a bound.
const MORE: Bytes = Bytes::mib(4);
/// Runs of which it is kept what their kernels take. Beyond them it is forgotten, and measured again.
const KEPT: usize = 512;

/// The GPUs that are here, or why there are none; asked of the driver once.
pub(super) fn found() -> &'static Figure<Vec<Description>> {
    static FOUND: OnceLock<Figure<Vec<Description>>> = OnceLock::new();
    FOUND.get_or_init(cuda::describe)
}

/// Why nothing can be trained on a GPU here.
///
/// # Errors
/// What is missing, and where to get it.
pub(crate) fn missing() -> Figure<()> {
    found().as_ref().map(drop).map_err(Clone::clone)
}

/// Makes every GPU that is here known, once.
pub(crate) fn discover() {
    static ONCE: OnceLock<()> = OnceLock::new();
    ONCE.get_or_init(|| {
        for (index, gpu) in found().iter().flatten().enumerate() {
            register(index, gpu);
        }
    });
}

/// How the driver names the GPU at an index for good.
pub(crate) fn uuid(index: usize) -> Figure<String> {
    let gpus = found().as_ref().map_err(Clone::clone)?;
    gpus.get(index).map(|gpu| gpu.uuid.clone()).ok_or_else(|| format!("there is no GPU cuda:{index}"))
}

/// How full a GPU was, and who computed on it, before this process opened it.
#[derive(Debug, Clone)]
pub(crate) struct UsageBefore {
    /// Bytes that anyone held.
    pub(crate) used: Figure<Bytes>,
    /// The driver's numbers for those who computed.
    numbers: Figure<Vec<u32>>,
}

/// How the GPU at an index was before this process first opened it: the libraries keep what they took of it, so that a later
/// look would see what is our own.
pub(crate) fn before(index: usize) -> UsageBefore {
    static FIRST: Mutex<BTreeMap<usize, UsageBefore>> = Mutex::new(BTreeMap::new());
    let look = || {
        let uuid = uuid(index);
        let (used, numbers) =
            (uuid.clone().and_then(|uuid| gpu::used(&uuid)), uuid.and_then(|uuid| gpu::numbers(&uuid)));
        UsageBefore { used, numbers }
    };
    FIRST.lock().entry(index).or_insert_with(look).clone()
}

/// What the driver says that this process holds of a GPU that it has just opened.
///
/// # Errors
/// Why it does not tell.
pub(crate) fn reported(index: usize, before: &UsageBefore) -> Figure<Bytes> {
    let uuid = uuid(index)?;
    if let Ok(before) = &before.numbers {
        host_pid::find(before, &gpu::numbers(&uuid)?);
    }
    let held = gpu::process(&uuid)?;
    if held == Bytes::ZERO {
        return Err("the driver does not list this process".to_owned());
    }
    Ok(held)
}

/// A GPU was opened, and its pool hands out memory so. Returns what the process holds of it: what the driver tells, or where
/// it does not, the most of what it may be, of which nothing is kept. `bound` is what the card's use has grown by.
pub(crate) fn opened(index: usize, reported: &Figure<Bytes>, bound: Bytes, pool: PoolProfile) -> Bytes {
    let Some(gpu) = found().iter().flatten().nth(index) else { return reported.clone().unwrap_or(bound) };
    let is_reported = reported.is_ok();
    let held = reported.clone().unwrap_or_else(|_| {
        let stored = known().get(&gpu.kind()).and_then(|known| known.opened).unwrap_or_default();
        bound.max(stored).max(shipped_or_estimated(gpu).context)
    });
    open_gpus().insert(index, OpenGpu { is_reported, opened: held, held, loaded: BTreeSet::new() });
    update(gpu, |known| {
        if is_reported {
            known.opened = known.opened.max(Some(held));
        }
        known.pool = Some(pool);
    });
    register(index, gpu);
    held
}

/// What the process now holds of an open GPU beside its pool; `ran` is the experiment of a run that went to its end, all of
/// whose kernels are therefore loaded.
pub(crate) fn set_held(index: usize, held: Bytes, ran: Option<&Experiment>) {
    let Some(gpu) = found().iter().flatten().nth(index) else { return };
    let more = {
        let mut all = open_gpus();
        let here = all.entry(index).or_default();
        here.held = here.held.max(held);
        here.loaded.extend(
            ran.iter().flat_map(|ran| [Likeness::Exact, Likeness::AtAnySize].map(|likeness| kernels(ran, likeness))),
        );
        here.held.saturating_sub(here.opened)
    };
    if let Some(experiment) = ran {
        update(gpu, |known| {
            if known.loaded.len() >= KEPT {
                known.loaded.clear();
            }
            known
                .loaded
                .entry(kernels(experiment, Likeness::Exact))
                .and_modify(|least| *least = more.min(*least))
                .or_insert(more);
        });
    }
    register(index, gpu);
}

/// A GPU was closed, and all that it held of kernels and libraries is gone.
pub(crate) fn closed(index: usize) {
    open_gpus().remove(&index);
    if let Some(gpu) = found().iter().flatten().nth(index) {
        register(index, gpu);
    }
}

/// What the kernels of a run of `experiment` may add to what the process holds of the GPU at an index.
pub(super) fn kernels_of(index: usize, experiment: &Experiment) -> Bytes {
    let Some(gpu) = found().iter().flatten().nth(index) else { return Bytes::ZERO };
    let (all, own) = (kernels(experiment, Likeness::Exact), kernels(experiment, Likeness::AtAnySize));
    let (is_loaded, is_like) = open_gpus()
        .get(&index)
        .map(|here| (here.loaded.contains(&all), here.loaded.contains(&own)))
        .unwrap_or_default();
    if is_loaded {
        return MORE;
    }
    let measured = known().get(&gpu.kind()).and_then(|known| known.loaded.get(&all).copied());
    let most = measured.map_or(KERNELS, |bytes| bytes + MORE);
    if is_like { most.min(OTHER_SIZES) } else { most }
}

/// A name for the kernels that a run needs, as exactly as `likeness` says: experiments of one name need the same.
fn kernels(experiment: &Experiment, likeness: Likeness) -> String {
    let mut hasher = DefaultHasher::new();
    step(experiment, likeness).hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// GPUs that this process opened, by their numbers.
fn open_gpus() -> MutexGuard<'static, BTreeMap<usize, OpenGpu>> {
    static OPEN: Mutex<BTreeMap<usize, OpenGpu>> = Mutex::new(BTreeMap::new());
    OPEN.lock()
}

type Known = BTreeMap<String, Measured>;

fn known() -> MutexGuard<'static, Known> {
    static KNOWN: OnceLock<Mutex<Known>> = OnceLock::new();
    let known = KNOWN.get_or_init(|| {
        // A file that cannot be read costs a measurement, which the next run makes again.
        let text = place().and_then(|place| fs::read_to_string(place).ok());
        Mutex::new(text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default())
    });
    known.lock()
}

/// Changes what is known of a kind of GPU, and keeps it.
fn update(gpu: &Description, change: impl FnOnce(&mut Measured)) {
    let mut known = known();
    let entry = known.entry(gpu.kind()).or_default();
    let before = entry.clone();
    change(entry);
    if *entry != before {
        save(&known);
    }
}

fn place() -> Option<PathBuf> {
    cache::folder("gpus").map(|folder| folder.join("measured.json"))
}

fn save(known: &Known) {
    if let (Some(place), Ok(text)) = (place(), serde_json::to_vec_pretty(known)) {
        cache::write(&place, &text);
    }
}

fn register(index: usize, gpu: &Description) {
    let mut measured = known().get(&gpu.kind()).cloned();
    if let Some(measured) = &mut measured {
        // Nothing was never measured; an earlier program may have written it.
        measured.opened = measured.opened.filter(|bytes| *bytes > Bytes::ZERO);
    }
    let here = open_gpus().get(&index).cloned();
    let is_measured =
        here.as_ref().map_or(measured.as_ref().is_some_and(|m| m.opened.is_some()), |here| here.is_reported);
    let held = here.map(|here| here.held).or(measured.as_ref().and_then(|measured| measured.opened));
    let estimate = shipped_or_estimated(gpu);
    let profile = Profile {
        title: gpu.name.clone(),
        compute_capability: gpu.capability,
        multiprocessors: gpu.multiprocessors,
        capacity: Bytes(gpu.total_bytes),
        // The driver tells the capacity without what it keeps.
        kept: Bytes::ZERO,
        context: held.unwrap_or(estimate.context),
        measured: is_measured.then(|| format!("CUDA {}", gpu.driver)),
        pool: measured.and_then(|measured| measured.pool).unwrap_or(estimate.pool),
        ..estimate
    };
    profile::register(&format!("cuda:{index}"), profile);
}

/// What is known of a card before anything is measured on it.
fn shipped_or_estimated(gpu: &Description) -> Profile {
    nearest_shipped(gpu).map_or_else(|| estimate(gpu), Clone::clone)
}

/// The card that ships under the same name, of the nearest capacity.
fn nearest_shipped(gpu: &Description) -> Option<&'static Profile> {
    let title = |text: &str| text.to_lowercase().replace("nvidia ", "").replace("geforce ", "");
    let name = title(&gpu.name);
    let is_same = |profile: &&Profile| {
        let words = title(&profile.title);
        name.split_whitespace().all(|word| words.split_whitespace().any(|w| w == word))
    };
    let shipped = profile::shipped().iter().map(AsRef::as_ref);
    shipped.filter(is_same).min_by_key(|profile| profile.capacity.0.abs_diff(gpu.total_bytes))
}

/// What a card of these processors and this memory does at the most, where no table knows it: two operations a lane and
/// clock tick, and what the memory's bus carries.
fn estimate(gpu: &Description) -> Profile {
    let lanes = if matches!(gpu.capability, (7, _) | (8, 0)) { 64.0 } else { 128.0 };
    let f32 = 2.0 * lanes * f64::from(gpu.multiprocessors) * gpu.clock_hz;
    let model = profile::shipped().first().expect("profiles ship");
    let has_tf32 = gpu.capability.0 >= 8;
    let rates = PeakRates {
        f64: if matches!(gpu.capability, (8, 0) | (9, 0)) { f32 / 2.0 } else { f32 / 64.0 },
        f32,
        tf32: if has_tf32 { 2.0 * f32 } else { f32 },
        half: 4.0 * f32,
        bytes: gpu.memory_bytes_per_sec,
        launch_secs: model.rates.launch_secs,
    };
    // A context is never expected below what it may be.
    let context = profile::shipped().iter().map(|profile| profile.context).max().unwrap_or_default();
    Profile { rates, context, ..(**model).clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{ModelKind, Precision};

    fn changed(change: impl FnOnce(&mut Experiment)) -> Experiment {
        let mut experiment = Experiment::default();
        change(&mut experiment);
        experiment
    }

    #[test]
    fn what_decides_no_kernel_gives_kernels_no_other_name() {
        let kernels = |experiment: &Experiment| super::kernels(experiment, Likeness::Exact);
        let plain = kernels(&Experiment::default());
        let rate = changed(|e| (e.optimizer.learning_rate, e.budget) = (0.5, Bytes::mib(3)));
        let name = changed(|e| (e.title, e.run.steps, e.device) = ("Another".to_owned(), Some(3), "cuda:0".to_owned()));
        assert_eq!([kernels(&rate), kernels(&name)], [plain.clone(), plain.clone()]);
        for other in [
            changed(|e| e.batch.micro += 1),
            changed(|e| e.precision = Precision::F16Mixed),
            changed(|e| e.optimizer.clip_norm = 1.0),
            changed(|e| e.gpu.tf32 = true),
        ] {
            assert_ne!(kernels(&other), plain, "{other:?}");
        }
    }

    #[test]
    fn runs_that_differ_in_sizes_alone_have_the_same_kernels_of_ours() {
        let ours = |experiment: &Experiment| kernels(experiment, Likeness::AtAnySize);
        let plain = ours(&Experiment::default());
        let sizes = changed(|e| (e.batch.micro, e.model.width, e.model.depth) = (7, 99, 5));
        assert_eq!(ours(&sizes), plain);
        for other in [
            changed(|e| e.model.kind = ModelKind::Vit),
            changed(|e| e.precision = Precision::Bf16Mixed),
            changed(|e| e.model.dropout = 0.1),
        ] {
            assert_ne!(ours(&other), plain, "{other:?}");
        }
    }
}
