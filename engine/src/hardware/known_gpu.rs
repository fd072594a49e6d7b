//! A GPU that is here: the driver's figures and the measurements of it.
//!
//! Owns the figures of a process's memory on a GPU in addition to its pool: its bytes when the GPU was opened, kept for each
//! kind of card and version of CUDA, its bytes now, and the bytes that the kernels of each run and a node of its graphs add.
//! Always holds: kernels that no run has loaded yet are allowed for, so that a plan is not below the later use. A figure that
//! the driver does not report is neither kept nor called measured.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
};

use serde::{Deserialize, Serialize};

#[cfg(feature = "cuda")]
use crate::device::graphs::Captured;
use crate::{
    bytes::Bytes,
    cache,
    device::Description,
    device::profile::{self, PeakRates, PoolProfile, Profile},
    experiment::{Experiment, Likeness},
    hardware::{Figure, kernel_set::kernels},
};

/// A GPU that is here.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct KnownGpu {
    index: usize,
    description: Description,
    measured: Measured,
    open: Option<OpenGpu>,
    /// The profile that follows from all of it.
    profile: Arc<Profile>,
}

/// The measurements of a kind of GPU, kept from program to program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Measured {
    /// The most that a process held in addition to its pool once the libraries were started.
    opened: Option<Bytes>,
    /// How the pool hands out memory.
    pool: Option<PoolProfile>,
    /// Bytes that a process held more after a run, by the [`kernels`] of the run: kernels are loaded when they are first
    /// used. The least of several measurements counts, because each includes kernels of other runs as well.
    loaded: BTreeMap<String, Bytes>,
    /// Whether attention on tensor cores was right, by the kernels that were checked.
    tensor_cores: BTreeMap<String, bool>,
    /// The bytes of a node of a graph, at the most.
    graph_node: Option<Bytes>,
}

/// The state of this process on a GPU that it opened.
#[derive(Debug, Clone, Default, PartialEq)]
struct OpenGpu {
    /// Whether the driver reports the process's bytes; otherwise they are only a bound.
    is_reported: bool,
    opened: Bytes,
    /// The bytes of the process in addition to the pool, when it was last asked.
    held: Bytes,
    /// The kernels that are loaded.
    loaded: BTreeSet<String>,
}

/// What ran on a GPU since it was last asked what it holds.
#[derive(Debug, Clone, Copy)]
pub enum Ran<'a> {
    /// Nothing that has loaded all kernels of a step.
    Nothing,
    /// A step of this experiment, and not the whole run.
    Step(&'a Experiment),
    /// A part of the run of this experiment, which left the card no room for the next of its kernels.
    Short(&'a Experiment),
    /// The run of this experiment to its end, all of whose kernels are therefore loaded.
    Whole(&'a Experiment),
}

/// How exactly the kernels of a run are named: as they are, and with all of its sizes left out.
const NAMES: [Likeness; 2] = [Likeness::Exact, Likeness::AtAnySize];
/// Allowance for the kernels of a run that was never seen: a bound.
const KERNELS: Bytes = Bytes::mib(96);
/// Allowance for a run with convolutions: cuDNN's kernels come on top of ours and cuBLAS's.
const KERNELS_OF_CONVOLUTIONS: Bytes = Bytes::mib(192);
/// Allowance if a run of other sizes has loaded all kernels but those that the libraries choose by sizes.
const OTHER_SIZES: Bytes = Bytes::mib(32);
/// Allowance for a run of known kernels in addition to their measured bytes: a bound.
const MORE: Bytes = Bytes::mib(4);
/// Runs for which the memory of their kernels is kept. Older ones are forgotten, and measured again.
const KEPT: usize = 512;

/// The allowance for the kernels of a run that was never seen, which convolves or does not.
pub fn kernels_allowed(convolves: bool) -> Bytes {
    if convolves { KERNELS_OF_CONVOLUTIONS } else { KERNELS }
}

impl KnownGpu {
    /// The GPU at an index, on which nothing was measured.
    pub(super) fn new(index: usize, description: Description) -> Self {
        Self::of(index, description, Measured::default(), None)
    }

    /// The GPU at an index, with earlier programs' measurements of its kind.
    pub(super) fn remembered(index: usize, description: Description) -> Self {
        let measured = remembered().remove(&description.kind()).unwrap_or_default();
        Self::of(index, description, measured, None)
    }

    fn of(index: usize, description: Description, measured: Measured, open: Option<OpenGpu>) -> Self {
        let profile = Arc::new(profile(index, &description, &measured, open.as_ref()));
        Self { index, description, measured, open, profile }
    }

    fn with(&self, measured: Measured, open: Option<OpenGpu>) -> Self {
        Self::of(self.index, self.description.clone(), measured, open)
    }

    /// The driver's description of it.
    pub(super) fn description(&self) -> &Description {
        &self.description
    }

    /// The profile of it.
    pub(super) fn profile(&self) -> &Arc<Profile> {
        &self.profile
    }

    /// The same GPU after it was opened, with the process's bytes on it: as the driver `reported` them, or, if it does not
    /// report them, the most that they may be, which is not kept.
    pub(super) fn opened(&self, reported: &Figure<Bytes>, bound: Bytes, pool: PoolProfile) -> (Self, Bytes) {
        let is_reported = reported.is_ok();
        let held = reported.clone().unwrap_or_else(|_| {
            let stored = self.measured.opened.unwrap_or_default();
            bound.max(stored).max(shipped_or_estimated(&self.description).context)
        });
        let mut measured = self.measured.clone();
        if is_reported {
            measured.opened = measured.opened.max(Some(held));
        }
        measured.pool = Some(pool);
        let open = OpenGpu { is_reported, opened: held, held, loaded: BTreeSet::new() };
        (self.with(measured, Some(open)), held)
    }

    /// The same GPU when the process holds this much in addition to its pool, after this.
    pub(super) fn holding(&self, held: Bytes, ran: Ran<'_>) -> Self {
        let (mut open, mut measured) = (self.open.clone().unwrap_or_default(), self.measured.clone());
        open.held = open.held.max(held);
        let more = open.held.saturating_sub(open.opened);
        if let Ran::Step(experiment) | Ran::Whole(experiment) = ran {
            // Those that the rest of a run loads are few.
            open.loaded.insert(kernels(experiment, Likeness::AtAnySize));
        }
        let known = |experiment: &Experiment| {
            let name = kernels(experiment, Likeness::Exact);
            let allowed = || kernels_allowed(experiment.model.kind.convolves());
            let known = measured.loaded.get(&name).copied().unwrap_or_else(allowed);
            (name, known)
        };
        let learnt = match ran {
            Ran::Nothing => None,
            // A bound that was too low for a part of the run: the next one is planned with what the part took, at the least.
            Ran::Step(experiment) => {
                let (name, known) = known(experiment);
                Some((name, known.max(more)))
            }
            // How much was missing is not known: the next one is allowed as much again.
            Ran::Short(experiment) => {
                let (name, known) = known(experiment);
                Some((name, known + known))
            }
            Ran::Whole(experiment) => {
                let name = kernels(experiment, Likeness::Exact);
                open.loaded.insert(name.clone());
                let least = measured.loaded.get(&name).map_or(more, |least| more.min(*least));
                Some((name, least))
            }
        };
        if let Some((name, bytes)) = learnt {
            if measured.loaded.len() >= KEPT {
                measured.loaded.clear();
            }
            measured.loaded.insert(name, bytes);
        }
        self.with(measured, Some(open))
    }

    /// Whether attention on tensor cores, by kernels of this name, was right; `None` if it was not checked.
    #[cfg(feature = "cuda")]
    pub(super) fn tensor_cores(&self, kernels: &str) -> Option<bool> {
        self.measured.tensor_cores.get(kernels).copied()
    }

    /// The same GPU after a check of attention on tensor cores.
    #[cfg(feature = "cuda")]
    pub(super) fn with_tensor_cores(&self, kernels: String, is_right: bool) -> Self {
        let mut measured = self.measured.clone();
        measured.tensor_cores = BTreeMap::from([(kernels, is_right)]);
        self.with(measured, self.open.clone())
    }

    /// The same GPU after a run whose graphs took this much of it.
    #[cfg(feature = "cuda")]
    pub(super) fn with_graphs(&self, captured: &Captured) -> Self {
        let mut measured = self.measured.clone();
        measured.graph_node = Some(captured.node(self.profile.graph_node()));
        self.with(measured, self.open.clone())
    }

    /// The same GPU once it is closed.
    pub(super) fn closed(&self) -> Self {
        self.with(self.measured.clone(), None)
    }

    /// The allowance for the kernels of a run of `experiment`, which add to the bytes of the process.
    pub(super) fn kernels_of(&self, experiment: &Experiment) -> Bytes {
        let [all, own] = NAMES.map(|likeness| kernels(experiment, likeness));
        let is_loaded = |name| self.open.as_ref().is_some_and(|open| open.loaded.contains(name));
        if is_loaded(&all) {
            return MORE;
        }
        let unseen = || kernels_allowed(experiment.model.kind.convolves());
        let most = self.measured.loaded.get(&all).map_or_else(unseen, |bytes| *bytes + MORE);
        if is_loaded(&own) { most.min(OTHER_SIZES) } else { most }
    }

    /// Writes the measurements of its kind for the next program.
    pub(super) fn keep(&self) {
        let mut all = remembered();
        if all.get(&self.description.kind()) == Some(&self.measured) {
            return;
        }
        all.insert(self.description.kind(), self.measured.clone());
        if let (Some(place), Ok(text)) = (place(), serde_json::to_vec_pretty(&all)) {
            cache::write(&place, &text);
        }
    }
}

/// The measurements by kind of GPU. A file that cannot be read costs a measurement, which the next run makes again.
fn remembered() -> BTreeMap<String, Measured> {
    let text = place().and_then(|place| cache::read(&place));
    text.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
}

fn place() -> Option<PathBuf> {
    cache::folder("gpus").map(|folder| folder.join("measured.json"))
}

/// The profile of a GPU, from everything that was found out.
fn profile(index: usize, gpu: &Description, measured: &Measured, open: Option<&OpenGpu>) -> Profile {
    // A measurement is never zero, but an earlier version may have written one.
    let opened = measured.opened.filter(|bytes| *bytes > Bytes::ZERO);
    let is_measured = open.map_or(opened.is_some(), |open| open.is_reported);
    let estimate = shipped_or_estimated(gpu);
    Profile {
        slug: format!("cuda:{index}"),
        title: gpu.name.clone(),
        compute_capability: gpu.capability,
        multiprocessors: gpu.multiprocessors,
        capacity: Bytes(gpu.total_bytes),
        // The driver reports the capacity without its own share.
        kept: Bytes::ZERO,
        context: open.map(|open| open.held).or(opened).unwrap_or(estimate.context),
        measured: is_measured.then(|| format!("CUDA {}", gpu.driver)),
        pool: measured.pool.unwrap_or(estimate.pool),
        graph_node: measured.graph_node,
        ..estimate
    }
}

/// The profile of a card on which nothing was measured yet.
fn shipped_or_estimated(gpu: &Description) -> Profile {
    profile::of_model(&gpu.name, Bytes(gpu.total_bytes)).map_or_else(|| estimate(gpu), Clone::clone)
}

/// An estimate of the most that a card of these processors and this memory can do, if no table knows it: two operations a
/// lane and clock tick, and the bytes that the memory's bus carries.
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
    // The expected context is never below the largest that it may be.
    let context = profile::shipped().iter().map(|profile| profile.context).max().unwrap_or_default();
    Profile { rates, context, ..(**model).clone() }
}
