//! The profile of a card: capacity, context, how its pool hands out memory, and how fast it is.
//!
//! Owns the cards that ship (`assets/devices`), which can be planned for on any machine. Always holds: a shipped profile
//! says which of its figures are estimates. Refuses nothing: [`target`](crate::device::target) decides which names can be
//! trained on.

use std::{
    collections::BTreeSet,
    sync::{Arc, OnceLock},
};

use serde::{Deserialize, Serialize};

use crate::{bytes::Bytes, device::graphs};

/// The profile of one kind of card, or of one GPU that was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The name to type: `rtx4060-8g`, or `cuda:0` for one that is here.
    #[serde(default)]
    pub slug: String,
    /// The name on screen.
    pub title: String,
    /// Major and minor number of its compute capability.
    pub compute_capability: (u32, u32),
    /// The card's processors ("SM").
    pub multiprocessors: u32,
    /// Memory, as the driver's tools show it.
    pub capacity: Bytes,
    /// Memory that the driver keeps for itself, so that no process has it.
    #[serde(default)]
    pub kept: Bytes,
    /// Memory of the process before the first tensor: driver context, cuBLAS, cuDNN, kernels.
    pub context: Bytes,
    /// Driver and date of the measurement that `kept`, `context` and `pool` come from; `None`: they are estimates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<String>,
    /// How the driver's memory pool hands out memory.
    pub pool: PoolProfile,
    /// Bytes of a node of a graph, as runs on the card measured them; `None`: [`graphs::NODE`] is assumed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph_node: Option<Bytes>,
    /// Peak rates, as the maker states them.
    pub rates: PeakRates,
}

/// The figures for people and scripts; sizes are in bytes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Card<'a> {
    /// The name to type.
    pub name: &'a str,
    /// The name on screen.
    pub title: &'a str,
    /// Memory, as the driver's tools show it.
    pub capacity_bytes: u64,
    /// The most that a process may have.
    pub room_bytes: u64,
    /// Memory of the process before the first tensor.
    pub context_bytes: u64,
    /// Whether the context and the pool are estimates that were never measured.
    pub is_estimate: bool,
    /// Major and minor number of its compute capability.
    pub compute_capability: (u32, u32),
    /// The card's processors.
    pub multiprocessors: u32,
    /// The card's peak rates.
    pub rates: PeakRates,
}

impl Profile {
    /// The figures for people and scripts.
    pub fn card(&self) -> Card<'_> {
        Card {
            name: &self.slug,
            title: &self.title,
            capacity_bytes: self.capacity.0,
            room_bytes: self.usable_memory().0,
            context_bytes: self.context.0,
            is_estimate: self.is_estimate(),
            compute_capability: self.compute_capability,
            multiprocessors: self.multiprocessors,
            rates: self.rates,
        }
    }

    /// The most that a process may have, where it is the only one.
    pub fn usable_memory(&self) -> Bytes {
        self.capacity.saturating_sub(self.kept)
    }

    /// Bytes of a node of a graph.
    pub fn graph_node(&self) -> Bytes {
        self.graph_node.unwrap_or(graphs::NODE)
    }

    /// Whether the context and the pool are only estimates.
    pub fn is_estimate(&self) -> bool {
        self.measured.is_none()
    }
}

/// How a memory pool of the driver hands out memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolProfile {
    /// A block takes a multiple of this.
    pub granule: Bytes,
    /// The least that the pool grows by.
    pub segment: Bytes,
    /// For a block larger than that, it grows by a multiple of this.
    pub page: Bytes,
    /// Where a run's memory is mapped, what it is a multiple of; `None` where it comes from the pool, and where that is not
    /// known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mapped: Option<Bytes>,
}

impl PoolProfile {
    /// The bytes of the pool that a block of `bytes` takes.
    pub fn rounded(&self, bytes: u64) -> u64 {
        bytes.max(1).next_multiple_of(self.granule.0.max(1))
    }

    /// Bytes by which a pool without room grows for a block of `bytes`.
    pub fn segment_for(&self, bytes: u64) -> u64 {
        self.pages(bytes).max(self.segment.0)
    }

    /// These bytes, rounded up to whole pages.
    pub(crate) fn pages(&self, bytes: u64) -> u64 {
        bytes.next_multiple_of(self.page.0.max(1))
    }

    /// Bytes of the one segment whose blocks have places that were found beforehand, up to `extent`.
    pub fn planned_segment_for(&self, extent: u64) -> u64 {
        match self.mapped {
            Some(step) => extent.max(1).next_multiple_of(step.0.max(1)),
            None => self.segment_for(extent.max(1)),
        }
    }
}

/// The most that a card can do in a second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeakRates {
    /// Operations on f64.
    pub f64: f64,
    /// Operations on f32.
    pub f32: f64,
    /// Rate of products of f32 rounded to TF32; the rate of `f32` if there is no TF32.
    pub tf32: f64,
    /// Products of bf16 and f16, summed in f32.
    pub half: f64,
    /// Bytes read and written.
    pub bytes: f64,
    /// Seconds of a launch that does nothing.
    pub launch_secs: f64,
}

/// Texts of the cards that ship, by slug: for the desk, then for the server room, each by age and size.
const SHIPPED: &[(&str, &str)] = &[
    ("gtx1660-6g", include_str!("../../../assets/devices/gtx1660-6g.toml")),
    ("rtx3050-8g", include_str!("../../../assets/devices/rtx3050-8g.toml")),
    ("rtx3060-12g", include_str!("../../../assets/devices/rtx3060-12g.toml")),
    ("rtx3070-8g", include_str!("../../../assets/devices/rtx3070-8g.toml")),
    ("rtx3080-10g", include_str!("../../../assets/devices/rtx3080-10g.toml")),
    ("rtx3090-24g", include_str!("../../../assets/devices/rtx3090-24g.toml")),
    ("rtx4060-8g", include_str!("../../../assets/devices/rtx4060-8g.toml")),
    ("rtx4060ti-16g", include_str!("../../../assets/devices/rtx4060ti-16g.toml")),
    ("rtx4070-12g", include_str!("../../../assets/devices/rtx4070-12g.toml")),
    ("rtx4080-16g", include_str!("../../../assets/devices/rtx4080-16g.toml")),
    ("rtx4090-24g", include_str!("../../../assets/devices/rtx4090-24g.toml")),
    ("rtx5070-12g", include_str!("../../../assets/devices/rtx5070-12g.toml")),
    ("rtx5080-16g", include_str!("../../../assets/devices/rtx5080-16g.toml")),
    ("rtx5090-32g", include_str!("../../../assets/devices/rtx5090-32g.toml")),
    ("t4-16g", include_str!("../../../assets/devices/t4-16g.toml")),
    ("a10-24g", include_str!("../../../assets/devices/a10-24g.toml")),
    ("l4-24g", include_str!("../../../assets/devices/l4-24g.toml")),
    ("l40s-48g", include_str!("../../../assets/devices/l40s-48g.toml")),
    ("a100-40g", include_str!("../../../assets/devices/a100-40g.toml")),
    ("a100-80g", include_str!("../../../assets/devices/a100-80g.toml")),
    ("h100-80g", include_str!("../../../assets/devices/h100-80g.toml")),
    ("h200-141g", include_str!("../../../assets/devices/h200-141g.toml")),
    ("b200-180g", include_str!("../../../assets/devices/b200-180g.toml")),
];

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

/// The card that ships under this name.
pub fn named(name: &str) -> Option<Arc<Profile>> {
    shipped().iter().find(|profile| profile.slug == name).cloned()
}

/// The card that ships of the model that a driver names, of the nearest capacity. A variant with another chip, such as a
/// laptop's, a Ti or a part of a card (MIG), is another model.
pub fn of_model(name: &str, capacity: Bytes) -> Option<&'static Profile> {
    let model = model_words(name);
    let is_same = |profile: &&Profile| {
        let (title, _capacity) = profile.title.split_once(',').unwrap_or((&profile.title, ""));
        model_words(title) == model
    };
    let shipped = shipped().iter().map(AsRef::as_ref);
    shipped.filter(is_same).min_by_key(|profile| profile.capacity.0.abs_diff(capacity.0))
}

/// The words of a card's name that identify its model: words for the maker, the series, the socket, the kind of memory or its
/// size do not.
fn model_words(name: &str) -> BTreeSet<String> {
    const OTHER: [&str; 6] = ["nvidia", "geforce", "tesla", "pcie", "nvl", "gpu"];
    let is_other = |word: &str| {
        let is_size = word.strip_suffix("gb").is_some_and(|size| size.parse::<u32>().is_ok());
        OTHER.contains(&word) || word.starts_with("sxm") || word.starts_with("hbm") || is_size
    };
    let words = name.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase);
    words.filter(|word| !word.is_empty() && !is_other(word)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_that_drivers_print_find_their_cards() {
        // As `nvidia-smi` prints them, with the memory in GiB.
        for (name, gib, slug) in [
            ("NVIDIA H200", 140, "h200-141g"),
            ("NVIDIA H200 NVL", 140, "h200-141g"),
            ("NVIDIA H100 80GB HBM3", 80, "h100-80g"),
            ("NVIDIA H100 PCIe", 80, "h100-80g"),
            ("NVIDIA A100-SXM4-40GB", 40, "a100-40g"),
            ("NVIDIA A100-SXM4-80GB", 80, "a100-80g"),
            ("NVIDIA A100 80GB PCIe", 80, "a100-80g"),
            ("NVIDIA A100-PCIE-40GB", 40, "a100-40g"),
            ("NVIDIA B200", 179, "b200-180g"),
            ("NVIDIA L40S", 45, "l40s-48g"),
            ("NVIDIA L4", 22, "l4-24g"),
            ("NVIDIA A10", 22, "a10-24g"),
            ("Tesla T4", 15, "t4-16g"),
            ("NVIDIA GeForce GTX 1660", 6, "gtx1660-6g"),
            ("NVIDIA GeForce RTX 3060", 12, "rtx3060-12g"),
            ("NVIDIA GeForce RTX 3090", 24, "rtx3090-24g"),
            ("NVIDIA GeForce RTX 4060", 8, "rtx4060-8g"),
            ("NVIDIA GeForce RTX 4060 Ti", 16, "rtx4060ti-16g"),
            ("NVIDIA GeForce RTX 5090", 32, "rtx5090-32g"),
        ] {
            let found = of_model(name, Bytes::gib(gib)).map(|profile| profile.slug.as_str());
            assert_eq!(found, Some(slug), "{name}");
        }
        for name in [
            "NVIDIA GeForce RTX 4060 Laptop GPU",
            "NVIDIA GeForce RTX 3080 Ti",
            "NVIDIA GeForce RTX 4070 SUPER",
            "NVIDIA GeForce RTX 4090 D",
            "NVIDIA GeForce GTX 1660 SUPER",
            "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
            "NVIDIA A10G",
            "NVIDIA L40",
            "NVIDIA GH200 480GB",
            "Quadro RTX 4000",
            "",
        ] {
            assert_eq!(of_model(name, Bytes::gib(8)).map(|profile| profile.slug.as_str()), None, "{name}");
        }
    }

    #[test]
    fn every_card_in_the_folder_ships_and_makes_sense() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../assets/devices");
        let files = std::fs::read_dir(folder).expect("the folder").count();
        assert_eq!(shipped().len(), files);
        for (i, profile) in shipped().iter().enumerate() {
            let Profile { slug, title, rates, pool, .. } = &**profile;
            let size: u64 = slug.rsplit('-').next().and_then(|s| s.trim_end_matches('g').parse().ok()).expect(slug);
            // The label's figure, less the memory for error correction.
            let share = profile.capacity.as_mib() / (size * 1024) as f64;
            assert!((0.92..=1.0).contains(&share), "{slug}: {share} of its name");
            assert!(title.ends_with(&format!(", {size} GB")), "{title}");
            assert!(profile.kept + profile.context < Bytes::gib(2) && profile.is_estimate(), "{slug}");
            assert!(profile.usable_memory() < profile.capacity, "{slug}");
            assert!(rates.f64 < rates.f32 && rates.f32 <= rates.tf32 && rates.tf32 <= rates.half, "{slug}");
            assert!(rates.bytes > 1e11 && rates.launch_secs < 1e-4, "{slug}");
            assert!(pool.segment.0 % pool.page.0 == 0 && pool.page.0 % pool.granule.0 == 0, "{slug}");
            assert!(shipped()[..i].iter().all(|other| other.slug != *slug), "{slug} is there twice");
        }
    }

    #[test]
    fn a_mistake_in_a_profile_is_refused() {
        let text = SHIPPED[0].1.replace("context", "contxt");
        assert!(toml::from_str::<Profile>(&text).is_err());
    }
}
