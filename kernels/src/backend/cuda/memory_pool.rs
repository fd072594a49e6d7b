//! The memory of a run: an arena in a range of addresses as long as the run's limit, and a memory pool of the driver that
//! cannot grow past what is left of the limit.
//!
//! Always holds: every tensor and the scratch of every kernel are in the arena or in the pool. A block with a place lies
//! there, in the arena's segments; a block without one comes from the pool. A segment is memory that is mapped into the
//! range. It is a block of the pool where the driver maps none, and on candle's device, whose own blocks come from the
//! device's pool: one limit for both is kept by the driver only where both are in the pool. What the driver counts as
//! mapped and what it counts in the pool are measured as reserved; the blocks that the arena counts, and blocks of the pool
//! that are not segments, are measured as used. Refuses: an allocation past the limit, or one that the card has no room for
//! because others hold it; the two are told apart.

mod block;

use std::{cell::Cell, rc::Rc};

use cudarc::driver::{
    DriverError,
    sys::{CUmemPool_attribute as Attribute, CUresult},
};

pub(super) use self::block::Block;
use self::block::Home;
use super::{
    arena::{Address, Arena, Count, Memory},
    device::Device,
    driver_pool::{DriverPool, Highest},
    fault::failed,
    guard::Guard,
    space::Space,
    transfer::Staging,
};
use crate::{
    bytes::Bytes,
    device::profile::PoolProfile,
    error::{BudgetError, DeviceFull, During, Error, Result},
    memory::{
        allocator::Place,
        guard::Extent,
        host::LimitedBy,
        probe::{Measure, Reading},
    },
};

/// Where a pool ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limit {
    /// The most that it may hold.
    pub(super) bytes: u64,
    /// How it comes there.
    pub(super) growth: PoolProfile,
}

/// A pool of a device's memory.
pub struct Pool {
    driver: DriverPool,
    limit: Cell<Option<Limit>>,
    arena: Arena,
    /// Where segments are mapped, if they are.
    space: Option<Space>,
    guard: Option<Guard>,
    /// The most that the arena's blocks used since the driver's mark was set back, until our own was.
    most_used: Cell<u64>,
}

/// What a block is rounded up to where the model does not say.
const GRANULE: u64 = 512;

impl Pool {
    /// A pool that the driver lets grow to `limit`; without one, to the size of the card.
    ///
    /// # Errors
    /// Fails when the driver does.
    pub(super) fn new(device: &Rc<Device>, limit: Option<Limit>) -> Result<Self> {
        let mut pool = Self::with(device, limit)?;
        if let Some(limit) = limit {
            pool.is_device_s()?;
            pool.space = cfg!(not(feature = "candle-cuda")).then(|| Space::new(device, limit.bytes));
        }
        Ok(pool)
    }

    /// A pool whose blocks are guarded. Gaps do not count in a budget, so the driver sets no limit for it.
    ///
    /// # Errors
    /// Fails when the driver does.
    pub(super) fn guarded(device: &Rc<Device>) -> Result<Self> {
        let mut pool = Self::with(device, None)?;
        pool.guard = Some(Guard::new(Staging::new(device)));
        pool.is_device_s()?;
        Ok(pool)
    }

    fn with(device: &Rc<Device>, limit: Option<Limit>) -> Result<Self> {
        // A driver that rounds a limit up would let its pool cross the line.
        let whole = |limit: Limit| match limit.bytes - limit.bytes % limit.growth.page.0.max(1) {
            0 => limit.bytes,
            whole => whole,
        };
        let driver =
            DriverPool::new(device, limit.map_or(0, whole)).map_err(|error| failed("making the memory pool", error))?;
        Ok(Self {
            driver,
            limit: Cell::new(limit),
            arena: Arena::default(),
            space: None,
            guard: None,
            most_used: Cell::default(),
        })
    }

    /// Makes it the device's: what a library takes for itself is within the limit as well.
    fn is_device_s(&self) -> Result<()> {
        self.driver.is_device_s().map_err(|error| failed("choosing the memory pool", error))
    }

    /// The device.
    pub(super) fn device(&self) -> &Rc<Device> {
        self.driver.device()
    }

    /// Bytes, not yet written: at their place, if they have one.
    ///
    /// # Errors
    /// [`Error::Budget`] past the limit, [`Error::DeviceFull`] where the card has no room; layer, op and purpose are for
    /// the caller to fill in. [`Error::Device`] in the guarded mode when a kernel has written behind a block.
    pub(super) fn allocate(self: &Rc<Self>, bytes: u64, place: Option<Place>) -> Result<Block> {
        // The driver has no allocation of nothing.
        let bytes = bytes.max(1);
        let (address, home) = match (&self.guard, place) {
            (Some(guard), place) => {
                guard.look()?;
                let rounded = place.map_or(bytes.next_multiple_of(GRANULE), |place| place.bytes);
                let extent = Extent { bytes, rounded };
                let address = self.take_address(extent.whole(), bytes)?;
                guard.begin(&self.driver, address, extent)?;
                (address, Home::Guarded(extent))
            }
            (None, Some(place)) => {
                (self.arena.put(place, |segment| self.take_segment(segment, bytes))?, Home::Place(place))
            }
            (None, None) => (self.take_address(bytes, bytes)?, Home::Driver),
        };
        Ok(Block { pool: Rc::clone(self), address, home, ready: Cell::default() })
    }

    /// Takes a segment as large as the limit at once.
    ///
    /// # Errors
    /// Fails when the card has no room for it.
    pub fn reserve_all(&self) -> Result<()> {
        if let Some(limit) = self.limit.get() {
            self.arena.spare(self.take_segment(limit.bytes, limit.bytes)?, limit.bytes);
        }
        Ok(())
    }

    /// Lets the run hold no more than `bytes` from here on, if that is less than before. What it holds already stays.
    pub fn lower_limit(&self, bytes: Bytes) {
        let Some(limit) = self.limit.get().filter(|limit| bytes.0 < limit.bytes) else { return };
        self.limit.set(Some(Limit { bytes: bytes.0, ..limit }));
        if let Some(space) = &self.space {
            space.lower_line(bytes.0);
            self.bound_pool();
        }
    }

    /// Looks at the gaps behind blocks that were freed, where there are gaps.
    ///
    /// # Errors
    /// Says that a kernel has written to one.
    pub(super) fn look(&self) -> Result<()> {
        self.guard.as_ref().map_or(Ok(()), Guard::look_at_all)
    }

    /// Takes the memory of a segment, for a block of `asked` bytes: mapped, or a block of the pool.
    fn take_segment(&self, bytes: u64, asked: u64) -> Result<Memory> {
        let mapped = match &self.space {
            Some(space) => {
                let in_pool = self.get(Attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)?;
                space.take(bytes, in_pool.0).map_err(|error| self.refusal(bytes, asked, error))?
            }
            None => None,
        };
        match mapped {
            Some(address) => {
                self.bound_pool();
                Ok(Memory::Mapped(address))
            }
            None => self.take_address(bytes, asked).map(Memory::Block),
        }
    }

    /// Leaves the pool what is not mapped of the limit. If it held something before, it keeps the limit that it had.
    fn bound_pool(&self) {
        // To the driver, a limit of zero is none.
        let left = self.limit.get().map(|limit| limit.bytes.saturating_sub(self.mapped().now).max(1));
        // Without another pool, the one that is there serves, within a limit that is higher.
        let _ = left.map(|left| self.driver.bound(left));
    }

    /// Why segments are blocks of the pool, where the driver refused to map memory.
    pub fn why_not_mapped(&self) -> Option<String> {
        self.space.as_ref().and_then(Space::why_not)
    }

    /// Takes a block from the driver, for one of `asked` bytes.
    fn take_address(&self, bytes: u64, asked: u64) -> Result<Address> {
        self.driver.take(bytes).map_err(|error| self.refusal(bytes, asked, error))
    }

    fn give(&self, address: Address) {
        if self.driver.give(address).is_err() {
            // The device has failed, and the next call reports it.
            self.device().leave_block(address);
        }
    }

    fn refusal(&self, bytes: u64, asked: u64, error: DriverError) -> Error {
        if error.0 != CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            return failed("allocating", error);
        }
        let (used, reserved) = (self.used().unwrap_or_default(), self.reserved().unwrap_or_default());
        // A pool that had room to grow by what was asked was not refused by its limit.
        let is_past = |limit: &Limit| reserved.0.saturating_add(limit.growth.segment_for(bytes)) > limit.bytes;
        match self.limit.get().filter(is_past) {
            Some(limit) => Error::Budget(BudgetError {
                limited_by: LimitedBy::Budget,
                layer: String::new(),
                op: "",
                label: "",
                asked: Bytes(asked),
                live: used,
                budget: Bytes(limit.bytes),
                is_planned: false,
                during: During::default(),
                mend: None,
            }),
            None => self.device_full(Bytes(asked), ""),
        }
    }

    /// The card's lack of room for `label`, with what is held of it now.
    pub(super) fn device_full(&self, asked: Bytes, label: &'static str) -> Error {
        Error::DeviceFull(DeviceFull {
            layer: String::new(),
            op: "",
            label,
            asked,
            free: self.device().free_bytes().map(Bytes).unwrap_or_default(),
            reserved: self.reserved().unwrap_or_default(),
            total: Bytes(self.device().total_bytes()),
        })
    }

    /// Bytes of blocks that are in use: those that the arena counts, and those that the driver counts outside its segments.
    pub(super) fn used(&self) -> Result<Bytes> {
        if let Some(guard) = &self.guard {
            return Ok(Bytes(guard.used().now));
        }
        let driver = self.get(Attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT)?;
        Ok(driver.saturating_sub(Bytes(self.arena.held().now)) + Bytes(self.arena.used().now))
    }

    /// Bytes that the driver counts in the pool and as mapped.
    pub(super) fn reserved(&self) -> Result<Bytes> {
        Ok(self.get(Attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)? + Bytes(self.mapped().now))
    }

    /// The most used and reserved since the marks were last set back.
    fn highest(&self) -> Result<Reading> {
        let held = self.arena.held().high;
        let highest = self.driver.highest(held);
        let Highest { used, reserved } =
            highest.map_err(|error| failed("reading the memory pool's counters", error))?;
        let (of_arena, outside) = (self.arena.used().high, used.saturating_sub(held));
        let live = match &self.guard {
            Some(guard) => guard.used().high,
            None if outside == 0 => of_arena,
            // When it was there is not known.
            None => outside + of_arena.max(self.most_used.get()),
        };
        Ok(Reading { live: Bytes(live), reserved: Bytes(reserved + self.mapped().high) })
    }

    /// Bytes that the driver counts as mapped.
    fn mapped(&self) -> Count {
        self.space.as_ref().map(Space::counted).unwrap_or_default()
    }

    /// Sets the marks of our own counts of used bytes back to what is used now.
    fn set_own_back(&self) {
        self.arena.reset_high();
        self.guard.iter().for_each(Guard::reset_high);
    }

    /// Gives the device back what no block uses.
    ///
    /// # Errors
    /// Fails when the driver does.
    pub(crate) fn trim(&self) -> Result<()> {
        let mut mapped = Vec::new();
        for segment in self.arena.take_empty() {
            match segment {
                Memory::Block(address) => self.give(address),
                Memory::Mapped(address) => mapped.push(address),
            }
        }
        if !mapped.is_empty() {
            // The driver does not wait for what uses them.
            self.device().finish()?;
            self.space.iter().for_each(|space| space.give(&mapped));
            self.bound_pool();
        }
        self.release()
    }

    /// Gives the device back what is neither a segment's nor another block's.
    ///
    /// # Errors
    /// Fails when the driver does.
    pub(crate) fn release(&self) -> Result<()> {
        // What was freed is free when the kernels before it are done.
        self.device().finish()?;
        self.driver.trim().map_err(|error| failed("giving memory back to the device", error))
    }

    fn get(&self, attribute: Attribute) -> Result<Bytes> {
        let value = self.driver.get(attribute);
        value.map(Bytes).map_err(|error| failed("reading the memory pool's counters", error))
    }
}

impl Measure for Pool {
    fn now(&self) -> Reading {
        Reading { live: self.used().unwrap_or_default(), reserved: self.reserved().unwrap_or_default() }
    }

    fn peak(&self) -> Reading {
        self.highest().unwrap_or_default()
    }

    fn live_peak(&self) -> Bytes {
        // What others take of a steady pool meanwhile is in the next `peak`.
        if self.driver.is_steady() { Bytes(self.arena.used().high) } else { self.peak().live }
    }

    fn reset_peak(&self) {
        self.most_used.set(0);
        self.set_own_back();
        self.space.iter().for_each(Space::reset_high);
        // A device that does not answer says so at the next launch.
        let _ = self.driver.set_back();
    }

    fn reset_live_peak(&self) {
        let most = if self.driver.is_steady() { self.most_used.get().max(self.arena.used().high) } else { 0 };
        self.most_used.set(most);
        self.set_own_back();
        let _ = self.driver.set_used_back();
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // The blocks have gone: each holds the pool. Their frees are queued, and trimming frees the segments. What the pool
        // holds goes back at once, so that the next measurement does not count it.
        let _ = self.trim();
    }
}
