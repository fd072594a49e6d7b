//! The names of settings in words, as their controls have them.
//!
//! Always holds: a setting has the name of its control in every sentence. One that families of models call differently has
//! the name that the family has for it.

use std::{collections::HashMap, sync::LazyLock};

use plimsoll_engine::{
    error::Problem,
    experiment::{Experiment, ModelKind},
};

use crate::{format, panels};

/// The names that are the same for all kinds of models and data.
static NAMES: LazyLock<HashMap<&'static str, String>> = LazyLock::new(|| {
    let mut names: HashMap<&str, Vec<String>> = HashMap::new();
    for (key, name) in panels::names_of_settings() {
        names.entry(key).or_default().push(name);
    }
    let one = |(key, mut names): (&'static str, Vec<String>)| {
        names.dedup();
        (names.len() == 1).then(|| names.pop()).flatten().map(|name| (key, name))
    };
    names.into_iter().filter_map(one).collect()
});

/// The names that a family has for its settings.
static OF_FAMILIES: LazyLock<HashMap<(&'static str, &'static str), String>> = LazyLock::new(|| {
    let of = |family: ModelKind| {
        panels::names_for_family(family).into_iter().map(move |(key, name)| ((family.key(), key), name))
    };
    ModelKind::ALL.into_iter().flat_map(of).collect()
});

/// The name of a setting in words: `batch.micro` is `micro-batch`.
pub(crate) fn setting(key: &str) -> String {
    NAMES.get(key).cloned().unwrap_or_else(|| key.rsplit('.').next().unwrap_or(key).replace('_', " "))
}

/// The name that a setting has for a family: `model.depth` is `blocks` of a CNN.
pub(crate) fn setting_of(key: &str, family: ModelKind) -> String {
    OF_FAMILIES.get(&(family.key(), key)).cloned().unwrap_or_else(|| setting(key))
}

/// The names that a setting has for some families: `blocks`, or `hidden layers / blocks`.
pub(crate) fn setting_among(key: &str, families: impl Iterator<Item = ModelKind>) -> String {
    let mut names: Vec<String> = Vec::new();
    families.map(|family| setting_of(key, family)).for_each(|name| {
        if !names.contains(&name) {
            names.push(name);
        }
    });
    names.join(" / ")
}

/// The family of the settings that are not at their defaults (`key=value`).
pub(super) fn family_in(settings: &[String]) -> ModelKind {
    let named = settings.iter().find_map(|assignment| assignment.strip_prefix("model.kind="));
    let known = named.and_then(|name| ModelKind::ALL.into_iter().find(|kind| kind.key() == name.trim_matches('"')));
    known.unwrap_or_else(|| Experiment::default().model.kind)
}

/// What is wrong with an experiment of a family, by the name of the setting as its control has it.
pub(crate) fn problem(problem: &Problem, family: ModelKind) -> String {
    format!("{}: {}", format::capital(&setting_of(&problem.key, family)), problem_alone(problem, family))
}

/// The same where the name of the setting stands next to it.
pub(crate) fn problem_alone(problem: &Problem, family: ModelKind) -> String {
    format::in_groups(&by_names(&format!("{}; {}", problem.message, problem.mend), family))
}

/// A text of the engine in which settings are called as their controls are, and not by their keys; what is to be written in
/// a file or a command stays.
fn by_names(text: &str, family: ModelKind) -> String {
    let named = |word: &str| {
        let key = word.trim_end_matches([',', '.', ';', ':', ')']);
        let name = OF_FAMILIES.get(&(family.key(), key)).or_else(|| NAMES.get(key)).filter(|_| key.contains('.'));
        name.map_or_else(|| word.to_owned(), |name| format!("{name}{}", &word[key.len()..]))
    };
    text.split(' ').map(named).collect::<Vec<_>>().join(" ")
}
