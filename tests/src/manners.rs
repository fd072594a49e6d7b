//! Ways in which drivers are seen to differ, as switches of the simulated GPU.
//!
//! Owns the list. A test that is told of by name in [`with_every_manner`] has to hold with each of them, as it does without.

use std::{env, path::Path, process::Command, sync::Mutex, thread};

/// A way: its name, and the variables that switch it on (`tests/simulator/sim.h`, `tests/simulator/manners.h`).
pub type Manner = (&'static str, &'static [(&'static str, &'static str)]);

const STEPS: (&str, &str) = ("PLIMSOLL_SIM_POOL_STEP_MIB", "32");
/// Without virtual memory of the driver, all that a run holds is in the pool.
const POOL: (&str, &str) = ("PLIMSOLL_SIM_VIRTUAL", "0");

/// All of them.
pub const MANNERS: &[Manner] = &[
    ("mapped memory where pools go in steps of 32 MiB", &[STEPS]),
    ("pools alone", &[POOL]),
    ("pools in steps of 32 MiB", &[STEPS, POOL]),
    ("chunks of a pool that join", &[("PLIMSOLL_SIM_POOL_JOINS", "1"), POOL]),
    ("chunks of 32 MiB that join", &[("PLIMSOLL_SIM_POOL_JOINS", "1"), STEPS, POOL]),
    ("used bytes as they were asked for", &[("PLIMSOLL_SIM_POOL_COUNTS", "1"), POOL]),
    ("a limit that is rounded up", &[("PLIMSOLL_SIM_POOL_LIMIT", "up"), STEPS, POOL]),
    ("a limit that is rounded down", &[("PLIMSOLL_SIM_POOL_LIMIT", "down"), STEPS, POOL]),
    ("a last growth that fits the limit", &[("PLIMSOLL_SIM_POOL_LIMIT", "fits"), STEPS, POOL]),
    ("a container", &[("PLIMSOLL_SIM_CONTAINER", "1"), ("PLIMSOLL_SIM_PID", "4100000")]),
    ("a name with commas", &[("PLIMSOLL_SIM_NAME", "NVIDIA GPU, 80GB, \"PCIe\"")]),
];

/// Runs these tests of this binary again on a driver of each manner. To be called alone in a test.
///
/// # Panics
/// One of them fails, or there is no test of one of the names.
pub fn with_every_manner(tests: &[&str]) {
    let program = env::current_exe().expect("a test knows its program");
    let left = Mutex::new(MANNERS.iter());
    let next = || left.lock().expect("no holder panics").next();
    let workers = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(manner) = next() {
                    with_manner(&program, *manner, tests);
                }
            });
        }
    });
}

fn with_manner(program: &Path, (name, settings): Manner, tests: &[&str]) {
    let output = Command::new(program)
        .args(["--exact", "--test-threads=1"])
        .args(tests)
        .envs(settings.iter().copied())
        .output()
        .expect("a test can start its program");
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(output.status.success(), "with {name}, {}:\n{}{}", output.status, said[0], said[1]);
    let passed = format!("{} passed", tests.len());
    assert!(said[0].contains(&passed), "of {tests:?}, not all are tests:\n{}", said[0]);
}
