//! A run that the system has no memory for ends with words, and the program goes on.
//!
//! Each case runs in a process of its own, this one again, because a limit on a process cannot be lifted.
#![cfg(target_os = "linux")]

use std::{process::Command, time::Duration};

use plimsoll_engine::{
    Bytes, Experiment,
    experiment::ModelKind,
    memory::{Category, Ledger, host::LimitedBy},
    train::{Command as Ask, Event, Outcome, Start, Summary, Trainer},
};

/// Set in a process that a test has started.
const CHILD: &str = "PLIMSOLL_LIMITED";

/// Runs the test `name` again in a process of its own; whether this is the process that it was started in.
fn is_child(name: &str) -> bool {
    if std::env::var_os(CHILD).is_some() {
        return true;
    }
    let program = std::env::current_exe().expect("this program");
    let ran = Command::new(program).args(["--exact", name, "--nocapture"]).env(CHILD, "1").output().expect("a process");
    let told = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{}: {told}\n{}", ran.status, String::from_utf8_lossy(&ran.stdout));
    false
}

/// Lets this process's address space grow by so much more.
fn limit_growth(bytes: Bytes) {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages: u64 = statm.split_whitespace().next().and_then(|pages| pages.parse().ok()).expect("a number");
    let limit = pages * 4096 + bytes.0;
    let limit = libc::rlimit { rlim_cur: limit, rlim_max: limit };
    // SAFETY: `limit` lives for the call, which only reads it.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }, 0);
}

fn run(trainer: &Trainer, experiment: &Experiment, anyway: bool) -> (Outcome, Summary) {
    trainer.send(Ask::Start(Box::new(Start { anyway, ..Start::new(experiment.clone()) })));
    loop {
        let event = trainer.events().recv_timeout(Duration::from_secs(120)).expect("the trainer goes on");
        if let Event::Ended { outcome, summary, .. } = event {
            return (outcome, *summary);
        }
    }
}

fn small() -> Experiment {
    let mut experiment = Experiment::default();
    experiment.run.steps = Some(1);
    experiment
}

/// Weights of 2.5 GiB, in layers of 64 MiB.
fn large() -> Experiment {
    let mut experiment = Experiment { budget: Bytes::gib(1000), ..small() };
    (experiment.model.kind, experiment.model.width, experiment.model.depth) = (ModelKind::Mlp, 4096, 40);
    experiment
}

#[test]
fn a_run_that_the_process_may_not_have_memory_for_is_refused_and_the_next_one_trains() {
    if !is_child("a_run_that_the_process_may_not_have_memory_for_is_refused_and_the_next_one_trains") {
        return;
    }
    let trainer = Trainer::new(|| {});
    // Its threads are there after a first run.
    assert!(matches!(run(&trainer, &small(), false).0, Outcome::Finished));
    limit_growth(Bytes::mib(512));
    for anyway in [false, true] {
        let (outcome, summary) = run(&trainer, &large(), anyway);
        let Outcome::OverBudget(refusal) = outcome else { panic!("{outcome:?}") };
        assert_eq!(refusal.error.limited_by, LimitedBy::Process, "{refusal:?}");
        assert!(refusal.error.budget < Bytes::mib(512) && !refusal.error.layer.is_empty(), "{refusal:?}");
        assert!(refusal.error.to_string().contains("ulimit -v"), "{}", refusal.error);
        assert_eq!(summary.left_over, Bytes(0));
        assert!(matches!(run(&trainer, &small(), false).0, Outcome::Finished));
    }
}

#[test]
fn a_budget_above_the_machine_is_refused_by_what_the_machine_has() {
    let trainer = Trainer::new(|| {});
    // 16 GiB a layer: 2.5 TiB with gradients and optimizer state.
    let mut experiment = Experiment { budget: Bytes::gib(100_000), ..large() };
    experiment.model.width = 1 << 16;
    let (outcome, _) = run(&trainer, &experiment, false);
    let Outcome::OverBudget(refusal) = outcome else { panic!("{outcome:?}") };
    assert_ne!(refusal.error.limited_by, LimitedBy::Budget, "{refusal:?}");
    let (outcome, _) = run(&trainer, &small(), false);
    assert!(matches!(outcome, Outcome::Finished), "{outcome:?}");
}

#[test]
fn a_small_block_that_is_refused_gets_the_ballast() {
    if !is_child("a_small_block_that_is_refused_gets_the_ballast") {
        return;
    }
    plimsoll_engine::memory::ballast::set_aside();
    limit_growth(Bytes::ZERO);
    /// Many times what an error and the end of a run take.
    const NOTES: usize = 1000;
    // Until the system gives none; then the ballast makes room for the error.
    let ledger = Ledger::new(None, false);
    let mut blocks: Vec<Vec<u8>> = Vec::with_capacity(1 << 16);
    while let Some(block) = refusable(1 << 20) {
        blocks.push(block);
    }
    let notes: Vec<String> =
        (0..NOTES).map(|i| format!("note {i} of what went wrong, with its place and bytes")).collect();
    assert_eq!((notes.len(), ledger.live()), (NOTES, Bytes(0)));
    drop(ledger.take(1, Category::Batch, "input").expect("no budget"));
}

fn refusable(bytes: usize) -> Option<Vec<u8>> {
    let mut block = Vec::new();
    block.try_reserve_exact(bytes).ok().map(|()| block)
}
