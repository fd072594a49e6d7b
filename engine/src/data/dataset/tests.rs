//! The split, the scaling, and which choice a set is for.

use std::collections::HashSet;

use super::*;
use crate::{
    data::{
        image_set::split,
        scaling::{Histograms, scaling},
    },
    experiment::DataKind,
};

fn open(kind: DataKind, seed: u64) -> Dataset {
    let data = Data { kind, samples: 500, ..Data::default() };
    Dataset::open(&data, &Run { seed, ..Run::default() }).expect("ships with the program")
}

#[test]
fn the_split_is_disjoint_complete_and_decided_by_the_seed() {
    let classes: Vec<u8> = (0..1797).map(|i| (i % 7) as u8).collect();
    let (train, test) = split(3, &classes, 359);
    assert_eq!((train.len(), test.len()), (1438, 359));
    assert_eq!(train.iter().chain(&test).collect::<HashSet<_>>().len(), 1797);
    assert_eq!((train, test.clone()), split(3, &classes, 359));
    assert_ne!(test, split(4, &classes, 359).1);

    let counts = |set: &Dataset| {
        let mut images: Vec<Vec<u8>> = [Split::Train, Split::Test]
            .into_iter()
            .flat_map(|split| (0..set.count(split)).map(move |i| (split, i)))
            .map(|(split, i)| set.images().pixels(split, i).expect("in memory").to_vec())
            .collect();
        images.sort_unstable();
        images
    };
    // Whatever the seed, both parts together are the same samples.
    assert_eq!(counts(&open(DataKind::Digits, 1)), counts(&open(DataKind::Digits, 2)));
}

#[test]
fn every_class_is_in_both_parts_in_about_equal_numbers() {
    for kind in [DataKind::Digits, DataKind::Shapes] {
        let set = open(kind, 1);
        for split in [Split::Train, Split::Test] {
            let mut counts = [0usize; 10];
            (0..set.count(split)).for_each(|i| counts[set.images().label(split, i) as usize] += 1);
            let expected = set.count(split) / 10;
            let tolerated = if kind == DataKind::Shapes { 1 } else { expected / 10 };
            assert!(counts.iter().all(|n| n.abs_diff(expected) <= tolerated), "{kind:?} {split:?} {counts:?}");
        }
    }
}

#[test]
fn the_bytes_of_a_set_are_those_predicted() {
    for kind in [DataKind::Digits, DataKind::Shapes, DataKind::Masks] {
        let data = Data { kind, ..Data::default() };
        let set = Dataset::open(&data, &Run::default()).expect("ships with the program");
        let measured = set.meter().now().live;
        let predicted = Inspection::of(&data, None).expect("it ships").host_bytes();
        // Threads that generate shapes free memory that this one allocated for them, and the other way round.
        let tolerated = if kind == DataKind::Digits { 0 } else { predicted.0 / 100 };
        assert!(predicted.0.abs_diff(measured.0) <= tolerated, "{kind:?}: {predicted} {measured}");
    }
}

#[test]
fn training_images_have_mean_zero_and_deviation_one() {
    for kind in [DataKind::Digits, DataKind::Shapes] {
        let set = open(kind, 1);
        let (mut batch, count) = (HostBatch::default(), set.count(Split::Train));
        set.batch_layout(Split::Train).prepare(&mut batch, count).expect("small");
        set.fill(
            Split::Train,
            0,
            0..count,
            &mut batch,
            Filling { workers: 2, ..Filling::alone(&AtomicBool::new(false)) },
        )
        .expect("in memory");
        let images = batch.images();
        let n = images.len() as f64;
        let mean = images.iter().map(|x| f64::from(*x)).sum::<f64>() / n;
        let variance = images.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>() / n;
        assert!(mean.abs() < 1e-3 && (variance - 1.0).abs() < 1e-3, "{kind:?} {mean} {variance}");
    }
}

#[test]
fn a_set_knows_which_choice_it_is_for() {
    let set = open(DataKind::Shapes, 1);
    let data = Data { kind: DataKind::Shapes, samples: 500, ..Data::default() };
    assert!(set.is_for(&data, &Run { steps: Some(3), ..Run::default() }));
    assert!(!set.is_for(&data, &Run { seed: 2, ..Run::default() }));
    assert!(!set.is_for(&Data { samples: 501, ..data }, &Run::default()));
}

#[test]
fn an_image_that_never_varies_is_scaled_to_zero() {
    let mut histograms = Histograms::new(1);
    histograms.add(&[7; 4]);
    assert_eq!(scaling(&histograms, [1, 2, 1]), [1.0, 1.0, -7.0, -7.0]);
}
