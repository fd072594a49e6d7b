//! Batches of a folder: the same for the same seed, however they are made and kept; and their memory.

use super::*;

#[test]
fn the_same_seed_gives_the_same_batches_with_and_without_a_cache() {
    let some = folder(10);
    let cached = data(&some);
    let decoded = Data { placement: Placement::Streamed, ..data(&some) };
    let first = batches(&cached, 1, 20);
    assert_eq!(first, batches(&cached, 1, 20));
    assert_eq!(first, batches(&decoded, 1, 20));
    assert_ne!(first, batches(&cached, 2, 20));
    let images: HashSet<Vec<u32>> = first[..4]
        .iter()
        .flat_map(|batch| batch.images().chunks_exact(SIDE * SIDE * 3))
        .map(|image| image.iter().map(|x| x.to_bits()).collect())
        .collect();
    assert_eq!(images.len(), 20, "an epoch has each sample once");
}

#[test]
fn augmentation_repeats_with_the_seed_changes_by_epoch_and_leaves_test_data() {
    let some = folder(10);
    let plain = data(&some);
    let varied = Data { flip: true, crop_padding: 3, color_jitter: 0.3, ..data(&some) };
    let first = batches(&varied, 1, 20);
    assert_eq!(first, batches(&varied, 1, 20));
    assert_eq!(first, batches(&Data { placement: Placement::Streamed, ..varied.clone() }, 1, 20));
    assert_ne!(first, batches(&plain, 1, 20));
    let labels = |batches: &[HostBatch]| batches.iter().flat_map(|batch| batch.labels.clone()).collect::<Vec<_>>();
    assert_eq!(labels(&first), labels(&batches(&plain, 1, 20)));
    let images = |batches: &[HostBatch]| -> HashSet<Vec<u32>> {
        let all = batches.iter().flat_map(|batch| batch.images().chunks_exact(SIDE * SIDE * 3));
        all.map(|image| image.iter().map(|x| x.to_bits()).collect()).collect()
    };
    assert!(images(&first[..4]).is_disjoint(&images(&first[4..8])), "each epoch has its own variants");
    let test = |data: &Data| {
        let mut loader = Loader::test(Arc::new(open(data).expect("good")), 3).expect("fits");
        loader.recv().expect("no fault").expect("no end").clone()
    };
    assert_eq!(test(&varied), test(&plain));
}

#[test]
fn the_bytes_of_listing_and_files_are_those_predicted() {
    let some = folder(20);
    let folder = some.path();
    let (listing_bytes, listing) = measured(|| Listing::read(folder).expect("good"));
    // The listing itself stands where its owner wants it.
    let predicted = listing.bytes() - size_of::<Listing>();
    assert!((listing_bytes..listing_bytes + 64).contains(&predicted), "{predicted} {listing_bytes}");
    let listing = Weighed::new(|| Ok(listing)).expect("it was read");
    let read_all = || {
        let images = Images::open(Arc::clone(&listing), &data(&some), 1).expect("good");
        for split in [Split::Train, Split::Test] {
            (0..images.count(split)).for_each(|index| drop(images.pixels(split, index).expect("readable")));
        }
        images
    };
    // Memory that a library keeps for a thread's next image is there before.
    drop(read_all());
    let (measured, _images) = measured(read_all);
    assert_eq!(own_bytes(60), measured);
}

/// Two classes with so many JPEG files each, of different sizes.
pub(in crate::data) fn photos(each: u32, size: u32) -> tempfile::TempDir {
    let some = tempfile::tempdir().expect("a folder");
    for class in ["ash", "birch"] {
        fs::create_dir(some.path().join(class)).expect("a writable folder");
        for i in 0..each {
            let (width, height) = (size, size * 9 / 11 + i % 3);
            let image = RgbImage::from_fn(width, height, |x, y| Rgb([(x * 7 + i) as u8, (y * 5) as u8, (x ^ y) as u8]));
            image.save(some.path().join(class).join(format!("{i:03}.jpg"))).expect("a writable folder");
        }
    }
    some
}

#[test]
fn workers_and_what_is_kept_of_files_change_no_batch_and_later_epochs_read_nothing() {
    let some = photos(9, 90);
    let batches = |cache, cache_in, workers| {
        let (placement, folder) = (Placement::Streamed, Some(std::env::temp_dir()));
        let data = Data { placement, cache, cache_in, cache_folder: folder, workers, flip: true, ..data(&some) };
        let set = Arc::new(open(&data).expect("good"));
        let mut train = Loader::train(Arc::clone(&set), 1, 4, 1).expect("fits");
        let mut take = |count| -> Vec<HostBatch> {
            (0..count).map(|_| train.recv().expect("no fault").expect("no end").clone()).collect()
        };
        let mut all = take(6);
        let mut test = Loader::test(Arc::clone(&set), 6).expect("fits");
        while let Some(batch) = test.recv().expect("no fault") {
            all.push(batch.clone());
        }
        let first = set.meter().bytes_read();
        all.extend(take(12));
        (all, first, set.meter().bytes_read() - first)
    };
    let (none, first, later) = batches(DataCache::None, CachePlace::Ram, 1);
    assert!(first > Bytes::kib(10) && later > Bytes::kib(10), "{first} {later}");
    for workers in [1, 2, 5] {
        assert!(batches(DataCache::None, CachePlace::Ram, workers).0 == none, "{workers}");
        for place in CachePlace::ALL {
            assert!(batches(DataCache::Decoded, place, workers).0 == none, "{place:?} {workers}");
        }
    }
    let (_, _, later) = batches(DataCache::Decoded, CachePlace::Ram, 2);
    // Samples that an epoch leaves out, because they fill no whole step, are met later.
    assert!(later < first, "{later} of {first}");
}

/// Samples a second with one worker and with two, the best of several; run it while nothing else runs.
#[test]
#[ignore = "a measurement"]
fn two_workers_in_place_of_one() {
    let some = photos(128, 640);
    let mut best = [0.0f64; 2];
    for _ in 0..5 {
        for (workers, best) in (1..).zip(&mut best) {
            let data = Data { placement: Placement::Streamed, workers, side: 96, prefetch: 2, ..data(&some) };
            let set = Arc::new(open(&data).expect("good"));
            let mut train = Loader::train(set, 1, 32, 1).expect("fits");
            drop(train.recv().expect("no fault"));
            let begun = std::time::Instant::now();
            (0..12).for_each(|_| drop(train.recv().expect("no fault")));
            *best = best.max(12.0 * 32.0 / begun.elapsed().as_secs_f64());
        }
    }
    println!(
        "{:.0} samples a second with one worker, {:.0} with two: {:.2} times",
        best[0],
        best[1],
        best[1] / best[0]
    );
}

#[test]
fn host_memory_of_files_is_what_was_predicted_and_not_far_less() {
    let some = photos(12, 220);
    for (placement, workers, prefetch) in
        [(Placement::Streamed, 1, 1), (Placement::Streamed, 2, 3), (Placement::Host, 2, 0)]
    {
        let data = Data { placement, workers, prefetch, flip: true, ..data(&some) };
        let found = Inspection::of(&data, None).expect("good");
        let predicted = HostMemory::new(&data, &found, Feed::of(&data), [4, 6]);
        let set = Arc::new(open(&data).expect("good"));
        let meter = set.meter();
        meter.reset_peak();
        let mut train = Loader::train(Arc::clone(&set), 1, 4, 1).expect("fits");
        for _ in 0..12 {
            drop(train.recv().expect("no fault").expect("no end"));
        }
        let mut test = Loader::test(Arc::clone(&set), 6).expect("fits");
        while test.recv().expect("no fault").is_some() {}
        drop((train, test));
        let (measured, total) = (meter.peak().live, predicted.total());
        // Threads may never be at their peaks at once, and the listing does not belong to the set.
        assert!(
            measured <= total && total.0 <= measured.0 + predicted.workers.0 + (64 << 10),
            "{measured} of {predicted:?}"
        );
    }
}

#[test]
fn the_file_that_takes_most_to_decode_is_found_wherever_it_is_and_whatever_its_kind() {
    let some = photos(70, 40);
    let at = |name: &str| some.path().join("ash").join(name);
    RgbImage::from_pixel(700, 700, Rgb([9, 9, 9])).save(at("033-large.jpg")).expect("writable");
    // A larger one is cut short, and is not what others are judged by.
    RgbImage::from_pixel(900, 900, Rgb([9, 9, 9])).save(at("032-broken.jpg")).expect("writable");
    let whole = fs::read(at("032-broken.jpg")).expect("readable");
    fs::write(at("032-broken.jpg"), &whole[..whole.len() - 2]).expect("writable");
    // Fewer pixels, and more bytes for each.
    image::RgbaImage::from_pixel(690, 690, image::Rgba([9, 9, 9, 9])).save(at("034-clear.png")).expect("writable");
    let data = Data { placement: Placement::Streamed, workers: 2, ..data(&some) };
    let found = Inspection::of(&data, None).expect("good");
    let predicted = HostMemory::new(&data, &found, Feed::of(&data), [4, 6]);
    let listing = found.listing().expect("files");
    let [each, two, eight] = [1, 2, 8].map(|at_once| super::decoding_bytes(listing, SIDE, at_once));
    assert!(each >= 690 * 690 * 4 && two >= each + 700 * 700 * 3, "{each} {two}");
    // The broken one is allowed as much as the largest whole one; the others are small.
    assert!((two..2 * two).contains(&(eight - 5 * (256 << 10))), "{two} {eight}");
    let set = Arc::new(open(&data).expect("good"));
    set.meter().reset_peak();
    let mut train = Loader::train(Arc::clone(&set), 1, 4, 1).expect("fits");
    (0..27).for_each(|_| drop(train.recv().expect("no fault").expect("no end")));
    let mut test = Loader::test(Arc::clone(&set), 6).expect("fits");
    while test.recv().expect("no fault").is_some() {}
    drop((train, test));
    let measured = set.meter().peak().live;
    assert!(measured <= predicted.total() && measured.0 as usize > each, "{measured} of {predicted:?}");
}
