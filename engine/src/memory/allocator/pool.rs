//! The memory pool of a run on a GPU: segments that the device gives, and blocks in them.
//!
//! Owns the places of blocks, which the run on the GPU puts there: a segment is one block of the driver's pool. A block is rounded up to the granule and put into the smallest hole that holds it (of
//! holes as large, the one at the lowest place); where there is none, the pool grows by a segment for it: the profile's
//! least one, or the block rounded up to whole pages where that is more. Adjacent holes become one; segments
//! never do. Always holds: blocks do not overlap, `used` is the sum of the rounded blocks, `reserved` is the sum of the
//! segments and at least `used`, and the same requests are put at the same places. Refuses nothing: [`Pool::growth`]
//! tells beforehand what a block would cost.
//!
//! NVIDIA documents that a pool's allocations from the system "may happen at different granularity from the user
//! allocations" (CUDA Driver API, `cuMemPoolTrimTo`), that a pool keeps what it has up to its release threshold, and that
//! the driver may map free memory together to avoid growing ("Using the NVIDIA CUDA Stream-Ordered Memory Allocator",
//! part 1). How often it does is not documented, and programs have seen pools with tens of percent of holes (RMM issue
//! 1245, PyTorch issue 110194). So nothing but segments is left to the driver, in sizes that its own pool takes: those of the
//! profile, where a measurement replaces the estimate.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash, Hasher},
};

use crate::{
    bytes::Bytes,
    device::{PoolPolicy, profile::PoolProfile},
};

/// A pool.
#[derive(Debug)]
pub struct Pool {
    profile: PoolProfile,
    policy: PoolPolicy,
    /// By number; numbers are not used again.
    segments: BTreeMap<u32, Segment>,
    /// Every hole: its bytes, its segment, where it starts.
    holes: BTreeSet<(u64, u32, u64)>,
    next: u32,
    /// Places of blocks by their numbers, and the numbers that stand for none.
    places: Vec<Place>,
    vacant: Vec<u32>,
    used: u64,
    reserved: u64,
}

/// The number of no place: of all blocks of a heap.
pub(super) const NOWHERE: u32 = u32::MAX;

/// What the device gave in one piece.
#[derive(Debug)]
struct Segment {
    bytes: u64,
    /// Holes, by where they start, with their bytes.
    holes: BTreeMap<u64, u64>,
}

/// Where a block lies: the model's word, by which a device that follows it puts the block there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The segment's number. No two segments of a run have the same.
    pub segment: u32,
    /// The segment's bytes.
    pub segment_bytes: u64,
    /// Where the block begins in it.
    pub start: u64,
    /// The block's bytes, rounded.
    pub bytes: u64,
}

impl Pool {
    /// An empty pool that may hold `limit`; one that reserves takes it all at once, if it has room for a segment at all.
    pub fn new(profile: PoolProfile, policy: PoolPolicy, limit: Bytes) -> Self {
        let mut pool = Self {
            profile,
            policy,
            segments: BTreeMap::new(),
            holes: BTreeSet::new(),
            next: 0,
            places: Vec::new(),
            vacant: Vec::new(),
            used: 0,
            reserved: 0,
        };
        let whole = limit.0 - limit.0 % profile.page.0.max(1);
        if policy == PoolPolicy::Reserve && whole > 0 && whole >= profile.segment.0 {
            pool.grow(whole);
        }
        pool
    }

    /// Bytes of blocks.
    pub fn used(&self) -> Bytes {
        Bytes(self.used)
    }

    /// Bytes of segments.
    pub fn reserved(&self) -> Bytes {
        Bytes(self.reserved)
    }

    /// The bytes that a block of `bytes` takes. The driver has no empty blocks.
    pub fn rounded(&self, bytes: u64) -> u64 {
        bytes.max(1).next_multiple_of(self.profile.granule.0.max(1))
    }

    /// What the pool would grow by for a block of `bytes`.
    pub fn growth(&self, bytes: u64) -> Bytes {
        let bytes = self.rounded(bytes);
        let is_held = self.holes.range((bytes, 0, 0)..).next().is_some();
        Bytes(if is_held { 0 } else { self.profile.segment_for(bytes) })
    }

    /// Places a block, and returns the number of its place.
    pub fn take(&mut self, bytes: u64) -> u32 {
        let bytes = self.rounded(bytes);
        let found = self.holes.range((bytes, 0, 0)..).next().copied();
        let (room, segment, start) = match found {
            Some(hole) => hole,
            None => self.grow(self.profile.segment_for(bytes)),
        };
        self.close(segment, start, room);
        if room > bytes {
            self.open(segment, start + bytes, room - bytes);
        }
        self.used += bytes;
        let segment_bytes = self.segments.get(&segment).map_or(0, |segment| segment.bytes);
        let place = Place { segment, segment_bytes, start, bytes };
        match self.vacant.pop() {
            Some(number) => {
                self.places[number as usize] = place;
                number
            }
            None => {
                self.places.push(place);
                (self.places.len() - 1) as u32
            }
        }
    }

    /// The place of this number.
    pub fn place(&self, number: u32) -> Option<Place> {
        self.places.get(number as usize).copied()
    }

    /// Removes the block at the place of this number.
    pub fn give(&mut self, number: u32) {
        let Some(place) = self.places.get(number as usize).copied() else { return };
        let Some(segment) = self.segments.get(&place.segment) else { return };
        self.vacant.push(number);
        self.used -= place.bytes;
        let (mut start, mut end) = (place.start, place.start + place.bytes);
        let before = segment.holes.range(..start).next_back().map(|(at, bytes)| (*at, *bytes));
        let after = segment.holes.get(&end).copied();
        if let Some((at, bytes)) = before
            && at + bytes == start
        {
            self.close(place.segment, at, bytes);
            start = at;
        }
        if let Some(bytes) = after {
            self.close(place.segment, end, bytes);
            end += bytes;
        }
        self.open(place.segment, start, end - start);
    }

    /// A hash of where the holes lie: two pools with equal fingerprints place the same requests at the same addresses from
    /// here on.
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for segment in self.segments.values() {
            (segment.bytes, &segment.holes).hash(&mut hasher);
        }
        hasher.finish()
    }

    /// A step is over: a pool that gives back lets go of the segments that nothing lies in.
    pub fn step_ended(&mut self) {
        if self.policy != PoolPolicy::Release {
            return;
        }
        let is_empty = |segment: &Segment| segment.holes.get(&0) == Some(&segment.bytes);
        let empty: Vec<u32> = self.segments.iter().filter(|(_, s)| is_empty(s)).map(|(number, _)| *number).collect();
        for number in empty {
            if let Some(segment) = self.segments.remove(&number) {
                self.holes.remove(&(segment.bytes, number, 0));
                self.reserved -= segment.bytes;
            }
        }
    }

    /// A new segment, which is one hole: its bytes, its number, its start.
    fn grow(&mut self, bytes: u64) -> (u64, u32, u64) {
        let number = self.next;
        self.next += 1;
        self.segments.insert(number, Segment { bytes, holes: BTreeMap::new() });
        self.reserved += bytes;
        self.open(number, 0, bytes);
        (bytes, number, 0)
    }

    fn open(&mut self, segment: u32, start: u64, bytes: u64) {
        self.holes.insert((bytes, segment, start));
        if let Some(segment) = self.segments.get_mut(&segment) {
            segment.holes.insert(start, bytes);
        }
    }

    fn close(&mut self, segment: u32, start: u64, bytes: u64) {
        self.holes.remove(&(bytes, segment, start));
        if let Some(segment) = self.segments.get_mut(&segment) {
            segment.holes.remove(&start);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PROFILE: PoolProfile = PoolProfile { granule: Bytes(512), segment: Bytes::mib(32), page: Bytes::mib(2) };
    const MIB: u64 = 1 << 20;

    fn pool(policy: PoolPolicy) -> Pool {
        Pool::new(PROFILE, policy, Bytes::mib(100))
    }

    #[test]
    fn a_block_takes_whole_granules_of_whole_segments() {
        let mut pool = pool(PoolPolicy::Grow);
        assert_eq!((pool.reserved(), pool.growth(1)), (Bytes(0), Bytes::mib(32)));
        let small = pool.take(1);
        assert_eq!((pool.used(), pool.reserved()), (Bytes(512), Bytes::mib(32)));
        assert_eq!(pool.growth(31 * MIB), Bytes(0));
        let large = pool.take(33 * MIB);
        assert_eq!(pool.reserved(), Bytes::mib(32 + 34));
        pool.give(large);
        pool.give(small);
        assert_eq!((pool.used(), pool.reserved()), (Bytes(0), Bytes::mib(66)));
    }

    #[test]
    fn the_smallest_hole_that_holds_a_block_is_taken() {
        let mut pool = pool(PoolPolicy::Grow);
        let [wide, _kept, narrow, _end] = [4, 1, 2, 25].map(|mib| pool.take(mib * MIB));
        let places = [wide, narrow].map(|number| pool.places[number as usize].start);
        pool.give(wide);
        pool.give(narrow);
        let again = [2, 3].map(|mib| pool.take(mib * MIB)).map(|number| pool.places[number as usize].start);
        assert_eq!(again, [places[1], places[0]]);
    }

    #[test]
    fn what_is_empty_goes_back_after_a_step_and_stays_where_the_pool_keeps() {
        for (policy, left) in [(PoolPolicy::Grow, 64), (PoolPolicy::Release, 32), (PoolPolicy::Reserve, 100)] {
            let mut pool = pool(policy);
            let large = pool.take(30 * MIB);
            let _stays = pool.take(10 * MIB);
            pool.give(large);
            pool.step_ended();
            assert_eq!(pool.reserved(), Bytes::mib(left), "{policy:?}");
        }
    }

    #[test]
    fn a_pool_that_reserves_takes_its_limit_in_whole_pages_at_once() {
        let mut pool = Pool::new(PROFILE, PoolPolicy::Reserve, Bytes::mib(101));
        assert_eq!(pool.reserved(), Bytes::mib(100));
        let block = pool.take(99 * MIB);
        assert_eq!(pool.reserved(), Bytes::mib(100));
        pool.give(block);
        let small = Pool::new(PROFILE, PoolPolicy::Reserve, Bytes::mib(31));
        assert_eq!((small.reserved(), small.growth(1)), (Bytes(0), Bytes::mib(32)), "no room for a segment");
    }

    /// What a test does to a pool.
    #[derive(Debug, Clone)]
    enum Deed {
        Take(u64),
        Give(prop::sample::Index),
        EndStep,
    }

    fn deeds() -> impl Strategy<Value = Vec<Deed>> {
        let sizes = prop_oneof![0..4096u64, 0..8 * MIB, 0..80 * MIB];
        let deed = prop_oneof![
            4 => sizes.prop_map(Deed::Take),
            3 => any::<prop::sample::Index>().prop_map(Deed::Give),
            1 => Just(Deed::EndStep),
        ];
        prop::collection::vec(deed, 0..120)
    }

    /// Does them all, with a look at every stage; the places in order, and the pool with what is still in it.
    fn follow(policy: PoolPolicy, deeds: &[Deed]) -> (Pool, Vec<(u32, Place)>, Vec<Place>) {
        let mut pool = Pool::new(PROFILE, policy, Bytes::mib(300));
        let (mut alive, mut all) = (Vec::<(u32, Place)>::new(), Vec::new());
        for deed in deeds {
            match deed {
                Deed::Take(bytes) => {
                    let would_be = pool.reserved() + pool.growth(*bytes);
                    let number = pool.take(*bytes);
                    assert_eq!(pool.reserved(), would_be);
                    let place = pool.places[number as usize];
                    assert!(place.bytes >= *bytes && place.bytes <= bytes + 512);
                    alive.push((number, place));
                    all.push(place);
                }
                Deed::Give(at) if !alive.is_empty() => pool.give(alive.swap_remove(at.index(alive.len())).0),
                Deed::Give(_) => {}
                Deed::EndStep => pool.step_ended(),
            }
            assert_eq!(pool.used().0, alive.iter().map(|(_, place)| place.bytes).sum::<u64>());
            assert_eq!(pool.reserved().0, pool.segments.values().map(|segment| segment.bytes).sum::<u64>());
            assert!(pool.reserved() >= pool.used());
        }
        (pool, alive, all)
    }

    fn policies() -> impl Strategy<Value = PoolPolicy> {
        prop::sample::select(PoolPolicy::ALL.to_vec())
    }

    proptest! {
        #[test]
        fn no_two_blocks_overlap_and_all_lie_in_their_segments(policy in policies(), deeds in deeds()) {
            let (pool, alive, _) = follow(policy, &deeds);
            let mut places: Vec<Place> = alive.into_iter().map(|(_, place)| place).collect();
            places.sort_by_key(|place| (place.segment, place.start));
            for pair in places.windows(2) {
                prop_assert!(pair[0].segment != pair[1].segment || pair[0].start + pair[0].bytes <= pair[1].start);
            }
            for place in &places {
                prop_assert!(place.start + place.bytes <= pool.segments[&place.segment].bytes);
            }
        }

        #[test]
        fn freeing_all_leaves_one_hole_a_segment(policy in policies(), deeds in deeds()) {
            let (mut pool, alive, _) = follow(policy, &deeds);
            alive.into_iter().for_each(|(number, _)| pool.give(number));
            prop_assert_eq!(pool.used(), Bytes(0));
            prop_assert_eq!(pool.holes.len(), pool.segments.len());
            prop_assert!(pool.segments.values().all(|segment| segment.holes.get(&0) == Some(&segment.bytes)));
            pool.step_ended();
            prop_assert!(policy != PoolPolicy::Release || pool.reserved() == Bytes(0));
        }

        #[test]
        fn the_same_requests_are_put_at_the_same_places(policy in policies(), deeds in deeds()) {
            prop_assert_eq!(follow(policy, &deeds).2, follow(policy, &deeds).2);
        }
    }
}
