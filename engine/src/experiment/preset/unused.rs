//! Settings that are given and not used: a kind of model, data or optimizer has settings that others lack.
//!
//! Owns the sentences for them. Always holds: such a setting stops nothing.

use super::{Places, reader::list};
use crate::experiment::{
    Answers, CachePlace, DataCache, DataKind, Distil, Experiment, ModelKind, OptimizerKind, Placement, PruneKind,
    PruneSchedule, QuantiseKind,
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

/// The condition of settings for what is kept of samples and answers.
const KEPT: &str = "samples (data.cache) or a teacher's answers (distil.answers = cached) are kept";

/// A teacher whose answers are kept.
fn asked_once() -> Distil {
    Distil { teacher: Some("teacher".into()), answers: Answers::Cached, ..Distil::default() }
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
        "data" if of(&|e| e.distil = asked_once()) => {
            return format!("{} is not used unless {KEPT}", setting.key);
        }
        "data" if of(&|e| (e.distil, e.data.cache_in) = (asked_once(), CachePlace::Disk)) => {
            return format!("{} is not used unless {KEPT} on disk (data.cache_in = disk)", setting.key);
        }
        "data" if of(&|e| e.data.cache = DataCache::Decoded) => {
            return format!("{} is not used with data.cache = {}", setting.key, e.data.cache);
        }
        "data" if of(&|e| e.data.placement = Placement::Host) => {
            return format!("{} is not used unless images wait (data.placement = host, or data.cache)", setting.key);
        }
        "data" if of(&|e| e.data.placement = Placement::Streamed) => {
            return format!("{} is not used with data.placement = {}", setting.key, e.data.placement.key());
        }
        "data" => {
            // Some use it for streamed samples alone.
            let is_by = |kind: DataKind| {
                of(&|e| e.data.kind = kind) || of(&|e| (e.data.kind, e.data.placement) = (kind, Placement::Streamed))
            };
            let kinds = DataKind::ALL.into_iter().filter(|kind| is_by(*kind));
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
            let kind = e.quantise.kind.key();
            return format!("{} is not used with quantise.kind = {kind}, only with after", setting.key);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::preset::set;

    fn said(changes: &[&str]) -> Vec<String> {
        let mut experiment = Experiment::default();
        for change in changes {
            set(&mut experiment, change).expect("a setting");
        }
        unused(&experiment, changes.iter().copied())
    }

    #[test]
    fn a_note_names_what_keeps_a_setting_from_use() {
        let of = |changes: &[&str]| said(changes).join("; ");
        assert_eq!(of(&["data.kind=shapes", "data.workers=3"]), "data.workers is not used with data.placement = host");
        assert_eq!(of(&["data.workers=3"]), "data.workers is not used by digits, only by shapes, images, masks");
        assert_eq!(of(&["data.kind=shapes", "data.placement=streamed", "data.workers=3"]), "");
        for source in [&["data.kind=digits"][..], &["data.kind=shapes", "data.placement=streamed"]] {
            let folder = [source, &["data.cache_folder=x"]].concat();
            let place = [source, &["data.cache_in=disk"]].concat();
            assert_eq!(
                of(&folder),
                format!("data.cache_folder is not used unless {KEPT} on disk (data.cache_in = disk)")
            );
            assert_eq!(of(&place), format!("data.cache_in is not used unless {KEPT}"));
        }
        let kept = ["data.kind=shapes", "data.placement=streamed", "data.cache=decoded", "data.cache_folder=x"];
        assert_eq!(of(&kept), format!("data.cache_folder is not used unless {KEPT} on disk (data.cache_in = disk)"));
        assert_eq!(of(&[&kept[..], &["data.cache_in=disk"]].concat()), "");
    }

    /// A sentence that names kinds is true of each of them: one of them alone makes the setting used.
    #[test]
    fn every_kind_that_a_note_names_uses_the_setting() {
        let mut seen = 0;
        for setting in settings::all() {
            for kind in DataKind::ALL {
                let mut experiment = Experiment::default();
                experiment.data.choose(kind);
                if setting.is_used(&experiment) || setting.group() != "data" {
                    continue;
                }
                let words = without_use(setting, &experiment);
                let Some((_, users)) = words.split_once("only by ") else { continue };
                for user in
                    users.split([',', ' ']).filter_map(|word| DataKind::ALL.into_iter().find(|k| k.key() == word))
                {
                    let is_used = |placement| {
                        let mut other = experiment.clone();
                        (other.data.kind, other.data.placement) = (user, placement);
                        setting.is_used(&other)
                    };
                    assert!(Placement::ALL.into_iter().any(is_used), "{words}");
                    assert_ne!(user, kind, "{words}");
                    seen += 1;
                }
            }
        }
        assert!(seen > 100, "{seen}");
    }
}
