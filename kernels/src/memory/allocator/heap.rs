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

/// Bytes that a process grows by while blocks come and go on a heap of at most `reserved` bytes: the blocks, the holes
/// between them, the timelines of the plan, and code and stacks that are touched for the first time. An estimate, and a
/// bound of what was seen (`plimsoll verify --drawn`, when tensors lay on the heap: 52 MiB more than 259 MiB, and 11 MiB
/// more than 4 MiB).
pub fn grows(reserved: u64) -> u64 {
    reserved + reserved / 4 + GROWS_BY
}

/// Bytes that a process grows by in any case.
const GROWS_BY: u64 = 12 << 20;

/// The bytes that can be alive in a process that may grow by `free`: the inverse of [`grows`].
pub fn alive_in(free: u64) -> u64 {
    free.saturating_sub(GROWS_BY) / 5 * 4
}
