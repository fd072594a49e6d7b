//! Compressed files and ranges that are damaged or of another run: refused in words.

use std::fs;

use plimsoll_engine::{
    experiment::{DataKind, ModelKind, Prune, PruneKind, QuantiseKind},
    train::Checkpoint,
};

use super::{begun, digits, exported, tiny, trained, written};

#[test]
fn ranges_of_another_step_and_damaged_files_are_refused_in_words() {
    let folder = tempfile::tempdir().expect("a folder");
    let experiment = digits(QuantiseKind::After);
    trained(&experiment, folder.path());
    let refused = || written(&experiment, folder.path()).expect_err("refused").to_string();
    let ranges = folder.path().join(Checkpoint::RANGES);
    let whole = fs::read(&ranges).expect("kept");
    fs::write(&ranges, &whole[..whole.len() - 1]).expect("ours");
    assert!(refused().contains("ranges.safetensors"), "{}", refused());
    let text = String::from_utf8_lossy(&whole).into_owned();
    let at = text.find("plimsoll_step\":\"").expect("a step") + "plimsoll_step\":\"".len();
    let mut other = whole.clone();
    other[at] = b'9';
    fs::write(&ranges, &other).expect("ours");
    assert!(refused().contains("does not have the ranges of the model after step"), "{}", refused());
    fs::remove_file(&ranges).expect("ours");
    assert!(refused().contains("there is no such file"), "{}", refused());
    fs::write(&ranges, &whole).expect("ours");
    let mut wider = experiment.clone();
    wider.model.width = 32;
    let said = written(&wider, folder.path()).expect_err("of another model").to_string();
    assert!(said.contains("has other extents than the run's model"), "{said}");
    assert!(!folder.path().join("compressed.safetensors").exists(), "nothing is left of what was refused");
    assert!(written(&experiment, folder.path()).is_ok());
    // Those of another run, which did as many steps.
    let other = tempfile::tempdir().expect("a folder");
    let mut seeded = experiment.clone();
    seeded.run.seed += 1;
    trained(&seeded, other.path());
    fs::copy(other.path().join(Checkpoint::RANGES), &ranges).expect("ours");
    assert!(refused().contains("the ranges are of another checkpoint"), "{}", refused());
}

#[test]
fn a_compressed_file_of_another_model_or_with_parts_that_do_not_agree_begins_no_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut e = tiny(ModelKind::Mlp);
    (e.data.kind, e.run.steps) = (DataKind::Digits, Some(4));
    e.prune = Prune { kind: PruneKind::Magnitude, final_sparsity: 0.5, every: 1, ..Prune::default() };
    let (_, _, tensors, _) = exported(&e, folder.path());
    let path = folder.path().join("compressed.safetensors");
    assert!(begun(&e, &path).is_ok());
    let mut wider = e.clone();
    wider.model.width *= 2;
    let said = begun(&wider, &path).expect_err("another width").to_string();
    assert!(said.contains("tensors have other extents") && said.contains("model.width="), "{said}");
    // A bit of a mask, then the place where a row begins.
    let whole = fs::read(&path).expect("written");
    for part in ["bitmask", "row_offsets"] {
        let (_, (.., bytes)) = tensors.iter().find(|(name, _)| name.ends_with(part)).expect("a mask");
        let at = whole.windows(bytes.len()).position(|window| window == bytes).expect("its place");
        let mut damaged = whole.clone();
        damaged[at + bytes.len() / 2] ^= 1;
        fs::write(&path, damaged).expect("ours");
        let said = begun(&e, &path).expect_err("damaged").to_string();
        assert!(said.contains("is not the part of a weight that its other parts are of"), "{part}: {said}");
    }
    fs::write(&path, &whole[..whole.len() - 1]).expect("ours");
    assert!(begun(&e, &path).is_err());
    fs::write(&path, &whole).expect("ours");
    let said = Checkpoint::open(&path).expect_err("no checkpoint").to_string();
    assert!(said.contains("has weights, and not where a run stood") && said.contains("weights.path"), "{said}");
}

#[test]
fn scales_that_are_none_and_a_description_that_cannot_be_read_begin_no_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let e = digits(QuantiseKind::After);
    let (_, _, tensors, _) = exported(&e, folder.path());
    let path = folder.path().join("compressed.safetensors");
    let whole = fs::read(&path).expect("written");
    let says = |at: usize, bytes: &[u8]| {
        let mut damaged = whole.clone();
        damaged[at..at + bytes.len()].copy_from_slice(bytes);
        fs::write(&path, damaged).expect("ours");
        begun(&e, &path).map_or_else(|error| error.to_string(), |_| "it begins".to_owned())
    };
    let place = |bytes: &[u8]| whole.windows(bytes.len()).position(|window| window == bytes).expect("its place");
    for part in ["weight_scale", "input_scale"] {
        let (name, (.., bytes)) = tensors.iter().find(|(name, _)| name.ends_with(part)).expect("integers");
        for number in [f32::NAN, f32::INFINITY, -0.5] {
            let said = says(place(bytes), &number.to_le_bytes());
            let what = format!("(tensor {name}): element 0 is {number}, which is not a scale");
            assert!(said.contains(&what), "{what}: {said}");
        }
    }
    // All weights of the row are zero.
    let (_, (.., scales)) = tensors.iter().find(|(name, _)| name.ends_with("weight_scale")).expect("integers");
    assert_eq!(says(place(scales), &0.0_f32.to_le_bytes()), "it begins");
    let said = says(place(b"{\\\"config_groups"), b"!");
    assert!(said.contains("quantization_config") && said.contains("is not JSON"), "{said}");
}
