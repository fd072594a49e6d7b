//! What is in the record before the recorder's next turn: a checkpoint's line, and a full block of steps.

use std::time::{Duration, Instant};

use super::*;
use crate::{bytes::Bytes, store::series::BLOCK, train::SaveReason};

/// The time that a test waits for events that come within milliseconds.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn a_save_is_in_the_store_before_the_recorders_next_turn() {
    let folder = folder();
    // Its next turn comes after the test, so a record that is found was written because it was new.
    let recorder = Recorder::writing_every(recording(folder.path()), PATIENCE * 10);
    recorder.take(&Event::Started { run: 1, plan: plan() });
    recorder.take(&Event::Step(some_step(1)));
    assert!(recorder.wait_until_kept(PATIENCE));
    recorder.take(&Event::Step(some_step(2)));
    let path = recorder.files().join("last.safetensors");
    recorder.take(&Event::Saved { path, step: 2, bytes: Bytes(7000), live: Bytes(900), why: SaveReason::Interval });
    let (store, began) = (Store::open(folder.path()).expect("open"), Instant::now());
    let saved = || {
        let events = store.details(recorder.key()).expect("details").events;
        events.into_iter().find(|event| event.kind == EventKind::Saved)
    };
    let found = loop {
        match saved() {
            Some(found) => break found,
            None => assert!(began.elapsed() < PATIENCE, "the save waits for the recorder's turn"),
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    assert_eq!((found.step, found.text.contains("last.safetensors")), (2, true), "{found:?}");
    assert_eq!(store.get(recorder.key()).expect("kept").steps, 2, "with the steps before it");
}

#[test]
fn a_full_block_of_steps_is_in_the_store_before_the_recorders_next_turn() {
    let folder = folder();
    let recorder = Recorder::writing_every(recording(folder.path()), PATIENCE * 10);
    recorder.take(&Event::Started { run: 1, plan: plan() });
    recorder.take(&Event::Step(some_step(1)));
    assert!(recorder.wait_until_kept(PATIENCE));
    let last = BLOCK as u64 + 1;
    (2..=last).for_each(|step| recorder.take(&Event::Step(some_step(step))));
    let (store, began) = (Store::open(folder.path()).expect("open"), Instant::now());
    while store.get(recorder.key()).expect("kept").steps < last {
        assert!(began.elapsed() < PATIENCE, "a block waits for the recorder's turn");
        std::thread::sleep(Duration::from_millis(5));
    }
}
