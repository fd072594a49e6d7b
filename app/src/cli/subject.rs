//! Subjects that a command line names by one word: a preset, planned here, or a kept run.

use std::{path::Path, sync::Arc};

use jiff::{Timestamp, tz::TimeZone};
use plimsoll_engine::{
    Experiment,
    experiment::{preset, shipped},
    hardware::Machine,
    plan::{self, Plan},
    report::{Kept, Subject},
    store::{RunKey, Store},
};

use crate::{
    cli::{Misuse, choice::Choice, in_store::InStore, out},
    format, naming,
};

/// The most settings that distinguish a run from others of its name.
const NAMED: usize = 3;

/// A preset or a run, to be compared or written.
pub(super) struct Named {
    /// The kind of the subject.
    pub(super) subject: Subject,
    /// Everything that is kept of it; `None` of a preset.
    pub(super) kept: Option<Kept>,
}

/// The run that a word names; `None` if it names a preset: a file, the name of a shipped preset, or a word that looks
/// like a file and is not the name of a run.
///
/// # Errors
/// A word that names neither, a store that cannot be read.
pub(super) fn run_of(name: &Path, in_store: &InStore) -> anyhow::Result<Option<(Store, RunKey)>> {
    let text = name.to_string_lossy();
    if text == "-" || name.is_file() || shipped::find(&text).is_some() {
        return Ok(None);
    }
    let is_path = text.contains(['/', '\\']) || text.ends_with(".toml") || text.ends_with(".json") || name.is_dir();
    let find = || -> anyhow::Result<(Store, RunKey)> {
        let Some(store) = in_store.existing()? else {
            anyhow::bail!(
                "`{text}` is not a preset, and no runs are kept in {}; `plimsoll presets` lists the shipped presets",
                in_store.folder()?.display()
            );
        };
        let key = store.find(&text)?;
        Ok((store, key))
    };
    if is_path { Ok(find().ok()) } else { find().map(Some) }
}

/// The name of a file for the subject of a word: the key of a run, the name of a preset without its folder and ending.
///
/// # Errors
/// The errors of [`named`].
pub(super) fn file_name(name: &Path, in_store: &InStore) -> anyhow::Result<String> {
    Ok(match run_of(name, in_store)? {
        Some((_, key)) => key.to_string(),
        None if name == Path::new("-") => "preset".to_owned(),
        None => name.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
    })
}

/// The preset or run of this name, planned on `machine`; a preset on another device where one is given. A run that cannot be
/// planned any more, as when its data are gone, comes without a plan, with a note.
///
/// # Errors
/// A name that means neither, a preset that cannot be planned, a store that cannot be read.
fn named(name: &Path, device: Option<&str>, in_store: &InStore, machine: &Machine) -> anyhow::Result<Named> {
    let Some((store, key)) = run_of(name, in_store)? else {
        let choice = Choice::of(name, device.map(str::to_owned));
        let plan = plan::predict(&choice.resolve(machine, |_| {})?, machine)?;
        return Ok(Named { subject: Subject::of_plan(choice.name(), Arc::new(plan)), kept: None });
    };
    let kept = Kept::read(&store, &key)?;
    if device.is_some() {
        let text = name.display();
        return Err(Misuse(format!("--device plans presets, and {text} is a run on {}", kept.run.device)).into());
    }
    if let Some(damage) = &kept.damage {
        out::say("warning", &format!("run {}: {damage}", kept.run.key));
    }
    let plan = Plan::of(&kept.experiment, machine);
    if let Err(why) = &plan {
        out::say("note", &format!("run {} cannot be planned here any more: {why}", kept.run.key));
    }
    let subject = kept.subject(plan.ok());
    if let Some(anew) = subject.plan.as_deref().and_then(format::planned_anew) {
        out::say("note", &format!("run {}: {anew}", kept.run.key));
    }
    Ok(Named { subject, kept: Some(kept) })
}

/// The presets or runs of these names, as [`named`] finds each, with names that distinguish them.
///
/// # Errors
/// The errors of [`named`].
pub(super) fn all<'a>(
    names: impl IntoIterator<Item = &'a Path>,
    device: Option<&str>,
    in_store: &InStore,
    machine: &Machine,
) -> anyhow::Result<Vec<Named>> {
    let named = names.into_iter().map(|name| named(name, device, in_store, machine));
    let mut named = named.collect::<anyhow::Result<Vec<Named>>>()?;
    let own: Vec<Own<'_>> = named.iter().map(Own::of).collect();
    let told = told_apart(&own, &TimeZone::system());
    named.iter_mut().zip(told).for_each(|(named, told)| named.subject.name = told);
    Ok(named)
}

/// The properties that distinguish a subject.
struct Own<'a> {
    name: &'a str,
    experiment: &'a Experiment,
    /// When it began; `None` of a plan.
    began: Option<Timestamp>,
}

impl<'a> Own<'a> {
    fn of(named: &'a Named) -> Self {
        let Named { subject, kept } = named;
        Self { name: &subject.name, experiment: &subject.experiment, began: kept.as_ref().map(|kept| kept.run.started) }
    }
}

/// The name of each subject. If others have the same name, the settings in which they differ follow it; if those are the
/// same too, the time at which it began.
fn told_apart(subjects: &[Own<'_>], zone: &TimeZone) -> Vec<String> {
    let names: Vec<String> = subjects.iter().map(|subject| subject.name.to_owned()).collect();
    let by_settings = naming::extended(names, |group| {
        let settings: Vec<Vec<String>> =
            group.iter().map(|i| preset::changes(&Experiment::default(), subjects[*i].experiment)).collect();
        let settings: Vec<&[String]> = settings.iter().map(Vec::as_slice).collect();
        naming::apart(&settings).iter().map(|differing| naming::named(differing, NAMED)).collect()
    });
    let began: Vec<_> = subjects.iter().map(|subject| subject.began).collect();
    naming::with_moments(by_settings, &began, zone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_called_the_same_is_told_apart_by_settings_or_by_time() {
        let mut wide = Experiment::default();
        wide.batch.micro = 32;
        let plain = Experiment::default();
        let at = |secs: i64| Some(Timestamp::from_second(1_795_356_725 + secs).expect("a time"));
        let own = |name, experiment, began| Own { name, experiment, began };
        let told = |subjects: &[Own<'_>]| told_apart(subjects, &TimeZone::UTC);
        let other = own("other", &plain, None);
        assert_eq!(told(&[own("a", &plain, at(0)), other]), ["a", "other"]);
        let both = told(&[own("a", &plain, at(0)), own("a", &wide, at(9))]);
        assert_eq!(both, ["a, micro-batch 64", "a, micro-batch 32"]);
        let all = told(&[own("a", &plain, at(0)), own("a", &wide, at(5)), own("a", &plain, at(9))]);
        assert_eq!(all, ["a, micro-batch 64, 14:12:05", "a, micro-batch 32", "a, micro-batch 64, 14:12:14"]);
        let days = told(&[own("a", &plain, at(0)), own("a", &plain, at(86_400))]);
        assert_eq!(days, ["a, 22 Nov 2026, 14:12:05", "a, 23 Nov 2026, 14:12:05"]);
        assert_eq!(told(&[own("a", &plain, None), own("a", &plain, None)]), ["a, no. 1", "a, no. 2"]);
    }
}
