//! Blocks lie where they are put, apart from each other, and their memory goes with the run.

use super::*;
use crate::memory::probe::{Meter, meter_this_thread};

/// A part, once other tests have left one.
fn part(expected: Bytes) -> Arena {
    loop {
        match Arena::new(expected) {
            Some(arena) => return arena,
            None => std::thread::yield_now(),
        }
    }
}

fn place(start: u64, bytes: u64) -> Place {
    Place { segment: 0, segment_bytes: 0, start, bytes }
}

/// A vector of zeros at a place.
fn vector(arena: &Arena, place: Place) -> Vec<u8> {
    let bytes = place.bytes as usize;
    let mut vector = arena.vector(Some(place), bytes).expect("free").expect("memory");
    vector.resize(bytes, 0);
    vector
}

#[test]
fn blocks_lie_at_their_places_and_come_back_to_them() {
    let arena = part(Bytes::mib(1));
    let first = vector(&arena, place(0, 128));
    let second = vector(&arena, place(4096, 5 << 20));
    assert_eq!(second.as_ptr().addr() - first.as_ptr().addr(), 4096);
    let address = second.as_ptr();
    drop(second);
    let mut again = vector(&arena, place(4096, 64));
    again.fill(7);
    assert_eq!(again.as_ptr(), address);
    // One that grows moves to the heap.
    again.push(8);
    assert!(!has(again.as_mut_ptr()) && again[..64] == [7; 64] && again[64] == 8);
    assert!(arena.put(Some(place(4096, 64)), 64).is_ok(), "its place is free");
}

#[test]
fn a_place_that_another_block_has_is_refused() {
    let arena = part(Bytes::ZERO);
    let _block = vector(&arena, place(64, 8192));
    for wrong in [place(0, 128), place(128, 64), place(8192, 128), place(0, 16384), place(96, 64)] {
        assert!(arena.put(Some(wrong), wrong.bytes as usize).is_err(), "{wrong:?}");
    }
    assert!(arena.put(Some(place(16384, 64)), 65).is_err(), "a block of another size");
    let _beside = [vector(&arena, place(0, 64)), vector(&arena, place(8256, 64))];
}

#[test]
fn what_lives_on_keeps_its_part_from_others() {
    let arena = part(Bytes::ZERO);
    let mut block = vector(&arena, place(0, 4096));
    let address = block.as_ptr();
    drop(arena);
    let other = part(Bytes::ZERO);
    let of_other = vector(&other, place(0, 4096));
    assert_ne!(of_other.as_ptr(), address);
    block.fill(1);
    std::thread::scope(|scope| drop(scope.spawn(|| drop(block))));
}

#[test]
fn the_meter_counts_blocks_and_how_long_the_part_became() {
    let meter = Meter::new();
    meter_this_thread(Some(meter));
    let arena = part(Bytes::mib(1));
    let [first, second] = [place(0, 64), place(8192, 64)].map(|place| vector(&arena, place));
    let with_both = meter.now();
    drop(second);
    let with_one = meter.now();
    let third = vector(&arena, place(64, 64));
    let with_another = meter.now();
    drop((first, third, arena));
    let after = meter.now();
    meter_this_thread(None);
    assert_eq!(
        [with_both, with_one, with_another].map(|r| (r.live.0, r.reserved.0)),
        [(128, 12288), (64, 12288), (128, 12288)]
    );
    assert_eq!((after.live, after.reserved), (Bytes::ZERO, Bytes::ZERO));
}

#[test]
fn pages_that_are_given_back_have_no_memory_and_no_block() {
    let (arena, meter) = (part(Bytes::mib(1)), Meter::new());
    meter_this_thread(Some(meter));
    let [below, passing, above] = [(0, 64), (8192, 12288), (32768, 4096)].map(|(at, n)| vector(&arena, place(at, n)));
    let mut highest = vector(&arena, place(40960, 8192));
    highest.fill(7);
    let before = meter.now().reserved.0;
    assert!(arena.give_back(4096..36864).is_err(), "blocks lie there");
    assert!(arena.give_back(36864..65536).is_err(), "one lies at the end");
    drop((passing, highest));
    assert!(arena.give_back(8192..32768).is_ok() && arena.give_back(36864..65536).is_ok());
    let after = meter.now().reserved.0;
    assert_eq!([before, after], [49152, 49152 - 24576 - 12288]);
    // Between others it is gone for good, and at the end it comes again, as the system's own.
    assert!(arena.put(Some(place(8192, 64)), 64).is_err());
    let again = arena.vector::<u8>(Some(place(40960, 8192)), 8192).expect("free").expect("memory");
    // SAFETY: the block has memory, which the system has filled.
    assert_eq!(unsafe { again.as_ptr().add(100).read_volatile() }, 0);
    assert_eq!(meter.now().reserved.0, 49152 - 24576);
    drop((below, above, again, arena));
    let end = meter.now().reserved;
    meter_this_thread(None);
    assert_eq!(end, Bytes::ZERO);
}

#[test]
fn a_part_that_gave_memory_back_is_whole_for_the_next_run() {
    for _ in 0..16 {
        let arena = part(Bytes::ZERO);
        let [first, last] = [place(0, 4096), place(1 << 20, 4096)].map(|place| vector(&arena, place));
        arena.give_back(8192..1 << 20).expect("no block");
        drop(last);
        arena.give_back(1 << 20..2 << 20).expect("no block");
        drop((first, arena));
        // All of these addresses can be written to.
        vector(&part(Bytes::ZERO), place(0, 3 << 20)).fill(1);
    }
}
