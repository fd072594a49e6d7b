//! Windows of good files, and every kind of file that is not text.

use std::{collections::HashSet, path::PathBuf};

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::{
    data::{Dataset, HostBatch, Inputs, Loader},
    experiment::{DataKind, Run},
};

fn file(bytes: &[u8]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("some.txt");
    fs::write(&path, bytes).expect("a writable folder");
    (folder, path)
}

fn chosen(path: &Path, length: usize, test_fraction: f64) -> Data {
    let (kind, path, placement) = (DataKind::Text, Some(path.to_owned()), Placement::Streamed);
    Data { kind, path, length, test_fraction, placement, ..Data::default() }
}

fn rows(text: &Text, split: Split, epoch: u64, length: usize) -> Vec<Vec<u32>> {
    let (train, test) = text.counts().expect("it has opened a file");
    let count = if split == Split::Train { train } else { test };
    let row = |index| {
        let mut row = vec![0; length + 1];
        text.row(split, index, epoch, &mut row).expect("readable");
        row
    };
    (0..count).map(row).collect()
}

#[test]
fn windows_follow_one_another_and_never_cross_from_one_part_into_the_other() {
    // Every byte says where it is, as far as a byte can.
    let bytes: Vec<u8> = (0..250).collect();
    let (_folder, path) = file(&bytes);
    let (length, data) = (7, chosen(&path, 7, 0.2));
    let facts = facts(&path, &data).expect("long enough");
    assert_eq!((facts.labels_per_sample, facts.scored_labels, facts.classes), (7, 7, 256));
    let text = Text::open(&path, &data, 1).expect("readable");
    assert_eq!(text.counts(), Some((facts.train, facts.test)));
    let mut starts = HashSet::new();
    for epoch in 0..40 {
        let rows = rows(&text, Split::Train, epoch, length);
        starts.insert(rows[0][0]);
        for row in &rows {
            assert!(row.windows(2).all(|pair| pair[1] == pair[0] + 1) && row[length] < 200, "{row:?}");
        }
        assert!(rows.windows(2).all(|pair| pair[1][0] == pair[0][0] + 7));
    }
    assert_eq!(starts, (0..7).collect());
    let test = rows(&text, Split::Test, 0, length);
    assert_eq!((test[0][0], test.len(), test[6][7]), (200, 7, 249));
}

#[test]
fn a_huge_file_costs_nothing_to_look_at_and_is_read_all_over() {
    let (_folder, path) = file(b"");
    let huge = 50u64 << 30;
    // Sparse: as long as that, and nearly nothing on the disk.
    fs::OpenOptions::new().write(true).open(&path).and_then(|file| file.set_len(huge)).expect("sparse files");
    let data = chosen(&path, 64, 0.1);
    let facts = facts(&path, &data).expect("long enough");
    assert!(facts.train <= MOST_TRAIN && facts.train > MOST_TRAIN / 2, "{}", facts.train);
    assert!(facts.test <= MOST_TEST && facts.test > MOST_TEST / 2, "{}", facts.test);
    let text = Text::open(&path, &data, 1).expect("readable");
    let last = text.start(Split::Train, facts.train - 1, 0);
    assert!(last > huge / 10 * 8 && last + 64 < huge / 10 * 9, "{last}");
    assert!(text.start(Split::Test, facts.test - 1, 0) + 64 < huge);
    let mut row = [1; 65];
    text.row(Split::Test, facts.test - 1, 0, &mut row).expect("readable");
    assert_eq!(row, [0; 65]);
}

#[test]
fn windows_of_a_file_in_memory_are_those_read_from_it_and_a_huge_one_is_not_held() {
    let bytes: Vec<u8> = (0..3000u32).map(|i| (i * i / 7) as u8).collect();
    let (_folder, path) = file(&bytes);
    let streamed = Text::open(&path, &chosen(&path, 9, 0.3), 1).expect("readable");
    let held = Text::open(&path, &Data { placement: Placement::Host, ..chosen(&path, 9, 0.3) }, 1).expect("readable");
    for (split, epoch) in [(Split::Train, 0), (Split::Train, 7), (Split::Test, 0)] {
        assert_eq!(rows(&streamed, split, epoch, 9), rows(&held, split, epoch, 9));
    }
    fs::OpenOptions::new().write(true).open(&path).and_then(|file| file.set_len(3 << 30)).expect("sparse files");
    for placement in [Placement::Host, Placement::Device] {
        let error = facts(&path, &Data { placement, ..chosen(&path, 9, 0.3) }).expect_err("too large").to_string();
        let expected =
            "data.placement: the file has 3.00 GiB, more than the 1.00 GiB that are held; write \"streamed\"";
        assert_eq!(error, expected);
    }
}

#[test]
fn what_is_no_text_is_refused_in_plain_words() {
    let said = |path: &Path, length| facts(path, &chosen(path, length, 0.2)).expect_err("refused").to_string();
    let (folder, path) = file(b"");
    assert!(said(&path, 8).contains("it is empty; choose a file"), "{}", said(&path, 8));
    assert!(said(folder.path(), 8).contains("this is a folder; choose a file"));
    assert!(said(&folder.path().join("none"), 8).contains("not found"));
    let (_folder, path) = file(&[7; 20]);
    assert!(said(&path, 12).contains("too few to train on with windows of 12"), "{}", said(&path, 12));
    assert!(said(&path, 4).contains("too few to test on with windows of 4"), "{}", said(&path, 4));
    assert!(said(&path, 0).starts_with("data.length: 0 is not a length"));
    assert!(said(&path, usize::MAX).starts_with("data.length: "));
    #[cfg(unix)]
    assert!(said(Path::new("/dev/null"), 8).contains("this is a pipe or a device; choose a file"));
}

#[test]
fn a_file_that_shrinks_under_a_run_is_an_error_and_one_that_changes_another_set() {
    let (_folder, path) = file(&[9; 4000]);
    let (data, run) = (chosen(&path, 16, 0.5), Run::default());
    let set = std::sync::Arc::new(Dataset::open(&data, &run).expect("readable"));
    assert!(set.is_for(&data, &run));
    fs::OpenOptions::new().write(true).open(&path).and_then(|file| file.set_len(10)).expect("ours");
    assert!(!set.is_for(&data, &run));
    let mut loader = Loader::train(set, 1, 4, 1).expect("enough samples");
    let error = loader.recv().expect_err("nothing to read").to_string();
    assert!(error.contains("it had 3.91 KiB and is shorter now; begin the run again"), "{error}");
}

#[test]
fn a_batch_holds_tokens_and_their_successors() {
    let bytes: Vec<u8> = (0..=255).cycle().take(3000).collect();
    let (_folder, path) = file(&bytes);
    let set = Dataset::open(&chosen(&path, 10, 0.1), &Run::default()).expect("readable");
    let mut loader = Loader::train(std::sync::Arc::new(set), 1, 5, 1).expect("enough samples");
    for _ in 0..20 {
        let batch = loader.recv().expect("no fault").expect("no end");
        let HostBatch { inputs: Inputs::Tokens(tokens), labels, len, .. } = &*batch else { panic!("no tokens") };
        assert_eq!((tokens.len(), labels.len(), *len), (50, 50, 5));
        assert!(tokens.iter().zip(labels).all(|(token, label)| *label == (token + 1) % 256));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_bytes_and_no_choice_make_it_panic_or_mix_the_parts(
        bytes in prop::collection::vec(any::<u8>(), 0..600),
        length in 0usize..80,
        test_fraction in prop_oneof![0.0..=1.0f64, Just(f64::NAN), Just(1e-300), Just(1.0 - 1e-16)],
        seed: u64,
        epoch in 0u64..100,
    ) {
        let (_folder, path) = file(&bytes);
        let data = chosen(&path, length, test_fraction);
        let text = match (facts(&path, &data), Text::open(&path, &data, seed)) {
            (Ok(facts), Ok(text)) => {
                prop_assert_eq!(text.counts(), Some((facts.train, facts.test)));
                text
            }
            (Err(_), _) => return Ok(()),
            (Ok(_), Err(error)) => return Err(TestCaseError::fail(error.to_string())),
        };
        let (train, test) = text.counts().expect("it has opened a file");
        let end = |split, count: usize| text.start(split, count - 1, epoch) + length as u64;
        prop_assert!(train > 0 && test > 0);
        prop_assert!(end(Split::Train, train) < text.start(Split::Test, 0, 0));
        prop_assert!(end(Split::Test, test) < bytes.len() as u64);
        for row in rows(&text, Split::Test, epoch, length).iter().chain(&rows(&text, Split::Train, epoch, length)) {
            let bytes_of: Vec<u8> = row.iter().map(|token| *token as u8).collect();
            prop_assert!(bytes.windows(length + 1).any(|window| window == bytes_of));
        }
    }
}
