//! Places for blocks whose lives are known beforehand, so that those alive at a time take little more than their bytes.
//!
//! To find the least extent is NP-hard ("dynamic storage allocation"). Always holds: blocks that are alive at a time do not
//! overlap, the extent is at least the most bytes alive, and the same lives give the same places. Blocks are placed one by
//! one, each into the smallest gap between those that are there in its life, else above them. The order decides how good the
//! result is. Several are tried: by size and by breadth (Pisarchyk & Lee, "Efficient Memory Management for Deep Neural Net
//! Inference", arXiv 2001.03288), by size times life, by life. For each order, the blocks that end at the top then come
//! earlier, again and again ("squeaky wheel", Joslin & Clements, JAIR 10, 1999), as long as that helps and the effort lasts.

mod in_order;

pub use self::in_order::pack_in_order;
use crate::memory::allocator::spans::{Span, join};

/// A block and its life, from the moment it is allocated to the moment before it is freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Life {
    /// Its bytes.
    pub bytes: u64,
    /// When it comes.
    pub born: u32,
    /// When it is gone.
    pub died: u32,
}

/// Where blocks begin, and where the last one ends.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Packed {
    /// Where each block begins, in the order of the lives.
    pub starts: Vec<u64>,
    /// Where the last one ends.
    pub extent: u64,
}

/// Spans that are looked at in attempts beyond the first of each order where memory is scarce: a few milliseconds.
pub(super) const EFFORT: u64 = 200_000;

/// Attempts in a row that may bring nothing.
const BARREN: usize = 64;

/// The most bytes alive at a time.
pub fn most_alive(lives: &[Life]) -> u64 {
    let mut changes: Vec<(u32, bool, u64)> = Vec::with_capacity(2 * lives.len());
    for life in lives {
        changes.push((life.born, true, life.bytes));
        changes.push((life.died, false, life.bytes));
    }
    // Who goes at a moment goes before others come.
    changes.sort_unstable();
    let (mut alive, mut most) = (0, 0);
    for (_, comes, bytes) in changes {
        alive = if comes { alive + bytes } else { alive - bytes };
        most = most.max(alive);
    }
    most
}

/// The same lives with moments that count only their own births and deaths: those of two passes that differ in other blocks
/// alone are the same.
pub(super) fn by_rank(lives: &[Life]) -> Vec<Life> {
    let mut moments: Vec<u32> = lives.iter().flat_map(|life| [life.born, life.died]).collect();
    moments.sort_unstable();
    let rank = |moment: u32| moments.partition_point(|known| *known < moment) as u32;
    lives.iter().map(|life| Life { born: rank(life.born), died: rank(life.died), ..*life }).collect()
}

/// The key by which blocks, given by their numbers, are ordered, the highest first.
type Key<'a> = &'a dyn Fn(usize) -> (u64, u64);

/// Places them all. An extent of no more than `enough` is looked no further for, and for a lesser one than the orders
/// give, no more than `effort` spans are looked at.
pub fn pack(lives: &[Life], enough: u64, effort: u64) -> Packed {
    let enough = enough.max(most_alive(lives));
    let mut hall = Hall::new(lives);
    let breadths = hall.breadths();
    let bytes = |index: usize| lives[index].bytes;
    let length = |index: usize| u64::from(lives[index].died - lives[index].born);
    let keys: [Key<'_>; 4] = [
        &|index| (bytes(index), length(index)),
        &|index| (breadths[index], bytes(index)),
        &|index| (bytes(index).saturating_mul(length(index)), bytes(index)),
        &|index| (length(index), bytes(index)),
    ];
    let mut attempts: Vec<(Packed, Vec<u32>)> = Vec::new();
    for key in keys {
        let mut order: Vec<u32> = (0..lives.len() as u32).collect();
        order.sort_by_key(|index| std::cmp::Reverse(key(*index as usize)));
        let packed = hall.place_all(&order);
        if packed.extent <= enough {
            return packed;
        }
        attempts.push((packed, order));
    }
    attempts.sort_by_key(|(packed, _)| packed.extent);
    let (mut best, count) = (attempts[0].0.clone(), attempts.len() as u64);
    hall.looked_at = 0;
    for ((packed, order), share) in attempts.into_iter().zip(1..) {
        let packed = improved(&mut hall, packed, order, enough, share * effort / count);
        if packed.extent < best.extent {
            best = packed;
        }
    }
    best
}

/// Attempts in which the blocks that ended at the top come earlier, until this many spans were looked at.
fn improved(hall: &mut Hall<'_>, first: Packed, mut order: Vec<u32>, enough: u64, until: u64) -> Packed {
    let (mut best, mut last, mut barren) = (first.clone(), first, 0);
    while best.extent > enough && hall.looked_at < until && barren < BARREN {
        let ends_at_top = |index: &u32| {
            let index = *index as usize;
            last.starts[index] + hall.lives[index].bytes == last.extent
        };
        let (top, rest): (Vec<u32>, Vec<u32>) = order.iter().copied().partition(ends_at_top);
        if order.starts_with(&top) {
            break;
        }
        order = top.into_iter().chain(rest).collect();
        last = hall.place_all(&order);
        barren += 1;
        if last.extent < best.extent {
            best.clone_from(&last);
            barren = 0;
        }
    }
    best
}

/// The room in which blocks are placed, and the spans that are taken at each time: a tree over time, in which the blocks
/// that live through all of a stretch are kept with the stretch and not with its parts (a segment tree).
struct Hall<'a> {
    lives: &'a [Life],
    /// For each block, the allocations from its own to the last one in its life; there are as many as blocks.
    births: Vec<(usize, usize)>,
    stretches: Vec<Stretch>,
    /// The spans that are in the way of one block.
    in_the_way: Vec<Span>,
    looked_at: u64,
}

/// A stretch of time.
#[derive(Default)]
struct Stretch {
    /// The spans that are taken through all of it.
    throughout: Vec<Span>,
    /// The spans that are taken at some time of it, by blocks that are kept here or with its parts.
    ever: Vec<Span>,
}

/// Births from one to before another.
type Births = std::ops::Range<usize>;

impl<'a> Hall<'a> {
    fn new(lives: &'a [Life]) -> Self {
        let mut born: Vec<u32> = lives.iter().map(|life| life.born).collect();
        born.sort_unstable();
        let until = |at: u32| born.partition_point(|born| *born < at);
        let births = lives.iter().map(|life| (until(life.born), until(life.died))).collect();
        let count = 2 * lives.len().next_power_of_two();
        let stretches = std::iter::repeat_with(Stretch::default).take(count).collect();
        Self { lives, births, stretches, in_the_way: Vec::new(), looked_at: 0 }
    }

    /// For each block, the most bytes alive at a time of its life: the most after a birth in it.
    fn breadths(&self) -> Vec<u64> {
        // For lengths of 1, 2, 4 and so on, the most alive in so many births from each on. Two of them cover a life.
        let mut most = vec![self.alive_at_births()];
        let mut length = 1;
        while 2 * length <= self.lives.len() {
            let last = &most[most.len() - 1];
            most.push(last.iter().zip(&last[length..]).map(|(a, b)| *a.max(b)).collect());
            length *= 2;
        }
        let of_life = |(first, end): &(usize, usize)| {
            let level = (end - first).ilog2() as usize;
            most[level][*first].max(most[level][end - (1 << level)])
        };
        self.births.iter().map(of_life).collect()
    }

    /// The bytes alive after each birth, in their order.
    fn alive_at_births(&self) -> Vec<u64> {
        let mut born: Vec<(u32, u64)> = self.lives.iter().map(|life| (life.born, life.bytes)).collect();
        let mut died: Vec<(u32, u64)> = self.lives.iter().map(|life| (life.died, life.bytes)).collect();
        born.sort_unstable();
        died.sort_unstable();
        let (mut alive, mut died) = (0, died.into_iter().peekable());
        let at_birth = |(moment, bytes): (u32, u64)| {
            while let Some((_, gone)) = died.next_if(|(end, _)| *end <= moment) {
                alive -= gone;
            }
            alive += bytes;
            alive
        };
        born.into_iter().map(at_birth).collect()
    }

    /// Places all blocks in this order.
    fn place_all(&mut self, order: &[u32]) -> Packed {
        for stretch in &mut self.stretches {
            stretch.throughout.clear();
            stretch.ever.clear();
        }
        let (mut starts, mut extent) = (vec![0; self.lives.len()], 0);
        for index in order.iter().map(|index| *index as usize) {
            let (bytes, (first, end)) = (self.lives[index].bytes, self.births[index]);
            self.in_the_way.clear();
            self.gather(1, 0..self.stretches.len() / 2, &(first..end));
            let start = self.smallest_gap(bytes);
            starts[index] = start;
            extent = extent.max(start + bytes);
            self.take(1, 0..self.stretches.len() / 2, &(first..end), (start, start + bytes));
        }
        Packed { starts, extent }
    }

    /// Finds the spans that are taken at some time of `life`, in the stretch of this number.
    fn gather(&mut self, number: usize, of: Births, life: &Births) {
        if of.end <= life.start || life.end <= of.start {
            return;
        }
        let stretch = &self.stretches[number];
        let is_inside = life.start <= of.start && of.end <= life.end;
        self.in_the_way.extend_from_slice(if is_inside { &stretch.ever } else { &stretch.throughout });
        if !is_inside {
            let middle = of.start.midpoint(of.end);
            self.gather(2 * number, of.start..middle, life);
            self.gather(2 * number + 1, middle..of.end, life);
        }
    }

    /// Takes `span` for `life`, in the stretch of this number.
    fn take(&mut self, number: usize, of: Births, life: &Births, span: Span) {
        if of.end <= life.start || life.end <= of.start {
            return;
        }
        join(&mut self.stretches[number].ever, span);
        if life.start <= of.start && of.end <= life.end {
            join(&mut self.stretches[number].throughout, span);
        } else {
            let middle = of.start.midpoint(of.end);
            self.take(2 * number, of.start..middle, life, span);
            self.take(2 * number + 1, middle..of.end, life, span);
        }
    }

    /// Where a block of `bytes` goes: into the smallest gap that holds it, else above all that is in its way.
    fn smallest_gap(&mut self, bytes: u64) -> u64 {
        self.looked_at += self.in_the_way.len() as u64;
        // It consists of parts in order, which a stable sort merges.
        self.in_the_way.sort();
        let (mut top, mut found) = (0, None::<(u64, u64)>);
        for (start, end) in &self.in_the_way {
            let gap = start.saturating_sub(top);
            if gap >= bytes && found.is_none_or(|(smallest, _)| gap < smallest) {
                found = Some((gap, top));
            }
            top = top.max(*end);
        }
        found.map_or(top, |(_, start)| start)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lives() -> impl Strategy<Value = Vec<Life>> {
        let bytes = prop_oneof![1..8u64, 1..4096u64, 1..1u64 << 40];
        let life =
            (bytes, 0..300u32, 1..200u32).prop_map(|(bytes, born, length)| Life { bytes, born, died: born + length });
        prop::collection::vec(life, 0..120)
    }

    proptest! {
        #[test]
        fn no_two_blocks_that_are_alive_at_a_time_overlap(lives in lives()) {
            let quickly = pack_in_order(&lives, u64::MAX).expect("any extent is enough");
            for packed in [quickly, pack(&lives, 0, EFFORT)] {
                prop_assert_eq!(packed.starts.len(), lives.len());
                let all: Vec<_> = lives.iter().zip(&packed.starts).collect();
                for (i, (a, at)) in all.iter().enumerate() {
                    prop_assert!(**at + a.bytes <= packed.extent);
                    for (b, b_at) in &all[..i] {
                        let at_a_time = a.born < b.died && b.born < a.died;
                        prop_assert!(!at_a_time || **at + a.bytes <= **b_at || **b_at + b.bytes <= **at, "{a:?} {b:?}");
                    }
                }
            }
        }

        #[test]
        fn what_is_placed_in_order_takes_no_more_than_is_enough(lives in lives(), enough in 0..1u64 << 42) {
            if let Some(packed) = pack_in_order(&lives, enough) {
                prop_assert!(packed.extent >= most_alive(&lives) && packed.extent <= enough.max(most_alive(&lives)));
            }
        }

        #[test]
        fn the_extent_is_no_less_than_what_is_alive_and_no_more_than_all(lives in lives()) {
            let extent = pack(&lives, 0, EFFORT).extent;
            prop_assert!(extent >= most_alive(&lives));
            prop_assert!(extent <= lives.iter().map(|life| life.bytes).sum::<u64>());
        }

        #[test]
        fn the_same_lives_give_the_same_places(lives in lives()) {
            prop_assert_eq!(pack(&lives, 0, EFFORT), pack(&lives, 0, EFFORT));
        }

        #[test]
        fn lives_inside_each_other_leave_no_gap(bytes in prop::collection::vec(1..1u64 << 30, 1..40)) {
            let end = 2 * bytes.len() as u32;
            let nested = (0u32..).zip(&bytes).map(|(i, bytes)| Life { bytes: *bytes, born: i, died: end - i });
            let nested: Vec<Life> = nested.collect();
            prop_assert_eq!(pack(&nested, 0, EFFORT).extent, bytes.iter().sum::<u64>());
        }
    }

    #[test]
    fn nothing_takes_nothing() {
        assert_eq!(pack(&[], 0, EFFORT), Packed::default());
        assert_eq!(most_alive(&[]), 0);
    }

    #[test]
    fn a_block_is_as_broad_as_what_is_alive_beside_it_at_most() {
        let life = |bytes, born, died| Life { bytes, born, died };
        let lives = [life(4, 0, 9), life(3, 2, 4), life(1, 3, 7), life(5, 4, 5), life(2, 8, 9)];
        assert_eq!(Hall::new(&lives).breadths(), [10, 8, 10, 10, 6]);
    }

    #[test]
    fn who_goes_makes_room_for_who_comes_then() {
        let life = |bytes, born, died| Life { bytes, born, died };
        let lives = [life(4, 0, 2), life(3, 2, 4), life(1, 2, 4), life(5, 4, 5)];
        assert_eq!((most_alive(&lives), pack(&lives, 0, EFFORT).extent), (5, 5));
    }
}
