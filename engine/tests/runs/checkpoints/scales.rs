//! Checkpoints of earlier versions, which kept the scales of `flash-adamw` in f32.

use std::collections::HashMap;

use serde_json::Value;

use super::*;

/// What stands before the places of a tensor in a header.
const PLACES: &str = "\"data_offsets\":[";

/// A file whose tensors of f16 are of f32, of as many elements.
fn widened(bytes: &[u8]) -> Vec<u8> {
    let begin = 8 + header_length(bytes);
    let text = std::str::from_utf8(&bytes[8..begin]).expect("a header");
    let header: Value = serde_json::from_str(text).expect("JSON");
    let tensors = header.as_object().expect("tensors").iter().filter(|(name, _)| *name != "__metadata__");
    let place = |entry: &Value, i: usize| entry["data_offsets"][i].as_u64().expect("a place") as usize;
    let mut places: Vec<_> = tensors.map(|(_, of)| ([place(of, 0), place(of, 1)], of["dtype"] == "F16")).collect();
    places.sort_unstable();
    let (mut elements, mut moved) = (Vec::new(), HashMap::new());
    for ([from, to], is_narrow) in places {
        let at = elements.len();
        elements.extend_from_slice(&bytes[begin + from..begin + to]);
        elements.resize(elements.len() + if is_narrow { to - from } else { 0 }, 0);
        moved.insert(format!("{from},{to}"), format!("{at},{}", elements.len()));
    }
    // Word by word, because the checksum has its place.
    let mut parts = text.split(PLACES);
    let mut wide = parts.next().expect("a beginning").to_owned();
    for part in parts {
        let (old, rest) = part.split_once(']').expect("an end");
        wide.extend([PLACES, &moved[old], "]", rest]);
    }
    let mut wide = of_header(&wide.replace("\"dtype\":\"F16\"", "\"dtype\":\"F32\""), 0);
    wide.extend(elements);
    sealed(wide)
}

#[test]
fn wider_scales_of_an_earlier_version_are_refused_by_name_and_their_weights_can_be_had() {
    let (folder, mut experiment) = (tempfile::tempdir().expect("a folder"), experiment());
    experiment.optimizer.kind = OptimizerKind::FlashAdamw;
    let start = Start { keep: Keep::in_folder(folder.path()), ..Start::new(experiment.clone()) };
    assert!(matches!(outcome(start), Outcome::Finished));
    let bytes = fs::read(folder.path().join("last.safetensors")).expect("it was saved");
    let (_folder, path) = file(&widened(&bytes));
    experiment.run.steps = Some(3);
    let said = match outcome(Start { resume: Some(path.clone()), ..Start::new(experiment.clone()) }) {
        Outcome::Failed(error) => error.to_string(),
        other => panic!("{other:?}"),
    };
    assert!(said.contains("scales of flash-adamw in f32") && said.contains("_scales)"), "{said}");
    assert!(!said.contains("another architecture"), "{said}");
    experiment.weights.path = Some(path);
    assert!(matches!(outcome(Start::new(experiment)), Outcome::Finished));
}
