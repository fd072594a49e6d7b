//! What a device's name means in this machine.

use std::sync::Arc;

use crate::{
    device::{
        Profile, Target, cpu_threads,
        profile::{self, shipped},
        target::{cuda_index, problem},
    },
    error::{Problem, Result},
    experiment::Experiment,
};

/// What `device` names: the processor, a GPU that is here, or a card to plan for.
///
/// # Errors
/// A name that means nothing, or a GPU that is not here.
pub fn target(device: &str) -> Result<Target> {
    if let Some(problem) = problem(device) {
        return Err(problem.into());
    }
    if device == "cpu" {
        return Ok(Target::Cpu { threads: cpu_threads() });
    }
    let example = shipped().first().map_or("", |profile| &profile.slug);
    profile::named(device).map(Target::Gpu).ok_or_else(|| {
        let message = format!("there is no GPU {device} here{}", why_none());
        let mend = format!("choose cpu, or plan for a card by its name, such as {example}");
        Problem::new("device", message, mend).into()
    })
}

/// What `experiment` runs on. The context of a GPU that is here allows for the kernels that this very run is yet to
/// load.
///
/// # Errors
/// As [`target`].
pub fn target_of_run(experiment: &Experiment) -> Result<Target> {
    let target = target(&experiment.device)?;
    #[cfg(feature = "cuda")]
    if let (Target::Gpu(profile), Some(index)) = (&target, cuda_index(&experiment.device)) {
        let kernels = crate::hardware::detected::kernels_of(index as usize, experiment);
        return Ok(Target::Gpu(Arc::new(Profile { context: profile.context + kernels, ..(**profile).clone() })));
    }
    Ok(target)
}

/// The GPUs that are here and can be trained on, by name.
pub fn registered() -> Vec<Arc<Profile>> {
    profile::registered()
}

/// Why no GPU at all can be trained on, as the end of a sentence.
fn why_none() -> String {
    #[cfg(feature = "cuda")]
    let missing = crate::hardware::detected::missing();
    #[cfg(not(feature = "cuda"))]
    let missing: crate::hardware::Figure<()> = Err("this program was built without the CUDA engine".to_owned());
    missing.err().map(|why| format!(" ({why})")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Profile;

    #[test]
    fn names_mean_the_processor_a_gpu_by_number_or_a_card() {
        assert!(matches!(target("cpu"), Ok(Target::Cpu { threads: 1.. })));
        let card = target("rtx4060-8g").expect("ships");
        assert_eq!(card.profile().map(|p| p.slug.as_str()), Some("rtx4060-8g"));
    }

    #[test]
    fn a_gpu_that_is_not_here_is_answered_with_what_can_be_planned_for() {
        let said = target("cuda:97").expect_err("none").to_string();
        assert!(said.contains("no GPU cuda:97 here") && said.contains("gtx1660-6g"), "{said}");
    }

    #[test]
    fn a_slip_of_the_finger_finds_its_card() {
        let said = target("rtx4060-8gb").expect_err("none").to_string();
        assert!(said.contains("did you mean rtx4060-8g?"), "{said}");
        assert!(target("toaster").expect_err("none").to_string().contains("write cpu, cuda:0"));
    }

    #[test]
    fn a_gpu_that_was_made_known_is_found_by_its_number() {
        let profile = Profile { title: "Measured".to_owned(), ..(*shipped()[0]).clone() };
        crate::device::profile::register("cuda:41", profile);
        let known = target("cuda:41").expect("known");
        assert_eq!(known.profile().map(|p| (p.slug.as_str(), p.title.as_str())), Some(("cuda:41", "Measured")));
    }
}
