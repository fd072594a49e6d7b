//! What is known of a card: capacity, context, how its pool hands out memory, and how fast it is.
//!
//! Owns the cards that ship (`assets/devices`), which anyone may plan for, and the table of GPUs that are here, which
//! the CUDA engine fills with what it measured. Always holds: a shipped profile says so of figures that nobody measured.
//! Refuses nothing: whether a name can be trained on is for [`Target`](crate::device::Target) to say.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock, RwLock},
};

use serde::{Deserialize, Serialize};

use crate::bytes::Bytes;

/// One kind of card, or one GPU that was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The name to type: `rtx4060-8g`, or `cuda:0` for one that is here.
    #[serde(default)]
    pub slug: String,
    /// The name on screen.
    pub title: String,
    /// Major and minor number of what its processors can do.
    pub compute_capability: (u32, u32),
    /// Its processors ("SM").
    pub multiprocessors: u32,
    /// Memory, as the driver shows it.
    pub capacity: Bytes,
    /// What the process holds before the first tensor: driver context, cuBLAS, cuDNN, kernels.
    pub context: Bytes,
    /// Driver and date of the measurement that `context` and `pool` come from; `None`: they are estimates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<String>,
    /// How the driver's memory pool hands out memory.
    pub pool: PoolProfile,
    /// Peak rates, as the maker states them.
    pub rates: PeakRates,
}

/// How a memory pool of the driver hands out memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolProfile {
    /// A block takes a multiple of this.
    pub granule: Bytes,
    /// The pool grows by a multiple of this.
    pub segment: Bytes,
}

/// What a card can do in a second at the most.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeakRates {
    /// Operations on f64.
    pub f64: f64,
    /// Operations on f32.
    pub f32: f64,
    /// Products of f32 rounded to TF32; that of `f32` where there is no TF32.
    pub tf32: f64,
    /// Products of bf16 and f16, summed in f32.
    pub half: f64,
    /// Bytes read and written.
    pub bytes: f64,
    /// Seconds of a launch that does nothing.
    pub launch_secs: f64,
}

/// Texts of the cards that ship, by slug.
const SHIPPED: &[(&str, &str)] = &[("rtx4060-8g", include_str!("../../../assets/devices/rtx4060-8g.toml"))];

/// The cards that ship.
pub fn shipped() -> &'static [Arc<Profile>] {
    static PROFILES: OnceLock<Vec<Arc<Profile>>> = OnceLock::new();
    PROFILES.get_or_init(|| {
        let read = |(slug, text): &(&str, &str)| {
            let profile: Profile = toml::from_str(text).expect("shipped profiles are read in a test");
            Arc::new(Profile { slug: (*slug).to_owned(), ..profile })
        };
        SHIPPED.iter().map(read).collect()
    })
}

fn present() -> &'static RwLock<BTreeMap<String, Arc<Profile>>> {
    static PRESENT: OnceLock<RwLock<BTreeMap<String, Arc<Profile>>>> = OnceLock::new();
    PRESENT.get_or_init(RwLock::default)
}

/// Makes a GPU that is here known under `name`, such as `cuda:0`; a later profile takes the place of an earlier one.
pub fn register(name: &str, profile: Profile) {
    let profile = Arc::new(Profile { slug: name.to_owned(), ..profile });
    if let Ok(mut present) = present().write() {
        present.insert(name.to_owned(), profile);
    }
}

/// The GPUs that were made known, by name.
pub fn registered() -> Vec<Arc<Profile>> {
    #[cfg(feature = "cuda")]
    crate::device::present::discover();
    present().read().map(|present| present.values().cloned().collect()).unwrap_or_default()
}

/// The profile of this name: of a GPU that is here, or of a card that ships.
pub fn named(name: &str) -> Option<Arc<Profile>> {
    #[cfg(feature = "cuda")]
    if crate::device::target::cuda_index(name).is_some() {
        crate::device::present::discover();
    }
    let here = present().read().ok().and_then(|present| present.get(name).cloned());
    here.or_else(|| shipped().iter().find(|profile| profile.slug == name).cloned())
}
