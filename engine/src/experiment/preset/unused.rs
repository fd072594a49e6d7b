//! Settings that are given and not used: a kind of model, data or optimizer has settings that others lack.
//!
//! Owns the sentences for them. Always holds: such a setting stops nothing.

use super::{Places, reader::list};
use crate::experiment::{
    DataKind, Experiment, ModelKind, OptimizerKind, PruneKind, PruneSchedule, QuantiseKind,
    settings::{self, Setting, find},
};

/// A key of a file that nothing makes use of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unused<'a> {
    /// The key.
    pub key: &'static str,
    /// Where the file gives it, such as `line 3, column 1`.
    pub place: &'a str,
    /// Which kinds do not use it, and which do: a sentence.
    pub words: String,
}

impl Places {
    /// The keys that neither `own` (as written) nor `chosen` (as resolved) uses.
    pub fn unused(&self, own: &Experiment, chosen: &Experiment) -> Vec<Unused<'_>> {
        let in_vain = settings::all().filter(|setting| !setting.is_used(own) && !setting.is_used(chosen));
        let given = in_vain.filter_map(|setting| Some((setting, self.of(setting.key)?)));
        given.map(|(setting, place)| Unused { key: setting.key, place, words: without_use(setting, chosen) }).collect()
    }
}

/// The assignments, in the form that [`set_all`](super::set_all) takes, that the kinds of `experiment` do not use: a
/// sentence each, with the kinds that do.
pub fn unused<'a>(experiment: &Experiment, assignments: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let settings = assignments.into_iter().filter_map(|assignment| find(assignment.split('=').next()?.trim()));
    let mut found: Vec<&Setting> = settings.filter(|setting| !setting.is_used(experiment)).collect();
    found.sort_by_key(|setting| setting.key);
    found.dedup_by_key(|setting| setting.key);
    found.into_iter().map(|setting| without_use(setting, experiment)).collect()
}

/// Which kinds do not use a setting, and which do.
fn without_use(setting: &Setting, e: &Experiment) -> String {
    let of = |change: &dyn Fn(&mut Experiment)| {
        let mut other = e.clone();
        change(&mut other);
        setting.is_used(&other)
    };
    let (by, users): (&str, Vec<&str>) = match setting.group() {
        "model" => {
            let kinds = ModelKind::ALL.into_iter().filter(|kind| of(&|e| e.model.kind = *kind));
            (e.model.kind.key(), kinds.map(ModelKind::key).collect())
        }
        "data" if setting.key == "data.cache_in" && e.data.kind.can_keep() => {
            return format!("{} is not used with data.cache = none", setting.key);
        }
        "data" if setting.key == "data.cache_folder" && e.data.kind.can_keep() => {
            return format!("{} is not used unless data.cache is kept with data.cache_in = disk", setting.key);
        }
        "data" => {
            let kinds = DataKind::ALL.into_iter().filter(|kind| of(&|e| e.data.kind = *kind));
            (e.data.kind.key(), kinds.map(DataKind::key).collect())
        }
        "optimizer" => {
            let kinds = OptimizerKind::ALL.into_iter().filter(|kind| of(&|e| e.optimizer.kind = *kind));
            (e.optimizer.kind.key(), kinds.map(OptimizerKind::key).collect())
        }
        "lora" => return format!("{} is not used with lora.rank = 0", setting.key),
        "low_rank" => return format!("{} is not used without low_rank.energy or low_rank.size", setting.key),
        "distil" => return format!("{} is not used without distil.teacher", setting.key),
        "prune" if e.prune.kind.is_none() => return format!("{} is not used with prune.kind = none", setting.key),
        "prune" if of(&|e| e.prune.schedule = PruneSchedule::Polynomial) => {
            return format!("{} is not used with prune.schedule = constant", setting.key);
        }
        "prune" => {
            let kinds = PruneKind::ALL.into_iter().filter(|kind| of(&|e| e.prune.kind = *kind));
            (e.prune.kind.key(), kinds.map(PruneKind::key).collect())
        }
        "quantise" if e.quantise.kind == QuantiseKind::After => {
            return format!("{} is not used with quantise.weights = {}", setting.key, e.quantise.weights.key());
        }
        "quantise" => {
            return format!("{} is not used with quantise.kind = {}", setting.key, e.quantise.kind.key());
        }
        "run" if setting.key == "run.threads" => return "run.threads is not used on a GPU".to_owned(),
        "gpu" => return format!("{} is not used on the CPU", setting.key),
        _ => ("these settings", Vec::new()),
    };
    match &users[..] {
        [] => format!("{} is not used by {by}", setting.key),
        users => format!("{} is not used by {by}, only by {}", setting.key, list(users)),
    }
}
