//! What a run calls of the driver's allocators: a steady step nothing but one counter, and a run that is over has given back what it
//! took, however it ended.

use plimsoll_engine::{
    Experiment,
    experiment::preset,
    train::{Command, Event, Outcome},
};
use plimsoll_tests::calls_of;

use crate::{
    card::{Card, experiment, on_card},
    launches::gpt2,
};

/// Everything that takes memory of the card, maps it, or gives it back.
const ALLOCATORS: [&str; 13] = [
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemAllocAsync",
    "cuMemAllocFromPoolAsync",
    "cuMemFreeAsync",
    "cuMemAddressReserve",
    "cuMemAddressFree",
    "cuMemCreate",
    "cuMemRelease",
    "cuMemMap",
    "cuMemUnmap",
    "cuMemPoolCreate",
    "cuMemPoolTrimTo",
];

/// Pieces of page-locked memory that a run comes to have for what is on its way to the card: how many it needs at once depends
/// on how far the host is ahead.
const PIECES: u64 = 4;

/// Steps of which the calls are counted.
const COUNTED: [u64; 2] = [10, 30];

/// Readings of counters that may come to those of the counted steps: a run is ahead of its events.
const AHEAD: u64 = 10;

/// The calls between two steps of a run: of allocators of the card, of those of page-locked memory, and of a pool's counters.
fn between(card: &Card, experiment: &Experiment, [from, to]: [u64; 2]) -> [u64; 3] {
    let read = || {
        let counters = calls_of(&["cuMemPoolGetAttribute", "cuMemPoolSetAttribute"]);
        [calls_of(&ALLOCATORS), calls_of(&["cuMemHostAlloc", "cuMemFreeHost"]), counters]
    };
    let mut at = Vec::new();
    card.begin(experiment, false);
    loop {
        match card.next() {
            Event::Step(record) if [from, to].contains(&record.step) => at.push(read()),
            Event::Ended { outcome, .. } => {
                assert!(matches!(outcome, Outcome::Finished), "{outcome:?}");
                let [first, last] = at[..] else { panic!("{at:?}") };
                assert!(first.iter().all(|calls| *calls > 0), "nothing was counted: {first:?}");
                return [0, 1, 2].map(|of| last[of] - first[of]);
            }
            _ => {}
        }
    }
}

#[test]
fn a_steady_step_calls_no_allocator() {
    on_card("steady::a_steady_step_calls_no_allocator", &[], |card| {
        let cnn = ["model.width=8", "model.depth=1", "model.dense=16", "batch.micro=6"];
        let short = ["run.steps=32", "run.evaluate_every=1000"];
        let all = [
            experiment("cnn-digits", &[&cnn[..], &short].concat()),
            experiment("mlp-digits", &[&short[..], &["batch.micro=8", "precision=f16-mixed"]].concat()),
            gpt2(&[&short[..], &["model.depth=2", "batch.accumulation=2"]].concat()),
        ];
        for plain in all {
            for choice in ["execution=in-place", "execution=fused", "gpu.pool=grow", "gpu.pool=reserve"] {
                let mut experiment = plain.clone();
                preset::set(&mut experiment, choice).expect("a setting");
                let [of_card, of_host, counters] = between(card, &experiment, COUNTED);
                assert_eq!(of_card, 0, "{choice}: {experiment:?}");
                assert!(of_host <= PIECES, "{choice}: {of_host}, {experiment:?}");
                let steps = COUNTED[1] - COUNTED[0];
                println!("{choice}: in {steps} steps, a pool's counters are read or set {counters} times");
                // The driver is asked in each step, and once.
                assert!((steps - AHEAD..=steps + AHEAD).contains(&counters), "{choice}: {counters}, {experiment:?}");
            }
        }
    });
}

/// The page-locked pieces that are held now.
fn locked() -> u64 {
    calls_of(&["cuMemHostAlloc"]) - calls_of(&["cuMemFreeHost"])
}

#[test]
fn a_run_that_ends_gives_its_page_locked_memory_back_however_it_ends() {
    on_card("steady::a_run_that_ends_gives_its_page_locked_memory_back_however_it_ends", &[], |card| {
        let experiment = experiment("cnn-digits", &["run.steps=6", "batch.micro=8"]);
        // A run to its end.
        card.calm(&experiment);
        let before = calls_of(&["cuMemHostAlloc"]);
        assert!(before > 0, "batches are copied from page-locked memory");
        assert_eq!(locked(), 0, "finished");
        // One that its user stops.
        card.begin(&experiment, true);
        card.steps(2);
        assert!(locked() > 0, "under way");
        card.send(Command::Stop);
        assert!(matches!(card.end().outcome, Outcome::Stopped));
        assert_eq!(locked(), 0, "stopped");
        // One that meets its budget after it has begun, one that the driver refuses memory, and one whose kernel fails.
        for (what, n) in [("allocation", 1), ("kernel", 40)] {
            card.fail(what, n);
            let run = card.run(&experiment);
            assert!(matches!(run.outcome, Outcome::Failed(_)), "{what}: {:?}", run.outcome);
            card.fail(what, 0);
            assert_eq!(locked(), 0, "{what}");
        }
        card.calm(&experiment);
        assert!(calls_of(&["cuMemHostAlloc"]) > before);
        assert_eq!(locked(), 0, "and again");
    });
}
