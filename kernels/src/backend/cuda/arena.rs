//! The segments of a run's memory, and the blocks that lie in them where the ledger's model has put them.
//!
//! Owns the memory of each segment of the model, taken when the first block comes into it: a piece of a range of addresses, or
//! one block of the driver's pool. So what is held of the card is what the model says, however the driver places blocks, and a
//! step whose segments are there makes no call to the driver's allocator. Always holds: no two living blocks overlap, and each
//! lies inside its segment. A block may be used again at once, because everything that uses it is queued on the one stream of
//! kernels or waits for it. Counts what lies in it by itself, and not by the ledger. Refuses a place that another block has,
//! which is a bug.

use std::{cell::RefCell, collections::BTreeMap};

use crate::{
    error::{Error, Result},
    memory::allocator::Place,
};

/// An address on the device.
pub(super) type Address = u64;

/// The memory of a segment: where it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Memory {
    /// One block of the driver's pool.
    Block(Address),
    /// A piece of a range of addresses.
    Mapped(Address),
}

impl Memory {
    fn address(self) -> Address {
        match self {
            Self::Block(address) | Self::Mapped(address) => address,
        }
    }

    /// What counts as a block of the driver's pool, of `bytes` here.
    fn of_pool(self, bytes: u64) -> u64 {
        match self {
            Self::Block(_) => bytes,
            Self::Mapped(_) => 0,
        }
    }
}

/// The memory of a run, segment by segment.
#[derive(Debug, Default)]
pub(super) struct Arena(RefCell<Segments>);

#[derive(Debug, Default)]
struct Segments {
    by_number: BTreeMap<u32, Segment>,
    /// What was taken before its segment had a number.
    spare: Option<(Memory, u64)>,
    used: Count,
    held: Count,
}

/// What the driver gave at once.
#[derive(Debug)]
struct Segment {
    memory: Memory,
    bytes: u64,
    /// Where blocks begin and end.
    blocks: BTreeMap<u64, u64>,
}

/// Bytes, and the most since the mark was set back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) now: u64,
    pub(super) high: u64,
}

impl Count {
    pub(super) fn add(&mut self, bytes: u64) {
        self.now += bytes;
        self.high = self.high.max(self.now);
    }

    pub(super) fn take(&mut self, bytes: u64) {
        self.now -= bytes;
    }
}

impl Arena {
    /// The address of a block at `place`. `take` gives the memory of a segment that is not there yet.
    pub(super) fn put(&self, place: Place, take: impl FnOnce(u64) -> Result<Memory>) -> Result<Address> {
        if !self.0.borrow().by_number.contains_key(&place.segment) {
            self.open(place, take)?;
        }
        let arena = &mut *self.0.borrow_mut();
        let end = place.start + place.bytes;
        let free = arena.by_number.get_mut(&place.segment).filter(|segment| {
            let before = segment.blocks.range(..end).next_back();
            end <= segment.bytes && before.is_none_or(|(_, end)| *end <= place.start)
        });
        let Some(segment) = free else {
            return Err(Error::Misused(format!("{place:?} is another block's, or outside its segment")));
        };
        segment.blocks.insert(place.start, end);
        arena.used.add(place.bytes);
        Ok(segment.memory.address() + place.start)
    }

    /// Takes the segment of a place.
    fn open(&self, place: Place, take: impl FnOnce(u64) -> Result<Memory>) -> Result<()> {
        let bytes = place.segment_bytes;
        let spare = self.0.borrow_mut().spare.take_if(|(_, spare)| *spare == bytes);
        // The driver that refuses asks what is held, so nothing is borrowed meanwhile.
        let memory = spare.map_or_else(|| take(bytes), |(memory, _)| Ok(memory))?;
        let arena = &mut *self.0.borrow_mut();
        if spare.is_none() {
            arena.held.add(memory.of_pool(bytes));
        }
        arena.by_number.insert(place.segment, Segment { memory, bytes, blocks: BTreeMap::new() });
        Ok(())
    }

    /// The block at `place` is gone.
    pub(super) fn remove(&self, place: Place) {
        let arena = &mut *self.0.borrow_mut();
        if let Some(segment) = arena.by_number.get_mut(&place.segment)
            && segment.blocks.remove(&place.start).is_some()
        {
            arena.used.take(place.bytes);
        }
    }

    /// Keeps memory for the next segment of as many bytes.
    pub(super) fn spare(&self, memory: Memory, bytes: u64) {
        let arena = &mut *self.0.borrow_mut();
        arena.spare = Some((memory, bytes));
        arena.held.add(memory.of_pool(bytes));
    }

    /// Lets go of the segments that no block lies in; their memory.
    pub(super) fn take_empty(&self) -> Vec<Memory> {
        let arena = &mut *self.0.borrow_mut();
        let spare = arena.spare.take();
        let is_empty = |_: &u32, segment: &mut Segment| segment.blocks.is_empty();
        let empty = arena.by_number.extract_if(.., is_empty).map(|(_, segment)| (segment.memory, segment.bytes));
        let held = &mut arena.held;
        spare
            .into_iter()
            .chain(empty)
            .map(|(memory, bytes)| {
                held.take(memory.of_pool(bytes));
                memory
            })
            .collect()
    }

    /// Bytes of blocks.
    pub(super) fn used(&self) -> Count {
        self.0.borrow().used
    }

    /// Bytes of segments that are blocks of the driver's pool.
    pub(super) fn held(&self) -> Count {
        self.0.borrow().held
    }

    /// Sets the marks back to what is there now.
    pub(super) fn reset_high(&self) {
        let arena = &mut *self.0.borrow_mut();
        arena.used.high = arena.used.now;
        arena.held.high = arena.held.now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(segment: u32, start: u64, bytes: u64) -> Place {
        Place { segment, segment_bytes: 4096, start, bytes }
    }

    /// Memory of a driver that gives each segment a round number.
    fn driver(calls: &mut u64) -> impl FnMut(u64) -> Result<Memory> {
        move |_| {
            *calls += 1;
            Ok(Memory::Block(*calls << 20))
        }
    }

    #[test]
    fn the_driver_is_asked_once_for_a_segment() {
        let (arena, mut calls) = (Arena::default(), 0);
        let mut take = driver(&mut calls);
        assert_eq!(arena.put(place(0, 512, 512), &mut take), Ok((1 << 20) + 512));
        assert_eq!(arena.put(place(0, 1024, 512), &mut take), Ok((1 << 20) + 1024));
        assert_eq!(arena.put(place(7, 0, 4096), &mut take), Ok(2 << 20));
        arena.remove(place(0, 512, 512));
        assert_eq!(arena.put(place(0, 0, 1024), &mut take), Ok(1 << 20));
        assert_eq!((arena.used().now, arena.held().now), (1024 + 512 + 4096, 8192));
        drop(take);
        assert_eq!(calls, 2);
    }

    #[test]
    fn a_place_that_is_taken_or_outside_is_refused() {
        let (arena, mut calls) = (Arena::default(), 0);
        let mut take = driver(&mut calls);
        arena.put(place(0, 512, 1024), &mut take).expect("free");
        for wrong in
            [place(0, 0, 1024), place(0, 1024, 512), place(0, 512, 1024), place(0, 1024, 4096), place(0, 4096, 512)]
        {
            assert!(arena.put(wrong, &mut take).is_err(), "{wrong:?}");
        }
        arena.put(place(0, 0, 512), &mut take).expect("before");
        arena.put(place(0, 1536, 2560), &mut take).expect("behind");
    }

    #[test]
    fn what_is_empty_goes_and_what_was_kept_is_a_segment_of_its_size() {
        let (arena, mut calls) = (Arena::default(), 0);
        let mut take = driver(&mut calls);
        arena.spare(Memory::Block(77), 4096);
        assert_eq!(arena.put(place(0, 0, 512), &mut take), Ok(77));
        assert_eq!(arena.put(place(1, 0, 512), &mut take), Ok(1 << 20));
        arena.remove(place(0, 0, 512));
        assert_eq!(arena.take_empty(), [Memory::Block(77)]);
        assert_eq!((arena.held(), arena.used()), (Count { now: 4096, high: 8192 }, Count { now: 512, high: 1024 }));
        arena.reset_high();
        assert_eq!(arena.held().high, 4096);
        assert!(arena.take_empty().is_empty());
    }

    #[test]
    fn only_blocks_of_the_pool_count_as_held_of_it() {
        let arena = Arena::default();
        assert_eq!(arena.put(place(0, 512, 512), |_| Ok(Memory::Mapped(1 << 20))), Ok((1 << 20) + 512));
        assert_eq!(arena.put(place(1, 0, 512), |_| Ok(Memory::Block(2 << 20))), Ok(2 << 20));
        assert_eq!((arena.held().now, arena.used().now), (4096, 1024));
        arena.remove(place(0, 512, 512));
        arena.remove(place(1, 0, 512));
        assert_eq!(arena.take_empty(), [Memory::Mapped(1 << 20), Memory::Block(2 << 20)]);
        assert_eq!((arena.held().now, arena.used().now), (0, 0));
    }
}
