//! Batches with and without kept samples, the memory of kept samples, and their failures.

use std::{collections::HashSet, fs, sync::Arc};

use super::*;
use crate::{
    data::{Dataset, Feed, HostBatch, HostMemory, Inspection, Loader, Position},
    experiment::{DataCache, Placement, Run},
};

const SAMPLES: usize = 60;

fn streamed(kind: DataKind, cache: DataCache, cache_in: CachePlace) -> Data {
    let (placement, folder) = (Placement::Streamed, std::env::temp_dir());
    let data = Data { kind, cache, cache_in, placement, cache_folder: Some(folder), ..Data::default() };
    Data { samples: SAMPLES, side: 24, flip: true, crop_padding: 2, color_jitter: 0.2, ..data }
}

fn open(data: &Data) -> Arc<Dataset> {
    Arc::new(Dataset::open(data, &Run::default()).expect("generated"))
}

/// Three epochs of batches and a test after each, with so many workers.
fn batches(set: &Arc<Dataset>, workers: usize) -> Vec<HostBatch> {
    let feed = Feed { workers, batches: 2, rounded: None };
    let mut train = Loader::train_from(Position::default(), Arc::clone(set), 7, [6, 2], feed).expect("fits");
    let mut all = Vec::new();
    for _ in 0..3 {
        all.extend((0..8).map(|_| train.recv().expect("no fault").expect("no end").clone()));
        let mut test = Loader::test_fed(Arc::clone(set), 5, feed).expect("fits");
        while let Some(batch) = test.recv().expect("no fault") {
            all.push(batch.clone());
        }
    }
    all
}

#[test]
fn samples_that_are_kept_make_the_same_batches_to_the_last_bit() {
    for kind in [DataKind::Shapes, DataKind::Masks] {
        let none = batches(&open(&streamed(kind, DataCache::None, CachePlace::Ram)), 1);
        for place in CachePlace::ALL {
            let kept = open(&streamed(kind, DataCache::Decoded, place));
            for workers in [1, 3] {
                assert!(batches(&kept, workers) == none, "{kind:?} {place:?} {workers}");
            }
        }
    }
}

#[test]
fn variants_that_are_kept_are_those_of_the_first_epochs_and_epochs_draw_among_them() {
    for kind in [DataKind::Shapes, DataKind::Masks] {
        let variants = |data: &Data, epochs: usize| -> Vec<HashSet<Vec<u32>>> {
            let set = open(data);
            let feed = Feed { workers: 2, batches: 1, rounded: None };
            let mut train = Loader::train_from(Position::default(), set, 7, [1, 1], feed).expect("fits");
            let mut found: Vec<HashSet<Vec<u32>>> = vec![HashSet::new(); epochs];
            for epoch in &mut found {
                for _ in 0..48 {
                    let batch = train.recv().expect("no fault").expect("no end");
                    let bits = batch.images().iter().map(|x| x.to_bits()).chain(batch.labels.iter().copied());
                    epoch.insert(bits.collect());
                }
            }
            found
        };
        let anew = variants(&streamed(kind, DataCache::None, CachePlace::Ram), 3);
        let first: HashSet<_> = anew[..2].iter().flatten().cloned().collect();
        let kept = variants(&streamed(kind, DataCache::Augmented(2), CachePlace::Ram), 3);
        assert_eq!(kept, variants(&streamed(kind, DataCache::Augmented(2), CachePlace::Disk), 3), "{kind:?}");
        assert!(kept.iter().flatten().all(|image| first.contains(image)), "{kind:?}: an image of another variant");
        assert!(kept[0] != kept[1] && kept[1] != kept[2], "{kind:?}: every epoch draws the same");
        assert!(!anew[2].is_subset(&first), "{kind:?}: anew, every epoch has others");
    }
}

#[test]
fn what_is_kept_is_what_was_predicted_and_not_much_less() {
    for kind in [DataKind::Shapes, DataKind::Masks] {
        for cache in [DataCache::Decoded, DataCache::Augmented(3)] {
            for place in CachePlace::ALL {
                let data = Data { samples: 600, side: 48, ..streamed(kind, cache, place) };
                let found = Inspection::of(&data, None).expect("generated");
                let predicted = HostMemory::new(&data, &found, Feed::of(&data), [12, 5]);
                let set = open(&data);
                let meter = set.meter();
                meter.reset_peak();
                let feed = Feed::of(&data);
                let mut train =
                    Loader::train_from(Position::default(), Arc::clone(&set), 7, [12, 1], feed).expect("fits");
                (0..40).for_each(|_| drop(train.recv().expect("no fault").expect("no end")));
                let mut test = Loader::test(Arc::clone(&set), 5).expect("fits");
                while test.recv().expect("no fault").is_some() {}
                drop((train, test));
                let (measured, total) = (meter.peak().live.0, predicted.total().0);
                let slack = predicted.workers.0 + total / 100;
                assert!(measured <= total && total <= measured + slack, "{data:?}: {measured} of {predicted:?}");
                let (disk, most) = (set.on_disk().0, predicted.disk.0);
                assert!(disk <= most, "{disk} of {most}");
                match place {
                    CachePlace::Ram => assert_eq!(most, 0),
                    CachePlace::Disk => assert!(most <= disk + disk / 50 + 8 * DISK_BLOCK, "{disk} of {most}"),
                }
                drop(set);
                assert!(meter.now().live.0 < 16 << 10, "{data:?}");
            }
        }
    }
}

#[test]
fn a_file_of_samples_has_no_name_and_needs_a_folder_that_can_be_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |folder: &Path| Data {
        cache_folder: Some(folder.to_owned()),
        ..streamed(DataKind::Shapes, DataCache::Decoded, CachePlace::Disk)
    };
    let set = open(&at(folder.path()));
    batches(&set, 2);
    assert!(set.on_disk() > Bytes::ZERO);
    if cfg!(unix) {
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0, "it would stay after a kill");
    }
    let missing = folder.path().join("none");
    let error = Dataset::open(&at(&missing), &Run::default()).map(drop).expect_err("no folder").to_string();
    assert!(error.starts_with("data.cache_folder: ") && error.contains("none: there is no such folder"), "{error}");
}
