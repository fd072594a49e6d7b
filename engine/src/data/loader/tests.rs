//! Properties that the trainer relies on: order, completeness, bounds, and an end in every case.

use std::{
    collections::HashSet,
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    time::Duration,
};

use super::*;
use crate::{
    data::{HostMemory, Inputs, Inspection},
    experiment::{Data, DataKind, Placement, Run},
    memory::probe::{Meter, meter_this_thread},
    tensor::{DType, HostSlice},
};

/// As many as there are if nothing else is chosen.
const BUFFERS: usize = 3;

fn digits() -> Arc<Dataset> {
    Arc::new(Dataset::open(&Data::default(), &Run::default()).expect("the digits ship"))
}

fn take(loader: &mut Loader, count: usize) -> Vec<HostBatch> {
    (0..count).map(|_| loader.recv().expect("no fault").expect("no end").clone()).collect()
}

#[test]
fn the_same_seed_gives_the_same_batches_and_another_seed_others() {
    let set = digits();
    let run = |seed| take(&mut Loader::train(Arc::clone(&set), seed, 32, 2).expect("fits"), 100);
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn accumulation_cuts_the_same_order_of_samples_into_smaller_batches() {
    let set = digits();
    let whole = take(&mut Loader::train(Arc::clone(&set), 1, 150, 1).expect("fits"), 20);
    let parts = take(&mut Loader::train(set, 1, 50, 3).expect("fits"), 60);
    let labels = |batches: &[HostBatch]| batches.iter().flat_map(|batch| batch.labels.clone()).collect::<Vec<_>>();
    let all = |batches: &[HostBatch]| batches.iter().flat_map(|batch| batch.images().to_vec()).collect::<Vec<_>>();
    assert_eq!((labels(&whole), all(&whole)), (labels(&parts), all(&parts)));
    assert!(whole.iter().zip(parts.iter().step_by(3)).all(|(whole, part)| whole.epoch == part.epoch));
    assert_eq!(whole[19].epoch, 2);
}

#[test]
fn an_epoch_has_each_sample_at_most_once_and_drops_only_the_remainder() {
    let set = digits();
    let steps = set.facts().steps_per_epoch(3 * 50) as usize;
    let mut loader = Loader::train(Arc::clone(&set), 1, 50, 3).expect("fits");
    let mut orders = Vec::new();
    for epoch in 0..3 {
        let batches = take(&mut loader, steps * 3);
        assert!(batches.iter().all(|batch| batch.epoch == epoch && batch.len == 50));
        let images: Vec<Vec<u32>> = batches
            .iter()
            .flat_map(|batch| batch.images().chunks_exact(64))
            .map(|image| image.iter().map(|x| x.to_bits()).collect())
            .collect();
        // The digits are all different, so that images identify samples.
        assert_eq!(images.iter().collect::<HashSet<_>>().len(), steps * 150);
        orders.push(images);
    }
    assert_ne!(orders[0], orders[1]);
    assert_eq!(loader.recv().expect("no fault").expect("no end").epoch, 3);
}

#[test]
fn testing_gives_every_sample_in_order_and_then_ends() {
    let set = digits();
    let count = set.count(Split::Test);
    let mut loader = Loader::test(Arc::clone(&set), 100).expect("fits");
    let mut labels = Vec::new();
    let mut sizes = Vec::new();
    while let Some(batch) = loader.recv().expect("no fault") {
        assert_eq!(batch.images().len(), batch.len * 64);
        labels.extend_from_slice(&batch.labels);
        sizes.push(batch.len);
    }
    assert_eq!(sizes, [100, 100, 100, count - 300]);
    assert!(labels.iter().enumerate().all(|(i, label)| *label == set.images().label(Split::Test, i)));
    assert!(loader.recv().expect("no fault").is_none());
}

#[test]
fn a_step_larger_than_the_data_is_an_error() {
    let set = digits();
    let samples = set.count(Split::Train);
    for (micro, accumulation) in [(samples + 1, 1), (samples, 2), (0, 1), (1, 0), (usize::MAX, 2)] {
        let error = Loader::train(Arc::clone(&set), 1, micro, accumulation).expect_err("too large");
        assert!(error.to_string().starts_with("batch.micro: "), "{error}");
    }
    let mut whole = Loader::train(Arc::clone(&set), 1, samples, 1).expect("fits exactly");
    assert_eq!(take(&mut whole, 2)[1].epoch, 1);
    assert!(Loader::test(Arc::clone(&set), 0).is_err());
    let mut generous = Loader::test(set, usize::MAX).expect("takes what there is");
    assert_eq!(take(&mut generous, 1)[0].len, 359);
}

#[test]
fn the_thread_runs_no_further_ahead_than_its_buffers() {
    let filled = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&filled);
    let mut loader = Loader::start(BUFFERS, None, Meter::new(), move |_, _| {
        count.fetch_add(1, SeqCst);
        Ok(())
    })
    .expect("a thread");
    for taken in 1..20 {
        let batch = loader.recv().expect("no fault").expect("no end");
        std::thread::sleep(Duration::from_millis(2));
        assert!(filled.load(SeqCst) < taken + BUFFERS, "{} after {taken}", filled.load(SeqCst));
        drop(batch);
    }
}

#[test]
fn buffers_go_round_instead_of_being_made_again() {
    let mut loader = Loader::train(digits(), 1, 64, 1).expect("fits");
    let mut seen = HashSet::new();
    for _ in 0..50 {
        seen.insert(loader.recv().expect("no fault").expect("no end").images().as_ptr() as usize);
    }
    assert!(seen.len() <= BUFFERS, "{}", seen.len());
}

#[test]
fn buffers_that_are_not_filled_again_go_back_while_the_loader_is_there() {
    let set = digits();
    let count = set.count(Split::Test);
    let sample = BatchLayout::new(&Data::default(), set.facts(), Split::Test).sample_bytes();
    let meter = set.meter();
    // All batches of a test are ready at once, whether it has one or as many as there are buffers.
    for (micro, batches) in [(count, 1), (count.div_ceil(BUFFERS), BUFFERS)] {
        let mut loader = Loader::test(Arc::clone(&set), micro).expect("fits");
        let mut waiting = loader.recv().expect("no fault");
        while loader.ready().0 < batches - 1 {
            std::thread::sleep(Duration::from_millis(1));
        }
        for _ in 0..batches {
            let alive = meter.now().live.0;
            let batch = waiting.take().expect("a batch");
            let bytes = (batch.len * sample) as u64;
            drop(batch);
            assert!(meter.now().live.0 + bytes <= alive, "{alive} {} {bytes}", meter.now().live);
            waiting = loader.recv().expect("no fault");
        }
        assert!(waiting.is_none());
    }
}

#[test]
fn a_loader_of_one_batch_at_a_time_comes_to_its_end() {
    let set = digits();
    let alone = Feed { workers: 1, batches: 1, rounded: None };
    for micro in [1000, 64, usize::MAX] {
        let lessons = Loader::lessons(Arc::clone(&set), micro.min(1000), alone).expect("fits");
        let test = Loader::test_fed(Arc::clone(&set), micro, alone).expect("fits");
        for (mut loader, split) in [(lessons, Split::Train), (test, Split::Test)] {
            let mut samples = 0;
            while let Some(batch) = loader.recv().expect("no fault") {
                samples += batch.len;
            }
            assert!(samples >= set.count(split), "{micro}: {samples}");
            assert!(loader.recv().expect("no fault").is_none());
        }
    }
}

#[test]
fn dropping_a_loader_ends_its_thread_at_every_moment() {
    let set = digits();
    for taken in 0..5 {
        let mut loader = Loader::train(Arc::clone(&set), 1, 64, 1).expect("fits");
        take(&mut loader, taken);
        // Sometimes the queue is full and the thread waits for a buffer, sometimes it is at work.
        std::thread::sleep(Duration::from_millis(taken as u64));
        drop(loader);
    }
    assert_eq!(Arc::strong_count(&set), 1, "a thread still holds the data");
}

#[test]
fn a_fault_in_the_thread_reaches_the_consumer_after_what_was_ready() {
    let mut made = 0;
    let mut loader = Loader::start(BUFFERS, None, Meter::new(), move |batch, _| {
        assert!(made < 2, "out of samples");
        made += 1;
        batch.len = made;
        Ok(())
    })
    .expect("a thread");
    assert_eq!(take(&mut loader, 2).iter().map(|b| b.len).collect::<Vec<_>>(), [1, 2]);
    for _ in 0..2 {
        let error = loader.recv().expect_err("a fault");
        assert!(matches!(&error, Error::Panic(text) if text.starts_with("the loader thread")), "{error}");
    }

    let mut loader =
        Loader::start(1, None, Meter::new(), |_, _| Err(Error::file("gone", "vanished"))).expect("a thread");
    assert_eq!(loader.recv().expect_err("an error"), Error::file("gone", "vanished"));
}

#[test]
fn holding_every_batch_is_an_error_and_outliving_the_loader_is_none() {
    let mut loader = Loader::train(digits(), 1, 64, 1).expect("fits");
    let mut held: Vec<Batch> = (0..BUFFERS).map(|_| loader.recv().expect("no fault").expect("no end")).collect();
    assert!(loader.recv().expect_err("nothing left to lend").to_string().contains("hand one back first"));
    held.pop();
    held.push(loader.recv().expect("one came back").expect("no end"));
    drop(loader);
    assert!(held.iter().all(|batch| batch.len == 64));
}

/// Batches that are lent go when they are dropped, and all others with the loader.
#[test]
fn a_loader_that_is_dropped_at_any_time_gives_its_buffers_back() {
    let data = Data { kind: DataKind::Shapes, side: 48, samples: 400, ..Data::default() };
    let set = Arc::new(Dataset::open(&data, &Run::default()).expect("generated"));
    let meter = set.meter();
    let before = meter.now().live;
    for taken in [0, 1, 5, 30] {
        for [workers, batches] in [[1, 1], [3, 4]] {
            let feed = Feed { workers, batches, rounded: None };
            let loader = Loader::train_from(Position::default(), Arc::clone(&set), 7, [32, 2], feed);
            let mut loader = loader.expect("fits");
            (0..taken).for_each(|_| drop(loader.recv().expect("no fault").expect("no end")));
            let lent = loader.recv().expect("no fault").expect("no end");
            assert!(meter.now().live > before, "{taken} {feed:?}");
            drop(loader);
            drop(lent);
            let left = meter.now().live.saturating_sub(before);
            assert!(left < Bytes::kib(16), "{taken} {feed:?}: {left} are left");
        }
    }
}

#[test]
fn nothing_of_the_loader_is_counted_on_the_consumers_thread() {
    let data = Data { kind: DataKind::Shapes, samples: 200, ..Data::default() };
    let meter = Meter::new();
    meter_this_thread(Some(meter));
    let before = meter.now().live;
    let set = Arc::new(Dataset::open(&data, &Run::default()).expect("generated"));
    let opened = meter.now().live;
    let mut loader = Loader::train(Arc::clone(&set), 1, 16, 2).expect("fits");
    for _ in 0..30 {
        drop(loader.recv().expect("no fault").expect("no end"));
    }
    let last = loader.recv().expect("no fault").expect("no end");
    let running = meter.peak().live;
    drop(loader);
    drop(last);
    let stopped = meter.now().live;
    drop(set);
    meter_this_thread(None);
    assert!(opened.0 - before.0 < 1024, "only the shared handle itself: {opened} {before}");
    assert_eq!((running, stopped, meter.now().live), (opened, opened, before));
}

#[test]
fn a_loader_goes_on_from_where_another_one_stood() {
    let set = digits();
    let (micro, accumulation, feed) = (50, 3, Feed { workers: 1, batches: BUFFERS, rounded: None });
    let (effective, samples) = (micro * accumulation, set.count(Split::Train));
    let steps = 2 * set.facts().steps_per_epoch(effective) as usize + 3;
    let all = take(&mut Loader::train(Arc::clone(&set), 1, micro, accumulation).expect("fits"), steps * accumulation);
    for done in 0..steps {
        let from = Position::after(done as u64, effective, samples);
        let rest = Loader::train_from(from, Arc::clone(&set), 1, [micro, accumulation], feed);
        let rest = take(&mut rest.expect("between two steps"), accumulation);
        assert_eq!(rest, all[done * accumulation..][..accumulation], "after {done} steps");
    }
    let nowhere = Position { epoch: 0, place: micro };
    assert!(Loader::train_from(nowhere, set, 1, [micro, accumulation], feed).is_err());
}

#[test]
fn how_a_model_is_fed_changes_no_sample() {
    let data = Data { kind: DataKind::Masks, samples: 60, placement: Placement::Streamed, ..Data::default() };
    let open = || Arc::new(Dataset::open(&data, &Run::default()).expect("generated"));
    let batches = |feed: Feed| {
        let mut train = Loader::train_from(Position::default(), open(), 7, [6, 2], feed).expect("fits");
        let mut test = Loader::test_fed(open(), 5, feed).expect("fits");
        (take(&mut train, 20), take(&mut test, 2))
    };
    let one = batches(Feed { workers: 1, batches: 1, rounded: None });
    for (workers, ahead) in [(2, 1), (5, 4), (16, 9)] {
        let feed = Feed { workers, batches: ahead, rounded: None };
        assert_eq!(batches(feed), one, "{feed:?}");
    }
}

#[test]
fn images_are_rounded_in_the_room_that_they_have() {
    let (bits, batches) = (|numbers: &[f32]| numbers.iter().map(|x| x.to_bits()).collect::<Vec<_>>(), 12);
    let mut rooms = HashSet::new();
    let mut fed = |rounded| {
        let feed = Feed { workers: 1, batches: BUFFERS, rounded };
        let mut train = Loader::train_from(Position::default(), digits(), 7, [32, 1], feed).expect("fits");
        let mut all = Vec::new();
        for _ in 0..batches {
            let batch = train.recv().expect("no fault").expect("no end");
            if let Inputs::Images(room) | Inputs::Bf16(room) | Inputs::F16(room) = &batch.inputs {
                assert_eq!((room.len(), room.capacity()), (32 * 64, 32 * 64));
                rooms.insert((rounded.map(DType::name), room.as_ptr() as usize));
            }
            all.push(batch.clone());
        }
        all
    };
    let plain = fed(None);
    for (dtype, one) in [
        (DType::Bf16, (|x| half::bf16::from_f32(x).to_bits()) as fn(f32) -> u16),
        (DType::F16, |x| half::f16::from_f32(x).to_bits()),
    ] {
        for (own, plain) in fed(Some(dtype)).iter().zip(&plain) {
            let wanted: Vec<u8> = plain.images().iter().flat_map(|x| one(*x).to_ne_bytes()).collect();
            let HostSlice::Rounded(got, of) = own.inputs.slice() else { panic!("{:?}", own.inputs) };
            assert_eq!((got, of, own.inputs.slice().len()), (&wanted[..], dtype, plain.images().len()));
            assert_eq!((&own.labels, own.len, own.epoch), (&plain.labels, plain.len, plain.epoch));
        }
    }
    // A type of 32 bits changes nothing.
    for (own, plain) in fed(Some(DType::F32)).iter().zip(&plain) {
        assert_eq!(bits(own.images()), bits(plain.images()));
    }
    assert!(rooms.len() <= 4 * BUFFERS, "{}", rooms.len());
}

#[test]
fn host_memory_is_what_was_predicted_and_not_much_less() {
    let placed = [Placement::Host, Placement::Streamed];
    for (kind, placement) in
        [DataKind::Shapes, DataKind::Masks, DataKind::Sort].into_iter().flat_map(|k| placed.map(|p| (k, p)))
    {
        for (prefetch, workers, flip) in [(0, 1, false), (2, 2, true), (7, 3, false)] {
            let flip = flip && kind != DataKind::Sort;
            let data = Data { kind, placement, prefetch, workers, flip, side: 48, samples: 400, ..Data::default() };
            let found = Inspection::of(&data, None).expect("it ships");
            let predicted = HostMemory::new(&data, &found, Feed::of(&data), [32, 50]);
            let set = Arc::new(Dataset::open(&data, &Run::default()).expect("generated"));
            let meter = set.meter();
            meter.reset_peak();
            let mut train = Loader::train(Arc::clone(&set), 1, 32, 2).expect("fits");
            for _ in 0..3 {
                take(&mut train, 8);
                let mut test = Loader::test(Arc::clone(&set), 50).expect("fits");
                let ahead = prefetch.min(set.count(Split::Test).div_ceil(50) - 1);
                let first = test.recv().expect("no fault");
                // A model answers for longer than the batches take.
                while test.ready().0 < ahead {
                    std::thread::sleep(Duration::from_millis(1));
                }
                drop(first);
                while test.recv().expect("no fault").is_some() {}
            }
            drop(train);
            let (measured, total) = (meter.peak().live.0, predicted.total().0);
            let slack = predicted.workers.0 + total / 100;
            assert!(measured <= total, "{kind:?} {placement:?}: {measured} of {predicted:?}");
            assert!(total <= measured + slack, "{kind:?} {placement:?}: {measured} of {predicted:?}");
            drop(set);
            let left = meter.now().live.0;
            assert!(left < 16 << 10, "{kind:?} {placement:?}: {left} bytes are left");
        }
    }
}
