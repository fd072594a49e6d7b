//! Ways in which drivers are seen to differ, as switches of the simulated GPU.
//!
//! Owns the list. [`MANNER`] in the environment names the one that all tests on the simulated GPU then meet; what a test sets of
//! its own has precedence. A test that is told of by name in [`with_every_manner`] meets each of them in any run. A test of a
//! figure that only the usual manner has says so by [`is_left_out`].

use std::{env, path::Path, process::Command, sync::Mutex, thread};

/// A way in which a driver differs.
#[derive(Debug)]
pub struct Manner {
    /// The value of [`MANNER`] that chooses it.
    pub name: &'static str,
    /// The variables that switch it on (`tests/simulator/sim.h`, `tests/simulator/manners.h`).
    pub settings: &'static [(&'static str, &'static str)],
}

/// Set in the environment to the name of a manner.
pub const MANNER: &str = "PLIMSOLL_TEST_MANNER";

const STEPS: (&str, &str) = ("PLIMSOLL_SIM_POOL_STEP_MIB", "32");
/// Without virtual memory of the driver, all that a run holds is in the pool.
const POOL: (&str, &str) = ("PLIMSOLL_SIM_VIRTUAL", "0");
const JOINS: (&str, &str) = ("PLIMSOLL_SIM_POOL_JOINS", "1");
const LIMIT: &str = "PLIMSOLL_SIM_POOL_LIMIT";

/// All of them.
pub const MANNERS: &[Manner] = &[
    // Mapped memory where pools go in steps of 32 MiB.
    manner("mapped-steps", &[STEPS]),
    manner("pools", &[POOL]),
    // Pools in steps of 32 MiB.
    manner("pools-steps", &[STEPS, POOL]),
    // Chunks of a pool that join, of 2 MiB and of 32 MiB.
    manner("joins", &[JOINS, POOL]),
    manner("joins-steps", &[JOINS, STEPS, POOL]),
    // Used bytes as they were asked for.
    manner("requests", &[("PLIMSOLL_SIM_POOL_COUNTS", "1"), POOL]),
    // A limit that is rounded, and a last growth that fits it.
    manner("limit-up", &[(LIMIT, "up"), STEPS, POOL]),
    manner("limit-down", &[(LIMIT, "down"), STEPS, POOL]),
    manner("limit-fits", &[(LIMIT, "fits"), STEPS, POOL]),
    manner("container", &[("PLIMSOLL_SIM_CONTAINER", "1"), ("PLIMSOLL_SIM_PID", "4100000")]),
    // A name with commas.
    manner("name", &[("PLIMSOLL_SIM_NAME", "NVIDIA GPU, 80GB, \"PCIe\"")]),
];

const fn manner(name: &'static str, settings: &'static [(&'static str, &'static str)]) -> Manner {
    Manner { name, settings }
}

/// The settings of the manner that the environment names; none if it names none.
///
/// # Panics
/// It names another one.
pub fn manner_settings() -> &'static [(&'static str, &'static str)] {
    chosen().map_or(&[], |manner| manner.settings)
}

fn chosen() -> Option<&'static Manner> {
    let name = env::var(MANNER).ok().filter(|name| !name.is_empty())?;
    let names = || MANNERS.iter().map(|manner| manner.name).collect::<Vec<_>>().join(", ");
    let found = MANNERS.iter().find(|manner| manner.name == name);
    Some(found.unwrap_or_else(|| panic!("{MANNER}={name}: the manners are {}", names())))
}

/// Whether a test says nothing under the present manner, because it is about `what`, which no driver has that one of these
/// `variables` is set for.
pub fn is_left_out(variables: &[&str], what: &str) -> bool {
    let is_set = |manner: &&Manner| manner.settings.iter().any(|(name, _)| variables.contains(name));
    let found = chosen().filter(is_set);
    if let Some(manner) = found {
        eprintln!("left out with the manner {}: it is about {what}", manner.name);
    }
    found.is_some()
}

/// Runs these tests of this binary again on a driver of each manner. To be called alone in a test.
///
/// # Panics
/// One of them fails, or there is no test of one of the names.
pub fn with_every_manner(tests: &[&str]) {
    if chosen().is_some() {
        // They run under that one as it is.
        return;
    }
    let program = env::current_exe().expect("a test knows its program");
    let left = Mutex::new(MANNERS.iter());
    let next = || left.lock().expect("no holder panics").next();
    let workers = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(manner) = next() {
                    with_manner(&program, manner.name, tests);
                }
            });
        }
    });
}

fn with_manner(program: &Path, name: &str, tests: &[&str]) {
    let output = Command::new(program)
        .args(["--exact", "--test-threads=1"])
        .args(tests)
        .env(MANNER, name)
        .output()
        .expect("a test can start its program");
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(output.status.success(), "with {name}, {}:\n{}{}", output.status, said[0], said[1]);
    let passed = format!("{} passed", tests.len());
    assert!(said[0].contains(&passed), "of {tests:?}, not all are tests:\n{}", said[0]);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The script that runs everything with each of them.
    const SCRIPT: &str = include_str!("../../.ci/manners");

    #[test]
    fn the_script_knows_all_of_them() {
        let (_, rest) = SCRIPT.split_once("all=(").expect("the list");
        let (list, _) = rest.split_once(')').expect("its end");
        let names: Vec<&str> = MANNERS.iter().map(|manner| manner.name).collect();
        assert_eq!(list.split_whitespace().collect::<Vec<_>>(), names);
    }
}
