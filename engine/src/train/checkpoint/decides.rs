//! The settings that decide how training goes on, and those that decide a model's answers.
//!
//! Always holds: every setting is sorted here, so that a new one is not forgotten (a test asks for it).

use crate::experiment::{Setting, settings::Bears};

/// Whether a run goes on only with the same value: it decides which tensors and samples there are.
pub(super) fn training(key: &str) -> bool {
    const DECIDES: [&str; 11] = [
        "model.",
        "data.",
        "lora.",
        "quantise.",
        "low_rank.rank",
        "low_rank.energy",
        "low_rank.size",
        "precision",
        "frozen",
        "optimizer.kind",
        "run.seed",
    ];
    bears(key) != Some(Bears::Derived) && DECIDES.iter().any(|group| key.starts_with(group))
}

/// Whether it decides a trained model's output for a sample.
pub(super) fn answers(key: &str) -> bool {
    const DECIDES: [&str; 4] = ["model.", "lora.", "quantise.", "low_rank."];
    let is_free = matches!(bears(key), Some(Bears::Training | Bears::Derived));
    DECIDES.iter().any(|group| key.starts_with(group)) && !is_free
}

/// Whether it decides what the samples are. Samples that are fed to the model in another way, or varied, are the same; so are
/// those whose setting `is_free` lets pass.
pub(super) fn samples(key: &str, is_free: impl Fn(Bears) -> bool) -> bool {
    let setting = Setting::of(key).filter(|setting| setting.group() == "data");
    setting.is_some_and(|setting| match setting.bears() {
        Bears::Feeding | Bears::Variation => false,
        bears => !is_free(bears),
    })
}

fn bears(key: &str) -> Option<Bears> {
    Setting::of(key).map(Setting::bears)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::settings;

    /// Settings that may differ when a run goes on: they change how steps are computed, what they learn from here on, or
    /// their reports and records.
    const MAY_DIFFER: [&str; 50] = [
        "version",
        "title",
        "description",
        "budget",
        "device",
        "checkpointing",
        "loss_chunk",
        "recompute",
        "retain_graph",
        "execution",
        "gpu.pool",
        "gpu.workspace",
        "gpu.tf32",
        "gpu.deterministic",
        "batch.micro",
        "batch.accumulation",
        "batch.evaluation",
        "optimizer.update",
        "optimizer.learning_rate",
        "optimizer.weight_decay",
        "optimizer.momentum",
        "optimizer.beta1",
        "optimizer.beta2",
        "optimizer.epsilon",
        "optimizer.clip_norm",
        "optimizer.warmup_steps",
        "optimizer.schedule",
        "low_rank.ranks",
        "prune.kind",
        "prune.scope",
        "prune.final_sparsity",
        "prune.schedule",
        "prune.initial_sparsity",
        "prune.n",
        "prune.m",
        "prune.begin_step",
        "prune.end_step",
        "prune.every",
        "distil.teacher",
        "distil.temperature",
        "distil.weight",
        "distil.answers",
        "weights.path",
        "run.steps",
        "run.epochs",
        "run.threads",
        "run.evaluate_every",
        "run.save_every",
        "run.save_minutes",
        "run.save_best",
    ];

    #[test]
    fn every_setting_either_decides_training_or_may_differ() {
        for key in settings::all().map(|setting| setting.key) {
            assert!(training(key) != MAY_DIFFER.contains(&key), "{key}: sort it into one of the two");
            // A setting that changes the answers changes the training as well.
            assert!(!answers(key) || training(key), "{key}");
        }
    }

    #[test]
    fn samples_are_the_same_however_they_are_fed_and_varied() {
        let of = |is_free: fn(Bears) -> bool| {
            let keys = settings::all().map(|setting| setting.key);
            keys.filter(|key| key.starts_with("data.") && !samples(key, is_free)).collect::<Vec<_>>()
        };
        const FED: [&str; 11] = [
            "data.normalise_when",
            "data.placement",
            "data.cache",
            "data.cache_in",
            "data.cache_folder",
            "data.host_budget",
            "data.workers",
            "data.prefetch",
            "data.flip",
            "data.crop_padding",
            "data.color_jitter",
        ];
        assert_eq!(of(|_| false), FED);
        let read = ["data.tokenizer", "data.completion_only", "data.skip_broken"];
        let others = |found: Vec<&'static str>| found.into_iter().filter(|key| !FED.contains(key)).collect::<Vec<_>>();
        assert_eq!(others(of(|bears| bears == Bears::Reading)), read);
        assert_eq!(others(of(|bears| bears == Bears::Scale)), ["data.normalise"]);
        assert!(settings::all().all(|setting| setting.group() == "data" || !samples(setting.key, |_| false)));
    }
}
