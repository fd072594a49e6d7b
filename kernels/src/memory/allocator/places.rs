//! Where the blocks of a run will lie, found before its first step: a place for every request, in order.
//!
//! A dry run records every allocation and free ([`Requests`]), so the place of each block is chosen with knowledge of the
//! later ones. Blocks that outlive their pass (weights, the optimizer's state, the micro-batch that waits) lie at the
//! bottom, in the order of their allocation. Blocks that are allocated and freed in one pass are [packed](packing) above,
//! each pass for itself. A model that loses channels is one model and then another. The blocks of the smaller one that outlive
//! their pass lie above, where the larger one's activations were, so that both have room while one is made of the other.
//! The passes after that are packed below them, into the room of the larger one, and what is left of that is
//! [unneeded](Unneeded). Always holds: places are advice. A [`Guide`] goes through them as the run asks; a pool puts a block
//! there if that is free, and otherwise where it would without advice. So a run that asks for other blocks than were planned is
//! never wrong, only larger. Refuses nothing.

pub mod packing;
mod requests;

use std::{collections::HashMap, ops::Range, sync::Arc};

pub use self::requests::Requests;
use self::{
    packing::{EFFORT, Life, Packed, by_rank, most_alive, pack, pack_in_order},
    requests::{Block, End, Era, Pass},
};
use crate::{bytes::Bytes, device::profile::PoolProfile, memory::Part};

/// The places of a run's blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// Where the last block ends.
    extent: u64,
    /// Where the last block ends, by era.
    reaches: [Reach; 2],
    /// What the smaller model leaves unneeded, where channels are taken out.
    unneeded: Option<Unneeded>,
    /// The segment that holds them all.
    segment: u64,
    /// The expected requests and their places, by era, pass and part.
    parts: Vec<(Key, Vec<Advised>)>,
}

/// Where the last block of an era ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Reach {
    before_codes: u64,
    with_codes: u64,
}

/// Where no block lies once channels were taken out: between the places of blocks that come and go and those of the smaller
/// model, and above these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unneeded(pub [Range<u64>; 2]);

/// A part of a pass: the model's era, the pass, the part.
type Key = (Era, Part, Part);

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

    /// Places for these blocks. An extent of no more than `enough` is looked no further for.
    fn pack(self, lives: &[Life], enough: u64) -> Packed {
        const LITTLE: u64 = EFFORT / 20;
        /// Blocks of a deep model, for which a better order takes tens of milliseconds.
        const MANY: usize = 1_000;
        match self {
            Self::Careful => pack(lives, enough, EFFORT),
            Self::Quick => {
                let near = enough - enough / 100;
                let in_order = (lives.len() > MANY).then(|| pack_in_order(lives, near)).flatten();
                in_order.unwrap_or_else(|| pack(lives, enough, LITTLE))
            }
        }
    }
}

impl Places {
    /// The best places that were found for these requests, in a segment of a pool with this `profile`.
    pub fn of(requests: &Requests, profile: &PoolProfile, search: Search) -> Self {
        let mut outliving = Outliving::default();
        let turns = taking_turns(requests, &mut outliving.always);
        let mut placed: Vec<Placed> =
            requests.passes().iter().map(|pass| placed_below(pass, &turns, &mut outliving)).collect();
        // Only the largest pass decides the extent, and a little above it costs little.
        let above = |pass: &Pass| outliving.below(pass) + outliving.on_top(pass);
        let most = |(pass, placed): (&Pass, &Placed)| above(pass) + most_alive(&placed.lives);
        let most = requests.passes().iter().zip(&placed).map(most).max().unwrap_or(0);
        let (mut extent, mut top) = (outliving.most(), 0);
        // The first step and the later ones often have the same lives.
        let mut known: Vec<(Vec<Life>, Packed)> = Vec::new();
        for (pass, placed) in requests.passes().iter().zip(&mut placed) {
            let lives = by_rank(&placed.lives);
            let at = known.iter().position(|(others, _)| *others == lives).unwrap_or_else(|| {
                let enough = (most + most / search.close()).saturating_sub(above(pass));
                let packed = search.pack(&lives, enough);
                known.push((lives, packed));
                known.len() - 1
            });
            let packed = &known[at].1;
            extent = extent.max(above(pass) + packed.extent);
            if pass.era == Era::Thinned {
                top = top.max(outliving.below(pass) + packed.extent);
            }
            for (index, start) in placed.indices.iter().zip(&packed.starts) {
                placed.advised[*index].starts = [outliving.below(pass) + start; 2];
            }
        }
        for placed in &mut placed {
            for (index, at) in &placed.of_whole {
                placed.advised[*index].starts = [outliving.always + at; 2];
            }
            for (index, at) in &placed.of_thinned {
                placed.advised[*index].starts = [top + at; 2];
            }
        }
        let (mut parts, mut reaches) = (Vec::new(), [Reach::default(); 2]);
        for (pass, placed) in requests.passes().iter().zip(&placed) {
            for (index, stretch) in pass.parts.iter().enumerate() {
                let advised = &placed.advised[pass.range(index)];
                let reach = &mut reaches[pass.era as usize];
                let end = advised.iter().map(Advised::end).max().unwrap_or(0);
                reach.with_codes = reach.with_codes.max(end);
                if !stretch.part.has_codes() {
                    reach.before_codes = reach.before_codes.max(end);
                }
                parts.push(((pass.era, pass.part, stretch.part), advised.to_vec()));
            }
        }
        let unneeded = unneeded(requests, &placed, outliving.always, top);
        Self { extent, reaches, unneeded, segment: profile.planned_segment_for(extent), parts }
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
    fn find(&self, key: Key) -> Option<usize> {
        let is_alike = |(known, _): &(Key, Vec<Advised>)| (known.0, known.2) == (key.0, key.2);
        self.parts.iter().position(|(known, _)| *known == key).or_else(|| self.parts.iter().rposition(is_alike))
    }
}

/// The bytes of the blocks that outlive their pass.
#[derive(Debug, Default)]
struct Outliving {
    /// Those for the whole run, and for micro-batches that take turns: at the very bottom.
    always: u64,
    /// Those that are gone once channels are taken out, above these.
    of_whole: u64,
    /// Those that come from then on: above all others of their era.
    of_thinned: u64,
}

impl Outliving {
    /// What lies below the other blocks of a pass.
    fn below(&self, pass: &Pass) -> u64 {
        let is_whole = pass.era == Era::Whole || pass.part == Part::Prune;
        self.always + if is_whole { self.of_whole } else { 0 }
    }

    /// What lies above them.
    fn on_top(&self, pass: &Pass) -> u64 {
        if pass.era == Era::Thinned { self.of_thinned } else { 0 }
    }

    /// The most of them at a time.
    fn most(&self) -> u64 {
        self.always + self.of_whole.max(self.of_thinned)
    }
}

/// The requests of a pass.
struct Placed {
    advised: Vec<Advised>,
    /// The indices of those that are allocated and freed in it, and their lives.
    indices: Vec<usize>,
    lives: Vec<Life>,
    /// Those of the whole model, by where they lie above what is there always.
    of_whole: Vec<(usize, u64)>,
    /// Those of the smaller model, by where they lie above all others.
    of_thinned: Vec<(usize, u64)>,
}

/// What is unneeded once channels were taken out, if they are: the places of the smaller model begin at `top`.
fn unneeded(requests: &Requests, placed: &[Placed], always: u64, top: u64) -> Option<Unneeded> {
    let (mut below, mut end) = (always, None);
    for (pass, placed) in requests.passes().iter().zip(placed).filter(|(pass, _)| pass.era == Era::Thinned) {
        let passing = placed.indices.iter().filter(|_| pass.part != Part::Prune);
        below = passing.map(|index| placed.advised[*index].end()).fold(below, u64::max);
        end = end.max(placed.of_thinned.iter().map(|(index, _)| placed.advised[*index].end()).max());
    }
    end.map(|end| Unneeded([below..top, end..u64::MAX]))
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

/// The two places of each block of a micro-batch that is gone only in a later pass: there, its like comes while it is alive. What
/// goes with the larger model is the optimizer's, and has no like.
fn taking_turns(requests: &Requests, bottom: &mut u64) -> HashMap<Turn, [u64; 2]> {
    let mut turns = HashMap::new();
    for pass in requests.passes() {
        for index in micro_batches(pass) {
            for (at, turn) in outliving(pass, index) {
                if pass.blocks[at].end == (End::Carried { by_prune: false }) && !turns.contains_key(&turn) {
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

/// Places the blocks of a pass that outlive it, and tells the others.
fn placed_below(pass: &Pass, turns: &HashMap<Turn, [u64; 2]>, outliving: &mut Outliving) -> Placed {
    let starts = turning(pass, turns);
    let advised = |(block, starts): (&Block, &Option<[u64; 2]>)| Advised {
        bytes: block.bytes,
        starts: starts.unwrap_or_default(),
    };
    let advised = pass.blocks.iter().zip(&starts).map(advised).collect();
    let (indices, lives, of_whole, of_thinned) = Default::default();
    let mut placed = Placed { advised, indices, lives, of_whole, of_thinned };
    for (at, block) in pass.blocks.iter().enumerate().filter(|(at, _)| starts[*at].is_none()) {
        match (block.end, pass.era) {
            (End::Died(died), _) => {
                placed.indices.push(at);
                placed.lives.push(Life { bytes: block.bytes, born: block.born, died });
            }
            (End::Carried { by_prune: true }, Era::Whole) => {
                placed.of_whole.push((at, outliving.of_whole));
                outliving.of_whole += block.bytes;
            }
            (_, Era::Whole) => {
                placed.advised[at].starts = [outliving.always; 2];
                outliving.always += block.bytes;
            }
            (_, Era::Thinned) => {
                placed.of_thinned.push((at, outliving.of_thinned));
                outliving.of_thinned += block.bytes;
            }
        }
    }
    placed
}

/// The places of the blocks of a pass that take turns.
fn turning(pass: &Pass, turns: &HashMap<Turn, [u64; 2]>) -> Vec<Option<[u64; 2]>> {
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
    starts
}

/// Goes through the places of a run as it asks.
#[derive(Debug)]
pub struct Guide {
    places: Arc<Places>,
    era: Era,
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
        Self { places, era: Era::default(), pass: Part::Start, part: None, next: 0, has_codes: false }
    }

    /// The places that it goes through.
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// Where the last block may end by now. Codes are made when everything else is over; all other parts of an era come again
    /// and again.
    pub fn reach(&self) -> Bytes {
        let reach = self.places.reaches[self.era as usize];
        Bytes(if self.has_codes { reach.with_codes } else { reach.before_codes })
    }

    /// Where no block lies from now on, if channels are being taken out.
    pub fn unneeded(&self) -> Option<&Unneeded> {
        self.places.unneeded.as_ref().filter(|_| self.pass == Part::Prune)
    }

    /// A part begins.
    pub fn enter(&mut self, part: Part) {
        if part.begins_pass() {
            (self.era, self.pass) = (self.era.with(part), part);
        }
        (self.part, self.next) = (self.places.find((self.era, self.pass, part)), 0);
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
