//! What a plan and a search say of this machine, and that an offer can be run from what is written of it.

use plimsoll_engine::Bytes;
use serde_json::Value;

use super::{fails, has_keys, json, plimsoll, stdout, text};

/// A run of 2.5 TiB inside a budget of 100 TiB.
const LARGE: [&str; 8] =
    ["mlp-digits", "--budget", "102400GiB", "--set", "model.width=65536", "--set", "model.depth=10", "--json"];

#[test]
fn a_plan_past_what_the_machine_has_says_so_and_fails_its_check() {
    let arguments: Vec<&str> = ["plan"].into_iter().chain(LARGE).collect();
    let plan = json(&arguments);
    has_keys(&plan, &["machine_bytes", "verdict"]);
    let bytes = |key: &str| plan[key].as_u64().expect("bytes");
    assert_eq!((&plan["fits"], plan["verdict"].as_str()), (&Value::Bool(false), Some("over_machine")), "{plan}");
    assert!(bytes("machine_bytes") < bytes("load_bytes") && bytes("load_bytes") < bytes("budget_bytes"));
    let checked = plimsoll(&[&arguments[..], &["--check"]].concat());
    assert_eq!(checked.status.code(), Some(1), "{}", text(&checked.stderr));
    let said = stdout(&arguments[..arguments.len() - 1]);
    assert!(said.contains("It does not fit this machine:"), "{said}");
    assert!(
        said.contains("inside the budget of 100 TiB") || said.contains("inside the budget of 102400 GiB"),
        "{said}"
    );
    let train: Vec<&str> = ["train"].into_iter().chain(LARGE).collect();
    let refused = fails(1, &train[..train.len() - 1]);
    assert!(!refused.contains("a budget of"), "the machine is what refuses: {refused}");
}

#[test]
fn a_line_that_reads_as_the_run_does_is_said_with_its_bytes() {
    let load = json(&["plan", "mlp-digits", "--json"])["load_bytes"].as_u64().expect("bytes");
    let budget = format!("{}B", load - 1);
    let [peak, line] = Bytes(load).beside(Bytes(load - 1));
    assert!(peak.ends_with(&format!("({load} B)")), "{peak}");
    let refused = fails(1, &["train", "mlp-digits", "--budget", &budget]);
    assert!(refused.contains(&format!(" of a budget of {line} (")), "{refused}");
    let planned = stdout(&["plan", "mlp-digits", "--budget", &budget]);
    assert!(planned.contains("at the peak, 1 B over the budget"), "{planned}");
    let searched = stdout(&["fit", "mlp-digits", "--budget", &budget]);
    assert!(
        searched.starts_with(&format!("As it is, the run does not fit: it needs {peak}, and the limit is {line}.")),
        "{searched}"
    );
}

/// Where data are past the budget of the host, that is what refuses, and not the budget of the device.
#[test]
fn a_search_names_the_bar_that_refuses() {
    let arguments = ["fit", "cnn-shapes", "--set", "data.host_budget=2MiB"];
    let output = plimsoll(&arguments);
    let (said, error) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{said}{error}");
    assert!(said.starts_with("As it is, the run does not fit: it needs "), "{said}");
    for words in [", but data.host_budget: data, batches", "more than the budget of 2.00 MiB; raise it, or write data."]
    {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert_eq!(said.matches("data.host_budget").count(), 1, "it is said once: {said}");
    assert!(error.contains("data.host_budget is in the way") && !error.contains("fits in"), "{error}");
    let output = plimsoll(&[&arguments[..], &["--json"]].concat());
    let found: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert_eq!((&found["fits"], found["verdict"].as_str()), (&Value::Bool(false), Some("over_host_budget")), "{found}");
    assert!(found["host_problem"].as_str().expect("words").starts_with("data.host_budget: "), "{found}");
    // A budget that is crossed as well is named.
    let over = plimsoll(&[&arguments[..], &["--budget", "100KiB"]].concat());
    assert!(text(&over.stdout).contains("the limit is 100 KiB"), "{}", text(&over.stdout));
}

#[test]
fn a_plan_inside_the_machine_is_as_before() {
    let plan = json(&["plan", "mlp-digits", "--json"]);
    assert_eq!((&plan["fits"], plan["verdict"].as_str()), (&Value::Bool(true), Some("fits")), "{plan}");
    let over = json(&["plan", "mlp-digits", "--budget", "100KiB", "--json"]);
    assert_eq!((&over["fits"], over["verdict"].as_str()), (&Value::Bool(false), Some("over_budget")), "{over}");
}

#[test]
fn an_offer_of_a_plan_says_what_to_write() {
    let planned = stdout(&["plan", "cnn-shapes", "--budget", "18MiB"]);
    let offers: Vec<&str> =
        planned.lines().filter_map(|line| line.split_once("  (--set ")?.1.strip_suffix(')')).collect();
    assert!(!offers.is_empty(), "{planned}");
    for offer in offers {
        let sets = offer.split(" --set ").flat_map(|setting| ["--set", setting]);
        let arguments: Vec<&str> =
            ["plan", "cnn-shapes", "--budget", "18MiB", "--check"].into_iter().chain(sets).collect();
        let checked = plimsoll(&arguments);
        assert_eq!(checked.status.code(), Some(0), "{offer}: {}", text(&checked.stdout));
    }
}

#[test]
fn an_offer_is_run_from_what_is_set_alone() {
    let changes = ["--budget", "16MiB", "--set", "optimizer.kind=sgd", "--set", "model.dense=200"];
    let found = json(&[&["fit", "cnn-shapes", "--json"], &changes[..]].concat());
    let candidates = found["candidates"].as_array().expect("a list");
    assert!(!candidates.is_empty(), "{found}");
    for candidate in candidates.iter().take(2).chain([&found["fill"]]) {
        let set: Vec<&str> =
            candidate["set"].as_array().expect("a list").iter().map(|one| one.as_str().expect("text")).collect();
        let keys: Vec<&str> = set.iter().filter_map(|one| one.split('=').next()).collect();
        assert_eq!(keys[..4], ["batch.micro", "batch.accumulation", "precision", "checkpointing"], "{set:?}");
        assert!(["budget", "optimizer.kind", "model.dense"].iter().all(|key| keys.contains(key)), "{set:?}");
        let sets = set.iter().flat_map(|one| ["--set", one]);
        let arguments: Vec<&str> = ["plan", "cnn-shapes", "--json"].into_iter().chain(sets).collect();
        let plan = json(&arguments);
        assert_eq!(plan["peak"]["live_bytes"], candidate["peak_bytes"], "{set:?}");
        assert_eq!((&plan["fits"], &plan["budget_bytes"]), (&Value::Bool(true), &found["budget_bytes"]), "{set:?}");
    }
}
