//! A setting with its value in words, as short as it can be understood: `micro-batch 32`, `every block`, `seed 2`.
//!
//! Always holds: it is the name of the control with the value, or a phrase where the two say less side by side.

use super::{Differing, checkpointing};
use crate::{format, panels};

/// What stands between a name that ends in a number and the value.
pub(super) const OF: &str = "of ";

impl Differing {
    /// The words.
    pub(crate) fn words(&self) -> String {
        self.phrase().unwrap_or_else(|| {
            let (name, value) = (&self.name, &self.value);
            match value.as_str() {
                "true" => name.clone(),
                "false" => format!("no {name}"),
                value if name.ends_with(|last: char| last.is_ascii_digit()) => format!("{name} {OF}{value}"),
                value => format!("{name} {value}"),
            }
        })
    }

    /// The words of a setting whose name and value say less.
    pub(super) fn phrase(&self) -> Option<String> {
        let value = self.value.as_str();
        let phrase = match (self.key.as_str(), value) {
            ("model.kind", _) => panels::family_of(value).unwrap_or(value).to_owned(),
            ("optimizer.kind", _) => panels::optimizer_of(value).unwrap_or(value).to_owned(),
            ("precision" | "data.kind", _) => value.to_owned(),
            ("checkpointing", _) => value.parse().map_or_else(|_| value.to_owned(), checkpointing::words),
            ("batch.accumulation", "1") => "no accumulation".to_owned(),
            ("batch.evaluation", "micro") => "evaluation by micro-batch".to_owned(),
            ("batch.evaluation", "whole") => "evaluation at once".to_owned(),
            ("batch.evaluation", _) => format!("evaluation by {value}"),
            ("data.samples", "1") => "1 sample".to_owned(),
            ("data.samples", _) => format!("{value} samples"),
            ("device", _) => format!("on {}", format::device(value)),
            ("run.evaluate_every", "0") => "evaluate every epoch".to_owned(),
            ("distil.teacher", _) => format!("taught by {value}"),
            ("weights.path", _) => format!("weights of {value}"),
            ("execution", _) => format!("{value} execution"),
            ("recompute", "none") => "no recompute".to_owned(),
            (key, _) if key.starts_with("prune.") => return self.pruning(),
            (key, _) if key.starts_with("quantise.") => return self.integers(),
            (key, _) if key.starts_with("low_rank.") => return self.factors(),
            (_, "true" | "false") => return self.yes_or_no(value == "true"),
            _ => return None,
        };
        Some(phrase)
    }

    /// The words of a setting with two values that its name alone does not tell.
    fn yes_or_no(&self, is_yes: bool) -> Option<String> {
        let [yes, no] = match self.key.as_str() {
            "data.packing" => ["sequences packed", "sequences padded"],
            "data.completion_only" => ["scored completions only", "scored every token"],
            "data.skip_broken" => ["broken lines left out", "broken lines stop it"],
            "gpu.tf32" => ["f32 products in TF32", "exact f32 products"],
            "gpu.deterministic" => ["repeatable", "not repeatable"],
            "lora.rslora" => ["scale by rank (rsLoRA)", "scale by rank alone"],
            "model.tied" => ["last layer as the embedding", "last layer of its own"],
            "run.save_best" => ["save the best", "the best not saved"],
            _ => return None,
        };
        Some(if is_yes { yes } else { no }.to_owned())
    }

    fn pruning(&self) -> Option<String> {
        let value = self.value.as_str();
        let phrase = match (self.key.as_str(), value) {
            ("prune.kind", "none") => "no pruning".to_owned(),
            ("prune.kind", "magnitude") => "pruning".to_owned(),
            ("prune.kind", "channels") => "channel pruning".to_owned(),
            ("prune.kind", _) => format!("{value} pruning"),
            ("prune.n", _) => format!("{value} kept"),
            ("prune.m", _) => format!("of {value}"),
            ("prune.scope", "layer") => "pruned by layer".to_owned(),
            ("prune.scope", _) => "pruned over all layers".to_owned(),
            ("prune.schedule", _) => format!("{value} pruning schedule"),
            ("prune.begin_step", _) => format!("pruned from step {value}"),
            ("prune.end_step", "0") => "pruned to 3/4 of the run".to_owned(),
            ("prune.end_step", _) => format!("pruned to step {value}"),
            ("prune.every", "1") => "pruned every step".to_owned(),
            ("prune.every", _) => format!("pruned every {value} steps"),
            _ => return None,
        };
        Some(phrase)
    }

    fn integers(&self) -> Option<String> {
        let value = self.value.as_str();
        let phrase = match (self.key.as_str(), value) {
            ("quantise.base", _) => format!("{value} base"),
            ("quantise.kind", "none") => "no integers".to_owned(),
            ("quantise.kind", "after") => "integers after training".to_owned(),
            ("quantise.kind", "aware") => "trained for integers".to_owned(),
            ("quantise.weights", "with-inputs") => "inputs as integers".to_owned(),
            ("quantise.weights", "int8" | "int4") => format!("weights alone as {value}"),
            ("quantise.calibration", _) => format!("calibrated by {value}"),
            _ => return None,
        };
        Some(phrase)
    }

    fn factors(&self) -> Option<String> {
        let value = self.value.as_str();
        let phrase = match (self.key.as_str(), value) {
            ("low_rank.rank" | "low_rank.energy" | "low_rank.size", "0" | "0.0") => "whole layers".to_owned(),
            ("low_rank.rank", _) => format!("layers of rank {value}"),
            ("low_rank.energy", _) => format!("layers of energy {value}"),
            ("low_rank.size", _) => format!("factored to size {value}"),
            _ => return None,
        };
        Some(phrase)
    }
}
