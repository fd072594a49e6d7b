//! The target that a run is planned for, and the names of devices.
//!
//! Owns the form of the names: `cpu`, `cuda:0` for a GPU that is here, and the names of cards to plan for. Refuses names
//! that mean nothing, and training on a card that is only planned for. Each message names a valid choice.

use std::sync::Arc;

use crate::{
    device::{
        Processor, Profile,
        profile::{named, shipped},
    },
    error::Problem,
};

/// The target that a run is planned for.
#[derive(Debug, Clone, PartialEq)]
pub enum Target {
    /// The processor.
    Cpu(Processor),
    /// An NVIDIA GPU.
    Gpu(Arc<Profile>),
}

impl Target {
    /// Whether it is a GPU.
    pub fn is_gpu(&self) -> bool {
        matches!(self, Self::Gpu(_))
    }

    /// The profile of the GPU; `None` for the processor.
    pub fn profile(&self) -> Option<&Profile> {
        match self {
            Self::Cpu(_) => None,
            Self::Gpu(profile) => Some(profile),
        }
    }
}

/// The number in `cuda:N`.
pub fn cuda_index(device: &str) -> Option<u32> {
    device.strip_prefix("cuda:").filter(|n| n.bytes().all(|b| b.is_ascii_digit())).and_then(|n| n.parse().ok())
}

/// Whether `device` names a card that can only be planned for.
pub fn only_plans(device: &str) -> bool {
    device != "cpu" && cuda_index(device).is_none()
}

/// Why nothing trains on `device`; `None` for the processor and for a GPU by its number.
pub fn not_trained_on(device: &str) -> Option<Problem> {
    let profile = named(device).filter(|_| only_plans(device))?;
    let message = format!("{} is only planned for", profile.title);
    Some(Problem::new("device", message, "to train, choose the CPU or a GPU that is here"))
}

/// The problem with a device's name; `None` for a valid name, whether the device is here or not.
pub fn problem(device: &str) -> Option<Problem> {
    if device == "cpu" || cuda_index(device).is_some() || named(device).is_some() {
        return None;
    }
    let cards = || shipped().iter().map(|profile| profile.slug.as_str());
    let near = crate::suggest::nearest(device, ["cpu", "cuda:0"].into_iter().chain(cards()));
    let near = near.map(|near| format!("did you mean {near}? ")).unwrap_or_default();
    let list = cards().collect::<Vec<_>>().join(", ");
    let mend = format!("{near}write cpu, cuda:0 for the first GPU that is here, or a card to plan for: {list}");
    Some(Problem::new("device", format!("\"{device}\" is not a device"), mend))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_a_number_or_are_those_of_cards() {
        assert_eq!([cuda_index("cuda:1"), cuda_index("cuda:"), cuda_index("cuda:+1")], [Some(1), None, None]);
        assert!(problem("rtx4060-8g").is_none() && problem("cuda:97").is_none() && problem("toaster").is_some());
    }

    #[test]
    fn a_card_by_name_is_not_trained_on() {
        assert!(not_trained_on("rtx4060-8g").is_some_and(|problem| problem.message.contains("RTX 4060")));
        assert!(not_trained_on("cpu").is_none() && not_trained_on("cuda:0").is_none());
    }
}
