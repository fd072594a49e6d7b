//! The engine's bookkeeping on the CPU: layers, handles of tensors, tape entries, recipes and lists, by phase of the run.
//!
//! Owns the figures and a constant that is added to them. Always holds: a phase's figure is the most that the dry run's own
//! structures held in any moment of that phase, so it bounds the bytes of the run that trains. On a GPU the bookkeeping is
//! memory of the host and does not count.

use crate::{
    bytes::Bytes,
    memory::{
        Phase,
        tally::{Extent, Held},
    },
};

/// A constant for memory that a dry run does not show: queues of the thread pool, the loader's handles, queued events.
pub const ENGINE: Bytes = Bytes::kib(64);

/// The most that the engine's structures hold in each phase, [`ENGINE`] not included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bookkeeping {
    live: [u64; Phase::ALL.len()],
    /// Bytes that the heap holds beyond that: a small share of it, so that it needs no wider number.
    beyond: [u32; Phase::ALL.len()],
    /// Bytes by which a moment may hold less.
    varies: [u32; Phase::ALL.len()],
}

impl Bookkeeping {
    /// The bytes held in `phase`, [`ENGINE`] included.
    pub fn of(&self, phase: Phase) -> Held {
        let (live, beyond) = (self.live[phase as usize], u64::from(self.beyond[phase as usize]));
        Held { live: live + ENGINE.0, reserved: live + beyond + ENGINE.0 }
    }

    /// The most bytes held in any phase, [`ENGINE`] included.
    pub fn most(&self) -> Bytes {
        Phase::ALL.into_iter().map(|phase| Bytes(self.of(phase).live)).max().unwrap_or_default()
    }

    /// The most by which the bytes held varied in the course of one `phase`. A tape is whole as a backward pass begins and
    /// gone at its end, so this grows with the depth of a model, and memory that peaks late may be as much below its figure.
    pub fn varies(&self, phase: Phase) -> Bytes {
        Bytes(self.varies[phase as usize].into())
    }

    /// Raises the figures of `phase` to what was held in the course of one.
    pub(super) fn raise(&mut self, phase: Phase, Extent { peak: held, least }: Extent) {
        let varies = &mut self.varies[phase as usize];
        *varies = u32::try_from(held.live - least).unwrap_or(u32::MAX).max(*varies);
        let (live, beyond) = (&mut self.live[phase as usize], &mut self.beyond[phase as usize]);
        let reserved = held.reserved.max(*live + u64::from(*beyond));
        *live = held.live.max(*live);
        *beyond = u32::try_from(reserved - *live).unwrap_or(u32::MAX);
    }
}

/// The treatment of the bookkeeping by a ledger.
#[derive(Debug, Clone, Copy, Default)]
pub(super) enum Books {
    /// Bookkeeping is ignored.
    #[default]
    None,
    /// Bookkeeping is recorded, inside [`tally::counted`](super::tally::counted).
    Gathering(Bookkeeping),
    /// Bookkeeping counts as live bytes.
    Counted(Bookkeeping),
}
