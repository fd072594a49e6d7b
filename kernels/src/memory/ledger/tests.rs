//! The line, the pool, and the content of a recording.

use std::sync::Arc;

use super::*;
use crate::{
    device::{Profile, profile::PoolProfile},
    memory::{Bookkeeping, Part},
};

#[test]
fn refuses_at_the_line_and_not_before() {
    let ledger = Ledger::new(Some(Bytes(100)), false);
    let held = ledger.take(60, Category::Batch, "input").expect("below the line");
    let refused = ledger.take(41, Category::Scratch, "columns").expect_err("past the line");
    assert_eq!((refused.asked, refused.live, refused.budget), (Bytes(41), Bytes(60), Bytes(100)));
    assert!(ledger.take(40, Category::Scratch, "columns").is_ok());
    drop(held);
    assert_eq!((ledger.live(), ledger.peak()), (Bytes(0), Bytes(100)));
}

#[test]
fn bookkeeping_is_alive_and_no_block() {
    let ledger = Ledger::new(None, false);
    ledger.keep_books(Bookkeeping::default());
    let engine = ledger.live();
    assert!(engine > Bytes::ZERO);
    let held = [60, 0].map(|bytes| ledger.take(bytes, Category::Parameters, "weight").expect("no line"));
    assert_eq!(ledger.blocks(), Blocks { count: 2, bytes: Bytes(60) });
    assert_eq!(ledger.live(), engine + Bytes(60));
    drop(held);
    assert_eq!(ledger.blocks(), Blocks { count: 0, bytes: Bytes::ZERO });
}

/// A card of 1 GiB with a context of 400 MiB.
fn card() -> Target {
    let shipped = &crate::device::profile::shipped()[0];
    let (context, capacity) = (Bytes::mib(400), Bytes::gib(1));
    Target::Gpu(Arc::new(Profile { context, capacity, ..(**shipped).clone() }))
}

#[test]
fn on_a_gpu_the_line_is_the_process_and_a_block_is_whole_granules() {
    let ledger = Ledger::for_target(&card(), PoolPolicy::Grow, Bytes::mib(464), true, false);
    let small = ledger.take(1, Category::Parameters, "weight").expect("below the line");
    assert_eq!((ledger.live(), ledger.reserved(), small.bytes()), (Bytes(512), Bytes::mib(32), 1));
    let large = ledger.take(32 << 20, Category::Activations, "output").expect("to the line");
    // Nothing is full, but one segment more is past the line.
    let refused = ledger.take(32 << 20, Category::Activations, "output").expect_err("past the line");
    assert_eq!(refused.live + refused.asked, Bytes::mib(400 + 96));
    assert!(ledger.take(31 << 20, Category::Scratch, "columns").is_ok());
    drop((small, large));
    assert_eq!((ledger.live(), ledger.reserved()), (Bytes(0), Bytes::mib(64)));
}

#[test]
fn on_a_gpu_a_context_that_turns_out_larger_leaves_less_of_the_line() {
    let target = card();
    let context = target.profile().expect("a GPU").context;
    let ledger = Ledger::for_target(&target, PoolPolicy::Grow, context + Bytes::mib(64), true, false);
    let first = ledger.take(32 << 20, Category::Activations, "a").expect("half");
    ledger.set_context(context + Bytes(1));
    let error = ledger.take(32 << 20, Category::Activations, "b").expect_err("one byte too much");
    assert_eq!((error.live, error.asked), (context + Bytes::mib(32) + Bytes(1), Bytes::mib(32)));
    // What is held is there for other blocks.
    drop(first);
    ledger.take(32 << 20, Category::Activations, "c").expect("held");
}

#[test]
fn a_refusal_on_a_gpu_tells_no_more_than_the_planned_places_take() {
    let Target::Gpu(card) = card() else { unreachable!("a card is a GPU") };
    // As a driver does that grows by 32 MiB at least, and by 2 MiB beyond.
    let pool = PoolProfile { page: Bytes::mib(2), ..card.pool };
    let target = Target::Gpu(Arc::new(Profile { pool, ..(*card).clone() }));
    let ask = |ledger: &Ledger| {
        ledger.enter(Part::Start);
        [(); 3].map(|()| ledger.take(17 << 20, Category::Parameters, "weight"))
    };
    let asking = Ledger::logging_of_gpu();
    drop(ask(&asking));
    let places = asking.places(&target, usize::MAX).expect("places");
    let line = Bytes::mib(400 + 52);
    assert_eq!(card.context + places.segment(), line);
    let under = |budget| {
        let ledger = Ledger::for_target(&target, PoolPolicy::Planned, budget, true, false);
        ledger.follow(Some(&places));
        ask(&ledger).map(|taken| taken.map(drop))
    };
    assert!(under(line).iter().all(Result::is_ok));
    // Growing would take another segment of 32 MiB.
    let [first, second, _] = under(line - Bytes(1));
    let refused = second.expect_err("a byte too few for the places");
    assert_eq!((first, refused.asked, refused.live + refused.asked), (Ok(()), Bytes::mib(17), line));
    // Farther below, the first segment tells less.
    let [refused, ..] = under(Bytes::mib(400 + 31));
    assert_eq!(refused.expect_err("past the line").live, Bytes::mib(400 + 32 - 17));
}

#[test]
fn a_pool_that_gives_back_does_so_after_the_step() {
    let ledger = Ledger::for_target(&card(), PoolPolicy::Release, Bytes::gib(1), false, true);
    drop(ledger.take(40 << 20, Category::Activations, "output"));
    assert_eq!(ledger.reserved(), Bytes::mib(64));
    assert_eq!(ledger.step_ended().next(), None, "a pool is trimmed by its device");
    assert_eq!(ledger.reserved(), Bytes(0));
    let recording = ledger.take_recording();
    assert_eq!((recording.live_peak, recording.reserved_peak), (Bytes::mib(40), Bytes::mib(64)));
    assert_eq!(ledger.take_recording().reserved_peak, Bytes(0));
}

#[test]
fn a_block_that_is_named_anew_has_each_name_in_its_time() {
    let ledger = Ledger::new(None, true);
    let batch = ledger.take(10, Category::Batch, "next batch").expect("no budget");
    let peak = ledger.take(10, Category::Scratch, "columns").expect("no budget");
    drop(peak);
    ledger.ran("relu");
    batch.rename("images");
    let names = |recording: &Recording| recording.alive_at_peak().iter().map(|b| b.name).collect::<Vec<_>>();
    let first = ledger.take_recording();
    assert_eq!((names(&first), first.live_peak), (vec!["next batch", "columns"], Bytes(20)));
    assert_eq!(names(&ledger.take_recording()), ["images"]);
}

#[test]
fn a_recording_tells_what_was_alive_at_the_peak() {
    let ledger = Ledger::new(None, true);
    ledger.set_layer(ledger.layer_id("dense1"));
    let weight = ledger.take(10, Category::Parameters, "weight").expect("no budget");
    let scratch = ledger.take(100, Category::Scratch, "columns").expect("no budget");
    drop(scratch);
    ledger.ran("matmul");
    let output = ledger.take(50, Category::Activations, "output").expect("no budget");
    ledger.ran("relu");
    let recording = ledger.take_recording();
    assert_eq!(recording.live_peak, Bytes(110));
    assert_eq!(recording.alive_at_peak().iter().map(|b| b.name).collect::<Vec<_>>(), ["columns", "weight"]);
    assert_eq!(recording.timeline.points.iter().map(|p| p.live.0).collect::<Vec<_>>(), [110, 60]);
    assert_eq!(recording.timeline.layer(recording.timeline.points[0].layer), "dense1");
    drop(output);
    let next = ledger.take_recording();
    assert_eq!((next.live_peak, next.timeline.points.len()), (Bytes(60), 0));
    drop(weight);
}

#[test]
fn a_recording_tells_what_was_touched_once_its_largest_batch_had_come() {
    let ledger = Ledger::of(Allocator::range(), Bytes::ZERO, None, true);
    let take = |bytes, category| ledger.take(bytes, category, "block").expect("no line");
    let none = ledger.recorded(|| Arc::from([]));
    assert_eq!((none.fed, none.touched), (None, Bytes::ZERO));
    let weight = take(8 << 12, Category::Parameters);
    let inputs = take(4 << 12, Category::Batch);
    let labels = take(1 << 12, Category::Batch);
    let output = take(16 << 12, Category::Activations);
    // Smaller ones that come later are another batch.
    let rest = take(2 << 12, Category::Batch);
    let recording = ledger.recorded(|| Arc::from([]));
    assert_eq!((recording.fed, recording.touched), (Some(Bytes(13 << 12)), Bytes(31 << 12)));
    drop((inputs, labels, output, rest));
    // On pages that were touched before.
    let again = take(4 << 12, Category::Batch);
    let recording = ledger.recorded(|| Arc::from([]));
    assert_eq!((recording.fed, recording.touched), (Some(Bytes(31 << 12)), Bytes(31 << 12)));
    drop((weight, again));
}
