//! What the driver's memory pools do where NVIDIA documents nothing, and what its virtual memory does: asked of pools and a
//! range made for it.
//!
//! Owns the questions. Always holds: what a question takes of the card it gives back, and one that fails says why while the
//! others go on. Refuses nothing.

use std::{rc::Rc, time::Instant};

use cudarc::driver::{DriverError, result, sys::CUmemPool_attribute as Attribute};
use serde::Serialize;

use super::{
    arena::Address,
    device::Device,
    driver_pool::DriverPool,
    virtual_memory::{self, Range},
};

const MIB: u64 = 1 << 20;
/// Calls that are timed.
const CALLS: u32 = 20_000;
/// Sizes that are rounded in different ways.
const ROUNDED: [u64; 6] = [1, 512, 513, 1000, 4096, 100_000];
/// Sizes that a pool grows for, one after the other.
const GROWN: [u64; 5] = [1, 33 * MIB, 33 * MIB, 33 * MIB, 65 * MIB];
/// Limits that are not a multiple of anything, or only of little.
const LIMITS: [u64; 6] = [MIB, 2 * MIB, 31 * MIB, 33 * MIB, 100 * MIB, 128 * MIB];

/// A question and what the driver did.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Answer {
    /// A short name.
    pub question: &'static str,
    /// What it did; `None` where the question failed.
    #[serde(flatten)]
    pub did: Option<Did>,
    /// Why it failed.
    pub fault: Option<String>,
}

/// What the driver did.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Did {
    /// Blocks one after the other, in a pool of this limit (0: none).
    Blocks {
        /// The limit in bytes.
        limit_bytes: u64,
        /// The blocks that were placed.
        blocks: Vec<Placed>,
    },
    /// A block freed in a stream and asked for again there.
    Freed {
        /// Bytes that count as used before the call.
        used_before_bytes: u64,
        /// Used bytes after the call.
        used_after_bytes: u64,
        /// Whether the same address came again at once.
        same_address: bool,
    },
    /// Which of two holes a block is put into: `first`, `best` or `none`.
    Fitted {
        /// Which hole the block went to.
        hole: &'static str,
    },
    /// What a pool grew by for a block that two free chunks together would hold.
    Joined {
        /// How much the pool grew for neighbouring chunks.
        neighbours_grew_bytes: u64,
        /// How much the pool grew for chunks that are apart.
        apart_grew_bytes: u64,
    },
    /// What pools of these limits give.
    Limits(Vec<Limited>),
    /// Whether the card's free memory falls by what a pool reserves, and rises again.
    Followed {
        /// What the pool reserved.
        reserved_bytes: u64,
        /// How far the free memory fell.
        fell_bytes: i64,
        /// What is still gone after the pool is.
        kept_bytes: i64,
    },
    /// A range of addresses that memory is mapped into, twice, end to end.
    Mapped {
        /// What mapped memory is a multiple of; `None` where the device has no virtual memory of the driver.
        granularity_bytes: Option<u64>,
        /// What was mapped.
        mapped_bytes: u64,
        /// How much of that the driver counts where it is asked what is mapped: it is measured in this way.
        counted_bytes: u64,
        /// How far the card's free memory fell.
        fell_bytes: i64,
        /// What is still gone after the range is.
        kept_bytes: i64,
        /// Whether as many addresses began at the same place again.
        same_address: bool,
    },
    /// Seconds of a free and an allocation.
    Called {
        /// Seconds of both calls.
        secs: f64,
    },
}

/// A block, and the pool once it was there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Placed {
    /// What was asked for.
    pub asked_bytes: u64,
    /// The distance from the address of the first block; `None` if the block was refused.
    pub offset_bytes: Option<i64>,
    /// What counts as used then.
    pub used_bytes: u64,
    /// What the pool reserves then.
    pub reserved_bytes: u64,
}

/// What a pool of a limit gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Limited {
    /// The limit.
    pub limit_bytes: u64,
    /// How many blocks of 1 MiB.
    pub blocks: u64,
    /// What it then reserves.
    pub reserved_bytes: u64,
    /// Whether one block of the whole limit was given.
    pub gives_all: bool,
}

/// Asks all of it of an open GPU.
pub fn ask(device: &Rc<Device>) -> Vec<Answer> {
    let all: [(&'static str, Question); 10] = [
        ("rounding", |device| blocks(device, 0, &ROUNDED)),
        ("growth", |device| blocks(device, 0, &GROWN)),
        ("growth under a limit", |device| blocks(device, 512 * MIB, &GROWN)),
        ("free", freed),
        ("holes", fitted),
        ("joining", joined),
        ("limits", limits),
        ("process", followed),
        ("virtual memory", mapped),
        ("calls", called),
    ];
    let answer = |(question, asked): (&'static str, Question)| match asked(device) {
        Ok(did) => Answer { question, did: Some(did), fault: None },
        Err(error) => Answer { question, did: None, fault: Some(error.to_string()) },
    };
    all.into_iter().map(answer).collect()
}

type Asked = Result<Did, DriverError>;
type Question = fn(&Rc<Device>) -> Asked;

fn blocks(device: &Rc<Device>, limit_bytes: u64, sizes: &[u64]) -> Asked {
    let mut pool = Asking::new(device, limit_bytes)?;
    let mut placed = Vec::new();
    let mut first = None;
    for &asked_bytes in sizes {
        let address = pool.take(asked_bytes).ok();
        first = first.or(address);
        let offset_bytes = address.zip(first).map(|(address, first)| address.cast_signed() - first.cast_signed());
        placed.push(Placed { asked_bytes, offset_bytes, used_bytes: pool.used()?, reserved_bytes: pool.reserved()? });
    }
    Ok(Did::Blocks { limit_bytes, blocks: placed })
}

fn freed(device: &Rc<Device>) -> Asked {
    let mut pool = Asking::new(device, 0)?;
    let block = pool.take(64 * MIB)?;
    // Something to wait for, so that the free cannot be done before it is asked for.
    pool.driver.fill(block, 64 * MIB, 1)?;
    let used_before_bytes = pool.used()?;
    pool.give(block)?;
    let used_after_bytes = pool.used()?;
    let same_address = pool.take(64 * MIB)? == block;
    Ok(Did::Freed { used_before_bytes, used_after_bytes, same_address })
}

fn fitted(device: &Rc<Device>) -> Asked {
    let mut pool = Asking::new(device, 0)?;
    let mut blocks = Vec::new();
    for mib in [8, 1, 4, 1, 16] {
        blocks.push(pool.take(mib * MIB)?);
    }
    let [wide, narrow] = [blocks[0], blocks[2]];
    pool.give(wide)?;
    pool.give(narrow)?;
    let hole = match pool.take(3 * MIB)? {
        address if address == wide => "first",
        address if address == narrow => "best",
        _ => "none",
    };
    Ok(Did::Fitted { hole })
}

fn joined(device: &Rc<Device>) -> Asked {
    let grew = |freed: [usize; 2]| -> Result<u64, DriverError> {
        let mut pool = Asking::new(device, 0)?;
        let mut chunks = Vec::new();
        for _ in 0..4 {
            chunks.push(pool.take(32 * MIB)?);
        }
        let before = pool.reserved()?;
        for at in freed {
            pool.give(chunks[at])?;
        }
        pool.finish()?;
        pool.take(64 * MIB)?;
        Ok(pool.reserved()?.saturating_sub(before))
    };
    Ok(Did::Joined { neighbours_grew_bytes: grew([0, 1])?, apart_grew_bytes: grew([0, 2])? })
}

fn limits(device: &Rc<Device>) -> Asked {
    let mut all = Vec::new();
    for limit_bytes in LIMITS {
        let (blocks, reserved_bytes) = {
            let mut pool = Asking::new(device, limit_bytes)?;
            // A driver that keeps no limit at all is stopped as well.
            let blocks = (0..2 * limit_bytes / MIB + 64).take_while(|_| pool.take(MIB).is_ok()).count() as u64;
            (blocks, pool.reserved()?)
        };
        let gives_all = Asking::new(device, limit_bytes)?.take(limit_bytes).is_ok();
        all.push(Limited { limit_bytes, blocks, reserved_bytes, gives_all });
    }
    Ok(Did::Limits(all))
}

fn followed(device: &Rc<Device>) -> Asked {
    let free = || result::mem_get_info().map(|(free, _)| free as i64);
    let before = free()?;
    let mut pool = Asking::new(device, 0)?;
    pool.take(256 * MIB)?;
    pool.finish()?;
    let (reserved_bytes, fell_bytes) = (pool.reserved()?, before - free()?);
    drop(pool);
    Ok(Did::Followed { reserved_bytes, fell_bytes, kept_bytes: before - free()? })
}

fn mapped(device: &Rc<Device>) -> Asked {
    let Some(granularity) = virtual_memory::granularity(device)? else {
        return Ok(Did::Mapped {
            granularity_bytes: None,
            mapped_bytes: 0,
            counted_bytes: 0,
            fell_bytes: 0,
            kept_bytes: 0,
            same_address: false,
        });
    };
    let free = || result::mem_get_info().map(|(free, _)| free as i64);
    let before = free()?;
    let [all, first, second] = [256, 32, 34].map(|mib| (mib * MIB).next_multiple_of(granularity));
    let mut range = Range::new(device, all, granularity)?;
    range.map(first)?;
    range.map(second)?;
    // One piece of work goes over the seam.
    range.fill(first + second, 1)?;
    device.stream().finish()?;
    let (mapped_bytes, counted_bytes, fell_bytes) = (range.mapped(), range.counted(), before - free()?);
    let address = range.address();
    drop(range);
    let kept_bytes = before - free()?;
    let same_address = Range::new(device, all, granularity)?.address() == address;
    Ok(Did::Mapped {
        granularity_bytes: Some(granularity),
        mapped_bytes,
        counted_bytes,
        fell_bytes,
        kept_bytes,
        same_address,
    })
}

fn called(device: &Rc<Device>) -> Asked {
    let mut pool = Asking::new(device, 0)?;
    let mut block = pool.take(4096)?;
    let start = Instant::now();
    for _ in 0..CALLS {
        pool.give(block)?;
        block = pool.take(4096)?;
    }
    Ok(Did::Called { secs: start.elapsed().as_secs_f64() / f64::from(CALLS) })
}

/// A pool that questions are asked of; its blocks go with it.
struct Asking {
    driver: DriverPool,
    alive: Vec<Address>,
}

impl Asking {
    fn new(device: &Rc<Device>, limit: u64) -> Result<Self, DriverError> {
        Ok(Self { driver: DriverPool::new(device, limit)?, alive: Vec::new() })
    }

    fn take(&mut self, bytes: u64) -> Result<Address, DriverError> {
        let address = self.driver.take(bytes)?;
        self.alive.push(address);
        Ok(address)
    }

    fn give(&mut self, address: Address) -> Result<(), DriverError> {
        self.alive.retain(|alive| *alive != address);
        self.driver.give(address)
    }

    fn finish(&self) -> Result<(), DriverError> {
        self.driver.device().stream().finish()
    }

    fn used(&self) -> Result<u64, DriverError> {
        self.driver.get(Attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT)
    }

    fn reserved(&self) -> Result<u64, DriverError> {
        self.driver.get(Attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        // A driver that does not take it back any more has failed; the next question says so.
        for address in std::mem::take(&mut self.alive) {
            let _ = self.driver.give(address);
        }
        let _ = self.finish();
        let _ = self.driver.trim();
    }
}
