//! The C library's heap: 16-byte granules with an 8-byte header (glibc `malloc`: the request plus one size field, rounded up to
//! `MALLOC_ALIGNMENT`; a free block that is used again may be a granule larger, because the rest of it is too small to be a
//! block), and whole pages from 128 KiB, where a block may get a mapping of its own.

const GRANULE: u64 = 16;
const PAGE: u64 = 4096;
const MAPPED_FROM: u64 = 128 << 10;

/// An upper bound of the bytes held for a block of `bytes`.
pub(in crate::memory) fn reserved(bytes: u64) -> u64 {
    match bytes {
        MAPPED_FROM.. => (bytes + 2 * GRANULE).next_multiple_of(PAGE),
        _ => (bytes + 8).next_multiple_of(GRANULE).max(2 * GRANULE) + GRANULE,
    }
}

/// Bytes that a process grows by while blocks come and go on a heap of at most `reserved` bytes: the blocks, and the holes
/// between them. A bound of what was seen: 31 MiB less than 160 MiB to 5 MiB more than 922 MiB, as a block that is not written
/// to takes no memory.
pub fn grows(reserved: u64) -> u64 {
    reserved + reserved / 8
}

/// Bytes that a process which trains takes, at most, in addition to what is alive and a quarter of that: threads, the program's
/// pages, and the timelines of the plan.
const TAKES: u64 = 12 << 20;

/// The bytes that can be alive in a process that may grow by `free`, with a quarter of them as holes between the blocks.
pub fn alive_in(free: u64) -> u64 {
    free.saturating_sub(TAKES) / 5 * 4
}
