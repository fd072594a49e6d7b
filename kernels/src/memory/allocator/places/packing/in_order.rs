//! Places by one sweep over time, for passes of so many blocks that a search takes too long.
//!
//! Always holds: blocks that are alive at a time do not overlap, and the extent is no more than was said to be enough. Refuses
//! lives that take more.

use std::collections::{BTreeMap, BTreeSet};

use super::{Life, Packed, most_alive};

/// Places them in the order in which they come, each into the smallest gap that is there then, in much less time. `None` where
/// the extent comes to more than `enough`.
pub fn pack_in_order(lives: &[Life], enough: u64) -> Option<Packed> {
    let enough = enough.max(most_alive(lives));
    // Who goes at a moment goes before others come.
    let mut events: Vec<(u32, bool, usize)> = Vec::with_capacity(2 * lives.len());
    for (index, life) in lives.iter().enumerate() {
        events.extend([(life.born, true, index), (life.died, false, index)]);
    }
    events.sort_unstable();
    let (mut gaps, mut starts) = (Gaps::default(), vec![0; lives.len()]);
    for (_, comes, index) in events {
        let bytes = lives[index].bytes;
        match comes {
            true => starts[index] = gaps.take(bytes),
            false => gaps.give(starts[index], starts[index] + bytes),
        }
        if gaps.top > enough {
            return None;
        }
    }
    Some(Packed { starts, extent: gaps.top })
}

/// The gaps between blocks, below the highest end that any had.
#[derive(Debug, Default)]
struct Gaps {
    by_size: BTreeSet<(u64, u64)>,
    /// The start of each by its end, and its end by its start.
    starts: BTreeMap<u64, u64>,
    ends: BTreeMap<u64, u64>,
    top: u64,
}

impl Gaps {
    /// Where a block of so many bytes goes: into the smallest gap that holds it, else to the top.
    fn take(&mut self, bytes: u64) -> u64 {
        if let Some((_, start)) = self.by_size.range((bytes, 0)..).next().copied() {
            let end = self.ends[&start];
            self.close(start, end);
            self.open(start + bytes, end);
            return start;
        }
        let below = self.starts.get(&self.top).copied().unwrap_or(self.top);
        self.close(below, self.top);
        self.top = below + bytes;
        below
    }

    /// A block is gone.
    fn give(&mut self, start: u64, end: u64) {
        let below = self.starts.get(&start).copied().unwrap_or(start);
        let above = self.ends.get(&end).copied().unwrap_or(end);
        self.close(below, start);
        self.close(end, above);
        self.open(below, above);
    }

    fn open(&mut self, start: u64, end: u64) {
        if start < end {
            self.by_size.insert((end - start, start));
            self.starts.insert(end, start);
            self.ends.insert(start, end);
        }
    }

    fn close(&mut self, start: u64, end: u64) {
        if start < end {
            self.by_size.remove(&(end - start, start));
            self.starts.remove(&end);
            self.ends.remove(&start);
        }
    }
}
