//! The addresses of a run: a range as long as its line, into which the memory of the arena's segments is mapped.
//!
//! Owns the range. Under a policy that gives memory back, gaps may come that are each too short for a segment which the line
//! has room for; such a segment has a range of its own. Always holds: what is mapped, with what the run holds elsewhere, is
//! within the line. Counts by the driver's account and not by its own, and uses nothing that the driver does not count.
//! Gives way to the driver's pool where the device has no such memory and where the driver refuses a call, and says why in the
//! second case. Refuses what crosses the line, and what the card has no room for.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use cudarc::driver::{DriverError, sys::CUresult};

use super::{
    arena::{Address, Count},
    device::Device,
    fault::{failed, reason},
    virtual_memory::{Range, granularity},
};

/// The addresses of a run.
pub(super) struct Space {
    device: Rc<Device>,
    /// The most that the run may hold.
    line: Cell<u64>,
    ranges: RefCell<Ranges>,
    /// What the driver counts as mapped.
    counted: Cell<Count>,
    /// Why no more is mapped, where the driver refused that.
    why_not: RefCell<Option<String>>,
}

/// Where memory can be mapped.
enum Ranges {
    /// Nothing was asked for yet.
    Unasked,
    /// The device has no such memory.
    None,
    /// These ranges, and what memory in them is a multiple of.
    These(Vec<Range>, u64),
}

/// The driver's refusal of memory that is not there.
const FULL: DriverError = DriverError(CUresult::CUDA_ERROR_OUT_OF_MEMORY);

impl Space {
    /// Addresses for a run that may hold `line` bytes. The driver is asked when the first are needed.
    pub(super) fn new(device: &Rc<Device>, line: u64) -> Self {
        let (device, ranges) = (Rc::clone(device), RefCell::new(Ranges::Unasked));
        Self { device, line: Cell::new(line), ranges, counted: Cell::default(), why_not: RefCell::default() }
    }

    /// Lets the run hold no more than `line` bytes from here on. The range stays as long as it is, because addresses take nothing.
    pub(super) fn lower_line(&self, line: u64) {
        self.line.set(line);
    }

    /// Memory for a segment of `bytes` in a run that holds `elsewhere` bytes in its pool. `None`: the pool is to give it.
    ///
    /// # Errors
    /// `CUDA_ERROR_OUT_OF_MEMORY` past the line, and where the card has no room.
    pub(super) fn take(&self, bytes: u64, elsewhere: u64) -> Result<Option<Address>, DriverError> {
        let (maps, held) = (self.maps(bytes), self.counted.get().now);
        // The pool alone is held to the line by the driver.
        if (maps || held > 0) && held.saturating_add(elsewhere).saturating_add(bytes) > self.line.get() {
            return Err(FULL);
        }
        if !maps {
            return Ok(None);
        }
        match self.map(bytes) {
            Ok(address) => Ok(Some(address)),
            Err(Refused { is_full: true, .. }) => Err(FULL),
            Err(refused) => {
                self.end(refused);
                Ok(None)
            }
        }
    }

    /// Whether the device has such memory, in pieces that `bytes` are a multiple of. Asks the driver for the range the first
    /// time.
    fn maps(&self, bytes: u64) -> bool {
        let ranges = &mut *self.ranges.borrow_mut();
        if matches!(ranges, Ranges::Unasked) {
            *ranges = self.ask().unwrap_or_else(|refused| {
                self.end(refused);
                Ranges::None
            });
        }
        let is_multiple = matches!(ranges, Ranges::These(_, granularity) if bytes.is_multiple_of(*granularity));
        is_multiple && self.why_not.borrow().is_none()
    }

    /// Maps no more from here on.
    fn end(&self, refused: Refused) {
        *self.why_not.borrow_mut() = Some(refused.why);
    }

    /// Maps memory.
    fn map(&self, bytes: u64) -> Result<Address, Refused> {
        let Ranges::These(ranges, granularity) = &mut *self.ranges.borrow_mut() else {
            return Err(Refused { is_full: false, why: "there is no range of addresses".to_owned() });
        };
        let at = match ranges.iter().position(|range| range.has_gap(bytes)) {
            Some(at) => at,
            None => {
                ranges.push(Range::new(&self.device, bytes, *granularity).map_err(Refused::addresses)?);
                ranges.len() - 1
            }
        };
        let address = ranges[at].map(bytes).map_err(Refused::memory)?;
        let before = self.counted.get();
        self.count(ranges);
        if self.counted.get().now == before.now + bytes {
            return Ok(address);
        }
        // What the driver does not count cannot be measured.
        let _ = ranges[at].unmap(address);
        self.counted.set(before);
        Err(Refused { is_full: false, why: "the driver does not tell what is mapped".to_owned() })
    }

    /// The range of a run, where the device has such memory.
    fn ask(&self) -> Result<Ranges, Refused> {
        let Some(granularity) = granularity(&self.device).map_err(Refused::addresses)? else {
            return Ok(Ranges::None);
        };
        // Not longer than the line, nor than the card.
        let most = self.line.get().min(self.device.total_bytes());
        Ok(match most - most % granularity {
            0 => Ranges::None,
            bytes => {
                let range = Range::new(&self.device, bytes, granularity).map_err(Refused::addresses)?;
                Ranges::These(vec![range], granularity)
            }
        })
    }

    /// Gives the device the memory of these segments back. Nothing that is queued uses it.
    pub(super) fn give(&self, segments: &[Address]) {
        let Ranges::These(ranges, _) = &mut *self.ranges.borrow_mut() else { return };
        for range in ranges.iter_mut() {
            for segment in segments {
                // What is refused is still counted, and asked for again when the range goes.
                let _ = range.unmap(*segment);
            }
        }
        let mut is_first = true;
        ranges.retain(|range| std::mem::take(&mut is_first) || range.mapped() > 0);
        self.count(ranges);
    }

    /// Asks the driver what is mapped.
    fn count(&self, ranges: &[Range]) {
        let now = ranges.iter().map(Range::counted).sum();
        let high = self.counted.get().high.max(now);
        self.counted.set(Count { now, high });
    }

    /// Bytes of memory behind the addresses, by the driver's account.
    pub(super) fn counted(&self) -> Count {
        self.counted.get()
    }

    /// Sets the mark back to what is there now.
    pub(super) fn reset_high(&self) {
        let now = self.counted.get().now;
        self.counted.set(Count { now, high: now });
    }

    /// Why the pool gives memory in place of the driver's virtual memory, where the driver refused that.
    pub(super) fn why_not(&self) -> Option<String> {
        self.why_not.borrow().clone()
    }
}

/// A refusal, and whether the card is full.
struct Refused {
    is_full: bool,
    why: String,
}

impl Refused {
    /// Of addresses, which take nothing of the card.
    fn addresses(error: DriverError) -> Self {
        Self { is_full: false, why: reason(failed("asking for a range of addresses", error)) }
    }

    /// Of memory.
    fn memory(error: DriverError) -> Self {
        Self { is_full: error == FULL, why: reason(failed("mapping memory", error)) }
    }
}
