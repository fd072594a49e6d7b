//! A recording between two moments: the blocks that were allocated and freed, and the blocks alive at the peak.
//!
//! Always holds: blocks keep their indices from one recording to the next, because their tickets hold these indices. The index
//! of a freed block is used again, but not in the same recording, whose peak may be before.

use std::sync::Arc;

use super::repetition::Repeated;
use crate::{
    bytes::Bytes,
    memory::{Alive, Categories, Category, Phase, Point, Timeline, allocator::Allocator, timeline::LayerId},
};

/// A birth or a death.
#[derive(Debug, Clone, Copy)]
struct Event {
    block: u32,
    born: bool,
}

/// The block of a ticket.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block {
    pub(super) label: &'static str,
    pub(super) layer: LayerId,
    pub(super) category: Category,
    pub(super) bytes: u64,
}

/// The record of allocations and frees.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    blocks: Vec<Block>,
    /// The indices of blocks that were freed before this recording, and of those that were freed in it.
    free: Vec<u32>,
    freed: Vec<u32>,
    /// Which of them were alive when the recording began.
    alive: Vec<bool>,
    events: Vec<Event>,
    points: Vec<Point>,
    /// Where the points of the last two micro-batches begin, the later one first.
    micro_batches: [usize; 2],
    live: Categories,
    high: Categories,
    high_total: u64,
    live_total: u64,
    peak_total: u64,
    peak_event: usize,
    peak_reserved: Bytes,
    peak_apart: [Bytes; 2],
    /// The largest block of a batch so far, and the bytes of pages that were touched when it was there, with the blocks of the
    /// batch that came next.
    fed: Option<(u64, Bytes)>,
    /// Whether nothing else came since.
    is_fed: bool,
    layers: Vec<LayerUse>,
    /// Whether a backward pass began in this recording.
    is_step: bool,
}

/// The memory of one layer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LayerUse {
    /// The most it held of each category, each at its own moment.
    pub high: Categories,
    /// Activations it held when the backward pass began.
    pub saved: Bytes,
    /// The bytes of the account in each category now.
    live: Categories,
}

/// A recording that was taken.
#[derive(Debug, Clone, Default)]
pub struct Recording {
    /// The timeline, one point an op.
    pub timeline: Timeline,
    at_peak: Vec<Block>,
    /// The bytes of each category then.
    pub categories_at_peak: Categories,
    /// The most bytes alive.
    pub live_peak: Bytes,
    /// The most bytes the allocator held, by its model.
    pub reserved_peak: Bytes,
    /// The most bytes of the range or the pool, and of the heap, each at its own moment. A process keeps the pages of both.
    pub apart_peak: [Bytes; 2],
    /// The bytes of the pages of a range on which blocks have lain until its end, from the beginning of the run.
    pub touched: Bytes,
    /// Those bytes when its largest batch had come; `None` if none came.
    pub fed: Option<Bytes>,
    /// Each layer's use, by [`LayerId`]; empty unless it is of a step.
    pub layers: Vec<LayerUse>,
}

impl Recording {
    /// The bytes alive at the peak of each layer, by [`LayerId`].
    pub fn bytes_at_peak(&self) -> Vec<u64> {
        let mut bytes = vec![0; self.timeline.layers.len()];
        self.at_peak.iter().for_each(|block| bytes[block.layer.0 as usize] += block.bytes);
        bytes
    }

    /// The blocks alive at the peak, largest first.
    pub fn alive_at_peak(&self) -> Vec<Alive> {
        let alive = |block: &Block| Alive {
            name: block.label,
            layer: self.timeline.layer(block.layer).to_owned(),
            category: block.category,
            bytes: block.bytes,
        };
        // Pairs are moved in place of blocks: a model of many layers has tens of thousands.
        let mut order: Vec<(u64, u32)> = self.at_peak.iter().map(|block| block.bytes).zip(0..).collect();
        order.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
        order.into_iter().map(|(_, index)| alive(&self.at_peak[index as usize])).collect()
    }
}

impl LayerUse {
    fn born(&mut self, block: Block) {
        self.live.add(block.category, block.bytes);
        self.high.raise(block.category, self.live.get(block.category));
    }
}

impl Recorder {
    /// An empty recording of this allocator.
    pub(super) fn new(allocator: &Allocator) -> Self {
        Self { peak_reserved: allocator.reserved(), peak_apart: allocator.apart(), ..Self::default() }
    }

    /// Notes the bytes that the allocator holds now.
    pub(super) fn holds(&mut self, allocator: &Allocator) {
        self.peak_reserved = self.peak_reserved.max(allocator.reserved());
        self.peak_apart = most(self.peak_apart, allocator.apart());
    }

    /// Notes that a block of a batch, of so many bytes, has its place.
    pub(super) fn fed(&mut self, bytes: u64, allocator: &Allocator) {
        let largest = self.fed.map_or(0, |(largest, _)| largest);
        if bytes > largest || self.is_fed {
            self.fed = Some((bytes.max(largest), allocator.touched()));
            self.is_fed = true;
        }
    }

    /// Notes that a block was allocated, and returns its index.
    pub(super) fn born(&mut self, block: Block) -> u32 {
        let index = self.free.pop().unwrap_or(self.blocks.len() as u32);
        match self.blocks.get_mut(index as usize) {
            Some(free) => *free = block,
            None => self.blocks.push(block),
        }
        let owner = block.layer.0 as usize;
        if self.layers.len() <= owner {
            self.layers.resize(owner + 1, LayerUse::default());
        }
        self.layers[owner].born(block);
        self.is_fed &= block.category == Category::Batch;
        self.events.push(Event { block: index, born: true });
        self.live.add(block.category, block.bytes);
        self.live_total += block.bytes;
        if self.live_total > self.high_total {
            (self.high, self.high_total) = (self.live, self.live_total);
        }
        if self.live_total > self.peak_total {
            (self.peak_total, self.peak_event) = (self.live_total, self.events.len());
        }
        index
    }

    /// Notes that a block was freed.
    pub(super) fn died(&mut self, index: u32) {
        let block = self.blocks[index as usize];
        self.layers[block.layer.0 as usize].live.take(block.category, block.bytes);
        self.events.push(Event { block: index, born: false });
        self.freed.push(index);
        self.live.take(block.category, block.bytes);
        self.live_total -= block.bytes;
    }

    /// Gives a block another name from here on, and returns its new index.
    pub(super) fn renamed(&mut self, index: u32, label: &'static str) -> u32 {
        self.died(index);
        self.born(Block { label, ..self.blocks[index as usize] })
    }

    /// Marks the beginning of the backward pass: the activations that each layer holds now are those that it saved.
    pub(super) fn forward_ended(&mut self) {
        self.is_step = true;
        for layer in &mut self.layers {
            layer.saved = layer.live.get(Category::Activations);
        }
    }

    /// Makes room for the points of so many ops.
    pub(super) fn expect(&mut self, ops: usize) {
        self.points.reserve_exact(ops);
    }

    /// An op ran.
    pub(super) fn point(&mut self, op: &'static str, layer: LayerId, phase: Phase) {
        self.points.push(Point { op, layer, phase, live: Bytes(self.high_total), categories: self.high });
        (self.high, self.high_total) = (self.live, self.live_total);
    }

    /// Begins a micro-batch, after some that are left out: their points are those of the last ones.
    pub(super) fn begin_micro_batch(&mut self, left_out: Repeated) {
        if let Some(from) = usize::from(left_out.period).checked_sub(1).map(|place| self.micro_batches[place]) {
            let (points, times) = (from..self.points.len(), left_out.times as usize);
            self.points.reserve(points.len() * times);
            (0..times).for_each(|_| self.points.extend_from_within(points.clone()));
        }
        self.micro_batches = [self.points.len(), self.micro_batches[0]];
    }

    /// Hands out the recording of this allocator, and goes on from the bytes alive now.
    pub(super) fn take(&mut self, layers: Arc<[String]>, allocator: &Allocator) -> Recording {
        self.alive.resize(self.blocks.len(), false);
        let (until_peak, after) = self.events.split_at(self.peak_event);
        until_peak.iter().for_each(|event| self.alive[event.block as usize] = event.born);
        let mut at_peak = Vec::with_capacity(self.alive.iter().filter(|alive| **alive).count());
        at_peak.extend(self.blocks.iter().zip(&self.alive).filter(|(_, alive)| **alive).map(|(block, _)| *block));
        after.iter().for_each(|event| self.alive[event.block as usize] = event.born);
        self.events.clear();
        self.free.append(&mut self.freed);
        let mut categories = Categories::default();
        for block in &at_peak {
            categories.add(block.category, block.bytes);
        }
        let recording = Recording {
            timeline: Timeline { points: std::mem::take(&mut self.points), layers },
            at_peak,
            categories_at_peak: categories,
            live_peak: Bytes(self.peak_total),
            reserved_peak: self.peak_reserved,
            apart_peak: self.peak_apart,
            touched: allocator.touched(),
            fed: self.fed.take().map(|(_, touched)| touched),
            layers: if std::mem::take(&mut self.is_step) { self.layers.clone() } else { Vec::new() },
        };
        // The next recording's peak starts from the bytes alive now; blocks keep their indices.
        (self.high, self.high_total) = (self.live, self.live_total);
        self.is_fed = false;
        (self.peak_total, self.peak_event) = (self.live_total, 0);
        (self.peak_reserved, self.peak_apart) = (allocator.reserved(), allocator.apart());
        recording
    }
}

/// The larger of each.
fn most(a: [Bytes; 2], b: [Bytes; 2]) -> [Bytes; 2] {
    [a[0].max(b[0]), a[1].max(b[1])]
}
