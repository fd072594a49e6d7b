//! The kept runs as the window knows them: a row each, which of them are picked, and in what order they are shown.
//!
//! Owns the rows of the store, of this session and of all before it. Always holds: the rows are as the store was last read;
//! every picked run has a row. Nothing here reads a disk: the [`librarian`](crate::librarian) does.

mod deletion;
mod fitting;
mod moment;

use std::{cmp::Ordering, collections::HashMap, path::PathBuf, sync::Arc};

use plimsoll_engine::{
    Bytes, Experiment,
    experiment::{Model, ModelKind, preset},
    store::{RunKey, RunState, StoredRun},
};

pub(crate) use self::deletion::Deletion;
use self::moment::at_the_second;
pub(crate) use self::moment::{when, when_among, when_exactly};
use crate::{
    format,
    naming::{self, Names},
    session,
    view::{RunColumn, Sort},
};

/// A kept run.
#[derive(Debug)]
pub(crate) struct Row {
    /// The run as the store has it.
    pub(crate) run: StoredRun,
    /// The settings that distinguish it from its preset, or from the first run of its title, and its beginning if another run
    /// has the same settings.
    pub(crate) differs: String,
    /// When it began, as exactly as needed to distinguish it from runs that have everything else in common.
    pub(crate) when: String,
    /// Whether the beginnings of all runs of today are told to the second: two of them share a minute.
    pub(crate) to_the_second: bool,
    /// The settings alone that set it apart.
    by_settings: String,
    /// The same one by one, and whether there are more of them.
    parts: (Vec<String>, bool),
    /// The details that its name leaves out: its title first, for a name of settings does not say what they are the settings
    /// of; then its beginning if others have its settings, and its distinguishing settings if it has a name of its own.
    pub(crate) details: String,
    /// The same without its beginning, for a table: its number and a column of its own tell that.
    pub(crate) in_table: String,
    /// The checkpoint that it left.
    pub(crate) saved: Option<PathBuf>,
    /// The text that a search looks through.
    text: String,
}

impl Row {
    /// Its distinguishing settings, or its title without any: its name as long as its user gave it none.
    pub(crate) fn told(&self) -> &str {
        naming::told(&self.by_settings, &self.run.title)
    }

    /// Its name after its number: the name that it was given, else its distinguishing settings.
    pub(crate) fn short_name(&self) -> &str {
        self.run.name.as_deref().unwrap_or_else(|| self.told())
    }

    /// Whether its name consists of its distinguishing settings.
    pub(crate) fn is_called_by_settings(&self) -> bool {
        self.run.name.is_none() && !self.by_settings.is_empty()
    }

    /// Its name in every pane: `Run 4: micro-batch 32, every block`.
    pub(crate) fn name(&self) -> String {
        naming::of_run(self.run.number, self.short_name())
    }

    /// The name with the details that it leaves out.
    pub(crate) fn whole_name(&self) -> String {
        if self.details.is_empty() { self.name() } else { format!("{}, {}", self.name(), self.details) }
    }

    /// Its title, with which the details begin; `None` of a run whose name it is, and of one without.
    pub(crate) fn told_title(&self) -> Option<&str> {
        Some(self.run.title.as_str()).filter(|title| !title.is_empty() && self.details.starts_with(title))
    }

    /// The name with its title, where that is not its name.
    pub(crate) fn name_and_title(&self) -> String {
        self.told_title().map_or_else(|| self.name(), |title| format!("{}, {title}", self.name()))
    }

    /// The checkpoint that it can go on from.
    pub(crate) fn checkpoint(&self) -> Option<&PathBuf> {
        self.saved.as_ref().filter(|_| !matches!(self.run.state, RunState::Running | RunState::Finished))
    }

    /// Whether its model is of a kind.
    pub(crate) fn is_of(&self, kind: ModelKind) -> bool {
        let own = self.run.settings.iter().find_map(|setting| setting.strip_prefix("model.kind="));
        own.map_or(kind == Model::default().kind, |word| word.trim_matches('"') == kind.key())
    }

    /// Whether it can teach a model of these settings, which are written as its own are: it answers whole, with the same
    /// classes of the same data. What it was trained with, such as how many samples, may be other.
    pub(crate) fn can_teach(&self, settings: &[String]) -> bool {
        let trained_adapters = self.run.settings.iter().any(|setting| setting.starts_with("lora.rank="));
        !self.run.learns_values() && !trained_adapters && asked(&self.run.settings).eq(asked(settings))
    }

    /// The device, as short as it is known by.
    pub(crate) fn device(&self) -> String {
        let name = &self.run.device_name;
        if self.run.is_gpu && !name.is_empty() { name.clone() } else { format::device(&self.run.device) }
    }

    /// The predicted peak of the bytes that its budget counts.
    pub(crate) fn predicted(&self) -> Bytes {
        self.run.load(&self.run.predicted)
    }

    /// The measured peak of the bytes that its budget counts; `None` before its first step.
    pub(crate) fn measured(&self) -> Option<Bytes> {
        Some(self.run.load(&self.run.measured)).filter(|bytes| *bytes > Bytes::ZERO)
    }

    /// Whether every word of `search`, in lower case, is somewhere in it.
    fn matches(&self, search: &str) -> bool {
        search.split_whitespace().all(|word| self.text.contains(word))
    }

    fn compare(&self, other: &Self, column: RunColumn) -> Ordering {
        let (a, b) = (&self.run, &other.run);
        match column {
            RunColumn::Name => a.number.cmp(&b.number),
            RunColumn::Star => a.is_starred.cmp(&b.is_starred),
            RunColumn::Started => a.started.cmp(&b.started),
            RunColumn::State => (a.state as usize).cmp(&(b.state as usize)),
            RunColumn::Device => self.device().cmp(&other.device()),
            RunColumn::Measured => self.measured().cmp(&other.measured()),
            RunColumn::Predicted => self.predicted().cmp(&other.predicted()),
            RunColumn::Accuracy => known(a.best_test_accuracy).total_cmp(&known(b.best_test_accuracy)),
            RunColumn::Step => known(a.step_secs).total_cmp(&known(b.step_secs)),
            RunColumn::Details => self.details.cmp(&other.details),
        }
    }

    /// Whether it has a value in a column. Runs without one come last in either order.
    fn has(&self, column: RunColumn) -> bool {
        match column {
            RunColumn::Measured => self.measured().is_some(),
            RunColumn::Accuracy => self.run.best_test_accuracy.is_some(),
            RunColumn::Step => self.run.step_secs.is_some(),
            RunColumn::Details => !self.details.is_empty(),
            RunColumn::Name
            | RunColumn::Star
            | RunColumn::Started
            | RunColumn::State
            | RunColumn::Device
            | RunColumn::Predicted => true,
        }
    }
}

/// Rows that the short name of one is told from: those of many screens.
const TOLD_FROM: usize = 400;

fn known(value: Option<f64>) -> f64 {
    value.unwrap_or(f64::NEG_INFINITY)
}

/// The rows of some runs: each is distinguished from its preset, or from the first run of its title. `names` are those of
/// earlier readings, which stay.
pub(crate) fn rows(runs: Vec<StoredRun>, saved: impl Fn(&StoredRun) -> Option<PathBuf>, names: &mut Names) -> Vec<Row> {
    rows_with(runs, saved, names, |run| Some(called(run)))
}

/// The same rows, for a command line, which knows runs by their keys: their numbers are shown in the window alone.
pub(crate) fn rows_by_key(runs: Vec<StoredRun>) -> Vec<Row> {
    rows_with(runs, |_| None, &mut Names::default(), |_| None)
}

/// The rows, with what other runs are `called` in them; the key where that is nothing.
fn rows_with(
    runs: Vec<StoredRun>,
    saved: impl Fn(&StoredRun) -> Option<PathBuf>,
    names: &mut Names,
    called: impl Fn(&StoredRun) -> Option<String>,
) -> Vec<Row> {
    let called = |key: &str| runs.iter().find(|run| run.key.as_str() == key).and_then(&called);
    let mut differs = vec![String::new(); runs.len()];
    let mut parts = vec![(Vec::new(), false); runs.len()];
    let mut as_begun: Vec<usize> = (0..runs.len()).collect();
    as_begun.sort_by_key(|i| (runs[*i].number, runs[*i].started));
    for i in as_begun {
        let differing = names.of(runs[i].key.as_str(), &runs[i].title, &runs[i].settings);
        let differing: Vec<_> = differing.into_iter().map(|differing| differing.with_runs(called)).collect();
        differs[i] = naming::named(&differing, naming::NAMED);
        parts[i] = (naming::first(&differing, naming::NAMED), differing.len() > naming::NAMED);
    }
    let moments = moments(&runs, &differs);
    let to_the_second = moment::share_a_minute(runs.iter().map(|run| run.started));
    let row = |((run, (by_settings, one_by_one)), moment): ((StoredRun, (String, _)), Option<String>)| {
        let when = moment.clone().unwrap_or_else(|| when(run.started));
        let began = moment.map(|moment| format!("began {moment}"));
        // Parts that other runs share come last, because the end is cut if there is no room.
        let parts = began.clone().into_iter().chain(Some(by_settings.clone()).filter(|words| !words.is_empty()));
        let differs = parts.collect::<Vec<_>>().join(", ");
        let settings = run.name.as_ref().map(|_| by_settings.clone());
        let title = Some(run.title.clone()).filter(|_| run.name.is_some() || !by_settings.is_empty());
        let told = |began: Option<String>| {
            let parts = title.clone().into_iter().chain(began).chain(settings.clone());
            parts.filter(|words| !words.is_empty()).collect::<Vec<_>>().join(", ")
        };
        let (details, in_table) = (told(began), told(None));
        let parts =
            [run.key.as_str(), run.label(), &run.title, &run.note, &run.device, &run.device_name, run.state.key()];
        let parts =
            parts.into_iter().chain([run.status()]).chain(run.tags.iter().chain(&run.settings).map(String::as_str));
        let text = parts.chain([differs.as_str()]).collect::<Vec<_>>().join("\n").to_lowercase();
        let (saved, parts) = (saved(&run), one_by_one);
        Row { saved, run, differs, when, to_the_second, by_settings, parts, details, in_table, text }
    };
    runs.into_iter().zip(differs.into_iter().zip(parts)).zip(moments).map(row).collect()
}

/// The name of a run for the words about another one: the name that it was given, else its number.
fn called(run: &StoredRun) -> String {
    run.name.clone().unwrap_or_else(|| session::numbered(run.number))
}

/// Settings of data that change the training, and not the question to a model.
const NOT_ASKED: [&str; 16] = [
    "samples",
    "test_fraction",
    "normalise",
    "normalise_when",
    "load_side",
    "placement",
    "cache",
    "cache_in",
    "cache_folder",
    "host_budget",
    "workers",
    "prefetch",
    "flip",
    "crop_padding",
    "color_jitter",
    "skip_broken",
];

/// The settings that decide which data they are and which question a model of them answers.
fn asked(settings: &[String]) -> impl Iterator<Item = &str> {
    let of_data = |setting: &&str| {
        let key = setting.strip_prefix("data.").and_then(|rest| rest.split('=').next());
        key.is_some_and(|key| !NOT_ASKED.contains(&key))
    };
    settings.iter().map(String::as_str).filter(of_data)
}

/// The settings of an experiment that are not at their defaults, as the store has a run's.
pub(crate) fn settings(experiment: &Experiment) -> Vec<String> {
    preset::changes(&Experiment::default(), experiment)
}

/// When each of some runs began, as exactly as it takes; `None` of one that is called as no other is.
fn moments(runs: &[StoredRun], differs: &[String]) -> Vec<Option<String>> {
    let mut alike: HashMap<(&str, &str), usize> = HashMap::new();
    let called = |i: usize| (runs[i].label(), differs[i].as_str());
    for i in 0..runs.len() {
        *alike.entry(called(i)).or_default() += 1;
    }
    let mut at: HashMap<(&str, &str, String), usize> = HashMap::new();
    let is_alike: Vec<bool> = (0..runs.len()).map(|i| alike[&called(i)] > 1).collect();
    for i in (0..runs.len()).filter(|i| is_alike[*i]) {
        *at.entry((called(i).0, called(i).1, when(runs[i].started))).or_default() += 1;
    }
    let moment = |i: usize| {
        let short = when(runs[i].started);
        let is_enough = at.get(&(called(i).0, called(i).1, short.clone())) == Some(&1);
        is_alike[i].then(|| if is_enough { short } else { at_the_second(runs[i].started) })
    };
    (0..runs.len()).map(moment).collect()
}

/// The rows that a search finds, sorted: indices into `rows`. Equal rows stand newest first.
pub(crate) fn order(rows: &[Row], search: &str, sort: Sort<RunColumn>) -> Vec<usize> {
    let search = search.to_lowercase();
    let mut order: Vec<usize> = (0..rows.len()).filter(|i| rows[*i].matches(&search)).collect();
    order.sort_by(|a, b| {
        let (a, b) = (&rows[*a], &rows[*b]);
        let by_value = a.compare(b, sort.column);
        let by_value = if sort.falling { by_value.reverse() } else { by_value };
        b.has(sort.column).cmp(&a.has(sort.column)).then(by_value).then(b.run.started.cmp(&a.run.started))
    });
    order
}

/// The content of the store, as far as the window knows.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    rows: Vec<Row>,
    places: HashMap<RunKey, usize>,
    /// The names of the runs by their settings.
    pub(crate) names: Arc<Names>,
    /// Rises with every reading.
    pub(crate) version: u64,
    /// Whether the store was read once.
    pub(crate) is_read: bool,
    /// Why it cannot be read or written.
    pub(crate) trouble: Option<String>,
    /// The part of the store that cannot be read, and what to do about it.
    pub(crate) missing: Option<String>,
    picked: Vec<RunKey>,
    /// The run that began last: picked before its row is there.
    begun: Option<RunKey>,
    /// How many picked runs were left out, the oldest first, because too many were picked.
    pub(crate) left_out: usize,
    /// How many kept runs are left out of the plot, because newer ones fill it.
    pub(crate) without_point: usize,
    /// The deletions that can be undone, each after those before it.
    pub(crate) deletions: Vec<Deletion>,
    /// Whether there was one in this window: their line keeps its room, so that no row slides below the pointer on its button.
    pub(crate) had_deletions: bool,
    /// The runs that are being brought back, until the store has them again.
    pub(crate) coming_back: Vec<RunKey>,
    /// The runs that the store has again, until they are picked.
    pub(crate) returned: Vec<RunKey>,
    /// All that this window deleted and did not bring back.
    pub(crate) put_away: Vec<RunKey>,
}

impl Runs {
    /// Every row, newest first.
    pub(crate) fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Takes in the present content of the store.
    pub(crate) fn read(&mut self, rows: Vec<Row>) {
        self.places = rows.iter().enumerate().map(|(i, row)| (row.run.key.clone(), i)).collect();
        self.rows = rows;
        (self.version, self.is_read, self.trouble) = (self.version + 1, true, None);
        self.picked.retain(|key| self.places.contains_key(key) || self.begun.as_ref() == Some(key));
        if self.coming_back.iter().all(|key| self.places.contains_key(key)) {
            self.returned = std::mem::take(&mut self.coming_back);
        }
    }

    /// The row of a run.
    pub(crate) fn get(&self, key: &RunKey) -> Option<&Row> {
        self.rows.get(*self.places.get(key)?)
    }

    /// The name of the run of this key for the words about another one.
    pub(crate) fn called(&self, key: &str) -> Option<String> {
        self.rows.iter().find(|row| row.run.key.as_str() == key).map(|row| called(&row.run))
    }

    /// The same with the key, by which a command knows it.
    pub(crate) fn called_with_key(&self, key: &str) -> Option<String> {
        self.called(key).map(|name| format!("{name} ({key})"))
    }

    /// Whether a run other than `of` was given this name.
    pub(crate) fn has_another(&self, name: &str, of: Option<&RunKey>) -> bool {
        let words = || name.split_whitespace();
        let is_so = |row: &Row| {
            row.run.name.as_ref().is_some_and(|known| known.split_whitespace().eq(words())) && Some(&row.run.key) != of
        };
        words().next().is_some() && self.rows.iter().any(is_so)
    }

    /// The runs that are picked, in the order in which they were.
    pub(crate) fn picked(&self) -> &[RunKey] {
        &self.picked
    }

    /// The run that was picked last.
    pub(crate) fn front(&self) -> Option<&Row> {
        self.get(self.picked.last()?)
    }

    /// Picks the run that begins in place of the earlier picks, so that the panes speak of it.
    pub(crate) fn begins(&mut self, key: RunKey) {
        self.picked = vec![key.clone()];
        self.begun = Some(key);
    }

    /// Picks these runs.
    pub(crate) fn pick(&mut self, keys: Vec<RunKey>) {
        (self.picked, self.left_out) = (keys, 0);
    }

    /// Takes runs out before the store has answered.
    pub(crate) fn hide(&mut self, keys: &[RunKey]) {
        self.picked.retain(|key| !keys.contains(key));
        self.left_out = 0;
    }
}
