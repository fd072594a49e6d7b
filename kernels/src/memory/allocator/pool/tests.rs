//! Blocks lie apart, in their segments, at the same places every time; the bytes that each policy holds.

use proptest::prelude::*;

use super::*;

const PROFILE: PoolProfile =
    PoolProfile { granule: Bytes(512), segment: Bytes::mib(32), page: Bytes::mib(2), mapped: None };
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

#[test]
fn a_range_grows_at_its_end_by_whole_pages_and_into_the_hole_that_is_there() {
    let mut pool =
        Pool::range(PoolProfile { granule: Bytes(64), segment: Bytes(4096), page: Bytes(4096), mapped: None });
    assert_eq!((pool.reserved(), pool.growth(100)), (Bytes(0), Bytes(4096)));
    let [first, second] = [100, 8192].map(|bytes| pool.take(bytes));
    let start = |pool: &Pool, number: u32| pool.place(number).map(|place| (place.segment, place.start));
    assert_eq!((start(&pool, first), start(&pool, second)), (Some((0, 0)), Some((0, 128))));
    assert_eq!((pool.used(), pool.reserved()), (Bytes(128 + 8192), Bytes(3 * 4096)));
    pool.give(second);
    let large = pool.take(20_000);
    assert_eq!((start(&pool, large), pool.reserved()), (Some((0, 128)), Bytes(5 * 4096)));
    pool.give(first);
    pool.give(large);
    assert_eq!((pool.used(), pool.reserved(), pool.holes.len()), (Bytes(0), Bytes(5 * 4096), 1));
}

/// An operation of a test on a pool.
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
fn follow(kind: Kind, deeds: &[Deed]) -> (Pool, Vec<(u32, Place)>, Vec<Place>) {
    let mut pool = match kind {
        Kind::Segments(policy) => Pool::new(PROFILE, policy, Bytes::mib(300)),
        Kind::Range => Pool::range(PROFILE),
    };
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

/// How a pool grows.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Segments(PoolPolicy),
    Range,
}

fn kinds() -> impl Strategy<Value = Kind> {
    let all = PoolPolicy::ALL.into_iter().map(Kind::Segments).chain([Kind::Range]);
    prop::sample::select(all.collect::<Vec<_>>())
}

proptest! {
    #[test]
    fn no_two_blocks_overlap_and_all_lie_in_their_segments(kind in kinds(), deeds in deeds()) {
        let (pool, alive, _) = follow(kind, &deeds);
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
    fn freeing_all_leaves_one_hole_a_segment(kind in kinds(), deeds in deeds()) {
        let (mut pool, alive, _) = follow(kind, &deeds);
        alive.into_iter().for_each(|(number, _)| pool.give(number));
        prop_assert_eq!(pool.used(), Bytes(0));
        prop_assert_eq!(pool.holes.len(), pool.segments.len());
        prop_assert!(pool.segments.values().all(|segment| segment.holes.get(&0) == Some(&segment.bytes)));
        pool.step_ended();
        prop_assert!(kind != Kind::Segments(PoolPolicy::Release) || pool.reserved() == Bytes(0));
    }

    #[test]
    fn the_same_requests_are_put_at_the_same_places(kind in kinds(), deeds in deeds()) {
        prop_assert_eq!(follow(kind, &deeds).2, follow(kind, &deeds).2);
    }
}
