//! The settings by which runs are named, which stay as they were told first.
//!
//! Always holds: a run is named by the settings that differ from its shipped preset, or from the first run of its title, and
//! by nothing of the runs that come later. Runs with other settings therefore have other names. Of more settings than a name
//! lists, those come first that few of the runs before it have.

use std::collections::HashMap;

use super::{Differing, default_of, family_in, order};
use crate::{presets, runs};

/// A name tells a setting last once more than one in this many runs of its title share it.
const FEW: usize = 2;

/// The names of all runs so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Names {
    titles: HashMap<String, Title>,
}

/// The runs of one title.
#[derive(Debug, Clone)]
struct Title {
    /// The settings that are not told, as far as they are not at their defaults (`key=value`).
    base: Vec<String>,
    /// The defaults of these settings.
    defaults: HashMap<String, Option<Differing>>,
    /// How many runs have a setting in their names.
    counts: HashMap<Differing, usize>,
    /// The settings of each run, and those that differ.
    told: HashMap<String, (Vec<String>, Vec<Differing>)>,
}

impl Names {
    /// The settings that tell the run of this key from those before it, out of its settings that are not at their defaults
    /// (`key=value`). Runs are to be asked for in the order in which they began.
    pub(crate) fn of(&mut self, key: &str, title: &str, settings: &[String]) -> Vec<Differing> {
        if !self.titles.contains_key(title) {
            self.titles.insert(title.to_owned(), Title::new(title, settings));
        }
        self.titles.get_mut(title).map(|runs| runs.tell(key, settings)).unwrap_or_default()
    }
}

impl Title {
    fn new(title: &str, first: &[String]) -> Self {
        let base = presets::titled(title).map_or_else(|| first.to_vec(), runs::settings);
        Self { base, defaults: HashMap::new(), counts: HashMap::new(), told: HashMap::new() }
    }

    fn tell(&mut self, key: &str, settings: &[String]) -> Vec<Differing> {
        if let Some((_, told)) = self.told.get(key).filter(|(known, _)| known == settings) {
            return told.clone();
        }
        let mut differing = self.differing(settings);
        for one in &differing {
            *self.counts.entry(one.clone()).or_default() += 1;
        }
        let all = self.told.len() + 1;
        differing.sort_by_key(|one| self.counts[one] * FEW > all);
        self.told.insert(key.to_owned(), (settings.to_vec(), differing.clone()));
        differing
    }

    /// The settings that are not those of the base, in the order of the experiment's pane.
    fn differing(&mut self, settings: &[String]) -> Vec<Differing> {
        let key = |assignment: &str| assignment.split('=').next().unwrap_or_default().to_owned();
        let own: Vec<String> = settings.iter().map(|assignment| key(assignment)).collect();
        let new = settings.iter().filter(|assignment| !self.base.contains(assignment));
        let mut differing: Vec<Differing> = new.filter_map(|assignment| Differing::read(assignment)).collect();
        for assignment in self.base.iter().filter(|assignment| !own.contains(&key(assignment))) {
            let Some((key, value)) = assignment.split_once('=') else { continue };
            let default = self.defaults.entry(key.to_owned()).or_insert_with(|| default_of(key, value));
            differing.extend(default.clone());
        }
        let family = family_in(settings);
        let mut differing: Vec<Differing> = differing.into_iter().map(|one| one.of_family(family)).collect();
        order::sort(&mut differing);
        differing
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_engine::{Experiment, experiment::preset};

    use super::{
        super::{NAMED, named, told},
        *,
    };

    /// A run of a shipped preset, or of another title, with these changes.
    fn settings(title: &str, changes: &[&str]) -> Vec<String> {
        let mut experiment = presets::titled(title).cloned().unwrap_or_default();
        for change in changes {
            preset::set(&mut experiment, change).expect("a setting");
        }
        preset::changes(&Experiment::default(), &experiment)
    }

    fn names_of(title: &str, runs: &[&[&str]]) -> Vec<String> {
        let mut names = Names::default();
        let name = |(i, changes): (usize, &&[&str])| {
            let differing = names.of(&i.to_string(), title, &settings(title, changes));
            told(&named(&differing, NAMED), title).to_owned()
        };
        runs.iter().enumerate().map(name).collect()
    }

    #[test]
    fn the_name_of_a_run_is_the_same_whatever_comes_after_it() {
        const RUNS: [&[&str]; 6] = [
            &[],
            &["batch.micro=32"],
            &["batch.micro=32", "run.seed=7"],
            &["checkpointing=blocks"],
            &["batch.micro=16", "model.width=64"],
            &["precision=bf16"],
        ];
        for title in ["MLP on hand-written digits", "My own"] {
            let all = names_of(title, &RUNS);
            for count in 1..RUNS.len() {
                assert_eq!(names_of(title, &RUNS[..count]), all[..count], "{title}: {count} runs");
            }
            assert_eq!(all[..3], [title, "micro-batch 32", "micro-batch 32, seed 7"]);
            let mut different = all.clone();
            different.sort();
            different.dedup();
            assert_eq!(different.len(), RUNS.len(), "{all:?}");
        }
    }

    #[test]
    fn a_run_that_goes_back_to_a_default_says_so_against_a_base_that_had_another_value() {
        let title = "My own";
        assert_eq!(names_of(title, &[&["batch.micro=32"], &[]]), [title, "micro-batch 64"]);
    }

    #[test]
    fn of_many_settings_those_come_first_that_earlier_runs_have_not() {
        let title = "MLP on hand-written digits";
        let many = [
            "batch.micro=32",
            "model.width=64",
            "precision=bf16",
            "checkpointing=blocks",
            "optimizer.learning_rate=0.5",
        ];
        let with = |last: &'static str| many.into_iter().chain([last]).collect::<Vec<_>>();
        let runs = ["run.seed=2", "run.seed=3", "run.seed=4"].map(with);
        let names = names_of(title, &runs.each_ref().map(Vec::as_slice));
        assert!(names[1].contains("seed 3") && names[1].ends_with("2 more"), "{names:?}");
        assert!(names[2].contains("seed 4"), "{names:?}");
    }

    #[test]
    fn a_run_that_went_on_with_more_steps_is_told_anew_and_counts_once() {
        let mut names = Names::default();
        let mut name =
            |key: &str, changes: &[&str]| named(&names.of(key, "My own", &settings("My own", changes)), NAMED);
        assert_eq!([name("a", &[]), name("b", &["run.steps=10"])], ["", "steps 10"]);
        assert_eq!([name("b", &["run.steps=20"]), name("a", &[])], ["steps 20", ""]);
    }
}
