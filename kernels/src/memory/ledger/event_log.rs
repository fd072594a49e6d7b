//! A log of the events in an account, kept to be replayed once the bookkeeping and the places of blocks are known.
//!
//! Owns [`EventLog`]. What a dry run keeps and asks for is known only when the run is over, and it counts from the start: the
//! log is then [replayed](EventLog::replayed) into an account that counts it, so that one dry run gives all. Always holds: the
//! log's own allocations do not count as bookkeeping. Entries are small, because a long step has many, and fresh memory
//! takes most of a plan's time.

use std::{ptr, sync::Arc};

use super::{Ledger, Recording, Ticket, recorder::Block, repetition::Repeated};
use crate::{
    bytes::Bytes,
    device::Target,
    error::BudgetError,
    memory::{
        Bookkeeping, Category, Part, Phase,
        allocator::{Allocator, Places, Requests, Search, range},
        tally,
        timeline::LayerId,
    },
};

/// Everything that changes a recording, in order. Blocks have a number while they are alive.
#[derive(Debug, Clone, Copy)]
enum Entry {
    Phase(Phase),
    Born {
        bytes: u64,
        layer: LayerId,
        name: Name,
        category: Category,
    },
    Died(u32),
    Renamed(u32, Name),
    Ran(Name, LayerId),
    /// A micro-batch begins, after some that were left out.
    MicroBatch(Repeated),
    /// A part of the run begins, by its index among those that were entered.
    Part(u32),
    /// A step ends, or the taking out of channels.
    StepEnded,
    /// A recording ends, and the next one begins.
    Taken,
}

const _: () = assert!(size_of::<Entry>() == 16);

/// Index of the name of an op or a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Name(u16);

/// Numbers of blocks; the number of a freed block is used again.
#[derive(Debug, Default)]
struct Numbers {
    free: Vec<u32>,
    count: u32,
}

impl Numbers {
    fn take(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.count += 1;
            self.count - 1
        })
    }

    fn give(&mut self, number: u32) {
        self.free.push(number);
    }
}

/// The places where a name is looked for first.
const SLOTS: usize = 256;

/// The events of an account.
#[derive(Debug)]
pub(super) struct EventLog {
    entries: Vec<Entry>,
    parts: Vec<Part>,
    numbers: Numbers,
    names: Vec<&'static str>,
    slots: [Name; SLOTS],
    /// The ops of each recording, the last of which is not taken yet.
    ops: Vec<usize>,
}

impl EventLog {
    /// An empty one.
    pub(super) fn new() -> Box<Self> {
        let slots = [Name::default(); SLOTS];
        let numbers = Numbers::default();
        tally::suspended(|| {
            let (entries, parts, names, ops) = (Vec::new(), Vec::new(), Vec::new(), vec![0]);
            Box::new(Self { entries, parts, numbers, names, slots, ops })
        })
    }

    fn add(&mut self, entry: Entry) {
        tally::suspended(|| self.entries.push(entry));
    }

    /// The index of `text`, by where it lies: two texts that read the same may have two.
    fn name(&mut self, text: &'static str) -> Name {
        let slot = (text.as_ptr().addr() ^ (text.len() << 4)) % SLOTS;
        let is_same = |known: &&'static str| ptr::eq(*known, text);
        let found = self.slots[slot];
        if self.names.get(usize::from(found.0)).is_some_and(is_same) {
            return found;
        }
        let index = self.names.iter().position(is_same).unwrap_or_else(|| {
            tally::suspended(|| self.names.push(text));
            self.names.len() - 1
        });
        self.slots[slot] = Name(index as u16);
        self.slots[slot]
    }

    pub(super) fn phase(&mut self, phase: Phase) {
        self.add(Entry::Phase(phase));
    }

    /// A block came; its number.
    pub(super) fn born(&mut self, Block { label, layer, category, bytes }: Block) -> u32 {
        let name = self.name(label);
        self.add(Entry::Born { bytes, layer, name, category });
        self.numbers.take()
    }

    /// A block went.
    pub(super) fn died(&mut self, number: u32) {
        self.add(Entry::Died(number));
        tally::suspended(|| self.numbers.give(number));
    }

    /// A block under another name from here on.
    pub(super) fn renamed(&mut self, number: u32, label: &'static str) {
        let name = self.name(label);
        self.add(Entry::Renamed(number, name));
    }

    /// An op ran.
    pub(super) fn ran(&mut self, op: &'static str, layer: LayerId) {
        let name = self.name(op);
        self.add(Entry::Ran(name, layer));
        *self.ops.last_mut().expect("a recording is under way") += 1;
    }

    /// A micro-batch begins, after some that were left out.
    pub(super) fn begin_micro_batch(&mut self, left_out: Repeated) {
        self.add(Entry::MicroBatch(left_out));
    }

    /// A part of the run begins.
    pub(super) fn enter(&mut self, part: Part) {
        let index = self.parts.len() as u32;
        tally::suspended(|| self.parts.push(part));
        self.add(Entry::Part(index));
    }

    /// A step ends.
    pub(super) fn step_ended(&mut self) {
        self.add(Entry::StepEnded);
    }

    /// A recording is taken.
    pub(super) fn taken(&mut self) {
        self.add(Entry::Taken);
        tally::suspended(|| self.ops.push(0));
    }

    /// Places for the blocks on `target`. Those after the first so many `recordings` have none.
    pub(super) fn places(&self, target: &Target, recordings: usize) -> Places {
        let (profile, search) = match target {
            Target::Cpu(_) => (&range::PROFILE, Search::Quick),
            Target::Gpu(gpu) => (&gpu.pool, Search::Careful),
        };
        let (mut numbers, mut requests, mut left) = (Numbers::default(), Requests::default(), recordings);
        for entry in &self.entries {
            match *entry {
                Entry::Taken if left <= 1 => break,
                Entry::Taken => left -= 1,
                Entry::Part(index) => requests.enter(self.parts[index as usize]),
                Entry::Born { bytes, .. } => requests.born(numbers.take(), profile.rounded(bytes)),
                Entry::Died(number) => {
                    requests.died(number);
                    numbers.give(number);
                }
                Entry::Phase(_) | Entry::Renamed(..) | Entry::Ran(..) | Entry::MicroBatch(_) | Entry::StepEnded => {}
            }
        }
        Places::of(&requests, profile, search)
    }

    /// The recordings that were taken, of a run whose bookkeeping was `books`, if it counts some, and whose blocks an allocator
    /// placed, at `places` if these were found; `layers` are the paths of all layers.
    pub(super) fn replayed(
        &self,
        layers: &Arc<[String]>,
        books: Option<Bookkeeping>,
        allocator: Allocator,
        places: Option<&Arc<Places>>,
    ) -> Vec<Recording> {
        let ledger = Ledger::of(allocator, Bytes::ZERO, None, true);
        ledger.follow(places);
        books.into_iter().for_each(|books| ledger.keep_books(books));
        let name = |name: Name| self.names[usize::from(name.0)];
        let (mut numbers, mut recordings) = (Numbers::default(), Vec::new());
        let mut tickets = Vec::with_capacity(self.numbers.count as usize);
        let mut ops = self.ops.iter();
        let mut expect = || ledger.0.record.borrow_mut().expect(ops.next().copied().unwrap_or_default());
        expect();
        let born = |numbers: &mut Numbers, tickets: &mut Vec<Option<Ticket>>, ticket: Result<Ticket, BudgetError>| {
            let number = numbers.take() as usize;
            tickets.resize_with(tickets.len().max(number + 1), || None);
            // Without a budget, nothing is refused.
            tickets[number] = ticket.ok();
        };
        for entry in &self.entries {
            match *entry {
                Entry::Phase(phase) => drop(ledger.set_phase(phase)),
                Entry::Born { bytes, layer, name: label, category } => {
                    ledger.set_layer(layer);
                    born(&mut numbers, &mut tickets, ledger.take(bytes, category, name(label)));
                }
                Entry::Died(number) => {
                    tickets[number as usize] = None;
                    numbers.give(number);
                }
                Entry::Renamed(number, label) => {
                    tickets[number as usize].iter().for_each(|ticket| ticket.rename(name(label)));
                }
                Entry::Ran(op, layer) => {
                    ledger.set_layer(layer);
                    ledger.ran(name(op));
                }
                Entry::Part(index) => ledger.enter(self.parts[index as usize]),
                Entry::StepEnded => ledger.step_ended().for_each(drop),
                Entry::MicroBatch(left_out) => ledger.0.record.borrow_mut().begin_micro_batch(left_out),
                Entry::Taken => {
                    recordings.push(ledger.recorded(|| Arc::clone(layers)));
                    expect();
                }
            }
        }
        recordings
    }
}
