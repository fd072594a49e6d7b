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
    let mut vector = arena.vector(place, bytes).expect("free").expect("memory");
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
    assert!(arena.put(place(4096, 64), 64).is_ok(), "its place is free");
}

#[test]
fn a_place_that_another_block_has_is_refused() {
    let arena = part(Bytes::ZERO);
    let _block = vector(&arena, place(64, 8192));
    for wrong in [place(0, 128), place(128, 64), place(8192, 128), place(0, 16384), place(96, 64)] {
        assert!(arena.put(wrong, wrong.bytes as usize).is_err(), "{wrong:?}");
    }
    assert!(arena.put(place(16384, 64), 65).is_err(), "a block of another size");
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
