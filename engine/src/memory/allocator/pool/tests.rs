//! Blocks lie apart, in their segments, at the same places every time; what each policy holds.

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
