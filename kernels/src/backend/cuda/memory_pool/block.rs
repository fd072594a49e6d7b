//! A block of a run's memory, and how it goes.
//!
//! Always holds: what is queued before a block goes is done with it before its memory is used again.

use std::{cell::Cell, rc::Rc};

use super::{
    super::{arena::Address, stream::Event},
    Pool,
};
use crate::{
    error::Result,
    memory::{allocator::Place, guard::Extent},
};

/// A piece of device memory. Dropping it frees it once the kernels queued before are done with it.
pub struct Block {
    pub(super) pool: Rc<Pool>,
    pub(super) address: Address,
    pub(super) home: Home,
    /// The copy that fills it, as long as the kernels' stream has not been told to wait for it.
    pub(super) ready: Cell<Option<Event>>,
}

/// Whose a block is.
#[derive(Debug, Clone, Copy)]
pub(super) enum Home {
    /// The arena's, at this place.
    Place(Place),
    /// The block comes from the driver.
    Driver,
    /// The driver's, with a gap.
    Guarded(Extent),
}

impl Block {
    /// Where the block begins.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// A copy on another stream fills it; `event` marks its end.
    pub(in super::super) fn fills_until(&self, event: Event) {
        self.ready.set(Some(event));
    }

    /// Lets what is queued from now on wait for the copy that fills it.
    pub(in super::super) fn settle(&self) -> Result<()> {
        self.ready.take().map_or(Ok(()), |event| event.hold_back(self.pool.device().stream()))
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // A stream that cannot wait has failed; the next call reports it.
        let _ = self.settle();
        match self.home {
            Home::Place(place) => self.pool.arena.remove(place),
            Home::Driver => self.pool.give(self.address),
            Home::Guarded(extent) => {
                self.pool.guard.iter().for_each(|guard| guard.end(self.address, extent));
                self.pool.give(self.address);
            }
        }
    }
}
