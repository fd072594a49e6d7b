//! The GPUs that are here: made known with what the driver says of them and what was measured on them before.
//!
//! Holds: what was measured is kept for each kind of card and version of the driver, and only ever grows, so that a plan
//! is not below what was seen. Refuses nothing: without a driver there are none.

use std::{
    collections::BTreeMap,
    fs,
    path::PathBuf,
    sync::{Mutex, OnceLock, PoisonError},
};

use serde::{Deserialize, Serialize};

use crate::{
    backend::cuda::{self, Description},
    bytes::Bytes,
    cache,
    device::{
        Figure,
        profile::{self, PeakRates, PoolProfile, Profile},
    },
};

/// What was measured on a GPU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Measured {
    /// What the process holds beside its pool.
    pub(crate) context: Bytes,
    /// Whether that was seen of a run, and not only of a GPU that was opened: kernels are loaded when they are first used.
    pub(crate) is_of_run: bool,
    /// How the pool hands out memory, once that was seen.
    pub(crate) pool: Option<PoolProfile>,
}

/// What the kernels of a first run may add to the context: a bound, until a run was seen.
const KERNELS: Bytes = Bytes::mib(96);
/// What another run may add to what the largest so far held: kernels that it is the first to use.
const OTHER_KERNELS: Bytes = Bytes::mib(4);

impl Measured {
    /// What the process will hold beside its pool, at the most.
    fn bound(&self) -> Bytes {
        self.context + if self.is_of_run { OTHER_KERNELS } else { KERNELS }
    }
}

/// The GPUs that are here, or why there are none; asked of the driver once.
fn found() -> &'static Figure<Vec<Description>> {
    static FOUND: OnceLock<Figure<Vec<Description>>> = OnceLock::new();
    FOUND.get_or_init(cuda::describe)
}

/// Why nothing can be trained on a GPU here.
///
/// # Errors
/// What is missing, and where to get it.
pub fn missing() -> Figure<()> {
    found().as_ref().map(drop).map_err(Clone::clone)
}

/// Makes every GPU that is here known, once.
pub(super) fn discover() {
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

/// Adds a measurement to what is known of a GPU.
pub(crate) fn learn(index: usize, seen: Measured) {
    let Some(gpu) = found().iter().flatten().nth(index) else { return };
    let mut known = known().lock().unwrap_or_else(PoisonError::into_inner);
    let before = known.get(&gpu.kind()).copied().unwrap_or_default();
    let now = Measured {
        context: before.context.max(seen.context),
        is_of_run: before.is_of_run || seen.is_of_run,
        pool: seen.pool.or(before.pool),
    };
    if now != before {
        known.insert(gpu.kind(), now);
        save(&known);
    }
    drop(known);
    register(index, gpu);
}

type Known = BTreeMap<String, Measured>;

fn known() -> &'static Mutex<Known> {
    static KNOWN: OnceLock<Mutex<Known>> = OnceLock::new();
    KNOWN.get_or_init(|| {
        // A file that cannot be read costs a measurement, which the next run makes again.
        let text = place().and_then(|place| fs::read_to_string(place).ok());
        Mutex::new(text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default())
    })
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
    let measured = known().lock().unwrap_or_else(PoisonError::into_inner).get(&gpu.kind()).copied();
    let shipped = nearest_shipped(gpu);
    let estimate = shipped.map_or_else(|| estimate(gpu), |profile| profile.clone());
    let profile = Profile {
        title: gpu.name.clone(),
        compute_capability: gpu.capability,
        multiprocessors: gpu.multiprocessors,
        capacity: Bytes(gpu.total_bytes),
        // The driver tells the capacity without what it keeps.
        kept: Bytes::ZERO,
        context: measured.map_or(estimate.context, |measured| measured.bound()),
        measured: measured.map(|_| format!("driver {}", gpu.driver)),
        pool: measured.and_then(|measured| measured.pool).unwrap_or(estimate.pool),
        ..estimate
    };
    profile::register(&format!("cuda:{index}"), profile);
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
    Profile { rates, ..(**model).clone() }
}
