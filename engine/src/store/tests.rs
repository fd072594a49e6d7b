//! The store as programs use it: records are found again, by several programs and after failures.

mod figures;
mod ownership;
mod saved;
mod smaller;

use std::{fs, sync::Arc};

use super::*;
use crate::{
    error::{BudgetError, Error, Problem},
    hardware::Machine,
    plan::{Peak, Plan},
    store::series::some_step,
    train::{Event, Outcome, Refusal, Summary},
};

/// A folder for a store, which goes with the test.
pub(super) fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

fn plan() -> Arc<Plan> {
    let mut experiment = Experiment { title: "A run".to_owned(), ..Experiment::default() };
    experiment.batch.micro = 7;
    Arc::new(Plan::of(&experiment, &Machine::nominal()).expect("a plan"))
}

fn recording(folder: &Path) -> Recording {
    Recording { folder: folder.to_owned(), origin: Origin::CommandLine, is_forced: false, continued: None }
}

fn evaluated(step: u64, accuracy: f64) -> Event {
    Event::Evaluated { step, at_secs: some_step(step).at_secs + 0.001, loss: 0.5, accuracy, errors: None }
}

fn ended(outcome: Outcome, steps: u64) -> Event {
    let measured = Peak { live: Bytes(1_300_000), reserved: Bytes(2_000_001), process: Bytes::mib(50) };
    Event::Ended { run: 1, outcome, summary: Box::new(Summary { steps, measured, secs: 3.5, ..Summary::default() }) }
}

/// Records a run of so many steps from `first` on, which ends with `outcome`; an evaluation every 100 steps.
fn record(recorder: Recorder, first: u64, last: u64, outcome: Outcome) -> RunKey {
    recorder.take(&Event::Started { run: 1, plan: plan() });
    for step in first..=last {
        recorder.take(&Event::Step(some_step(step)));
        if step.is_multiple_of(100) {
            recorder.take(&evaluated(step, step as f64 / last as f64));
        }
    }
    recorder.take(&ended(outcome, last));
    let key = recorder.key().clone();
    assert_eq!(recorder.finish(), None);
    key
}

pub(super) fn kept(folder: &Path, steps: u64) -> RunKey {
    record(Recorder::new(recording(folder)), 1, steps, Outcome::Finished)
}

fn refusal() -> Outcome {
    let error = BudgetError {
        layer: "head".to_owned(),
        op: "matmul",
        label: "output",
        asked: Bytes(2),
        live: Bytes(1),
        budget: Bytes(2),
        limited_by: crate::error::LimitedBy::Budget,
        is_planned: true,
        during: crate::error::During::Training,
        mend: None,
    };
    Outcome::OverBudget(Box::new(Refusal { error, advice: Vec::new() }))
}

#[test]
fn a_run_is_found_as_it_was_recorded() {
    let folder = folder();
    let key = kept(folder.path(), 10_000);
    let store = Store::open(folder.path()).expect("open");
    let runs = store.list().expect("a list");
    let [run] = &runs[..] else { panic!("one run: {runs:?}") };
    assert_eq!((&run.key, run.state, run.steps, run.label()), (&key, RunState::Finished, 10_000, "A run"));
    assert_eq!((run.test_accuracy, run.best_test_accuracy, run.test_loss), (Some(1.0), Some(1.0), Some(0.5)));
    assert_eq!(run.measured, Peak { live: Bytes(1_300_000), reserved: Bytes(2_000_001), process: Bytes::mib(50) });
    assert_eq!((run.settings.clone(), run.device.as_str()), (vec!["batch.micro=7".to_owned()], "cpu"));
    let plan = plan();
    assert_eq!((run.predicted, run.budget, run.seed), (plan.peak, plan.budget, plan.experiment.run.seed));
    assert_eq!((run.origin, run.version.as_str()), (Origin::CommandLine, env!("CARGO_PKG_VERSION")));
    assert!(run.on_disk.0 > 100_000 && run.on_disk.0 < 300_000, "{}", run.on_disk);

    let series = store.series(&key).expect("series");
    assert_eq!(series.steps, (1..=10_000).map(some_step).collect());
    assert_eq!((series.evaluations.len(), &series.damage), (100, &None));
    let details = store.details(&key).expect("details");
    assert_eq!(details.experiment(&key).expect("reads"), *plan.experiment);
    let prediction = Prediction::of(&plan);
    assert!((details.prediction.step_secs / prediction.step_secs - 1.0).abs() < 1e-12, "text may round the last bit");
    let step_secs = details.prediction.step_secs;
    assert!(details.prediction == Prediction { step_secs, ..prediction });
}

#[test]
fn a_run_can_be_watched_while_it_is_recorded_and_one_that_is_left_is_interrupted() {
    let folder = folder();
    let recorder = Recorder::new(recording(folder.path()));
    recorder.take(&Event::Started { run: 1, plan: plan() });
    assert!(!recorder.has_begun());
    recorder.take(&Event::Warning("slow".to_owned()));
    recorder.take(&Event::Step(some_step(1)));
    assert!(recorder.has_begun() && recorder.wait_until_kept(std::time::Duration::from_secs(20)));
    let store = Store::open(folder.path()).expect("open");
    let run = store.get(recorder.key()).expect("kept");
    assert_eq!((run.state, run.steps), (RunState::Running, 1));
    let key = recorder.key().clone();
    recorder.take(&Event::Step(some_step(2)));
    assert_eq!(recorder.finish(), None);
    let run = store.get(&key).expect("kept");
    assert_eq!((run.state, run.steps, run.ended.is_some()), (RunState::Interrupted, 2, true));
    let events = store.details(&key).expect("details").events;
    assert_eq!(
        events.iter().map(|event| (event.kind, event.text.as_str())).collect::<Vec<_>>(),
        [(EventKind::Warning, "slow")]
    );
}

#[test]
fn a_run_whose_settings_were_refused_was_never_begun() {
    let refused = Error::from(Problem::new("data.host_budget", "the data take more than it", "raise it"));
    for (error, kept) in [(refused, 0), (Error::Misused("of the program".to_owned()), 1)] {
        let folder = folder();
        let recorder = Recorder::new(recording(folder.path()));
        recorder.take(&Event::Started { run: 1, plan: plan() });
        recorder.take(&ended(Outcome::Failed(error), 0));
        assert_eq!(recorder.finish(), None);
        assert_eq!(Store::open(folder.path()).expect("open").list().expect("a list").len(), kept);
    }
}

#[test]
fn a_run_that_is_refused_was_never_begun() {
    let folder = folder();
    let refused = |is_forced| {
        let recorder = Recorder::new(Recording { is_forced, ..recording(folder.path()) });
        recorder.take(&Event::Started { run: 1, plan: plan() });
        recorder.take(&ended(refusal(), 0));
        assert_eq!(recorder.has_begun(), is_forced);
        assert_eq!(recorder.finish(), None);
        Store::open(folder.path()).expect("open").list().expect("a list")
    };
    assert_eq!(refused(false), []);
    let forced = refused(true);
    assert_eq!((forced.len(), forced[0].state), (1, RunState::Failed));
    assert!(forced[0].message.as_deref().is_some_and(|message| message.starts_with("head, matmul")), "{forced:?}");
    assert_eq!(forced[0].status(), StoredRun::OVER_BUDGET);
    let other = StoredRun { message: Some("the disk is full".to_owned()), ..forced[0].clone() };
    assert_eq!(other.status(), "failed");
}

#[test]
fn a_run_that_goes_on_has_each_step_once() {
    let folder = folder();
    let key = record(Recorder::new(recording(folder.path())), 1, 6_000, Outcome::Stopped);
    let again = Recorder::new(Recording { continued: Some(key.clone()), ..recording(folder.path()) });
    assert_eq!(record(again, 5_001, 9_000, Outcome::Finished), key);
    let store = Store::open(folder.path()).expect("open");
    let series = store.series(&key).expect("series");
    assert_eq!(series.steps, (1..=9_000).map(some_step).collect());
    assert_eq!(series.evaluations.step, (100..=9_000).step_by(100).collect::<Vec<_>>());
    let run = store.get(&key).expect("kept");
    assert_eq!((run.state, run.steps), (RunState::Finished, 9_000));
    let steps: f64 = series.steps.secs.iter().sum();
    assert_eq!(run.step_secs, Some(steps / 9_000.0));
    let events = store.details(&key).expect("details").events;
    assert_eq!(
        events.iter().map(|event| (event.kind, event.step)).collect::<Vec<_>>(),
        [(EventKind::Continued, 5_000)]
    );
}

#[test]
fn several_write_and_read_at_once() {
    let folder = folder();
    let lengths = [300, 4_096, 5_000, 9_000];
    let keys: Vec<RunKey> = std::thread::scope(|scope| {
        let writers = lengths.map(|steps| {
            scope.spawn({
                let folder = &folder;
                move || kept(folder.path(), steps)
            })
        });
        let reader = scope.spawn(|| {
            let store = Store::open(folder.path()).expect("open");
            while store.list().expect("a list").iter().filter(|run| run.state == RunState::Finished).count() < 4 {
                std::thread::yield_now();
            }
        });
        reader.join().expect("reads");
        writers.into_iter().map(|writer| writer.join().expect("writes")).collect()
    });
    let store = Store::open(folder.path()).expect("open");
    for (key, steps) in keys.iter().zip(lengths) {
        assert_eq!(store.series(key).expect("series").steps, (1..=steps).map(some_step).collect());
    }
}

#[test]
fn a_run_is_meant_by_its_name_its_beginning_or_as_the_last() {
    let folder = folder();
    let keys = [kept(folder.path(), 1), kept(folder.path(), 2)];
    let mut store = Store::open(folder.path()).expect("open");
    assert_eq!(store.find(keys[0].as_str()).as_ref(), Ok(&keys[0]));
    assert_eq!(store.find(&keys[1].as_str()[..19]).as_ref(), Ok(&keys[1]));
    let last = store.list().expect("a list")[0].key.clone();
    assert_eq!(store.find("last").as_ref(), Ok(&last));
    let said = |text: &str| store.find(text).expect_err(text).to_string();
    assert!(
        said("20").contains("run 20: 2 runs have keys that begin so: ")
            && said("20").contains("write more of the name")
    );
    for text in ["x", "", "../..", "%"] {
        assert!(said(text).contains("no run of this name"), "{}", said(text));
    }
    store.discard(std::slice::from_ref(&last)).expect("put away");
    let other = keys.iter().find(|key| **key != last).expect("two runs");
    assert_eq!(store.find("last").as_ref(), Ok(other));
    assert_eq!(store.find("20").as_ref(), Ok(other));
}

#[test]
fn a_run_is_meant_by_what_it_is_called_where_no_other_is_called_so() {
    let folder = folder();
    let keys = [kept(folder.path(), 1), kept(folder.path(), 2)];
    let mut store = Store::open(folder.path()).expect("open");
    let both = store.find("A run").expect_err("two").to_string();
    assert!(
        both.contains("run A run: 2 runs have this name: ") && keys.iter().all(|key| both.contains(key.as_str())),
        "{both}"
    );
    store.rename(&keys[0], "wider head").expect("renamed");
    assert_eq!(store.find("wider head").as_ref(), Ok(&keys[0]));
    assert!(store.find("wider").is_err(), "the whole of a name");
    store.rename(&keys[1], "A run").expect("renamed");
    assert_eq!(store.find("A run").as_ref(), Ok(&keys[1]), "a name goes before titles");
    // A name of two runs finds neither, and a message can say so.
    assert_eq!(store.others_called(" A  run", &keys[1]), Ok(Vec::new()));
    assert_eq!(store.others_called(" A  run", &keys[0]), Ok(vec![keys[1].clone()]));
    store.rename(&keys[0], "A run").expect("renamed");
    let both = store.find("A run").expect_err("two").to_string();
    assert!(
        both.contains("run A run: 2 runs have this name: ") && keys.iter().all(|key| both.contains(key.as_str())),
        "{both}"
    );
    store.discard(std::slice::from_ref(&keys[1])).expect("put away");
    assert_eq!(store.others_called("A run", &keys[0]), Ok(Vec::new()));
    store.restore(std::slice::from_ref(&keys[1])).expect("back");
    store.rename(&keys[0], "wider head").expect("renamed");
    // A key, or the beginning of one, means that run, and `last` the newest.
    for name in [keys[0].as_str(), " last", "2026"] {
        let refused = store.rename(&keys[1], name).expect_err("another meaning").to_string();
        assert!(refused.contains("always means"), "{refused}");
        assert_eq!(store.get(&keys[1]).expect("kept").label(), "A run", "{name}");
    }
    assert_eq!(store.find(keys[0].as_str()).as_ref(), Ok(&keys[0]));
    let refused = store.rename(&keys[1], &"x".repeat(Store::LONGEST_NAME + 1)).expect_err("long").to_string();
    assert!(refused.contains("has 201 characters, and a name has 200 at most"), "{refused}");
    store.rename(&keys[1], &format!(" {} ", "\u{e9}".repeat(Store::LONGEST_NAME))).expect("as long as may be");
}

#[test]
fn what_a_user_says_of_a_run_is_kept_and_deleting_takes_its_files() {
    let folder = folder();
    let key = kept(folder.path(), 3);
    let mut store = Store::open(folder.path()).expect("open");
    let other = Store::open(folder.path()).expect("open");
    let version = other.version().expect("a number");
    store.rename(&key, "  best\nof all ").expect("renamed");
    store.annotate(&key, "two\nlines\n").expect("noted");
    store.tag(&key, &["b".to_owned(), "a c".to_owned(), "b".to_owned(), " ".to_owned()]).expect("tagged");
    store.star(&key, true).expect("starred");
    assert_ne!(other.version().expect("a number"), version, "another program sees that something changed");
    let run = other.get(&key).expect("kept");
    assert_eq!((run.label(), run.note.as_str(), run.is_starred), ("best of all", "two\nlines", true));
    assert_eq!(run.tags, ["a c", "b"]);
    assert!(run.matches("BEST") && run.matches("a run") && run.matches("two") && !run.matches("three"));
    store.rename(&key, "").expect("renamed");
    assert_eq!(other.get(&key).expect("kept").label(), "A run");

    let files = store.files(&key);
    fs::create_dir_all(&files).expect("made");
    let before = store.get(&key).expect("kept").on_disk;
    fs::write(files.join("last.safetensors"), vec![0; 1000]).expect("written");
    assert_eq!(store.get(&key).expect("kept").on_disk, Bytes(before.0 + 1000));
    store.discard(std::slice::from_ref(&key)).expect("put away");
    assert_eq!(store.list().expect("a list"), []);
    store.restore(std::slice::from_ref(&key)).expect("back");
    assert_eq!(store.list().expect("a list").len(), 1);
    store.discard(std::slice::from_ref(&key)).expect("put away");
    assert_eq!(store.empty(jiff::SignedDuration::from_hours(1)), Ok(0), "put away just now");
    assert!(files.exists());
    assert_eq!(store.empty(jiff::SignedDuration::ZERO), Ok(1));
    assert!(!files.exists() && store.get(&key).is_err() && store.series(&key).is_err());
    assert!(store.star(&key, true).expect_err("gone").to_string().contains("no run of this name"));
}

#[test]
fn what_cannot_be_written_is_held_back_until_it_can() {
    let folder = folder();
    let place = folder.path().join("store");
    fs::write(&place, "a file in the folder's place").expect("written");
    let recorder = Recorder::new(recording(&place));
    recorder.take(&Event::Started { run: 1, plan: plan() });
    (1..=500).for_each(|step| recorder.take(&Event::Step(some_step(step))));
    assert!(!recorder.wait_until_kept(std::time::Duration::from_secs(20)));
    let warning = recorder.warning().expect("something is wrong");
    assert!(warning.contains("the run goes on") && warning.contains("there is a file in its place"), "{warning}");
    assert_eq!(recorder.warning(), None, "once is enough");
    fs::remove_file(&place).expect("removed");
    recorder.take(&Event::Step(some_step(501)));
    recorder.take(&ended(Outcome::Finished, 501));
    let key = recorder.key().clone();
    assert_eq!(recorder.finish(), None);
    let store = Store::open(&place).expect("open");
    assert_eq!(store.series(&key).expect("series").steps, (1..=501).map(some_step).collect());
}

#[test]
fn a_damaged_block_costs_itself_alone() {
    let folder = folder();
    let key = kept(folder.path(), 9_000);
    let mut store = Store::open(folder.path()).expect("open");
    let damage = |db: &rusqlite::Transaction<'_>| {
        let sql = "SELECT data FROM blocks WHERE series = 0 AND first = 4096";
        let mut data: Vec<u8> = db.query_row(sql, [], |row| row.get(0))?;
        data[50] ^= 1;
        db.execute("UPDATE blocks SET data = ?1 WHERE series = 0 AND first = 4096", [data])
    };
    assert_eq!(store.database.write(damage), Ok(1));
    let series = store.series(&key).expect("series");
    assert_eq!(series.steps.len(), 9_000 - 4_096);
    assert!(series.damage.as_deref().is_some_and(|said| said.contains("steps 4097 to 8192")), "{:?}", series.damage);
    store.database.write(|db| db.execute("UPDATE details SET prediction = x'00'", [])).expect("written");
    let details = store.details(&key).expect("the rest is whole");
    assert!(details.experiment(&key).is_ok() && details.damage.is_some_and(|said| said.contains("the prediction")));
    // A name that leads out of the store is not a name.
    store.database.write(|db| db.execute("UPDATE runs SET key = '../../x'", [])).expect("written");
    let listed = store.listed().expect("a list");
    assert!(listed.runs.is_empty() && listed.damage.is_some_and(|said| said.contains("1 run of it cannot be read")));
}

#[test]
fn a_clearing_leaves_the_best_the_starred_and_the_young() {
    let folder = folder();
    let keys: Vec<RunKey> = (1..=4).map(|run| kept(folder.path(), run * 100)).collect();
    let mut store = Store::open(folder.path()).expect("open");
    for (key, accuracy) in keys.iter().zip([0.5, 0.9, 0.7, 0.9]) {
        let set = format!("UPDATE runs SET best_test_accuracy = {accuracy} WHERE key = '{key}'");
        store.database.write(|db| db.execute(&set, [])).expect("written");
    }
    store.star(&keys[0], true).expect("starred");
    let runs = store.list().expect("a list");
    let now = Timestamp::now();
    let chosen = |prune: Prune, now| {
        let mut keys: Vec<RunKey> = prune.choose(&runs, now).into_iter().map(|run| run.key.clone()).collect();
        keys.sort();
        keys
    };
    let sorted = |places: &[usize]| {
        let mut some: Vec<RunKey> = places.iter().map(|place| keys[*place].clone()).collect();
        some.sort();
        some
    };
    assert_eq!(chosen(Prune { keep_best: 2, older_than: None }, now), sorted(&[2]));
    assert_eq!(chosen(Prune { keep_best: 3, older_than: None }, now), []);
    assert_eq!(chosen(Prune::default(), now), sorted(&[1, 2, 3]));
    let day = Some(jiff::SignedDuration::from_hours(24));
    assert_eq!(chosen(Prune { keep_best: 0, older_than: day }, now), []);
    let later = now + jiff::SignedDuration::from_hours(25);
    assert_eq!(chosen(Prune { keep_best: 2, older_than: day }, later), sorted(&[2]));
}
