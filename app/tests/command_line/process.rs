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
    let store = tempfile::tempdir().expect("a folder");
    let store = store.path().to_str().expect("a name in UTF-8");
    for run in RUNS {
        let of = |command: &[&'static str], kept: &[&str]| {
            let more = ["--set", "run.steps=3", "--budget", "1GiB", "--json"];
            stdout(&[command, run, kept, &more].concat())
        };
        let bytes = |value: &Value| value["process_bytes"].as_u64().expect("bytes");
        // A plan does not know whether the run will be kept, and tells the process of one that is.
        let planned = bytes(&serde_json::from_str::<Value>(&of(&["plan"], &[])).expect("JSON")["peak"]);
        for (kept, figures) in [(["--store", store], 2), (["--keep", "nothing"], 1)] {
            let events = lines(&of(&["train"], &kept));
            let end = events.last().expect("an end");
            if end["process_is_sampled"] == true {
                continue;
            }
            let (predicted, measured) = (bytes(&end["predicted"]), bytes(&end["measured"]));
            for (figure, off) in [predicted, planned].into_iter().zip(OFF).take(figures) {
                let percent = (figure as f64 / measured as f64 - 1.0) * 100.0;
                assert!(
                    off.contains(&percent),
                    "{run:?} {kept:?}: predicted {predicted}, planned {planned}, measured {measured}"
                );
            }
        }
    }
}
