//! The engine's own account of every block: what is alive, for what, and whether one more may be.
//!
//! Owns the budget's refusal, the allocator's model and, when recording, the timeline of a pass. Always holds: `live` is
//! the sum of the tickets that exist, each as the allocator counts it. Refuses, before anything is allocated: on the
//! processor an allocation that would take `live` past the budget; on a GPU one for which the pool would grow until the
//! process, which is the context and the pool, is past it.
//! What the screen calls *measured* never comes from here.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
};

use serde::Serialize;

use crate::{
    bytes::Bytes,
    device::Target,
    error::BudgetError,
    experiment::Gpu,
    memory::{Alive, Categories, Category, Point, Timeline, allocator::Allocator, timeline::LayerId},
};

/// The part of a run that memory is used in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The model is made.
    #[default]
    Start,
    /// A micro-batch is brought to the device.
    Batch,
    /// The forward pass.
    Forward,
    /// A checkpointed segment's forward pass, again, on the way back.
    Recompute,
    /// The backward pass.
    Backward,
    /// Clipping and the update of the parameters.
    Optimizer,
    /// A forward pass over test data.
    Evaluate,
}

impl Phase {
    /// The name on screen.
    pub fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Batch => "batch",
            Self::Forward => "forward",
            Self::Recompute => "recompute",
            Self::Backward => "backward",
            Self::Optimizer => "optimizer",
            Self::Evaluate => "evaluate",
        }
    }
}

/// The account of one device in one run. Clones share it.
#[derive(Debug, Clone)]
pub struct Ledger(Rc<Account>);

#[derive(Debug)]
struct Account {
    budget: Option<Bytes>,
    /// What the process holds beside the pool, on a GPU.
    context: Bytes,
    allocator: RefCell<Allocator>,
    live: Cell<u64>,
    peak: Cell<u64>,
    phase: Cell<Phase>,
    layer: Cell<LayerId>,
    op: Cell<&'static str>,
    layers: RefCell<Vec<String>>,
    recorder: RefCell<Option<Recorder>>,
}

/// A birth or a death.
#[derive(Debug, Clone, Copy)]
struct Event {
    block: u32,
    born: bool,
}

#[derive(Debug, Clone, Copy)]
struct Block {
    label: &'static str,
    layer: LayerId,
    category: Category,
    bytes: u64,
}

#[derive(Debug, Default)]
struct Recorder {
    blocks: Vec<Block>,
    events: Vec<Event>,
    points: Vec<Point>,
    live: Categories,
    high: Categories,
    high_total: u64,
    live_total: u64,
    peak_total: u64,
    peak_event: usize,
    peak_reserved: u64,
    layers: Vec<LayerUse>,
}

/// What one layer takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LayerUse {
    /// The most it held of each category, each at its own moment.
    pub high: Categories,
    /// Activations it held when the backward pass began.
    pub saved: Bytes,
    /// What it holds of each category now.
    live: Categories,
}

/// What a recording holds once it is taken.
#[derive(Debug, Clone, Default)]
pub struct Recording {
    /// One point an op.
    pub timeline: Timeline,
    /// What was alive when most was, largest first.
    pub alive_at_peak: Vec<Alive>,
    /// What each category held then.
    pub categories_at_peak: Categories,
    /// The most bytes alive.
    pub live_peak: Bytes,
    /// The most bytes the allocator held, by its model.
    pub reserved_peak: Bytes,
    /// Each layer's use, by [`LayerId`].
    pub layers: Vec<LayerUse>,
}

/// The right to some bytes; dropping it gives them back.
#[derive(Debug)]
pub struct Ticket {
    ledger: Ledger,
    bytes: u64,
    /// Number of the place it has in a pool.
    place: u32,
    /// Index of the block in the recording; `u32::MAX` when it was not recorded.
    block: Cell<u32>,
}

const UNRECORDED: u32 = u32::MAX;

impl Ledger {
    /// An empty account of the processor. With `budget`, nothing is let past it; with `recording`, the pass is recorded.
    pub fn new(budget: Option<Bytes>, recording: bool) -> Self {
        Self::of(Allocator::heap(), Bytes::ZERO, budget, recording)
    }

    /// An empty account of what `target` is: that of a pool where it is a GPU. A pool knows its `budget` even where
    /// nothing is refused; `is_strict` makes it the line.
    pub fn for_target(target: &Target, choice: &Gpu, budget: Bytes, is_strict: bool, recording: bool) -> Self {
        let context = target.profile().map_or(Bytes::ZERO, |profile| profile.context);
        Self::of(Allocator::of(target, choice, budget), context, is_strict.then_some(budget), recording)
    }

    fn of(allocator: Allocator, context: Bytes, budget: Option<Bytes>, recording: bool) -> Self {
        let peak_reserved = allocator.reserved().0;
        Self(Rc::new(Account {
            budget,
            context,
            allocator: RefCell::new(allocator),
            live: Cell::new(0),
            peak: Cell::new(0),
            phase: Cell::default(),
            layer: Cell::default(),
            op: Cell::new("allocate"),
            layers: RefCell::new(vec!["run".to_owned()]),
            recorder: RefCell::new(recording.then(|| Recorder { peak_reserved, ..Recorder::default() })),
        }))
    }

    /// Takes the right to `bytes`.
    ///
    /// # Errors
    /// Refused when it would take the run past the budget; the ledger is then as before.
    pub fn take(&self, bytes: u64, category: Category, label: &'static str) -> Result<Ticket, BudgetError> {
        let account = &*self.0;
        let mut allocator = account.allocator.borrow_mut();
        let held = allocator.held(bytes);
        if let Some(budget) = account.budget {
            let would_be = self.would_be(&allocator, bytes);
            if would_be > budget {
                return Err(BudgetError {
                    layer: self.layer_path(),
                    op: account.op.get(),
                    label,
                    asked: Bytes(held),
                    live: would_be.saturating_sub(Bytes(held)),
                    budget,
                });
            }
        }
        let place = allocator.take(bytes);
        account.live.set(account.live.get() + held);
        account.peak.set(account.peak.get().max(account.live.get()));
        let block = match &mut *account.recorder.borrow_mut() {
            Some(recorder) => {
                recorder.peak_reserved = recorder.peak_reserved.max(allocator.reserved().0);
                recorder.born(Block { label, layer: account.layer.get(), category, bytes: held })
            }
            None => UNRECORDED,
        };
        Ok(Ticket { ledger: self.clone(), bytes, place, block: Cell::new(block) })
    }

    /// What would count against the budget with `bytes` more: what is alive, or on a GPU the whole process.
    fn would_be(&self, allocator: &Allocator, bytes: u64) -> Bytes {
        match allocator {
            Allocator::Heap(_) => Bytes(self.0.live.get() + bytes),
            Allocator::Pool(_) => self.0.context + allocator.reserved_with(bytes),
        }
    }

    /// A step is over: a pool may give back what is empty.
    pub fn step_ended(&self) {
        self.0.allocator.borrow_mut().step_ended();
    }

    /// What the allocator holds now, by its model.
    pub fn reserved(&self) -> Bytes {
        self.0.allocator.borrow().reserved()
    }

    /// Bytes alive.
    pub fn live(&self) -> Bytes {
        Bytes(self.0.live.get())
    }

    /// The most bytes alive since the start.
    pub fn peak(&self) -> Bytes {
        Bytes(self.0.peak.get())
    }

    /// The line, if there is one.
    pub fn budget(&self) -> Option<Bytes> {
        self.0.budget
    }

    /// The part of the run.
    pub fn phase(&self) -> Phase {
        self.0.phase.get()
    }

    /// Names the part of the run from here on; returns the one before.
    pub fn set_phase(&self, phase: Phase) -> Phase {
        let before = self.0.phase.replace(phase);
        if (before, phase) == (Phase::Forward, Phase::Backward)
            && let Some(recorder) = &mut *self.0.recorder.borrow_mut()
        {
            recorder.forward_ended();
        }
        before
    }

    /// Names the op whose allocations follow.
    pub fn set_op(&self, op: &'static str) {
        self.0.op.set(op);
    }

    /// The op whose allocations are under way.
    pub fn op(&self) -> &'static str {
        self.0.op.get()
    }

    /// The layer that allocations are booked on.
    pub fn layer(&self) -> LayerId {
        self.0.layer.get()
    }

    /// Books what follows on `layer`; returns the one before.
    pub fn set_layer(&self, layer: LayerId) -> LayerId {
        self.0.layer.replace(layer)
    }

    /// The id of the layer with this path, made at first use.
    pub fn layer_id(&self, path: &str) -> LayerId {
        let mut layers = self.0.layers.borrow_mut();
        let index = layers.iter().position(|known| known == path).unwrap_or_else(|| {
            layers.push(path.to_owned());
            layers.len() - 1
        });
        LayerId(index as u32)
    }

    /// Path of the present layer.
    pub fn layer_path(&self) -> String {
        self.0.layers.borrow()[self.0.layer.get().0 as usize].clone()
    }

    /// Closes a point of the timeline: `op` ran.
    pub fn ran(&self, op: &'static str) {
        if let Some(recorder) = &mut *self.0.recorder.borrow_mut() {
            recorder.point(op, self.0.layer.get(), self.0.phase.get());
        }
    }

    /// Hands out what was recorded since the last call (or the start) and goes on recording from what is alive now.
    /// Empty when the ledger does not record.
    pub fn take_recording(&self) -> Recording {
        let layers: Arc<[String]> = self.0.layers.borrow().as_slice().into();
        let reserved = self.reserved().0;
        self.0.recorder.borrow_mut().as_mut().map(|recorder| recorder.take(layers, reserved)).unwrap_or_default()
    }
}

impl LayerUse {
    fn born(&mut self, block: Block) {
        self.live.add(block.category, block.bytes);
        self.high.raise(block.category, self.live.get(block.category));
    }
}

impl Recorder {
    fn born(&mut self, block: Block) -> u32 {
        let index = self.blocks.len() as u32;
        self.blocks.push(block);
        let owner = block.layer.0 as usize;
        if self.layers.len() <= owner {
            self.layers.resize(owner + 1, LayerUse::default());
        }
        self.layers[owner].born(block);
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

    fn died(&mut self, index: u32) {
        let block = self.blocks[index as usize];
        self.layers[block.layer.0 as usize].live.take(block.category, block.bytes);
        self.events.push(Event { block: index, born: false });
        self.live.take(block.category, block.bytes);
        self.live_total -= block.bytes;
    }

    fn forward_ended(&mut self) {
        for layer in &mut self.layers {
            layer.saved = layer.live.get(Category::Activations);
        }
    }

    fn point(&mut self, op: &'static str, layer: LayerId, phase: Phase) {
        self.points.push(Point { op, layer, phase, live: Bytes(self.high_total), categories: self.high });
        (self.high, self.high_total) = (self.live, self.live_total);
    }

    fn take(&mut self, layers: Arc<[String]>, reserved: u64) -> Recording {
        let mut alive = vec![false; self.blocks.len()];
        for event in &self.events[..self.peak_event] {
            alive[event.block as usize] = event.born;
        }
        let at_peak: Vec<Block> =
            self.blocks.iter().zip(&alive).filter(|(_, alive)| **alive).map(|(b, _)| *b).collect();
        let mut categories = Categories::default();
        for block in &at_peak {
            categories.add(block.category, block.bytes);
        }
        let mut alive_at_peak: Vec<Alive> = at_peak
            .iter()
            .map(|b| Alive {
                name: b.label,
                layer: layers[b.layer.0 as usize].clone(),
                category: b.category,
                bytes: b.bytes,
            })
            .collect();
        alive_at_peak.sort_by_key(|block| std::cmp::Reverse(block.bytes));
        let recording = Recording {
            timeline: Timeline { points: std::mem::take(&mut self.points), layers },
            alive_at_peak,
            categories_at_peak: categories,
            live_peak: Bytes(self.peak_total),
            reserved_peak: Bytes(self.peak_reserved),
            layers: self.layers.clone(),
        };
        // The next recording's peak starts from what is alive now; blocks keep their indices.
        (self.high, self.high_total) = (self.live, self.live_total);
        (self.peak_total, self.peak_event) = (self.live_total, self.events.len());
        self.peak_reserved = reserved;
        recording
    }
}

impl Ticket {
    /// The bytes it stands for.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Names the block anew from here on.
    pub fn rename(&self, label: &'static str) {
        if self.block.get() != UNRECORDED
            && let Some(recorder) = &mut *self.ledger.0.recorder.borrow_mut()
        {
            let block = recorder.blocks[self.block.get() as usize];
            recorder.died(self.block.get());
            self.block.set(recorder.born(Block { label, ..block }));
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let account = &*self.ledger.0;
        let mut allocator = account.allocator.borrow_mut();
        account.live.set(account.live.get() - allocator.held(self.bytes));
        allocator.give(self.place, self.bytes);
        if self.block.get() != UNRECORDED
            && let Some(recorder) = &mut *account.recorder.borrow_mut()
        {
            recorder.died(self.block.get());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{device::Profile, experiment::PoolPolicy};

    #[test]
    fn refuses_at_the_line_and_not_before() {
        let ledger = Ledger::new(Some(Bytes(100)), false);
        let held = ledger.take(60, Category::Batch, "input").expect("below the line");
        let refused = ledger.take(41, Category::Scratch, "columns").expect_err("past the line");
        assert_eq!((refused.asked, refused.live, refused.budget), (Bytes(41), Bytes(60), Bytes(100)));
        assert!(ledger.take(40, Category::Scratch, "columns").is_ok());
        drop(held);
        assert_eq!((ledger.live(), ledger.peak()), (Bytes(0), Bytes(100)));
    }

    /// A card of 1 GiB with a context of 400 MiB.
    fn card() -> Target {
        let shipped = &crate::device::profile::shipped()[0];
        let (context, capacity) = (Bytes::mib(400), Bytes::gib(1));
        Target::Gpu(Arc::new(Profile { context, capacity, ..(**shipped).clone() }))
    }

    #[test]
    fn on_a_gpu_the_line_is_the_process_and_a_block_is_whole_granules() {
        let ledger = Ledger::for_target(&card(), &Gpu::default(), Bytes::mib(464), true, false);
        let small = ledger.take(1, Category::Parameters, "weight").expect("below the line");
        assert_eq!((ledger.live(), ledger.reserved(), small.bytes()), (Bytes(512), Bytes::mib(32), 1));
        let large = ledger.take(32 << 20, Category::Activations, "output").expect("to the line");
        // Nothing is full, but one segment more is past the line.
        let refused = ledger.take(32 << 20, Category::Activations, "output").expect_err("past the line");
        assert_eq!(refused.live + refused.asked, Bytes::mib(400 + 96));
        assert!(ledger.take(31 << 20, Category::Scratch, "columns").is_ok());
        drop((small, large));
        assert_eq!((ledger.live(), ledger.reserved()), (Bytes(0), Bytes::mib(64)));
    }

    #[test]
    fn a_pool_that_gives_back_does_so_after_the_step() {
        let choice = Gpu { pool: PoolPolicy::GiveBack, ..Gpu::default() };
        let ledger = Ledger::for_target(&card(), &choice, Bytes::gib(1), false, true);
        drop(ledger.take(40 << 20, Category::Activations, "output"));
        assert_eq!(ledger.reserved(), Bytes::mib(64));
        ledger.step_ended();
        assert_eq!(ledger.reserved(), Bytes(0));
        let recording = ledger.take_recording();
        assert_eq!((recording.live_peak, recording.reserved_peak), (Bytes::mib(40), Bytes::mib(64)));
        assert_eq!(ledger.take_recording().reserved_peak, Bytes(0));
    }

    #[test]
    fn a_block_that_is_named_anew_has_each_name_in_its_time() {
        let ledger = Ledger::new(None, true);
        let batch = ledger.take(10, Category::Batch, "next batch").expect("no budget");
        let peak = ledger.take(10, Category::Scratch, "columns").expect("no budget");
        drop(peak);
        ledger.ran("relu");
        batch.rename("images");
        let names = |recording: &Recording| recording.alive_at_peak.iter().map(|b| b.name).collect::<Vec<_>>();
        let first = ledger.take_recording();
        assert_eq!((names(&first), first.live_peak), (vec!["next batch", "columns"], Bytes(20)));
        assert_eq!(names(&ledger.take_recording()), ["images"]);
    }

    #[test]
    fn a_recording_tells_what_was_alive_at_the_peak() {
        let ledger = Ledger::new(None, true);
        ledger.set_layer(ledger.layer_id("dense1"));
        let weight = ledger.take(10, Category::Parameters, "weight").expect("no budget");
        let scratch = ledger.take(100, Category::Scratch, "columns").expect("no budget");
        drop(scratch);
        ledger.ran("matmul");
        let output = ledger.take(50, Category::Activations, "output").expect("no budget");
        ledger.ran("relu");
        let recording = ledger.take_recording();
        assert_eq!(recording.live_peak, Bytes(110));
        assert_eq!(recording.alive_at_peak.iter().map(|b| b.name).collect::<Vec<_>>(), ["columns", "weight"]);
        assert_eq!(recording.timeline.points.iter().map(|p| p.live.0).collect::<Vec<_>>(), [110, 60]);
        assert_eq!(recording.timeline.layer(recording.timeline.points[0].layer), "dense1");
        drop(output);
        let next = ledger.take_recording();
        assert_eq!((next.live_peak, next.timeline.points.len()), (Bytes(60), 0));
        drop(weight);
    }
}
