//! The trace of a kept run on a GPU.

use serde_json::{Value, json};

use super::{Card, told};

#[test]
fn the_trace_of_a_kept_run_has_the_ways_in_which_its_ops_ran() {
    let card = Card::new(&[]);
    let train = ["train", "cnn-digits", "--device", "cuda:0", "--budget", "1GiB", "--steps", "3", "--json"];
    let events = told(card.run(&[&train[..], &["--set", "model.width=8"]].concat()));
    let ways = events.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let ways: Vec<Value> = ways.filter(|event| event["event"] == "ways").collect();
    let [ran] = &ways[..] else { panic!("one step is measured: {ways:?}") };
    let ran = ran["ways"].as_array().expect("a list");
    assert!(ran.iter().any(|op| op["way"] == "cuDNN"), "{ran:?}");
    let place = card.cache.path().join("trace.json");
    let place = place.to_str().expect("text");
    let in_trace = |name: &str| {
        told(card.run(&["export", name, "--format", "perfetto", "--force", "-o", place]));
        let trace: Value = serde_json::from_slice(&std::fs::read(place).expect("written")).expect("JSON");
        let slices = trace["traceEvents"].as_array().expect("events").iter();
        let slices = slices.filter(|slice| slice["args"]["way"].is_string());
        let told = slices
            .map(|slice| json!({"layer": slice["args"]["layer"], "op": slice["name"], "way": slice["args"]["way"]}));
        told.collect::<Vec<Value>>()
    };
    assert_eq!(&in_trace("last"), ran);
    assert!(in_trace("cnn-digits").is_empty(), "a plan knows no way");
}
