//! The size of the process: what `plan` and `train` say of it, against the system's high-water mark.

use super::*;

/// Presets, changed so that each part of the figure is large in one of them: a small one, one with data and scratch of kernels,
/// one of many layers, and one whose tensors lie on the heap.
const RUNS: [&[&str]; 5] = [
    &["mlp-digits"],
    &["vit-digits"],
    &["cnn-shapes-accumulate"],
    &["mlp-digits", "--set", "model.depth=400"],
    &["cnn-digits-channels"],
];
/// How far the predicted figure may be from the measured one, in percent, before the first step and in a plan. The system maps
/// other pages of the program in each process.
const OFF: [std::ops::RangeInclusive<f64>; 2] = [-2.0..=6.0, -4.0..=12.0];

#[test]
fn a_process_is_about_as_large_as_predicted() {
    for run in RUNS {
        let of = |command: &[&'static str]| {
            let more = ["--set", "run.steps=3", "--budget", "1GiB", "--json"];
            [command, run, &more].concat()
        };
        let events = lines(&stdout(&of(&["train", "--keep", "nothing"])));
        let end = events.last().expect("an end");
        if end["process_is_sampled"] == true {
            continue;
        }
        let bytes = |value: &Value| value["process_bytes"].as_u64().expect("bytes");
        let (predicted, measured) = (bytes(&end["predicted"]), bytes(&end["measured"]));
        let planned = bytes(&json(&of(&["plan"]))["peak"]);
        for (figure, off) in [predicted, planned].into_iter().zip(OFF) {
            let percent = (figure as f64 / measured as f64 - 1.0) * 100.0;
            assert!(off.contains(&percent), "{run:?}: predicted {predicted}, planned {planned}, measured {measured}");
        }
    }
}
