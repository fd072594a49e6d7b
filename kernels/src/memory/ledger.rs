//! The engine's own account of every block: the live blocks, their purpose, and whether one more fits.
//!
//! Owns the budget's refusal, the allocator's model and, when recording, the timeline of a pass. Always holds: `live` is the
//! sum of the tickets that exist, each as the allocator counts it, and of the bookkeeping of the present phase. Refuses,
//! before anything is allocated: on the processor an allocation that would take `live` past the budget; on a GPU one for
//! which the pool would grow until the process, which is the context and the pool, is past it. A *measured* figure on screen
//! never comes from here.

mod books;
mod event_log;
mod layers;
mod places;
mod record;
mod recorder;
mod repetition;

use std::{
    cell::{Cell, RefCell},
    iter,
    ops::Range,
    rc::Rc,
    sync::Arc,
};

pub use self::recorder::{LayerUse, Recording};
use self::{
    layers::Layers,
    record::{Record, UNRECORDED},
    recorder::{Block, Recorder},
    repetition::Repetition,
};
use crate::{
    bytes::Bytes,
    device::{PoolPolicy, Target},
    error::BudgetError,
    layer_path::{self, Scope},
    memory::{
        Category, Phase,
        allocator::{Allocator, Place},
        bookkeeping::Books,
        host::{LimitedBy, Line},
        tally,
        timeline::LayerId,
    },
};

/// The account of one device in one run. Clones share it.
#[derive(Debug, Clone)]
pub struct Ledger(Rc<Account>);

#[derive(Debug)]
struct Account {
    budget: Option<Bytes>,
    limited_by: Cell<LimitedBy>,
    /// The memory of the process in addition to the pool, on a GPU.
    context: Cell<Bytes>,
    allocator: RefCell<Allocator>,
    /// On a GPU, what the process would take with the planned places, if the budget has no room for them.
    planned: Cell<Option<Bytes>>,
    live: Cell<u64>,
    /// How many tickets there are.
    blocks: Cell<u64>,
    peak: Cell<u64>,
    phase: Cell<Phase>,
    layer: Cell<LayerId>,
    op: Cell<&'static str>,
    layers: RefCell<Layers>,
    record: RefCell<Record>,
    books: Cell<Books>,
    /// Index of the bookkeeping's block in the recording, or [`UNRECORDED`].
    books_block: Cell<u32>,
    repetition: Cell<Repetition>,
}

/// The blocks that are alive, without the engine's bookkeeping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blocks {
    /// How many there are.
    pub count: u64,
    /// Their bytes.
    pub bytes: Bytes,
}

/// The right to some bytes. Its drop gives them back.
#[derive(Debug)]
pub struct Ticket {
    ledger: Ledger,
    bytes: u64,
    /// Number of its place in a pool.
    place: u32,
    /// Index of the block in the recording, or [`UNRECORDED`].
    block: Cell<u32>,
}

impl Ledger {
    /// An empty account of the processor, whose tensors are on the heap. It refuses an allocation that would cross a
    /// `budget`; with `recording`, it records the pass.
    pub fn new(budget: Option<Bytes>, recording: bool) -> Self {
        Self::of(Allocator::heap(), Bytes::ZERO, budget, recording)
    }

    /// An empty account of the processor that refuses an allocation that would cross `line`, and gives tensors places in a
    /// range, or leaves them on the heap.
    pub fn within(line: Line, is_in_range: bool) -> Self {
        let ledger = Self::of(Allocator::of_processor(is_in_range), Bytes::ZERO, Some(line.bytes), false);
        ledger.0.limited_by.set(line.limited_by);
        ledger
    }

    /// An empty account of `target`; a GPU has a pool. A pool knows its `budget` even when nothing is refused; `is_strict`
    /// makes the budget the line.
    pub fn for_target(target: &Target, policy: PoolPolicy, budget: Bytes, is_strict: bool, recording: bool) -> Self {
        let context = target.profile().map_or(Bytes::ZERO, |profile| profile.context);
        Self::of(Allocator::of(target, policy, budget), context, is_strict.then_some(budget), recording)
    }

    fn of(allocator: Allocator, context: Bytes, budget: Option<Bytes>, recording: bool) -> Self {
        let recorder = Recorder::new(&allocator);
        Self(Rc::new(Account {
            budget,
            limited_by: Cell::default(),
            context: Cell::new(context),
            allocator: RefCell::new(allocator),
            planned: Cell::default(),
            live: Cell::new(0),
            blocks: Cell::new(0),
            peak: Cell::new(0),
            phase: Cell::default(),
            layer: Cell::default(),
            op: Cell::new("allocate"),
            layers: RefCell::new(Layers::new("run")),
            record: RefCell::new(if recording { Record::Recorder(recorder) } else { Record::None }),
            books: Cell::default(),
            books_block: Cell::new(UNRECORDED),
            repetition: Cell::default(),
        }))
    }

    /// Takes the right to the `bytes` of a tensor, or of scratch. The block has a place if the allocator's model has places.
    ///
    /// # Errors
    /// Fails when the bytes would cross the budget; the ledger is then as before.
    pub fn take(&self, bytes: u64, category: Category, label: &'static str) -> Result<Ticket, BudgetError> {
        let account = &*self.0;
        let mut allocator = account.allocator.borrow_mut();
        let held = allocator.held(bytes);
        if let Some(budget) = account.budget {
            let would_be = self.would_be(&allocator, bytes);
            if would_be > budget {
                // A pool that grows comes to the line in segments, and may so pass by what the places take, which is what the
                // run is predicted to take.
                let would_be = account.planned.get().map_or(would_be, |planned| would_be.min(planned));
                return Err(BudgetError {
                    layer: self.layer_path(),
                    op: account.op.get(),
                    label,
                    asked: Bytes(held),
                    live: would_be.saturating_sub(Bytes(held)),
                    budget,
                    limited_by: account.limited_by.get(),
                    is_planned: false,
                    during: account.phase.get().during(),
                    mend: None,
                });
            }
        }
        let place = allocator.take(bytes);
        account.live.set(account.live.get() + held);
        account.blocks.set(account.blocks.get() + 1);
        account.peak.set(account.peak.get().max(account.live.get()));
        let mut record = account.record.borrow_mut();
        record.holds(&allocator);
        if category == Category::Batch {
            record.fed(held, &allocator);
        }
        let block = record.born(Block { label, layer: account.layer.get(), category, bytes: held });
        Ok(Ticket { ledger: self.clone(), bytes, place, block: Cell::new(block) })
    }

    /// The bytes that would count against the budget with `bytes` more: those alive, or on a GPU the whole process.
    fn would_be(&self, allocator: &Allocator, bytes: u64) -> Bytes {
        match allocator {
            // The bookkeeping of a phase that has begun may be past the budget already.
            Allocator::Heap(_) | Allocator::Range(_) => Bytes((self.0.live.get() + bytes).max(self.0.peak.get())),
            Allocator::Pool(pool) => self.0.context.get() + pool.reserved() + pool.growth(bytes),
        }
    }

    /// The process holds this much in addition to the pool from here on: on a GPU that much less of the budget is left.
    pub fn set_context(&self, context: Bytes) {
        self.0.context.set(context);
    }

    /// A step is over, or the taking out of channels: a pool may give back empty memory. Returns the pages of a range that it
    /// gives back, as long as it is asked for them.
    pub fn step_ended(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.0.allocator.borrow_mut().step_ended();
        if let Record::Log(log) = &mut *self.0.record.borrow_mut() {
            log.step_ended();
        }
        iter::from_fn(|| self.0.allocator.borrow_mut().give_back())
    }

    /// The bytes that the allocator holds now, by its model.
    pub fn reserved(&self) -> Bytes {
        self.0.allocator.borrow().reserved()
    }

    /// A hash of where the allocator's free space lies. Two equal fingerprints mean that the same requests lead to the same
    /// placements from here on.
    pub fn fingerprint(&self) -> u64 {
        self.0.allocator.borrow().fingerprint()
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
        match self.0.books.get() {
            Books::None => {}
            Books::Gathering(mut books) => {
                books.raise(before, tally::take_extent());
                self.0.books.set(Books::Gathering(books));
            }
            Books::Counted(books) => self.count_books(books.of(before), books.of(phase)),
        }
        match &mut *self.0.record.borrow_mut() {
            Record::Recorder(recorder) if (before, phase) == (Phase::Forward, Phase::Backward) => {
                recorder.forward_ended();
            }
            Record::Log(log) => log.phase(phase),
            Record::Recorder(_) | Record::None => {}
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

    /// Books later allocations on `layer`; returns the layer before.
    pub fn set_layer(&self, layer: LayerId) -> LayerId {
        self.0.layer.replace(layer)
    }

    /// The id of the layer with this path, made at first use.
    pub fn layer_id(&self, path: &str) -> LayerId {
        self.0.layers.borrow_mut().id(path)
    }

    /// Says whether layers from here on belong to the teacher: their paths then begin with its word.
    pub fn name_teachers(&self, is_teachers: bool) {
        self.0.layers.borrow_mut().are_teachers = is_teachers;
    }

    /// Path of a layer.
    pub fn path_of(&self, layer: LayerId) -> String {
        self.with_path(layer, str::to_owned)
    }

    /// The result of `f` for the path of a layer. `f` must not name layers.
    pub fn with_path<T>(&self, layer: LayerId, f: impl FnOnce(&str) -> T) -> T {
        f(&self.0.layers.borrow()[layer.0 as usize])
    }

    /// Path of the present layer.
    pub fn layer_path(&self) -> String {
        self.path_of(self.0.layer.get())
    }

    /// Scope of the present layer.
    pub fn layer_scope(&self) -> Scope {
        let layers = self.0.layers.borrow();
        let path = &layers[self.0.layer.get().0 as usize];
        Scope::of(layer_path::in_teacher(path).unwrap_or(path))
    }

    /// Closes a point of the timeline: `op` ran.
    pub fn ran(&self, op: &'static str) {
        match &mut *self.0.record.borrow_mut() {
            Record::None => {}
            Record::Recorder(recorder) => recorder.point(op, self.0.layer.get(), self.0.phase.get()),
            Record::Log(log) => log.ran(op, self.0.layer.get()),
        }
    }

    /// Hands out the recording since the last call (or the start) and goes on recording from the bytes alive now. Empty when
    /// the ledger does not record, or only logs.
    pub fn take_recording(&self) -> Recording {
        self.recorded(|| self.0.layers.borrow_mut().shared())
    }

    /// The recording since the last call. Its layers have the paths in `layers`.
    fn recorded(&self, layers: impl FnOnce() -> Arc<[String]>) -> Recording {
        match &mut *self.0.record.borrow_mut() {
            Record::None => Recording::default(),
            Record::Recorder(recorder) => recorder.take(layers(), &self.0.allocator.borrow()),
            Record::Log(log) => {
                log.taken();
                Recording::default()
            }
        }
    }
}

impl Ticket {
    /// The bytes it stands for.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Where the allocator's model has put the block; `None` if it is the heap's.
    pub fn place(&self) -> Option<Place> {
        self.ledger.0.allocator.borrow().place(self.place)
    }

    /// Gives the block another name from here on.
    pub fn rename(&self, label: &'static str) {
        if self.block.get() != UNRECORDED {
            self.block.set(self.ledger.0.record.borrow_mut().renamed(self.block.get(), label));
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let account = &*self.ledger.0;
        let mut allocator = account.allocator.borrow_mut();
        account.live.set(account.live.get() - allocator.held(self.bytes));
        account.blocks.set(account.blocks.get() - 1);
        allocator.give(self.place, self.bytes);
        if self.block.get() != UNRECORDED {
            account.record.borrow_mut().died(self.block.get());
        }
    }
}

#[cfg(test)]
mod tests;
