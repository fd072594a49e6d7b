//! Properties that runs have in common: the task that they learn, and the settings apart from a seed.

use std::hash::{DefaultHasher, Hash, Hasher};

use plimsoll_engine::{
    Bytes, Experiment,
    experiment::{CachePlace, Data, DataCache, Normalise, NormaliseWhen, Placement, preset},
};

/// A number that experiments share which differ by their seed, their title and their description alone.
pub(super) fn kin(experiment: &Experiment) -> u64 {
    let mut plain = experiment.clone();
    (plain.run.seed, plain.title, plain.description) = (0, String::new(), String::new());
    let mut hasher = DefaultHasher::new();
    preset::to_text(&plain).hash(&mut hasher);
    hasher.finish()
}

/// Whether runs of two experiments compare: they see the same data, and their memory is measured in the same way.
pub(crate) fn is_one_task(one: &Experiment, other: &Experiment) -> bool {
    one.is_on_cpu() == other.is_on_cpu() && tested_on(&one.data) == tested_on(&other.data)
}

/// The part of the data that decides the test: neither where the samples lie nor how those for training are changed.
pub(crate) fn tested_on(data: &Data) -> Data {
    let (normalise, normalise_when) = (Normalise::Auto, NormaliseWhen::OnTheFly);
    let (workers, prefetch, host_budget, cache) = (0, 0, Bytes::ZERO, DataCache::None);
    let (cache_in, cache_folder) = (CachePlace::Ram, None);
    let data = Data { workers, prefetch, host_budget, cache, cache_in, cache_folder, ..data.clone() };
    Data {
        placement: Placement::Host,
        normalise,
        normalise_when,
        flip: false,
        crop_padding: 0,
        color_jitter: 0.0,
        ..data
    }
}
