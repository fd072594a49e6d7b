//! What experiments are called side by side: by the settings in which they differ, in short words.
//!
//! Owns the words for a setting's value, such as `micro-batch 32` or `every block`. Always holds: the words come from the
//! settings of the preset format, so that no setting can differ without a word. Titles and descriptions are not settings.

pub(crate) mod checkpointing;
mod first_told;
mod order;
mod run;
mod setting;
mod short;
#[cfg(test)]
mod tests;
mod words;

use std::{collections::HashMap, path::Path};

use jiff::{Timestamp, Zoned, tz::TimeZone};
use plimsoll_engine::{
    Bytes,
    experiment::{Experiment, ModelKind, preset},
};

use self::setting::{family_in, setting_of};
pub(crate) use self::{
    first_told::Names,
    run::{NAMED, in_words, of_run, place, told},
    setting::{problem, problem_alone, setting, setting_among},
    short::{fitting, fitting_settings},
};
use crate::format;

/// Settings that are not a property of a run.
const UNNAMED: [&str; 4] = ["version", "title", "description", "low_rank.ranks"];

/// What stands between the settings of a name, and around the number of those that it leaves out.
const BETWEEN: &str = ", ";
const AND: &str = " and ";
const MORE: &str = " more";
/// The value of a budget that is not set.
const NONE: &str = "none";

/// A setting that differs, with what it is called and its value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Differing {
    key: String,
    name: String,
    value: String,
}

impl Differing {
    fn read(assignment: &str) -> Option<Self> {
        let (key, value) = assignment.split_once('=')?;
        let value = value.trim_matches('"');
        let value = match key {
            // In the unit that is read elsewhere.
            "data.host_budget" if value.parse() == Ok(Bytes::ZERO) => NONE.to_owned(),
            "budget" => value.parse().map_or_else(|_| value.to_owned(), format::size),
            "data.leave_out" | "data.categorical" => format::spaced(value),
            _ if run::may_be_one(key) => place(Path::new(value)),
            _ => format::grouped(value),
        };
        let differing = Self { key: key.to_owned(), name: setting(key), value };
        (!UNNAMED.contains(&key)).then_some(differing)
    }

    /// The same, called as the controls of a family of models call it.
    fn of_family(self, family: ModelKind) -> Self {
        Self { name: setting_of(&self.key, family), ..self }
    }
}

/// The settings of `to` that are others in `from`, in the order of the experiment's pane.
pub(crate) fn differing(from: &Experiment, to: &Experiment) -> Vec<Differing> {
    let found = preset::changes(from, to).into_iter().filter_map(|change| Differing::read(&change));
    let mut found: Vec<Differing> = found.map(|one| one.of_family(to.model.kind)).collect();
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
        let family = family_in(settings);
        let mut differing: Vec<Differing> =
            at_default.iter().filter_map(value).map(|one| one.of_family(family)).collect();
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
    match (key, words.strip_prefix(&differing.name)) {
        ("batch.micro" | "data.samples", _) => format::grouped(value),
        (_, Some(rest)) if !rest.is_empty() => rest.trim_start().trim_start_matches(words::OF).to_owned(),
        _ => words,
    }
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
