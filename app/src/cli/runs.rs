//! `plimsoll runs`: the kept runs, notes about them, and deleting them.

mod change;

use std::{borrow::Cow, collections::HashMap, process::ExitCode};

use clap::Args;
use jiff::Timestamp;
use plimsoll_engine::{
    Bytes,
    plan::Peak,
    store::{Prune, RunKey, RunState, SmallerModel, Store, StoredRun, Stray},
};
use serde::Serialize;
use serde_json::json;

use self::change::Change;
use crate::{
    cli::{
        Misuse,
        age::{Age, ago},
        ask,
        in_store::InStore,
        out, strays,
        table::Table,
    },
    format, runs,
};

/// Letters of a name or a tag in a table.
const WIDEST: usize = 60;

/// List the kept runs, newest first; name, note, tag, star and delete them
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  plimsoll runs
  plimsoll runs --state finished --match cnn
  plimsoll runs --json | jq -r 'select(.test_accuracy > 0.9) | .run'
  plimsoll runs rename last \"wider head\"
  plimsoll runs tag last baseline
  plimsoll runs prune --keep-best 10 --older-than 30d

Every run of the window and of the command line is kept from its first step. A RUN is its key, the beginning of it, its
name, its title or its shipped preset if no other run has it, or `last`. `last test` is the accuracy of the last test,
which need not be the best. A run with `no end` did all its steps and lacks its last test, or that of its model as integers:
`plimsoll resume` finishes it. A run whose program ended before the run did is `interrupted`. One that
met its budget is `over budget`; `--state failed` lists it, and its `state` in JSON is `failed`."
)]
pub(super) struct Runs {
    #[command(subcommand)]
    change: Option<Change>,
    #[command(flatten)]
    filter: Filter,
    /// Write a JSON object a line, one for each run
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: InStore,
}

/// Which runs.
#[derive(Debug, Args)]
struct Filter {
    /// Only runs in this state: running, finished, stopped, failed or interrupted
    #[arg(long, value_name = "STATE")]
    state: Option<RunState>,
    /// Only runs with this text in name, title, note, tags or device
    #[arg(long = "match", value_name = "TEXT")]
    text: Option<String>,
    /// Only runs with this tag; may be given more than once
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Only starred runs
    #[arg(long)]
    starred: bool,
    /// At most this many
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
}

/// Delete runs that are old or not among the best, with their checkpoints
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  plimsoll runs prune --keep-best 10 --older-than 30d

Says what it would delete and asks. A run is deleted if both options allow it; one that is starred or still trains stays.
With --older-than, folders of checkpoints whose run is no longer kept are deleted by the same age.")]
struct PruneChoice {
    /// Keep this many runs with the best test accuracy
    #[arg(long, value_name = "N")]
    keep_best: Option<usize>,
    /// Keep runs that began less than this ago, such as 30d, 2w or 12h
    #[arg(long, value_name = "D")]
    older_than: Option<Age>,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    /// Write a JSON object a line, one for each run that is deleted
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: InStore,
}

impl Runs {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        match &self.change {
            Some(change) => change.run()?,
            None => self.list()?,
        }
        Ok(ExitCode::SUCCESS)
    }

    fn list(&self) -> anyhow::Result<()> {
        let store = self.store.existing()?;
        let mut runs = store.as_ref().map(InStore::list).transpose()?.unwrap_or_default();
        let has_any = !runs.is_empty();
        let all = runs.clone();
        runs.retain(|run| self.filter.lets(run));
        runs.truncate(self.filter.limit.unwrap_or(usize::MAX));
        if self.json {
            return runs.iter().try_for_each(|run| out::json(&Row::of(run)));
        }
        match (runs.is_empty(), has_any) {
            (false, _) => out::text(&describe(&runs.iter().collect::<Vec<_>>(), all)),
            (true, true) => out::line("No kept run matches."),
            (true, false) => out::line(format!("No runs are kept in {}.", self.store.folder()?.display())),
        }
    }
}

impl Filter {
    fn lets(&self, run: &StoredRun) -> bool {
        self.state.is_none_or(|state| run.state == state)
            && self.text.as_ref().is_none_or(|text| run.matches(text))
            && self.tags.iter().all(|tag| run.tags.contains(tag))
            && (!self.starred || run.is_starred)
    }
}

/// A kept run for scripts.
#[derive(Serialize)]
pub(super) struct Row<'a> {
    run: &'a RunKey,
    title: &'a str,
    name: Option<&'a str>,
    note: &'a str,
    tags: &'a [String],
    starred: bool,
    started: String,
    ended: Option<String>,
    state: RunState,
    message: Option<&'a str>,
    origin: &'static str,
    version: &'a str,
    device: &'a str,
    device_name: &'a str,
    seed: u64,
    settings: &'a [String],
    budget_bytes: u64,
    total_steps: u64,
    steps: u64,
    /// All steps are done, and its last test, or that of its model as integers, is missing.
    lacks_end: bool,
    secs: f64,
    step_secs: Option<f64>,
    peak: Peaks,
    train_loss: Option<f64>,
    test_loss: Option<f64>,
    test_accuracy: Option<f64>,
    best_test_accuracy: Option<f64>,
    /// R² of values, in place of accuracies.
    test_r2: Option<f64>,
    best_test_r2: Option<f64>,
    /// The form of the model in the end, if it is smaller than the trained one.
    smaller: Option<SmallerModel>,
    bytes_on_disk: u64,
}

#[derive(Serialize)]
struct Peaks {
    predicted: Peak,
    measured: Peak,
}

impl<'a> Row<'a> {
    pub(super) fn of(run: &'a StoredRun) -> Self {
        Self {
            run: &run.key,
            title: &run.title,
            name: run.name.as_deref(),
            note: &run.note,
            tags: &run.tags,
            starred: run.is_starred,
            started: run.started.to_string(),
            ended: run.ended.map(|ended| ended.to_string()),
            state: run.state,
            message: run.message.as_deref(),
            origin: run.origin.key(),
            version: &run.version,
            device: &run.device,
            device_name: &run.device_name,
            seed: run.seed,
            settings: &run.settings,
            budget_bytes: run.budget.0,
            total_steps: run.total_steps,
            steps: run.steps,
            lacks_end: run.lacks_end(),
            secs: run.secs,
            step_secs: run.step_secs,
            peak: Peaks { predicted: run.predicted, measured: run.measured },
            train_loss: run.train_loss,
            test_loss: run.test_loss,
            test_accuracy: run.test_accuracy.filter(|_| !run.learns_values()),
            best_test_accuracy: run.best_test_accuracy.filter(|_| !run.learns_values()),
            test_r2: run.test_accuracy.filter(|_| run.learns_values()),
            best_test_r2: run.best_test_accuracy.filter(|_| run.learns_values()),
            smaller: run.smaller,
            bytes_on_disk: run.on_disk.0,
        }
    }
}

/// The runs as a table; `all` are those that they are told from.
fn describe(runs: &[&StoredRun], all: Vec<StoredRun>) -> String {
    let now = Timestamp::now();
    let mut table = Table::new([
        "run",
        "what",
        "what differs",
        "when",
        "state",
        "device",
        "steps",
        "predicted",
        "measured",
        "last test",
        "on disk",
    ])
    .words(6);
    let rows = runs::rows_by_key(all);
    let differs: HashMap<&RunKey, &str> = rows.iter().map(|row| (&row.run.key, row.differs.as_str())).collect();
    for run in runs {
        let star = if run.is_starred { "* " } else { "" };
        let tags = run.tags.iter().map(|tag| format!(" #{}", short(tag))).collect::<String>();
        table.row([
            run.key.to_string(),
            format!("{star}{}{tags}", short(run.label())),
            differs.get(&run.key).map_or_else(String::new, |differs| (*differs).to_owned()),
            ago(run.started, now),
            run.status().to_owned(),
            run.device.clone(),
            match run.steps == run.total_steps {
                _ if run.lacks_end() => format!("{}/{}, no end", run.steps, run.total_steps),
                true => run.steps.to_string(),
                false => format!("{}/{}", run.steps, run.total_steps),
            },
            run.load(&run.predicted).to_string(),
            run.load(&run.measured).to_string(),
            run.test_accuracy.map_or("-".to_owned(), |score| format::kept_score(run, score)),
            run.on_disk.to_string(),
        ]);
    }
    format!("{table}{}\n", in_all(runs))
}

/// A name or a tag as a table shows it: a longer one would pad every row.
fn short(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(WIDEST) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

/// How many runs those are, and their size on the disk.
fn in_all(runs: &[&StoredRun]) -> String {
    let bytes = Bytes(runs.iter().map(|run| run.on_disk.0).sum());
    format!("{}, {bytes} on disk", format::counted(runs.len() as u64, "run"))
}

impl PruneChoice {
    fn run(&self) -> anyhow::Result<()> {
        if self.keep_best.is_none() && self.older_than.is_none() {
            let message = "prune deletes by a rule: write --keep-best N, --older-than D, or both";
            return Err(Misuse(message.to_owned()).into());
        }
        let prune =
            Prune { keep_best: self.keep_best.unwrap_or_default(), older_than: self.older_than.map(|age| age.0) };
        let Some(store) = self.store.existing()? else { return nothing(self.json) };
        store.tidy();
        let (runs, now) = (InStore::list(&store)?, Timestamp::now());
        let chosen = prune.choose(&runs, now);
        let mut strays = store.strays()?;
        // Their accuracy is not known.
        strays.retain(|stray| prune.older_than.is_some_and(|age| now.duration_since(stray.written) >= age));
        if chosen.is_empty() && strays.is_empty() {
            return nothing(self.json);
        }
        delete(store, &chosen, &strays, self.yes, self.json)
    }
}

fn nothing(json: bool) -> anyhow::Result<()> {
    if json { Ok(()) } else { out::line("Nothing is to be deleted.") }
}

/// Lists the runs that are to be deleted, asks, and deletes them.
fn delete(mut store: Store, runs: &[&StoredRun], of_none: &[Stray], yes: bool, json: bool) -> anyhow::Result<()> {
    if !json {
        if !runs.is_empty() {
            out::text(&describe(runs, InStore::list(&store)?))?;
        }
        out::text(&strays::describe(of_none))?;
    }
    let all = match (runs, of_none) {
        (_, []) => in_all(runs),
        ([], _) => strays::in_all(of_none),
        _ => format!("{}, and {}", in_all(runs), strays::in_all(of_none)),
    };
    if !ask::agrees(&format!("Delete {all}, for good?"), yes)? {
        return if json { Ok(()) } else { out::line("Nothing was deleted.") };
    }
    let keys: Vec<RunKey> = runs.iter().map(|run| run.key.clone()).collect();
    store.delete(&keys)?;
    store.remove_strays(of_none)?;
    match json {
        true => {
            runs.iter().try_for_each(|run| out::json(&Row::of(run)))?;
            let row = |stray: &Stray| json!({"folder": stray.folder, "bytes_on_disk": stray.on_disk.0});
            of_none.iter().try_for_each(|stray| out::json(&row(stray)))
        }
        false => out::line(format!("Deleted {all}.")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_is_cut_where_a_table_shows_it() {
        let most = "\u{e9}".repeat(WIDEST);
        assert_eq!(short(&most), most);
        assert_eq!(short(&format!("{most}and more")), format!("{most}…"));
    }
}
