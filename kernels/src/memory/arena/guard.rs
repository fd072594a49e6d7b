//! The guarded mode: behind each block of a part a gap that nothing may write to, looked at after each kernel.
//!
//! Owns the places of a guarded run's blocks, which are not those of the ledger's model: a pool of its own finds room for a
//! block with its gap. Always holds: a gap is looked at after the last write to its block and before its addresses have another
//! use, because a freed block keeps its room until then. Its own lists are counted nowhere, and neither are gaps. Refuses to
//! go on once a gap was written to.

use std::{
    cell::{Cell, RefCell},
    ptr::NonNull,
};

use super::{range::Part, rounded};
use crate::{
    bytes::Bytes,
    error::{MemoryRefused, Result},
    memory::{
        allocator::{
            pool::Pool,
            range::{PROFILE, apart},
        },
        guard::{Extent, MARK, UNWRITTEN, is_overrun, said},
        probe,
    },
};

/// The blocks of a guarded run.
#[derive(Debug)]
pub(super) struct Guard {
    pool: RefCell<Pool>,
    blocks: RefCell<Vec<Block>>,
    /// Bytes of blocks, each rounded, without gaps.
    held: Cell<u64>,
}

#[derive(Debug)]
struct Block {
    /// The number of its place in the pool.
    number: u32,
    start: NonNull<u8>,
    /// Where it begins in the part.
    at: usize,
    extent: Extent,
    name: String,
}

impl Block {
    fn is_overrun(&self) -> bool {
        // SAFETY: the gap was filled behind the block. It is the guard's alone, which is on this thread, until the pool takes it
        // back; a kernel that writes there is over.
        is_overrun(unsafe {
            std::slice::from_raw_parts(self.start.as_ptr().add(self.extent.bytes as usize), self.extent.gap())
        })
    }

    fn said(&self) -> String {
        format!("{}, {}", said(self.extent.bytes), self.name)
    }
}

impl Guard {
    /// A guard without blocks.
    pub(super) fn new() -> Self {
        let (pool, blocks) = apart(|| (Pool::range(PROFILE), Vec::new()));
        Self { pool: RefCell::new(pool), blocks: RefCell::new(blocks), held: Cell::default() }
    }

    /// The address of a block of `bytes` in `part`, filled, with a gap behind it; counted as the thread's without the gap.
    ///
    /// # Errors
    /// [`Error::MemoryRefused`] if there is no memory for it.
    pub(super) fn put(&self, part: &Part, bytes: usize) -> Result<NonNull<u8>> {
        let extent = Extent { bytes: bytes as u64, rounded: rounded(bytes) as u64 };
        let start = apart(|| self.begin(part, extent)).ok_or_else(|| MemoryRefused::of(Bytes(extent.whole())))?;
        self.hold(extent.bytes as i64, extent.rounded as i64);
        Ok(start)
    }

    fn begin(&self, part: &Part, extent: Extent) -> Option<NonNull<u8>> {
        let mut pool = self.pool.borrow_mut();
        let number = pool.take(extent.whole());
        let at = pool.place(number)?.start as usize;
        let end = at + extent.rounded as usize;
        let whole = at + extent.whole() as usize;
        if !((part.has_memory(whole) || part.lengthen(whole)) && part.mark(at, end)) {
            pool.give(number);
            return None;
        }
        let (start, _) = part.begin(at, end);
        // SAFETY: the part has memory for the block with its gap, and nothing else lies there.
        unsafe {
            start.write_bytes(UNWRITTEN, extent.bytes as usize);
            start.add(extent.bytes as usize).write_bytes(MARK, extent.gap());
        }
        let name = "scratch".to_owned();
        self.blocks.borrow_mut().push(Block { number, start, at, extent, name });
        Some(start)
    }

    /// Names the block that came last.
    pub(super) fn name(&self, name: &dyn Fn() -> String) {
        apart(|| {
            if let Some(block) = self.blocks.borrow_mut().last_mut() {
                block.name = name();
            }
        });
    }

    /// Looks at all gaps, and takes back the room of blocks that are gone. What was done to the first that was written past, with
    /// its name.
    pub(super) fn look(&self, part: &Part) -> Option<String> {
        let overrun = self.blocks.borrow().iter().find(|block| block.is_overrun()).map(Block::said);
        let mut gone = 0;
        apart(|| {
            let mut pool = self.pool.borrow_mut();
            self.blocks.borrow_mut().retain(|block| {
                let is_alive = !part.is_empty_at(block.at);
                if !is_alive {
                    pool.give(block.number);
                    gone += block.extent.rounded;
                }
                is_alive
            });
        });
        self.hold(0, -(gone as i64));
        overrun
    }

    fn hold(&self, live: i64, held: i64) {
        self.held.set(self.held.get().wrapping_add_signed(held));
        probe::count_placed(live, held);
    }

    /// Bytes that are counted as held.
    pub(super) fn held(&self) -> usize {
        self.held.get() as usize
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        apart(|| {
            drop(self.blocks.take());
            drop(self.pool.replace(Pool::range(PROFILE)));
        });
    }
}
