//! Who owns a run and its folder: one process at a time, and none once the run is deleted.

use super::*;
use crate::{
    plan::{Resumed, SoFar},
    train::claim::Claim,
};

/// Makes another process the one that records a run.
fn take_over(store: &mut Store, key: &RunKey, owner: &str) {
    let sql = format!("UPDATE runs SET {owner}, pulse = {} WHERE key = '{key}'", Timestamp::now().as_millisecond());
    assert_eq!(store.database.write(|db| db.execute(&sql, [])), Ok(1));
}

/// A process elsewhere, which has just given a sign of life.
const ELSEWHERE: &str = "system = 'another', pid = 4711, state = 'running'";

#[test]
fn a_run_that_another_process_takes_over_gets_no_step_twice() {
    let folder = folder();
    let key = record(Recorder::new(recording(folder.path())), 1, 100, Outcome::Stopped);
    let mut store = Store::open(folder.path()).expect("open");
    take_over(&mut store, &key, ELSEWHERE);
    assert_eq!(store.trained_by(&key), Ok(Some(4711)));
    let again = Recorder::new(Recording { continued: Some(key.clone()), ..recording(folder.path()) });
    again.take(&Event::Started { run: 1, plan: plan() });
    (51..=70).for_each(|step| again.take(&Event::Step(some_step(step))));
    again.take(&ended(Outcome::Finished, 70));
    let said = again.finish().expect("something is wrong");
    assert!(said.contains("process 4711 has taken the run over"), "{said}");
    assert_eq!(store.series(&key).expect("series").steps, (1..=100).map(some_step).collect());
    assert_eq!(store.get(&key).expect("kept").state, RunState::Running);

    // The same while it is recorded here.
    let recorder = Recorder::new(recording(folder.path()));
    recorder.take(&Event::Started { run: 1, plan: plan() });
    recorder.take(&Event::Step(some_step(1)));
    assert!(recorder.wait_until_kept(std::time::Duration::from_secs(20)));
    let key = recorder.key().clone();
    take_over(&mut store, &key, ELSEWHERE);
    recorder.take(&Event::Step(some_step(2)));
    recorder.take(&ended(Outcome::Finished, 2));
    assert!(recorder.finish().is_some_and(|said| said.contains("taken the run over")));
    let run = store.get(&key).expect("kept");
    assert_eq!((run.steps, run.state), (1, RunState::Running));
}

/// A run that goes on from a checkpoint finds the steps before it, even if the program was killed right after it.
#[test]
fn a_checkpoint_waits_for_the_steps_before_it_and_for_nothing_else() {
    use std::time::Duration;

    let is_awaited = |awaited: &crossbeam_channel::Receiver<()>, millis| {
        let answer = awaited.recv_timeout(Duration::from_millis(millis));
        answer == Err(crossbeam_channel::RecvTimeoutError::Timeout)
    };
    let folder = folder();
    let recorder = Recorder::new(recording(folder.path()));
    recorder.take(&Event::Started { run: 1, plan: plan() });
    recorder.take(&Event::Step(some_step(1)));
    assert!(recorder.wait_until_kept(Duration::from_secs(20)));
    let awaited = recorder.want(40, 1);
    (2..=40).for_each(|step| recorder.take(&Event::Step(some_step(step))));
    assert!(is_awaited(&awaited, 20), "the test is missing");
    recorder.take(&evaluated(40, 0.5));
    assert!(!is_awaited(&awaited, 20_000), "it is written");
    let store = Store::open(folder.path()).expect("open");
    let series = store.series(recorder.key()).expect("kept");
    assert_eq!((series.steps.len(), series.evaluations.len()), (40, 1));
    // A wish that can no longer be fulfilled is dropped.
    let awaited = recorder.want(41, 1);
    assert!(is_awaited(&awaited, 0));
    recorder.take(&ended(Outcome::Stopped, 40));
    assert_eq!(recorder.finish(), None);
    assert!(!is_awaited(&awaited, 0));
}

/// A run that goes on reports a gap that an earlier version, or a store that could not be written, has left.
#[test]
fn a_run_that_goes_on_behind_a_hole_says_so() {
    let folder = folder();
    let key = record(Recorder::new(recording(folder.path())), 1, 3, Outcome::Stopped);
    let again = Recorder::new(Recording { continued: Some(key.clone()), ..recording(folder.path()) });
    again.take(&Event::Started { run: 1, plan: plan() });
    (41..=50).for_each(|step| again.take(&Event::Step(some_step(step))));
    again.take(&ended(Outcome::Finished, 50));
    let said = again.finish().expect("something is missing");
    assert!(said.contains("steps 4 to 40 of the run are not in the store"), "{said}");
    let events = Store::open(folder.path()).expect("open").details(&key).expect("details").events;
    assert!(events.iter().any(|event| event.kind == EventKind::Warning && event.text == said), "{events:?}");
}

/// A peak is measured once; perhaps only the checkpoint has it, or only the end of an earlier session.
#[test]
fn a_run_that_goes_on_forgets_no_peak() {
    let folder = folder();
    let key = record(Recorder::new(recording(folder.path())), 1, 3, Outcome::Stopped);
    let store = Store::open(folder.path()).expect("open");
    let before = store.get(&key).expect("kept").measured;
    let killed_after = |measured: Peak| {
        let recorder = Recorder::new(Recording { continued: Some(key.clone()), ..recording(folder.path()) });
        let counters = crate::step::Counters { updates: 3, loss_scale: (1.0, 0), ..Default::default() };
        let plan = plan();
        let resolved = plan.resolved.clone().resuming(Some(Resumed {
            step: 3,
            counters,
            so_far: SoFar { measured, ..SoFar::default() },
        }));
        let plan = Plan { resolved, ..(*plan).clone() };
        recorder.take(&Event::Started { run: 1, plan: Arc::new(plan) });
        recorder.take(&Event::Step(some_step(4)));
        assert_eq!(recorder.finish(), None);
        store.get(&key).expect("kept").measured
    };
    assert_eq!(killed_after(Peak::default()), before, "the highest was in what the end told");
    let higher = Peak { live: Bytes(before.live.0 + 10_240), ..Peak::default() };
    assert_eq!(killed_after(higher), Peak { live: higher.live, ..before });
    assert_eq!(killed_after(Peak::default()).live, higher.live);
}

/// What is left of a run may be its test alone, whose prediction is no match for what was measured before.
#[test]
fn a_run_that_goes_on_keeps_the_prediction_of_its_highest_peak() {
    let folder = folder();
    let key = record(Recorder::new(recording(folder.path())), 1, 3, Outcome::Stopped);
    let store = Store::open(folder.path()).expect("open");
    let kept = || (store.get(&key).expect("kept").predicted, store.details(&key).expect("details").prediction);
    let (before, prediction) = kept();
    let whole = plan();
    let counters = crate::step::Counters { updates: 3, loss_scale: (1.0, 0), ..Default::default() };
    let step = whole.total_steps;
    let resumed = Resumed { step, counters, so_far: SoFar::default() };
    let going_on = |plan: Plan| {
        let recorder = Recorder::new(Recording { continued: Some(key.clone()), ..recording(folder.path()) });
        recorder.take(&Event::Started { run: 1, plan: Arc::new(plan) });
        recorder.take(&ended(Outcome::Finished, 3));
        drop(recorder.finish());
    };
    let test = whole.resolved.clone().resuming(Some(resumed));
    let test = crate::plan::predict(&test, &Machine::nominal()).expect("a plan");
    assert!(test.peak.live < whole.peak.live && test.peak_pass != whole.peak_pass, "{:?}", test.peak_pass);
    going_on(test);
    let (after, same) = kept();
    assert_eq!((after, same.passes, same.peak_pass), (before, prediction.passes, prediction.peak_pass));
    assert_eq!(same.alive_at_peak, prediction.alive_at_peak);

    // On another machine it may take more.
    let mut higher = (*whole).clone();
    higher.peak.live += Bytes(10);
    going_on(higher);
    let (after, higher) = kept();
    assert_eq!((after.live, higher.load_bytes), (before.live + Bytes(10), prediction.load_bytes + 10));
}

/// The store may be behind the checkpoint: a database that another program held lacks the facts of the checkpoint.
#[test]
fn a_run_that_goes_on_takes_results_from_the_checkpoint_where_the_store_has_older_ones() {
    let folder = folder();
    let key = record(Recorder::new(recording(folder.path())), 1, 100, Outcome::Stopped);
    let store = Store::open(folder.path()).expect("open");
    let before = store.get(&key).expect("kept");
    let taken_up = |step: u64, so_far: SoFar| {
        let recorder = Recorder::new(Recording { continued: Some(key.clone()), ..recording(folder.path()) });
        let counters = crate::step::Counters { updates: step, loss_scale: (1.0, 0), ..Default::default() };
        let plan = plan();
        let resolved = plan.resolved.clone().resuming(Some(Resumed { step, counters, so_far }));
        recorder.take(&Event::Started { run: 1, plan: Arc::new(Plan { resolved, ..(*plan).clone() }) });
        recorder.take(&ended(Outcome::Stopped, step));
        assert!(recorder.finish().is_none_or(|said| said.contains("are not in the store")));
        let run = store.get(&key).expect("kept");
        (run.train_loss, run.test_loss, run.test_accuracy, run.best_test_accuracy)
    };
    let of_store = (before.train_loss, before.test_loss, before.test_accuracy, before.best_test_accuracy);
    let same = SoFar { train_loss: Some(7.0), tested: 90, test_accuracy: Some(0.01), ..SoFar::default() };
    assert_eq!(taken_up(100, same), of_store, "the store has what came later");
    let best = before.best_test_accuracy.unwrap_or_default() + 0.001;
    let later = SoFar {
        train_loss: Some(0.25),
        tested: 140,
        test_loss: Some(0.5),
        test_accuracy: Some(0.02),
        best_test_accuracy: Some(best),
        ..SoFar::default()
    };
    assert_eq!(taken_up(140, later), (Some(0.25), Some(0.5), Some(0.02), Some(best)));
}

#[test]
fn a_run_that_is_deleted_while_it_ends_is_there_with_its_end() {
    let folder = folder();
    let recorder = Recorder::new(recording(folder.path()));
    recorder.take(&Event::Started { run: 1, plan: plan() });
    recorder.take(&Event::Step(some_step(1)));
    assert!(recorder.wait_until_kept(std::time::Duration::from_secs(20)));
    let key = recorder.key().clone();
    let mut store = Store::open(folder.path()).expect("open");
    assert!(store.delete(std::slice::from_ref(&key)).expect_err("it trains").to_string().contains("still trains"));
    assert_eq!(store.database.write(|db| db.execute("DELETE FROM runs", [])), Ok(1));
    recorder.take(&ended(Outcome::Finished, 1));
    assert_eq!(recorder.finish(), None);
    // Its files would otherwise belong to no run.
    assert_eq!(store.get(&key).expect("kept").state, RunState::Finished);
}

/// SQLite writes on into a file that was removed, and says nothing.
#[cfg(unix)]
#[test]
fn a_store_that_is_removed_while_a_run_trains_is_begun_anew_and_that_is_said() {
    let folder = folder();
    let place = folder.path().join("store");
    let recorder = Recorder::new(recording(&place));
    recorder.take(&Event::Started { run: 1, plan: plan() });
    recorder.take(&Event::Step(some_step(1)));
    assert!(recorder.wait_until_kept(std::time::Duration::from_secs(20)));
    fs::remove_dir_all(&place).expect("removed");
    (2..=9).for_each(|step| recorder.take(&Event::Step(some_step(step))));
    recorder.take(&ended(Outcome::Finished, 9));
    let key = recorder.key().clone();
    let said = recorder.finish().expect("something is wrong");
    assert!(said.contains("a new record of the run starts at step 2"), "{said}");
    let store = Store::open(&place).expect("open");
    assert_eq!(store.series(&key).expect("series").steps, (2..=9).map(some_step).collect());
    assert_eq!((store.get(&key).expect("kept").steps, store.details(&key).expect("details").events.len()), (9, 1));
}

/// The run does not wait for trouble that waiting cannot mend, and nothing is put into another program's folder.
#[test]
fn a_run_ends_at_once_where_its_store_is_none() {
    let folder = folder();
    fs::write(folder.path().join(database::FILE), "not a database at all, but long enough to be one").expect("written");
    let recorder = Recorder::new(recording(folder.path()));
    let said = recorder.make_files().expect_err("another's").to_string();
    assert!(said.contains("is not a store of runs") && !recorder.files().exists(), "{said}");
    recorder.take(&Event::Started { run: 1, plan: plan() });
    recorder.take(&Event::Step(some_step(1)));
    recorder.take(&ended(Outcome::Finished, 1));
    assert!(recorder.finish().is_some_and(|said| said.starts_with("the run was not kept")));
    let fault = Database::try_open(folder.path()).expect_err("refused");
    assert!(!fault.may_pass(), "it is tried again and again");
}

#[test]
fn a_run_that_goes_on_is_neither_put_away_nor_deleted() {
    let folder = folder();
    let keys = [kept(folder.path(), 1), kept(folder.path(), 2)];
    let mut store = Store::open(folder.path()).expect("open");
    let files = store.files(&keys[1]);
    fs::create_dir_all(&files).expect("made");
    // It reads its checkpoint, and has not done a step yet.
    let claim = Claim::take(&files).expect("it is free");
    for refused in [store.delete(&keys), store.discard(&keys)] {
        let said = refused.expect_err("it goes on").to_string();
        assert!(said.contains(keys[1].as_str()) && said.contains("still trains it; stop it there first"), "{said}");
    }
    assert_eq!(store.list().expect("a list").len(), 2);
    drop(claim);
    assert_eq!(store.delete(&keys), Ok(()));
    assert!(!files.exists() && store.list().expect("a list").is_empty());
}

#[test]
fn what_killed_programs_leave_goes_and_what_a_user_could_want_stays() {
    let folder = folder();
    let key = kept(folder.path(), 1);
    let store = Store::open(folder.path()).expect("open");
    let runs = folder.path().join(FILES);
    let put = |name: &str, file: &str| {
        fs::create_dir_all(runs.join(name)).and_then(|()| fs::write(runs.join(name).join(file), "x")).expect("written");
    };
    let (part, last) = (".plimsoll-abc123.part", "last.safetensors");
    let [known, trains, begun, stray, foreign] =
        [key.as_str(), "20200101-141205-aaaa", "20200101-141205-bbbb", "20200101-141205-cccc", "mine"];
    for (name, file) in [(known, part), (known, last), (trains, part), (begun, part), (begun, ".plimsoll-run.lock")] {
        put(name, file);
    }
    for name in [stray, foreign, "~20200101-141205-dddd"] {
        put(name, last);
    }
    put("20200101-141205-eeee", "notes.txt");
    let claim = Claim::take(&runs.join(trains)).expect("it is free");
    store.tidy();
    let list = |folder: &Path| {
        let mut names: Vec<_> = fs::read_dir(folder).expect("listed").flatten().map(|e| e.file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(list(&runs), [trains, stray, "20200101-141205-eeee", known, foreign].map(std::ffi::OsString::from));
    assert_eq!(list(&runs.join(known)), [last]);
    assert!(runs.join(trains).join(part).exists(), "it is being written");
    drop(claim);

    assert_eq!(store.strays(), Ok(Vec::new()), "a run may be on its way into the database");
    let long_ago = fs::File::open(runs.join(stray).join(last))
        .and_then(|file| file.set_modified(std::time::SystemTime::now() - std::time::Duration::from_secs(300)));
    long_ago.expect("set");
    let strays = store.strays().expect("read");
    assert_eq!(
        strays.iter().map(|s| (s.folder.clone(), s.on_disk)).collect::<Vec<_>>(),
        [(runs.join(stray), Bytes(1))]
    );
    assert_eq!(store.remove_strays(&strays), Ok(()));
    assert!(!runs.join(stray).exists() && runs.join(known).join(last).exists() && runs.join(foreign).exists());
}
