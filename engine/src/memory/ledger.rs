//! The engine's own account of every block: what is alive, for what, and whether one more may be.
//!
//! Owns the budget's refusal and, when recording, the timeline of a pass. Always holds: `live` is the sum of the
//! tickets that exist. Refuses: an allocation that would take `live` past the budget, before anything is allocated.
//! What the screen calls *measured* never comes from here.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
};

use serde::Serialize;

use crate::{
    bytes::Bytes,
    error::BudgetError,
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
    reserved: u64,
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
    category: Category,
    /// Index of the block in the recording; `u32::MAX` when it was not recorded.
    block: u32,
}

const UNRECORDED: u32 = u32::MAX;

impl Ledger {
    /// An empty account. With `budget`, nothing is let past it; with `recording`, the pass is recorded.
    pub fn new(budget: Option<Bytes>, recording: bool) -> Self {
        Self(Rc::new(Account {
            budget,
            live: Cell::new(0),
            peak: Cell::new(0),
            phase: Cell::default(),
            layer: Cell::default(),
            op: Cell::new("allocate"),
            layers: RefCell::new(vec!["run".to_owned()]),
            recorder: RefCell::new(recording.then(Recorder::default)),
        }))
    }

    /// Takes the right to `bytes`.
    ///
    /// # Errors
    /// Refused when it would take what is alive past the budget; the ledger is then as before.
    pub fn take(&self, bytes: u64, category: Category, label: &'static str) -> Result<Ticket, BudgetError> {
        let account = &*self.0;
        let live = account.live.get() + bytes;
        if let Some(budget) = account.budget
            && live > budget.0
        {
            return Err(BudgetError {
                layer: self.layer_path(),
                op: account.op.get(),
                label,
                asked: Bytes(bytes),
                live: Bytes(live - bytes),
                budget,
            });
        }
        account.live.set(live);
        account.peak.set(account.peak.get().max(live));
        let block = match &mut *account.recorder.borrow_mut() {
            Some(recorder) => recorder.born(Block { label, layer: account.layer.get(), category, bytes }),
            None => UNRECORDED,
        };
        Ok(Ticket { ledger: self.clone(), bytes, category, block })
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
        self.0.recorder.borrow_mut().as_mut().map(|recorder| recorder.take(layers)).unwrap_or_default()
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
        self.reserved += Allocator::Heap.reserved(block.bytes);
        self.peak_reserved = self.peak_reserved.max(self.reserved);
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
        self.reserved -= Allocator::Heap.reserved(block.bytes);
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

    fn take(&mut self, layers: Arc<[String]>) -> Recording {
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
        self.peak_reserved = self.reserved;
        recording
    }
}

impl Ticket {
    /// The bytes it stands for.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What they are for.
    pub fn category(&self) -> Category {
        self.category
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let account = &*self.ledger.0;
        account.live.set(account.live.get() - self.bytes);
        if self.block != UNRECORDED
            && let Some(recorder) = &mut *account.recorder.borrow_mut()
        {
            recorder.died(self.block);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
