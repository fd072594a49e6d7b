//! What happens in an account, kept to be gone through again once the bookkeeping is known.
//!
//! Owns [`EventLog`]. The bookkeeping of a dry run is known only when the run is over, and it counts from the start: the
//! log is then [replayed](EventLog::replayed) into an account that counts it, so that one dry run gives both. Always holds:
//! what the log itself allocates is none of the bookkeeping.

use super::{Ledger, Recording, recorder::Block};
use crate::memory::{Bookkeeping, Phase, tally, timeline::LayerId};

/// Everything that changes what a recording tells, in order.
#[derive(Debug, Clone, Copy)]
enum Entry {
    Phase(Phase),
    Born(Block),
    /// By index, as births and renames count.
    Died(u32),
    Renamed(u32, &'static str),
    Ran(&'static str, LayerId),
    /// A recording ends, and the next one begins.
    Taken,
}

/// The events of an account of the processor.
#[derive(Debug, Default)]
pub(super) struct EventLog {
    entries: Vec<Entry>,
    blocks: u32,
}

impl EventLog {
    fn add(&mut self, entry: Entry) {
        tally::suspended(|| self.entries.push(entry));
    }

    pub(super) fn phase(&mut self, phase: Phase) {
        self.add(Entry::Phase(phase));
    }

    /// A block came; its index.
    pub(super) fn born(&mut self, block: Block) -> u32 {
        self.add(Entry::Born(block));
        self.blocks += 1;
        self.blocks - 1
    }

    /// A block went.
    pub(super) fn died(&mut self, index: u32) {
        self.add(Entry::Died(index));
    }

    /// A block under another name from here on; its new index.
    pub(super) fn renamed(&mut self, index: u32, label: &'static str) -> u32 {
        self.add(Entry::Renamed(index, label));
        self.blocks += 1;
        self.blocks - 1
    }

    /// An op ran.
    pub(super) fn ran(&mut self, op: &'static str, layer: LayerId) {
        self.add(Entry::Ran(op, layer));
    }

    /// A recording is taken.
    pub(super) fn taken(&mut self) {
        self.add(Entry::Taken);
    }

    /// The recordings that were taken, of a run whose bookkeeping was `books`; `layers` are the paths of all layers.
    pub(super) fn replayed(&self, layers: &[String], books: Bookkeeping) -> Vec<Recording> {
        let ledger = Ledger::new(None, true);
        *ledger.0.layers.borrow_mut() = layers.to_vec();
        ledger.keep_books(books);
        let (mut tickets, mut recordings) = (Vec::with_capacity(self.blocks as usize), Vec::new());
        for entry in &self.entries {
            match *entry {
                Entry::Phase(phase) => drop(ledger.set_phase(phase)),
                Entry::Born(Block { label, layer, category, bytes }) => {
                    ledger.set_layer(layer);
                    // Without a budget, nothing is refused.
                    tickets.push(ledger.take(bytes, category, label).ok());
                }
                Entry::Died(index) => tickets[index as usize] = None,
                Entry::Renamed(index, label) => {
                    let ticket = tickets[index as usize].take();
                    ticket.iter().for_each(|ticket| ticket.rename(label));
                    tickets.push(ticket);
                }
                Entry::Ran(op, layer) => {
                    ledger.set_layer(layer);
                    ledger.ran(op);
                }
                Entry::Taken => recordings.push(ledger.take_recording()),
            }
        }
        recordings
    }
}
