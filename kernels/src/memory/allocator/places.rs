//! Where the blocks of a run will lie, found before its first step: a place for every request, in order.
//!
//! A dry run records every allocation and free ([`Requests`]), so the place of each block is chosen with knowledge of the
//! later ones. Blocks that outlive their pass (weights, the optimizer's state, the micro-batch that waits) lie at the
//! bottom, in the order of their allocation. Blocks that are allocated and freed in one pass are [packed](packing) above,
//! each pass for itself. Always holds: places are advice. A [`Guide`] goes through them as the run asks; a pool puts a block
//! there if that is free, and otherwise where it would without advice. So a run that asks for other blocks than were planned
//! is never wrong, only larger. Refuses nothing.

pub mod packing;
mod requests;

use std::{collections::HashMap, sync::Arc};

pub use self::requests::Requests;
use self::{
    packing::{EFFORT, Life, Packed, by_rank, most_alive, pack},
    requests::{Block, End, Pass},
};
use crate::{bytes::Bytes, device::profile::PoolProfile, memory::Part};

/// The places of a run's blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// Where the last block ends.
    extent: u64,
    /// Where the last block ends that comes before codes are made.
    before_codes: u64,
    /// The segment that holds them all.
    segment: u64,
    /// The expected requests and their places, by pass and part.
    parts: Vec<((Part, Part), Vec<Advised>)>,
}

/// A request that is expected, and where its block goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Advised {
    /// The block's bytes, rounded.
    bytes: u64,
    /// Where the block begins. A block that lives on into the next step has two places, because it takes turns with the
    /// block that it follows; every other block has one, twice.
    starts: [u64; 2],
}

impl Advised {
    /// Where the block ends at its higher place.
    fn end(&self) -> u64 {
        self.starts[0].max(self.starts[1]) + self.bytes
    }
}

/// A block that takes turns: its bytes, and its number among the blocks of as many bytes in its part.
type Turn = (u64, usize);

/// How long the search for places goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Search {
    /// For a card, whose memory is fixed: a few milliseconds are well spent on a percent of it.
    Careful,
    /// For the CPU. A gap between blocks there costs addresses and not the budget, and a search for advice makes many plans.
    Quick,
}

impl Search {
    /// The extent may be above the most bytes alive by one part in this many without another attempt.
    fn close(self) -> u64 {
        match self {
            Self::Careful => 500,
            Self::Quick => 50,
        }
    }

    /// Spans that attempts may look at.
    fn effort(self) -> u64 {
        match self {
            Self::Careful => EFFORT,
            Self::Quick => EFFORT / 20,
        }
    }
}

impl Places {
    /// The best places that were found for these requests, in a segment of a pool with this `profile`.
    pub fn of(requests: &Requests, profile: &PoolProfile, search: Search) -> Self {
        let mut bottom = 0;
        let turns = taking_turns(requests, &mut bottom);
        let mut advised: Vec<Vec<Advised>> = Vec::new();
        let mut others = Vec::new();
        for pass in requests.passes() {
            let (of_pass, above) = placed_below(pass, &turns, &mut bottom);
            advised.push(of_pass);
            others.push(above);
        }
        // Only the largest pass decides the extent, and a little above it costs little.
        let most = others.iter().map(|(_, lives)| most_alive(lives)).max().unwrap_or(0);
        let enough = most + (bottom + most) / search.close();
        let mut extent = bottom;
        // The first step and the later ones often have the same lives.
        let mut known: Vec<(Vec<Life>, Packed)> = Vec::new();
        for ((indices, lives), advised) in others.iter().zip(&mut advised) {
            let lives = by_rank(lives);
            let at = known.iter().position(|(others, _)| *others == lives).unwrap_or_else(|| {
                let packed = pack(&lives, enough, search.effort());
                known.push((lives, packed));
                known.len() - 1
            });
            let packed = &known[at].1;
            extent = extent.max(bottom + packed.extent);
            for (index, start) in indices.iter().zip(&packed.starts) {
                advised[*index].starts = [bottom + start; 2];
            }
        }
        let (mut parts, mut before_codes) = (Vec::new(), 0);
        for (pass, advised) in requests.passes().iter().zip(&advised) {
            for (index, stretch) in pass.parts.iter().enumerate() {
                let advised = &advised[pass.range(index)];
                if !stretch.part.has_codes() {
                    before_codes = advised.iter().map(Advised::end).fold(before_codes, u64::max);
                }
                parts.push(((pass.part, stretch.part), advised.to_vec()));
            }
        }
        Self { extent, before_codes, segment: profile.planned_segment_for(extent), parts }
    }

    /// Where the last block ends.
    pub fn extent(&self) -> Bytes {
        Bytes(self.extent)
    }

    /// The segment that holds them all: the extent, rounded up as memory is mapped, or as the pool grows.
    pub fn segment(&self) -> Bytes {
        Bytes(self.segment)
    }

    /// The places of a part; if this pass is not planned, the places of the same part in the last pass that has it.
    fn find(&self, pass: Part, part: Part) -> Option<usize> {
        let is_same = |(known, _): &((Part, Part), Vec<Advised>)| *known == (pass, part);
        let is_alike = |(known, _): &((Part, Part), Vec<Advised>)| known.1 == part;
        self.parts.iter().position(is_same).or_else(|| self.parts.iter().rposition(is_alike))
    }
}

/// The blocks of a part of a pass that outlive it, each with its turn.
fn outliving(pass: &Pass, index: usize) -> impl Iterator<Item = (usize, Turn)> + '_ {
    let mut counts: HashMap<u64, usize> = HashMap::new();
    let outlives = move |at: &usize| pass.outlives(index, &pass.blocks[*at]);
    pass.range(index).filter(outlives).map(move |at| {
        let bytes = pass.blocks[at].bytes;
        let count = counts.entry(bytes).or_default();
        *count += 1;
        (at, (bytes, *count - 1))
    })
}

/// The two places of each block of a micro-batch that is gone only in a later pass: there, its like comes while it is alive.
fn taking_turns(requests: &Requests, bottom: &mut u64) -> HashMap<Turn, [u64; 2]> {
    let mut turns = HashMap::new();
    for pass in requests.passes() {
        for index in micro_batches(pass) {
            for (at, turn) in outliving(pass, index) {
                if pass.blocks[at].end == End::Carried && !turns.contains_key(&turn) {
                    turns.insert(turn, [*bottom, *bottom + turn.0]);
                    *bottom += 2 * turn.0;
                }
            }
        }
    }
    turns
}

/// The micro-batches among the parts of a pass.
fn micro_batches(pass: &Pass) -> impl Iterator<Item = usize> + '_ {
    (0..pass.parts.len()).filter(|index| matches!(pass.parts[*index].part, Part::MicroBatch { .. }))
}

/// Places the blocks that outlive a pass below its other blocks: all its requests, and the others' indices and lives.
fn placed_below(
    pass: &Pass,
    turns: &HashMap<Turn, [u64; 2]>,
    bottom: &mut u64,
) -> (Vec<Advised>, (Vec<usize>, Vec<Life>)) {
    let mut starts: Vec<Option<[u64; 2]>> = vec![None; pass.blocks.len()];
    for index in micro_batches(pass) {
        for (at, turn) in outliving(pass, index) {
            let Some(both) = turns.get(&turn) else { continue };
            starts[at] = Some(*both);
            // In the very first step, no earlier micro-batch comes before the present one, so it has the other place.
            let is_like = |before: &usize| pass.blocks[*before].bytes == turn.0 && starts[*before].is_none();
            if let Some(before) = (pass.parts[index].first..at).find(is_like) {
                starts[before] = Some(*both);
            }
        }
    }
    let (mut indices, mut lives) = (Vec::new(), Vec::new());
    for (at, block) in pass.blocks.iter().enumerate() {
        match block.end {
            _ if starts[at].is_some() => {}
            End::Carried | End::Stays => {
                starts[at] = Some([*bottom; 2]);
                *bottom += block.bytes;
            }
            End::Died(died) => {
                indices.push(at);
                lives.push(Life { bytes: block.bytes, born: block.born, died });
            }
        }
    }
    let advised = |(block, starts): (&Block, Option<[u64; 2]>)| Advised {
        bytes: block.bytes,
        starts: starts.unwrap_or_default(),
    };
    (pass.blocks.iter().zip(starts).map(advised).collect(), (indices, lives))
}

/// Goes through the places of a run as it asks.
#[derive(Debug)]
pub struct Guide {
    places: Arc<Places>,
    pass: Part,
    /// The present part, among the parts of the places.
    part: Option<usize>,
    /// The number of its next request.
    next: usize,
    /// Whether the present part is one with codes.
    has_codes: bool,
}

/// Requests that are looked through for one of the right size, where the run has left some out.
const AHEAD: usize = 16;

impl Guide {
    /// A guide at the beginning.
    pub fn new(places: Arc<Places>) -> Self {
        Self { places, pass: Part::Start, part: None, next: 0, has_codes: false }
    }

    /// The places that it goes through.
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// Where the last block may end by now. Codes are made when everything else is over; all other parts come again and again.
    pub fn reach(&self) -> Bytes {
        Bytes(if self.has_codes { self.places.extent } else { self.places.before_codes })
    }

    /// A part begins.
    pub fn enter(&mut self, part: Part) {
        if part.begins_pass() {
            self.pass = part;
        }
        (self.part, self.next) = (self.places.find(self.pass, part), 0);
        self.has_codes = part.has_codes();
    }

    /// Where a block of `bytes`, rounded, should begin; `None` if no such block is expected.
    pub fn next(&mut self, bytes: u64) -> Option<[u64; 2]> {
        let (_, expected) = self.places.parts.get(self.part?)?;
        let ahead = expected.get(self.next..)?.iter().take(AHEAD);
        let at = ahead.enumerate().find_map(|(i, advised)| (advised.bytes == bytes).then_some(self.next + i))?;
        self.next = at + 1;
        Some(expected[at].starts)
    }
}

#[cfg(test)]
mod tests;
