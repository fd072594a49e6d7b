//! What a run is planned for and trains on, by the name that `device` gives it.
//!
//! Owns the meaning of the names: `cpu`, `cuda:0` for a GPU that is here, and the names of cards to plan for. Refuses
//! names that mean nothing, and training on a card that is only planned for, each with what would do.

use std::sync::Arc;

use crate::{
    device::{
        Profile,
        profile::{named, shipped},
    },
    error::{Problem, Result},
    experiment::Experiment,
};

/// What a run is planned for.
#[derive(Debug, Clone, PartialEq)]
pub enum Target {
    /// The processor.
    Cpu {
        /// Threads that a kernel runs on.
        threads: usize,
    },
    /// An NVIDIA GPU.
    Gpu(Arc<Profile>),
}

impl Target {
    /// What `device` names.
    ///
    /// # Errors
    /// A name that means nothing, or a GPU that is not here.
    pub fn of(device: &str) -> Result<Self> {
        if let Some(problem) = problem(device) {
            return Err(problem.into());
        }
        if device == "cpu" {
            return Ok(Self::Cpu { threads: cpu_threads() });
        }
        let example = shipped().first().map_or("", |profile| &profile.slug);
        named(device).map(Self::Gpu).ok_or_else(|| {
            let message = format!("there is no GPU {device} here{}", why_none());
            let mend = format!("choose cpu, or plan for a card by its name, such as {example}");
            Problem::new("device", message, mend).into()
        })
    }

    /// What `experiment` runs on: what its device names and, of a GPU that is here, a context that allows for the kernels
    /// which this very run is yet to load.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub fn of_run(experiment: &Experiment) -> Result<Self> {
        let target = Self::of(&experiment.device)?;
        #[cfg(feature = "cuda")]
        if let (Self::Gpu(profile), Some(index)) = (&target, cuda_index(&experiment.device)) {
            let kernels = crate::device::present::kernels_of(index as usize, experiment);
            return Ok(Self::Gpu(Arc::new(Profile { context: profile.context + kernels, ..(**profile).clone() })));
        }
        Ok(target)
    }

    /// Whether it is a GPU.
    pub fn is_gpu(&self) -> bool {
        matches!(self, Self::Gpu(_))
    }

    /// What is known of the GPU.
    pub fn profile(&self) -> Option<&Profile> {
        match self {
            Self::Cpu { .. } => None,
            Self::Gpu(profile) => Some(profile),
        }
    }
}

/// How many threads the processor's kernels run on.
pub fn cpu_threads() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Why no GPU at all can be trained on, as the end of a sentence.
fn why_none() -> String {
    #[cfg(feature = "cuda")]
    let missing = crate::device::present::missing();
    #[cfg(not(feature = "cuda"))]
    let missing: crate::device::Figure<()> = Err("this program was built without the CUDA engine".to_owned());
    missing.err().map(|why| format!(" ({why})")).unwrap_or_default()
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

/// What is wrong with a device's name; `None` where it means something, be it here or not.
pub fn problem(device: &str) -> Option<Problem> {
    if device == "cpu" || cuda_index(device).is_some() || named(device).is_some() {
        return None;
    }
    let cards = || shipped().iter().map(|profile| profile.slug.as_str());
    let near = crate::suggest::nearest(device, ["cpu", "cuda:0"].into_iter().chain(cards()));
    let near = near.map(|near| format!("did you mean {near}? ")).unwrap_or_default();
    let list = cards().collect::<Vec<_>>().join(", ");
    let mend = format!("{near}write cpu, cuda:0 for the first GPU that is here, or a card to plan for: {list}");
    Some(Problem::new("device", format!("\"{device}\" is no device"), mend))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_mean_the_processor_a_gpu_by_number_or_a_card() {
        assert!(matches!(Target::of("cpu"), Ok(Target::Cpu { threads: 1.. })));
        let card = Target::of("rtx4060-8g").expect("ships");
        assert_eq!(card.profile().map(|p| p.slug.as_str()), Some("rtx4060-8g"));
        assert_eq!([cuda_index("cuda:1"), cuda_index("cuda:"), cuda_index("cuda:+1")], [Some(1), None, None]);
    }

    #[test]
    fn a_gpu_that_is_not_here_is_answered_with_what_can_be_planned_for() {
        let said = Target::of("cuda:97").expect_err("none").to_string();
        assert!(said.contains("no GPU cuda:97 here") && said.contains("gtx1660-6g"), "{said}");
    }

    #[test]
    fn a_slip_of_the_finger_finds_its_card() {
        let said = Target::of("rtx4060-8gb").expect_err("none").to_string();
        assert!(said.contains("did you mean rtx4060-8g?"), "{said}");
        assert!(Target::of("toaster").expect_err("none").to_string().contains("write cpu, cuda:0"));
    }

    #[test]
    fn a_card_by_name_is_not_trained_on() {
        assert!(not_trained_on("rtx4060-8g").is_some_and(|problem| problem.message.contains("RTX 4060")));
        assert!(not_trained_on("cpu").is_none() && not_trained_on("cuda:0").is_none());
    }

    #[test]
    fn a_gpu_that_was_made_known_is_found_by_its_number() {
        let profile = Profile { title: "Measured".to_owned(), ..(*shipped()[0]).clone() };
        crate::device::profile::register("cuda:41", profile);
        let target = Target::of("cuda:41").expect("known");
        assert_eq!(target.profile().map(|p| (p.slug.as_str(), p.title.as_str())), Some(("cuda:41", "Measured")));
    }
}
