//! An account's side of the bookkeeping: how it is gathered in a dry run and counted in a run; and the log of a dry run, which
//! is recorded once the bookkeeping is known and every block has a place.

use std::sync::Arc;

use super::{
    Blocks, Ledger, Recording,
    event_log::EventLog,
    record::{Record, UNRECORDED},
    recorder::Block,
};
use crate::{
    bytes::Bytes,
    device::Target,
    memory::{
        Bookkeeping, Category,
        allocator::{Allocator, Places},
        bookkeeping::Books,
        tally::Held,
        timeline::LayerId,
    },
};

impl Ledger {
    /// An account of the processor that gathers the bytes of the engine's structures in each phase, for a run inside
    /// [`tally::counted`](crate::memory::tally::counted).
    pub fn gathering() -> Self {
        let ledger = Self::of(Allocator::heap(), Bytes::ZERO, None, false);
        ledger.0.books.set(Books::Gathering(Bookkeeping::default()));
        ledger
    }

    /// The same account for a run whose blocks have places that are found beforehand: it logs everything that happens, for
    /// [`Ledger::places`] and [`Ledger::replayed`].
    pub fn logging() -> Self {
        let ledger = Self::gathering();
        ledger.0.record.replace(Record::Log(EventLog::new()));
        ledger
    }

    /// The same for a run on a GPU, which counts no bookkeeping. Its account has no room of its own: a log has none to find.
    pub fn logging_of_gpu() -> Self {
        let ledger = Self::of(Allocator::heap(), Bytes::ZERO, None, false);
        ledger.0.record.replace(Record::Log(EventLog::new()));
        ledger
    }

    /// The places on `target` of the blocks that an account with a log was asked for in its first so many `recordings`; `None`
    /// for another account.
    pub fn places(&self, target: &Target, recordings: usize) -> Option<Arc<Places>> {
        match &*self.0.record.borrow() {
            Record::Log(log) => Some(Arc::new(log.places(target, recordings))),
            Record::None | Record::Recorder(_) => None,
        }
    }

    /// The recordings of an account with a log, as an `allocator` places its blocks, at `places` if there are some, and with
    /// the bookkeeping counted; empty for another account.
    pub fn replayed(&self, allocator: Allocator, places: Option<&Arc<Places>>) -> Vec<Recording> {
        let books = match self.0.books.get() {
            Books::Gathering(books) => Some(books),
            Books::None | Books::Counted(_) => None,
        };
        match &*self.0.record.borrow() {
            Record::Log(log) => log.replayed(&self.0.layers.borrow_mut().shared(), books, allocator, places),
            Record::None | Record::Recorder(_) => Vec::new(),
        }
    }

    /// The bookkeeping that [`Ledger::gathering`] has gathered.
    pub fn gathered(&self) -> Bookkeeping {
        // The present phase is not over yet.
        self.set_phase(self.phase());
        match self.0.books.get() {
            Books::None => Bookkeeping::default(),
            Books::Gathering(books) | Books::Counted(books) => books,
        }
    }

    /// Whether the bookkeeping is counted here, or being gathered.
    pub fn keeps_books(&self) -> bool {
        !matches!(self.0.books.get(), Books::None)
    }

    /// The blocks that are alive: tensors, and the scratch of an op while it runs.
    pub fn blocks(&self) -> Blocks {
        let books = match self.0.books.get() {
            Books::Counted(books) => books.of(self.phase()).live,
            Books::None | Books::Gathering(_) => 0,
        };
        Blocks { count: self.0.blocks.get(), bytes: Bytes(self.0.live.get() - books) }
    }

    /// Counts the bookkeeping of the present phase among the live bytes, from here on.
    pub fn keep_books(&self, books: Bookkeeping) {
        self.0.books.set(Books::Counted(books));
        self.count_books(Held::default(), books.of(self.phase()));
    }

    /// Replaces the bookkeeping `before` by `now`. It is allocated already, so this refuses nothing. Where it is past the
    /// budget, the next allocation is refused.
    pub(super) fn count_books(&self, before: Held, now: Held) {
        if before == now {
            return;
        }
        let account = &*self.0;
        account.live.set(account.live.get() - before.live + now.live);
        account.peak.set(account.peak.get().max(account.live.get()));
        let mut allocator = account.allocator.borrow_mut();
        allocator.keep_books(before.reserved, now.reserved);
        let mut record = account.record.borrow_mut();
        if account.books_block.get() != UNRECORDED {
            record.died(account.books_block.get());
        }
        record.holds(&allocator);
        let (layer, category) = (LayerId::default(), Category::Context);
        let block = Block { label: "engine", layer, category, bytes: now.live };
        account.books_block.set(record.born(block));
    }
}
