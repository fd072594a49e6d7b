//! Runs with a gap behind each block (`PLIMSOLL_GUARD=1`): the same numbers, and a refusal in words where there can be no gaps.

use super::*;

/// A run that takes channels out, so that blocks of two sizes of a model come and go.
const RUN: &str = "train cnn-digits-channels --json --keep nothing --set run.steps=12 --set prune.begin_step=6";

/// What the run writes, guarded or not, started by a shell after `first`.
fn run(first: &str, guard: &str) -> Output {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{first} exec \"$0\" {RUN}"), env!("CARGO_BIN_EXE_plimsoll")]);
    command.env("PLIMSOLL_GUARD", guard).env("PLIMSOLL_STORE", program_store()).output().expect("the shell starts")
}

#[test]
fn a_guarded_run_computes_the_same_and_nothing_is_written_past() {
    let [plain, guarded] = ["0", "1"].map(|guard| {
        let output = run("", guard);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let events = lines(&text(&output.stdout));
        let numbers = |event: &Value| [&event["loss"], &event["accuracy"], &event["live_bytes"]].map(Value::clone);
        events.iter().filter(|event| event["event"] == "step").map(numbers).collect::<Vec<_>>()
    });
    assert_eq!((plain.len(), &plain), (12, &guarded));
}

#[test]
fn a_guarded_run_is_refused_where_the_system_sets_no_addresses_aside() {
    // A limit of the address space.
    let output = run("ulimit -v 8000000;", "1");
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(!output.status.success() && said.contains("PLIMSOLL_GUARD") && !said.contains("panicked"), "{said}");
    assert!(run("ulimit -v 8000000;", "0").status.success());
}
