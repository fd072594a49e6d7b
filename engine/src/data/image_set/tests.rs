//! Images that wait in other forms: the same batches, and the memory that they take.

use std::sync::Arc;

use super::*;
use crate::{
    data::{Dataset, Feed, HostBatch, HostMemory, Inspection, Loader, Position, images::tests::photos},
    experiment::{CachePlace, DataCache, DataKind, NormaliseWhen, Run},
};

fn shapes(placement: Placement, cache: DataCache) -> Data {
    let data = Data { kind: DataKind::Shapes, placement, cache, samples: 60, side: 24, ..Data::default() };
    Data { flip: true, crop_padding: 2, cache_folder: Some(std::env::temp_dir()), ..data }
}

fn open(data: &Data) -> Arc<Dataset> {
    Arc::new(Dataset::open(data, &Run::default()).expect("samples"))
}

/// Two epochs of batches, and a test.
fn batches(set: &Arc<Dataset>, workers: usize) -> Vec<HostBatch> {
    let feed = Feed { workers, batches: 2, rounded: None };
    let mut train = Loader::train_from(Position::default(), Arc::clone(set), 7, [6, 2], feed).expect("fits");
    let mut all: Vec<HostBatch> = (0..16).map(|_| train.recv().expect("no fault").expect("no end").clone()).collect();
    let mut test = Loader::test_fed(Arc::clone(set), 5, feed).expect("fits");
    while let Some(batch) = test.recv().expect("no fault") {
        all.push(batch.clone());
    }
    all
}

#[test]
fn images_that_wait_normalised_make_the_same_batches_to_the_last_bit() {
    let beforehand = |data: &Data| Data { normalise_when: NormaliseWhen::Beforehand, ..data.clone() };
    let digits = Data { flip: true, crop_padding: 1, ..Data::default() };
    let mut chosen = vec![digits, shapes(Placement::Host, DataCache::None)];
    for place in CachePlace::ALL {
        for cache in [DataCache::Decoded, DataCache::Augmented(2)] {
            chosen.push(Data { cache_in: place, ..shapes(Placement::Streamed, cache) });
        }
    }
    let masks: Vec<Data> = chosen[1..].iter().map(|data| Data { kind: DataKind::Masks, ..data.clone() }).collect();
    for data in chosen.into_iter().chain(masks) {
        assert!(data.has_waiting_images() && beforehand(&data).is_normalised_beforehand(), "{data:?}");
        let (one, other) = (open(&data), open(&beforehand(&data)));
        for workers in [1, 3] {
            assert!(batches(&one, workers) == batches(&other, workers), "{data:?}, {workers} workers");
        }
        for index in 0..5 {
            let pixels = |set: &Dataset| set.images().pixels(Split::Test, index).expect("pixels");
            assert_eq!(pixels(&one), pixels(&other), "{data:?}: the picture of a test sample");
        }
    }
}

#[test]
fn files_in_memory_are_those_that_are_streamed_in_any_form() {
    let some = photos(9, 90);
    let data = Data {
        kind: DataKind::Images,
        path: Some(some.path().to_owned()),
        test_fraction: 0.3,
        ..shapes(Placement::Streamed, DataCache::None)
    };
    let streamed = batches(&open(&data), 2);
    for normalise_when in NormaliseWhen::ALL {
        let held = Data { placement: Placement::Host, normalise_when, ..data.clone() };
        assert!(batches(&open(&held), 2) == streamed, "{normalise_when:?}");
    }
}

#[test]
fn images_that_wait_as_loaded_are_resized_for_each_batch() {
    for (placement, cache) in [(Placement::Host, DataCache::None), (Placement::Streamed, DataCache::Decoded)] {
        let data = Data { load_side: 96, flip: false, crop_padding: 0, ..shapes(placement, cache) };
        let small = open(&Data { side: 96, load_side: 0, ..data.clone() });
        let set = open(&data);
        assert_eq!(set.facts().image(), Ok([24, 24, 3]));
        for index in 0..4 {
            let large = small.images().pixels(Split::Test, index).expect("pixels");
            let own = set.images().pixels(Split::Test, index).expect("pixels");
            assert_eq!(own, crate::data::resize::pixels(&large, 96, 24));
        }
        let one = batches(&set, 1);
        assert!(one.iter().all(|batch| batch.images().len() == batch.len * 24 * 24 * 3));
        assert!(batches(&set, 4) == one, "for any number of threads");
    }
}

#[test]
fn their_host_memory_is_what_was_predicted() {
    let mut forms = Vec::new();
    for (normalise_when, load_side, flip) in [
        (NormaliseWhen::Beforehand, 0, false),
        (NormaliseWhen::Beforehand, 0, true),
        (NormaliseWhen::OnTheFly, 160, true),
    ] {
        for (placement, cache) in [(Placement::Host, DataCache::None), (Placement::Streamed, DataCache::Decoded)] {
            for test_fraction in [0.1, 0.8] {
                let data = Data { normalise_when, load_side, test_fraction, samples: 500, ..shapes(placement, cache) };
                forms.push(Data { flip, crop_padding: 0, side: 48, workers: 2, ..data });
            }
        }
    }
    for data in forms {
        let found = Inspection::of(&data, None).expect("it ships");
        let predicted = HostMemory::new(&data, &found, Feed::of(&data), [32, 25]);
        let set = open(&data);
        let mut train = Loader::train(Arc::clone(&set), 1, 32, 1).expect("fits");
        for _ in 0..4 {
            for _ in 0..40 {
                drop(train.recv().expect("no fault"));
            }
            let mut test = Loader::test(Arc::clone(&set), 25).expect("fits");
            while test.recv().expect("no fault").is_some() {}
        }
        drop(train);
        let (measured, total) = (set.meter().peak().live.0, predicted.total().0);
        let slack = predicted.workers.0 + total / 100;
        assert!(measured <= total && total <= measured + slack, "{data:?}: {measured} of {total}, {predicted:?}");
    }
}
