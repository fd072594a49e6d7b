//! The memory of a run on the processor, for its tensors and the scratch of its kernels: addresses of its own, where they lie
//! as the ledger's model has placed them.
//!
//! Owns one range of addresses, reserved once for the program and divided into parts, one for each run under way. Addresses get
//! memory as the model's range grows, keep it until the model gives it back, and give it back when the run ends. So the memory
//! of blocks in the process is that of the model, and a step whose range is long enough calls no allocator for them and touches
//! no new page. Always holds: no two living blocks overlap, for each granule has a bit that says whether a block lies there; a
//! block that any thread drops is given back by its address ([`probe`]), and a part with living blocks is never given to
//! another run. If there is no range (a system other than Linux and Windows, a limit of the address space), no free part, or no
//! room in it, the heap gives the block. Refuses a place that another block has, and to give back memory where one lies, which
//! are bugs. In a guarded run the blocks have other places, with gaps between them.

use std::{ops::Range, ptr::NonNull};

use crate::{
    bytes::Bytes,
    error::{Error, Result},
    memory::{
        allocator::{Place, range::GRANULE},
        probe,
    },
};

#[cfg(all(target_os = "linux", not(miri)))]
#[path = "arena/linux.rs"]
mod addresses;
#[cfg(windows)]
#[path = "arena/windows.rs"]
mod addresses;

#[cfg(any(windows, all(target_os = "linux", not(miri))))]
mod range;
#[cfg(not(any(windows, all(target_os = "linux", not(miri)))))]
#[path = "arena/none.rs"]
mod range;

mod guard;

use guard::Guard;
use range::Part;

/// A run's part of the range.
#[derive(Debug)]
pub struct Arena {
    part: Part,
    /// Bytes of it that the run is expected to use.
    expected: usize,
    /// What looks at the gaps behind blocks, if they have some.
    guard: Option<Guard>,
}

impl Arena {
    /// A part for a run that is expected to use so much of it; `None` if there is none.
    pub fn new(expected: Bytes) -> Option<Self> {
        Some(Self { part: Part::take()?, expected: usize::try_from(expected.0).ok()?, guard: None })
    }

    /// A part for a guarded run; `None` if there is none.
    pub fn guarded() -> Option<Self> {
        Some(Self { part: Part::take()?, expected: 0, guard: Some(Guard::new()) })
    }

    /// A vector without elements that has room for so many at `place`, or where a guarded run has room, counted as the thread's;
    /// `None` if there is no memory for it.
    ///
    /// # Errors
    /// [`Error::Misused`] where another block lies; in a guarded run [`Error::MemoryRefused`] if there is no memory.
    pub(crate) fn vector<T>(&self, place: Option<Place>, elements: usize) -> Result<Option<Vec<T>>> {
        let Some(block) = self.put(place, elements * size_of::<T>())? else { return Ok(None) };
        assert!(
            block.addr().get().is_multiple_of(align_of::<T>()),
            "places are aligned to more than any element asks for"
        );
        // SAFETY: the arena is part of the program's allocator, which takes the block back by its address. The block is of
        // this size, aligned, and exclusively the vector's.
        Ok(Some(unsafe { Vec::from_raw_parts(block.cast().as_ptr(), 0, elements) }))
    }

    /// The address of a block of `bytes` at `place`, counted as the thread's; `None` if there is no memory for it.
    fn put(&self, place: Option<Place>, bytes: usize) -> Result<Option<NonNull<u8>>> {
        if let Some(guard) = &self.guard {
            return guard.put(&self.part, bytes).map(Some);
        }
        let Some((start, end)) = place.and_then(ends) else { return Ok(None) };
        let is_there =
            self.part.has_memory(end) || self.part.lengthen(end.max(self.expected)) || self.part.lengthen(end);
        if !is_there {
            return Ok(None);
        }
        if bytes == 0 || rounded(bytes) != end - start || !self.part.mark(start, end) {
            return Err(Error::Misused(format!("{:?} is another block's, or not of {bytes} bytes", start..end)));
        }
        let (pointer, longer) = self.part.begin(start, end);
        probe::count_placed(bytes as i64, longer as i64);
        Ok(Some(pointer))
    }

    /// Gives the memory of these pages back to the system. Between others no block lies there from then on, and at the end only
    /// once they get memory again.
    ///
    /// # Errors
    /// [`Error::Misused`] where a block lies.
    pub(crate) fn give_back(&self, pages: Range<u64>) -> Result<()> {
        if self.guard.is_some() {
            // Blocks have other places than the model's.
            return Ok(());
        }
        let misused = || Error::Misused(format!("a block lies in the pages {pages:?}, which were to be given back"));
        // A part has no more addresses than there are numbers.
        let [start, end] = [pages.start, pages.end].map(|at| usize::try_from(at).unwrap_or(usize::MAX));
        let less = self.part.give_back(start, end).ok_or_else(misused)?;
        probe::count_placed(0, -(less as i64));
        Ok(())
    }

    /// Names the block that came last, in a guarded run.
    pub(crate) fn name(&self, name: &dyn Fn() -> String) {
        self.guard.iter().for_each(|guard| guard.name(name));
    }

    /// Looks at the gaps of a guarded run: what was done to a block that was written past, with its name.
    pub(crate) fn look(&self) -> Option<String> {
        self.guard.as_ref().and_then(|guard| guard.look(&self.part))
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        let held = self.guard.as_ref().map_or_else(|| self.part.used(), Guard::held);
        probe::count_placed(0, -(held as i64));
        self.part.let_go();
    }
}

/// Whether an address is in the range.
#[inline]
pub(crate) fn has(pointer: *mut u8) -> bool {
    range::has(pointer)
}

/// A block of `bytes` at an address of the range is gone.
pub(super) fn give(pointer: *mut u8, bytes: usize) {
    range::give(pointer, rounded(bytes));
}

fn rounded(bytes: usize) -> usize {
    bytes.next_multiple_of(GRANULE.0 as usize)
}

/// Where a place begins and ends.
fn ends(place: Place) -> Option<(usize, usize)> {
    let [start, bytes] = [place.start, place.bytes].map(|n| usize::try_from(n).ok());
    Some((start?, start?.checked_add(bytes?)?))
}

#[cfg(all(test, any(windows, all(target_os = "linux", not(miri)))))]
mod tests;
