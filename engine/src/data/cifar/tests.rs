//! Good folders with any of the training files, and bad ones.

use std::fs;

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::{
    data::{Dataset, Split},
    experiment::{Data, DataKind, Placement, Run},
};

fn batch(count: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for i in 0..count {
        bytes.push((i % 10) as u8);
        bytes.extend((0..3 * PLANE).map(|k| (k / PLANE * 100 + k % PLANE % 50 + i) as u8));
    }
    bytes
}

fn folder(files: &[(&str, Vec<u8>)]) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, bytes) in files {
        fs::write(folder.path().join(name), bytes).expect("a writable folder");
    }
    folder
}

fn open_set(folder: &TempDir) -> Result<Dataset> {
    let data = Data { kind: DataKind::Cifar10, path: Some(folder.path().to_owned()), ..Data::default() };
    Dataset::open(&data, &Run::default())
}

#[test]
fn any_of_the_training_files_will_do_and_planes_become_pixels() {
    let good = folder(&[("data_batch_2.bin", batch(7)), ("data_batch_5.bin", batch(4)), ("test_batch.bin", batch(3))]);
    let expected = DatasetInfo::one_label(Input::Image { height: 32, width: 32, channels: 3 }, 10, 11, 3);
    assert_eq!(CIFAR10.facts(good.path(), Placement::Host).expect("good"), expected);
    let set = open_set(&good).expect("good");
    assert_eq!(set.facts(), &expected);
    assert_eq!(
        (set.images().label(Split::Train, 6), set.images().label(Split::Train, 7), set.images().label(Split::Test, 2)),
        (6, 0, 2)
    );
    assert_eq!(set.images().pixels(Split::Train, 1).expect("in memory")[..6], [1, 101, 201, 2, 102, 202]);
}

#[test]
fn streamed_samples_are_those_in_memory_also_past_the_first_file() {
    let files = folder(&[("data_batch_2.bin", batch(7)), ("data_batch_5.bin", batch(4)), ("test_batch.bin", batch(3))]);
    let open = |placement| {
        let path = Some(files.path().to_owned());
        Dataset::open(&Data { kind: DataKind::Cifar10, path, placement, ..Data::default() }, &Run::default())
    };
    let (held, streamed) = (open(Placement::Host).expect("good"), open(Placement::Streamed).expect("good"));
    assert_eq!((held.facts(), held.scaling()), (streamed.facts(), streamed.scaling()));
    for (split, count) in [(Split::Train, 11), (Split::Test, 3)] {
        for index in 0..count {
            let sample = |set: &Dataset| (set.images().pixels(split, index), set.images().label(split, index));
            assert_eq!(sample(&held), sample(&streamed));
        }
    }
}

#[test]
fn what_is_missing_is_named() {
    for (files, name) in [
        (vec![("test_batch.bin", batch(1))], "no data_batch_1.bin"),
        (vec![("data_batch_1.bin", batch(1))], "no test_batch.bin"),
    ] {
        let error = open_set(&folder(&files)).expect_err("a file is missing").to_string();
        assert!(error.contains(name) && error.contains("choose the folder cifar-10-batches-bin"), "{error}");
    }
}

#[test]
fn every_damage_names_the_file_the_record_and_the_mend() {
    let mut relabelled = batch(4);
    relabelled[2 * SAMPLE] = 10;
    let cases: [(Vec<u8>, &str); 5] = [
        (vec![], "record 0, byte 0): 0 bytes where a record has 3073"),
        (batch(4)[..2 * SAMPLE + 100].to_vec(), "record 2, byte 6146): 100 bytes where a record has 3073"),
        ([batch(4), vec![1]].concat(), "record 4, byte 12292): 1 bytes where"),
        (relabelled, "record 2, byte 6146): class 10"),
        ([vec![0x1f, 0x8b], batch(1)[2..].to_vec()].concat(), "this is gzip; unpack it first"),
    ];
    for (bytes, expected) in cases {
        let bad = folder(&[("data_batch_1.bin", batch(2)), ("data_batch_3.bin", bytes), ("test_batch.bin", batch(2))]);
        let error = open_set(&bad).expect_err("a bad file").to_string();
        assert!(error.contains("data_batch_3.bin") && error.contains(expected), "{error}\nexpected: {expected}");
    }
}

#[test]
fn a_file_past_the_limit_is_refused_before_memory_is_taken() {
    let long = folder(&[("data_batch_1.bin", vec![]), ("test_batch.bin", batch(1))]);
    let file = fs::OpenOptions::new().write(true).open(long.path().join("data_batch_1.bin")).expect("just written");
    file.set_len(SAMPLE as u64 * 1_000_000).expect("sparse files");
    let error = open_set(&long).expect_err("too long").to_string();
    assert!(error.contains("too long for a CIFAR-10 batch"), "{error}");
}

fn hundred(count: usize) -> Vec<u8> {
    let records = batch(count);
    let samples = records.chunks_exact(SAMPLE).enumerate();
    samples.flat_map(|(i, sample)| [&[(i % 20) as u8, (i * 9 % 100) as u8], &sample[1..]].concat()).collect()
}

fn open_hundred(folder: &TempDir) -> Result<Dataset> {
    let data = Data { kind: DataKind::Cifar100, path: Some(folder.path().to_owned()), ..Data::default() };
    Dataset::open(&data, &Run::default())
}

#[test]
fn of_cifar_100_the_fine_label_is_the_class() {
    let good = folder(&[("train.bin", hundred(25)), ("test.bin", hundred(12))]);
    let expected = DatasetInfo::one_label(Input::Image { height: 32, width: 32, channels: 3 }, 100, 25, 12);
    assert_eq!(CIFAR100.facts(good.path(), Placement::Host).expect("good"), expected);
    let set = open_hundred(&good).expect("good");
    assert_eq!(
        (
            set.images().label(Split::Train, 11),
            set.images().label(Split::Train, 12),
            set.images().label(Split::Test, 2)
        ),
        (99, 8, 18)
    );
    assert_eq!(set.images().pixels(Split::Train, 1).expect("in memory")[..6], [1, 101, 201, 2, 102, 202]);
}

#[test]
fn cifar_100_is_read_as_strictly() {
    let (mut coarse, mut fine) = (hundred(4), hundred(4));
    coarse[2 * 3074] = 20;
    fine[3 * 3074 + 1] = 100;
    for (bytes, expected) in [
        (batch(4), "record 3, byte 9222): 3070 bytes where a record has 3074"),
        (coarse, "record 2, byte 6148): class 20, but classes are 0 to 19: not CIFAR-100"),
        (fine, "record 3, byte 9223): class 100, but classes are 0 to 99: not CIFAR-100"),
    ] {
        let bad = folder(&[("train.bin", bytes), ("test.bin", hundred(1))]);
        let error = open_hundred(&bad).expect_err("a bad file").to_string();
        assert!(error.contains("train.bin") && error.contains(expected), "{error}\nexpected: {expected}");
    }
    let error = open_hundred(&folder(&[("train.bin", hundred(1))])).expect_err("a file is missing").to_string();
    assert!(error.contains("no test.bin in it; choose the folder cifar-100-binary"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn no_damage_makes_it_panic(
        changes in prop::collection::vec((0..2 * SAMPLE, any::<u8>()), 0..4),
        label in prop::option::of(any::<u8>()),
        len in prop::option::of(0..3 * SAMPLE),
    ) {
        let mut bytes = batch(2);
        changes.into_iter().for_each(|(place, value)| bytes[place] = value);
        bytes[SAMPLE] = label.unwrap_or(1);
        bytes.resize(len.unwrap_or(bytes.len()), 0);
        let damaged = folder(&[("data_batch_1.bin", bytes), ("test_batch.bin", batch(1))]);
        if let Err(error) = CIFAR10.samples(damaged.path()) {
            prop_assert!(matches!(error, Error::File { .. }), "{:?}", error);
        }
    }
}
