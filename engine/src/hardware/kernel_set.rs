//! Which kernels a run loads, as a name to compare by.
//!
//! Always holds: experiments of one name need the same kernels.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::experiment::{Experiment, Likeness, step};

/// A name for the kernels that a run needs, as exactly as `likeness` says: experiments of one name need the same.
pub(super) fn kernels(experiment: &Experiment, likeness: Likeness) -> String {
    let mut hasher = DefaultHasher::new();
    step(experiment, likeness).hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::Bytes;
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
