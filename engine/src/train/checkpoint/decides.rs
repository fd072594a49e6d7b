//! The settings that decide how training goes on, and those that decide a model's answers.
//!
//! Always holds: every setting is sorted here, so that a new one is not forgotten (a test asks for it).

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
    // The ranks follow from the settings before, or from the weights.
    key != "low_rank.ranks" && DECIDES.iter().any(|group| key.starts_with(group))
}

/// Whether it decides a trained model's output for a sample.
pub(super) fn answers(key: &str) -> bool {
    const DECIDES: [&str; 4] = ["model.", "lora.", "quantise.", "low_rank."];
    /// Only training uses them.
    const FREE: [&str; 3] = ["model.dropout", "lora.dropout", "low_rank.ranks"];
    DECIDES.iter().any(|group| key.starts_with(group)) && !FREE.contains(&key)
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
}
