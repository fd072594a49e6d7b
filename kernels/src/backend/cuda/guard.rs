//! The guarded mode: behind each block a [gap](crate::memory::guard) that nothing may write to, looked at when the block is freed.
//!
//! Always holds: a gap is copied to the host behind the kernels that were queued before the block was freed, and looked
//! at when the copy is there, so that no stream has to wait. Refuses to go on once a gap was written to.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
};

use super::{
    arena::Count,
    driver_pool::DriverPool,
    fault::failed,
    launch::Pointer,
    transfer::{Parcel, Staging},
};
use crate::{
    error::{Error, Result},
    memory::guard::{Extent, MARK, UNWRITTEN, is_overrun, said},
};

/// Gaps on their way to the host.
const PENDING: usize = 64;

/// The gaps of a run.
pub(super) struct Guard {
    staging: Staging,
    pending: RefCell<VecDeque<(Parcel, u64)>>,
    /// Bytes of a block whose gap was written to.
    overrun: Cell<Option<u64>>,
    used: Cell<Count>,
}

impl Guard {
    /// A guard without blocks.
    pub(super) fn new(staging: Staging) -> Self {
        Self { staging, pending: RefCell::default(), overrun: Cell::default(), used: Cell::default() }
    }

    /// Fills a new block of `pool`, and its gap.
    ///
    /// # Errors
    /// Fails when the driver does.
    pub(super) fn begin(&self, pool: &DriverPool, address: u64, extent: Extent) -> Result<()> {
        let filling = |error| failed("filling a block", error);
        pool.fill(address, extent.bytes, UNWRITTEN).map_err(filling)?;
        pool.fill(address + extent.bytes, extent.gap() as u64, MARK).map_err(filling)?;
        let mut used = self.used.get();
        used.add(extent.rounded);
        self.used.set(used);
        Ok(())
    }

    /// The block goes; its gap is on its way.
    pub(super) fn end(&self, address: u64, extent: Extent) {
        let mut used = self.used.get();
        used.take(extent.rounded);
        self.used.set(used);
        // A device that does not answer says so at the next launch.
        if let Ok(gap) = self.staging.fetch(Pointer(address + extent.bytes), extent.gap()) {
            self.pending.borrow_mut().push_back((gap, extent.bytes));
        }
        self.open(PENDING);
    }

    /// Looks at the gaps that have come, and waits for those before the last `most`.
    fn open(&self, most: usize) {
        let mut pending = self.pending.borrow_mut();
        while pending.len() > most || pending.front().is_some_and(|(gap, _)| gap.is_ready()) {
            let Some((gap, bytes)) = pending.pop_front() else { break };
            if gap.open(is_overrun).unwrap_or(false) {
                self.overrun.set(Some(bytes));
            }
        }
    }

    /// Whether all gaps that have come are as they were.
    ///
    /// # Errors
    /// Says that one is not.
    pub(super) fn look(&self) -> Result<()> {
        self.open(PENDING);
        match self.overrun.get() {
            None => Ok(()),
            Some(bytes) => Err(Error::Device(format!("a kernel {}", said(bytes)))),
        }
    }

    /// Checks every gap that there is: waits for the device.
    ///
    /// # Errors
    /// Says that one is not.
    pub(super) fn look_at_all(&self) -> Result<()> {
        self.open(0);
        self.look()
    }

    /// Bytes of blocks.
    pub(super) fn used(&self) -> Count {
        self.used.get()
    }

    /// Sets the mark back to what is used now.
    pub(super) fn reset_high(&self) {
        let now = self.used.get().now;
        self.used.set(Count { now, high: now });
    }
}
