//! What experiments are called side by side: by the settings in which they differ, in short words.
//!
//! Owns the words for a setting's value, such as `micro-batch 32` or `every block`. Always holds: the words come from the
//! settings of the preset format, so that no setting can differ without a word. Titles and descriptions are not settings.

pub(crate) mod checkpointing;
mod first_told;
mod order;
mod run;
mod short;
#[cfg(test)]
mod tests;

use std::{collections::HashMap, path::Path, sync::LazyLock};

use jiff::{Timestamp, Zoned, tz::TimeZone};
use plimsoll_engine::{
    error::Problem,
    experiment::{Experiment, preset},
};

pub(crate) use self::{
    first_told::Names,
    run::{NAMED, in_words, of_run, place, told},
    short::{fitting, fitting_settings},
};
use crate::{format, panels};

/// Settings that are not a property of a run.
const UNNAMED: [&str; 4] = ["version", "title", "description", "low_rank.ranks"];

/// What stands between the settings of a name, and around the number of those that it leaves out.
const BETWEEN: &str = ", ";
const AND: &str = " and ";
const MORE: &str = " more";

/// A setting that differs, and its value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Differing {
    key: String,
    value: String,
}

impl Differing {
    fn read(assignment: &str) -> Option<Self> {
        let (key, value) = assignment.split_once('=')?;
        let value = value.trim_matches('"');
        let value = match key {
            // In the unit that is read elsewhere.
            "budget" => value.parse().map_or_else(|_| value.to_owned(), format::size),
            "data.leave_out" | "data.categorical" => format::spaced(value),
            _ if run::may_be_one(key) => place(Path::new(value)),
            _ => format::grouped(value),
        };
        let differing = Self { key: key.to_owned(), value };
        (!UNNAMED.contains(&key)).then_some(differing)
    }

    /// The value with the name of its setting, as short as it can be understood: `micro-batch 32`, `every block`, `seed 2`.
    pub(crate) fn words(&self) -> String {
        let value = self.value.as_str();
        match (self.key.as_str(), value) {
            ("model.kind", _) => panels::family_of(value).unwrap_or(value).to_owned(),
            ("optimizer.kind", _) => panels::optimizer_of(value).unwrap_or(value).to_owned(),
            ("precision" | "data.kind", _) => value.to_owned(),
            ("checkpointing", _) => value.parse().map_or_else(|_| value.to_owned(), checkpointing::words),
            ("batch.micro", _) => format!("micro-batch {value}"),
            ("batch.accumulation", "1") => "no accumulation".to_owned(),
            ("batch.evaluation", "micro") => "evaluation by micro-batch".to_owned(),
            ("batch.evaluation", "whole") => "evaluation at once".to_owned(),
            ("batch.evaluation", _) => format!("evaluation by {value}"),
            ("data.samples", "1") => "1 sample".to_owned(),
            ("data.samples", _) => format!("{value} samples"),
            ("device", _) => format!("on {}", format::device(value)),
            ("distil.teacher", _) => format!("taught by {value}"),
            ("weights.path", _) => format!("weights of {value}"),
            ("execution", _) => format!("{value} execution"),
            ("recompute", "none") => "no recompute".to_owned(),
            ("quantise.base", _) => format!("{value} base"),
            ("quantise.kind", "none") => "no integers".to_owned(),
            ("quantise.kind", "after") => "integers after training".to_owned(),
            ("quantise.kind", "aware") => "trained for integers".to_owned(),
            ("quantise.weights", "with-inputs") => "inputs as integers".to_owned(),
            ("quantise.weights", "int8" | "int4") => format!("weights alone as {value}"),
            ("quantise.calibration", _) => format!("calibrated by {value}"),
            ("low_rank.rank" | "low_rank.energy" | "low_rank.size", "0" | "0.0") => "whole layers".to_owned(),
            ("low_rank.rank", _) => format!("layers of rank {value}"),
            ("low_rank.energy", _) => format!("layers of energy {value}"),
            ("low_rank.size", _) => format!("factored to size {value}"),
            ("lora.dropout", _) => format!("adapter dropout {value}"),
            (key, _) if key.starts_with("prune.") => self.pruning(),
            (_, "true") => self.name(),
            (_, "false") => format!("no {}", self.name()),
            _ => format!("{} {value}", self.name()),
        }
    }

    /// The name of a setting of pruning.
    fn pruning(&self) -> String {
        let value = self.value.as_str();
        match (self.name().as_str(), value) {
            ("kind", "none") => "no pruning".to_owned(),
            ("kind", "magnitude") => "pruning".to_owned(),
            ("kind", "channels") => "channel pruning".to_owned(),
            ("kind", _) => format!("{value} pruning"),
            ("n", _) => format!("{value} kept"),
            ("m", _) => format!("of {value}"),
            ("scope", "layer") => "pruned by layer".to_owned(),
            ("scope", _) => "pruned over all layers".to_owned(),
            ("schedule", _) => format!("{value} pruning schedule"),
            ("begin step", _) => format!("pruned from step {value}"),
            ("end step", "0") => "pruned to 3/4 of the run".to_owned(),
            ("end step", _) => format!("pruned to step {value}"),
            ("every", "1") => "pruned every step".to_owned(),
            ("every", _) => format!("pruned every {value} steps"),
            (name, _) => format!("{name} {value}"),
        }
    }

    /// The last part of the key in words.
    fn name(&self) -> String {
        self.key.rsplit('.').next().unwrap_or_default().replace('_', " ")
    }
}

/// The settings of `to` that are others in `from`, in the order of the experiment's pane.
pub(crate) fn differing(from: &Experiment, to: &Experiment) -> Vec<Differing> {
    let mut found: Vec<Differing> = preset::changes(from, to).iter().filter_map(|a| Differing::read(a)).collect();
    order::sort(&mut found);
    found
}

/// What distinguishes each of some runs from the others: for each, the settings that are not the same in all, out of the
/// settings that are not at their defaults (`key=value`). What few have comes first, as [`named`] wants it.
pub(crate) fn apart(runs: &[&[String]]) -> Vec<Vec<Differing>> {
    let mut values: HashMap<&str, HashMap<&str, usize>> = HashMap::new();
    for assignment in runs.iter().flat_map(|settings| settings.iter()) {
        if let Some((key, value)) = assignment.split_once('=') {
            *values.entry(key).or_default().entry(value).or_default() += 1;
        }
    }
    // A setting that all have, with one value, sets none apart.
    values.retain(|_, counts| counts.len() > 1 || counts.values().sum::<usize>() < runs.len());
    let default = |(key, values): (&&str, &HashMap<&str, usize>)| default_of(key, values.keys().next()?);
    let at_default: HashMap<&str, Option<Differing>> = values.iter().map(|entry| (*entry.0, default(entry))).collect();
    let words = |settings: &&[String]| {
        let own: HashMap<&str, &String> = settings.iter().filter_map(|a| Some((a.split_once('=')?.0, a))).collect();
        let value = |(key, default): (&&str, &Option<Differing>)| match own.get(*key) {
            Some(assignment) => Differing::read(assignment),
            None => default.clone(),
        };
        let mut differing: Vec<Differing> = at_default.iter().filter_map(value).collect();
        order::sort(&mut differing);
        differing
    };
    let mut differing: Vec<Vec<Differing>> = runs.iter().map(words).collect();
    rare_first(&mut differing.iter_mut().collect::<Vec<_>>());
    differing
}

/// Settings in words, in the order of the experiment's pane: of more than `most` the first of `differing`, and the rest as a
/// number.
pub(crate) fn named(differing: &[Differing], most: usize) -> String {
    let shown = first(differing, most);
    and_more(shown.join(BETWEEN), differing.len() - shown.len())
}

/// The first of some settings, each in words, in the order of the experiment's pane.
pub(crate) fn first(differing: &[Differing], most: usize) -> Vec<String> {
    let mut shown = differing[..most.min(differing.len())].to_vec();
    order::sort(&mut shown);
    shown.iter().map(Differing::words).collect()
}

/// Puts what most of some runs share behind what distinguishes each of them: of too many, [`named`] leaves the last out.
fn rare_first(runs: &mut [&mut Vec<Differing>]) {
    let mut counts: HashMap<Differing, usize> = HashMap::new();
    for differing in runs.iter().flat_map(|differing| differing.iter()) {
        *counts.entry(differing.clone()).or_default() += 1;
    }
    let all = runs.len();
    for differing in runs {
        differing.sort_by_key(|differing| counts[differing] * 2 > all);
    }
}

/// Adds to each name that several have when it began, and a number where that is the same second as well. Of a plan, which
/// never began, the moment is `None`.
pub(crate) fn with_moments(names: Vec<String>, began: &[Option<Timestamp>], zone: &TimeZone) -> Vec<String> {
    let by_time = extended(names, |group| {
        let moments: Vec<_> = group.iter().map(|i| began[*i].map(|began| began.to_zoned(zone.clone()))).collect();
        let days: Vec<_> = moments.iter().flatten().map(|moment| moment.date()).collect();
        let form = if days.windows(2).all(|pair| pair[0] == pair[1]) { "%H:%M:%S" } else { "%-d %b %Y, %H:%M:%S" };
        let words = |moment: &Option<Zoned>| moment.as_ref().map_or_else(String::new, |m| m.strftime(form).to_string());
        moments.iter().map(words).collect()
    });
    extended(by_time, |group| (1..=group.len()).map(|number| format!("no. {number}")).collect())
}

/// Adds a word to each name that several have; `words` finds those of a group, by their places.
pub(crate) fn extended(names: Vec<String>, words: impl Fn(&[usize]) -> Vec<String>) -> Vec<String> {
    let mut groups: HashMap<&str, Vec<usize>> = HashMap::new();
    for (i, name) in names.iter().enumerate() {
        groups.entry(name).or_default().push(i);
    }
    let mut extended = names.clone();
    for group in groups.values().filter(|group| group.len() > 1) {
        for (i, word) in group.iter().zip(words(group)) {
            if !word.is_empty() {
                extended[*i] = format!("{}, {word}", names[*i]);
            }
        }
    }
    extended
}

/// A setting at its default, found by another value of it; `None` for one that the default experiment does not use.
fn default_of(key: &str, value: &str) -> Option<Differing> {
    let mut other = Experiment::default();
    preset::set(&mut other, &format!("{key}={value}")).ok()?;
    let changes = preset::changes(&other, &Experiment::default());
    changes.iter().filter_map(|assignment| Differing::read(assignment)).find(|differing| differing.key == key)
}

/// The value of a setting in words, next to which its name stands; a kept run is called as `called` knows it by its key.
pub(crate) fn value(key: &str, value: &str, called: impl Fn(&str) -> Option<String>) -> String {
    let Some(differing) = Differing::read(&format!("{key}={value}")) else { return value.to_owned() };
    let differing = differing.with_runs(called);
    let words = differing.words();
    match (key, words.strip_prefix(&differing.name())) {
        ("batch.micro" | "data.samples", _) => format::grouped(value),
        (_, Some(rest)) if !rest.is_empty() => rest.trim_start().to_owned(),
        _ => words,
    }
}

/// The names of settings in words, as their controls have them. Where kinds of models or data call a setting differently, it is
/// not here.
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

/// The name of a setting in words: `batch.micro` is `micro-batch`.
pub(crate) fn setting(key: &str) -> String {
    NAMES.get(key).cloned().unwrap_or_else(|| key.rsplit('.').next().unwrap_or(key).replace('_', " "))
}

/// What is wrong with an experiment, by the name of the setting as its control has it.
pub(crate) fn problem(problem: &Problem) -> String {
    format!("{}: {}", format::capital(&setting(&problem.key)), problem_alone(problem))
}

/// The same where the name of the setting stands next to it.
pub(crate) fn problem_alone(problem: &Problem) -> String {
    format::in_groups(&by_names(&format!("{}; {}", problem.message, problem.mend)))
}

/// A text of the engine in which settings are called as their controls are, and not by their keys; what is to be written in a
/// file or a command stays.
fn by_names(text: &str) -> String {
    let named = |word: &str| {
        let key = word.trim_end_matches([',', '.', ';', ':', ')']);
        let name = NAMES.get(key).filter(|_| key.contains('.'));
        name.map_or_else(|| word.to_owned(), |name| format!("{name}{}", &word[key.len()..]))
    };
    text.split(' ').map(named).collect::<Vec<_>>().join(" ")
}

/// What turns `from` into `to`: `micro-batch 64 → 32`, `no checkpointing → every block`, `seed 1 → 2`. A kept run is called as
/// `called` knows it by its key.
pub(crate) fn changes(from: &Experiment, to: &Experiment, called: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let named = |from, to| differing(from, to).into_iter().map(|one| one.with_runs(&called)).collect::<Vec<_>>();
    let before = named(to, from);
    let change = |after: &Differing| match before.iter().find(|before| before.key == after.key) {
        Some(before) => {
            let (old, new) = (before.words(), after.words());
            let name = new.strip_suffix(&after.value).filter(|name| old.strip_suffix(&before.value) == Some(*name));
            let new = if name.is_some_and(|name| !name.is_empty()) { &after.value } else { &new };
            format!("{old} → {new}")
        }
        None => after.words(),
    };
    named(from, to).iter().map(change).collect()
}

/// The first few in one line; the rest as a number.
pub(crate) fn listed(words: &[String], most: usize) -> String {
    let left = words.len().saturating_sub(most);
    and_more(words[..words.len() - left].join(BETWEEN), left)
}

fn and_more(listed: String, left: usize) -> String {
    if left > 0 { format!("{listed}{AND}{left}{MORE}") } else { listed }
}
