//! The range: addresses without memory, which get it as a run needs it, and lose it when it needs less or is over.
//!
//! Always holds: addresses without memory cannot be touched; those with memory count as the process's. A part is as long as
//! the machine's memory. The bits of granules lie behind all parts. The system is asked in a file of its own.

use std::{
    ops::Range,
    ptr::{self, NonNull},
    sync::{
        OnceLock,
        atomic::{
            AtomicBool, AtomicPtr, AtomicU64, AtomicUsize,
            Ordering::{AcqRel, Acquire, Relaxed, Release},
        },
    },
};

use super::addresses;
use crate::memory::allocator::range::{GRANULE, PAGE};

/// Runs that may have a part at once. A program has one run, and its tests several.
const PARTS: usize = 8;
/// Bytes that one bit stands for.
const GRAIN: usize = GRANULE.0 as usize;
/// Bytes that one word of bits stands for.
const WORD: usize = 64 * GRAIN;
/// All bits of a word.
const WHOLE: u64 = u64::MAX;
/// Bytes that one byte of bits stands for.
const OF_BITS: usize = 8 * GRAIN;

/// Where the range begins, and the bytes of all its parts: nothing until it is reserved.
static BASE: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());
static BYTES: AtomicUsize = AtomicUsize::new(0);

static STATES: [State; PARTS] = [const { State::new() }; PARTS];

/// The state of a part.
struct State {
    is_taken: AtomicBool,
    /// The living blocks, and 1 more while the run has it.
    users: AtomicUsize,
    /// How much of it has memory, as far as none was given back.
    memory: AtomicUsize,
    /// How much of its bits has memory.
    bits: AtomicUsize,
    /// How much of it was used, in whole pages.
    length: AtomicUsize,
    /// How much of that was given back.
    given_back: AtomicUsize,
}

impl State {
    const fn new() -> Self {
        Self {
            is_taken: AtomicBool::new(false),
            users: AtomicUsize::new(0),
            memory: AtomicUsize::new(0),
            bits: AtomicUsize::new(0),
            length: AtomicUsize::new(0),
            given_back: AtomicUsize::new(0),
        }
    }
}

/// A part of the range, by its number.
#[derive(Debug)]
pub(super) struct Part(usize);

impl Part {
    /// Takes a part without an owner; `None` if all parts are taken, or if there is no range.
    pub(super) fn take() -> Option<Self> {
        static IS_RESERVED: OnceLock<bool> = OnceLock::new();
        if !*IS_RESERVED.get_or_init(reserve) {
            return None;
        }
        let is_free = |state: &State| state.is_taken.compare_exchange(false, true, AcqRel, Relaxed).is_ok();
        let number = STATES.iter().position(is_free)?;
        STATES[number].users.store(1, Release);
        Some(Self(number))
    }

    fn state(&self) -> &'static State {
        &STATES[self.0]
    }

    /// How much of it was used, without what was given back.
    pub(super) fn used(&self) -> usize {
        self.state().length.load(Relaxed) - self.state().given_back.load(Relaxed)
    }

    /// Whether it has memory up to there.
    pub(super) fn has_memory(&self, end: usize) -> bool {
        end <= self.state().memory.load(Relaxed)
    }

    /// Gives it memory up to `end`; false if it is shorter or if the system refuses.
    pub(super) fn lengthen(&self, end: usize) -> bool {
        let (state, end) = (self.state(), whole_pages(end));
        if end > part_bytes() {
            return false;
        }
        let (before, bits_before) = (state.memory.load(Relaxed), state.bits.load(Relaxed));
        let bits = whole_pages(end / OF_BITS + 1).min(part_bytes() / OF_BITS).max(bits_before);
        let is_given = given(self.bits_at(), bits_before..bits) && given(self.at(0), before..end);
        if is_given {
            state.bits.store(bits, Relaxed);
            state.memory.store(end, Relaxed);
        }
        is_given
    }

    /// Gives the memory of whole pages back: those between others are marked, because they get none again. By how much the part
    /// has less of what was used: nothing if the system refuses. `None` if a block lies there.
    pub(super) fn give_back(&self, start: usize, end: usize) -> Option<usize> {
        let state = self.state();
        let (length, memory) = (state.length.load(Relaxed), state.memory.load(Relaxed));
        if start >= end.min(length) {
            return Some(0);
        }
        let is_last = end >= length;
        let is_free = if is_last { words(start, length).all(|of| self.is_free(of)) } else { self.mark(start, end) };
        if !is_free {
            return None;
        }
        if !addresses::take_back(self.at(start), if is_last { memory } else { end } - start) {
            return Some(0);
        }
        let less = end.min(length) - start;
        if is_last {
            state.memory.store(start, Relaxed);
            state.length.store(start, Relaxed);
        } else {
            state.given_back.fetch_add(less, Relaxed);
        }
        Some(less)
    }

    /// Whether no block lies at a place that has memory.
    pub(super) fn is_empty_at(&self, at: usize) -> bool {
        words(at, at + GRAIN).all(|of| self.is_free(of))
    }

    /// Whether the bits of a word are those of no block.
    fn is_free(&self, (word, mask): (usize, u64)) -> bool {
        self.word(word).load(Acquire) & mask == 0
    }

    /// Marks the granules from `start` to `end`, which have memory; false, and nothing is marked, if one of them is.
    pub(super) fn mark(&self, start: usize, end: usize) -> bool {
        if !start.is_multiple_of(GRAIN) || !words(start, end).all(|of| self.is_free(of)) {
            return false;
        }
        for (word, mask) in words(start, end) {
            // A whole word has no other block's bits, and stores take less time than exchanges.
            match mask {
                WHOLE => self.word(word).store(WHOLE, Relaxed),
                mask => _ = self.word(word).fetch_or(mask, Relaxed),
            }
        }
        true
    }

    /// A block that was marked comes to life: its address, and by how much the part is longer with it.
    pub(super) fn begin(&self, start: usize, end: usize) -> (NonNull<u8>, usize) {
        let end = whole_pages(end);
        let before = self.state().length.fetch_max(end, Relaxed);
        self.state().users.fetch_add(1, Relaxed);
        (self.at(start), end.saturating_sub(before))
    }

    /// The run is over.
    pub(super) fn let_go(&self) {
        self.lose_user();
    }

    /// The last one to go takes the memory back.
    fn lose_user(&self) {
        let state = self.state();
        if state.users.fetch_sub(1, AcqRel) != 1 {
            return;
        }
        let (memory, bits) = (state.memory.load(Relaxed), state.bits.load(Relaxed));
        let is_back = |start, bytes| bytes == 0 || addresses::take_back(start, bytes);
        // The part is free again once the system has taken its memory back; if that fails, it is never used again.
        if is_back(self.at(0), memory) && is_back(self.bits_at(), bits) {
            for part in [&state.memory, &state.bits, &state.length, &state.given_back] {
                part.store(0, Relaxed);
            }
            state.is_taken.store(false, Release);
        }
    }

    /// The address of a place in it.
    fn at(&self, start: usize) -> NonNull<u8> {
        address(self.0 * part_bytes() + start)
    }

    /// Where its bits are.
    fn bits_at(&self) -> NonNull<u8> {
        address(BYTES.load(Relaxed) + self.0 * (part_bytes() / OF_BITS))
    }

    /// A word of its bits, which has memory if the granules that it stands for have some.
    fn word(&self, word: usize) -> &AtomicU64 {
        // SAFETY: the word is aligned, because pages are, and it lies in memory that reads as zero or as what was written to
        // it by such a reference; the memory is taken back only when no block lives and the part has no owner.
        unsafe { self.bits_at().cast::<AtomicU64>().add(word).as_ref() }
    }
}

fn whole_pages(bytes: usize) -> usize {
    bytes.next_multiple_of(PAGE.0 as usize)
}

fn part_bytes() -> usize {
    BYTES.load(Relaxed) / PARTS
}

/// The address of a place in the range, or in the bits behind it.
fn address(place: usize) -> NonNull<u8> {
    NonNull::new(BASE.load(Relaxed).wrapping_add(place)).expect("a part exists, so the range does")
}

/// The words of bits of the granules from `start` to `end`, each with those of its bits.
fn words(start: usize, end: usize) -> impl Iterator<Item = (usize, u64)> {
    (start / WORD..end.div_ceil(WORD)).map(move |word| {
        let [from, to] = [start, end].map(|at| (at.clamp(word * WORD, (word + 1) * WORD) - word * WORD) / GRAIN);
        (word, if to - from == 64 { WHOLE } else { ((1 << (to - from)) - 1) << from })
    })
}

/// Reserves the range; false if the system refuses.
fn reserve() -> bool {
    let Some(memory) = addresses::memory() else { return false };
    let part = memory.clamp(1 << 30, 1 << 40).next_power_of_two();
    let parts = PARTS * part;
    let Some(base) = addresses::reserve(parts + parts / OF_BITS) else { return false };
    BASE.store(base.as_ptr(), Relaxed);
    BYTES.store(parts, Relaxed);
    true
}

/// Gives these bytes after `base` memory.
fn given(base: NonNull<u8>, bytes: Range<usize>) -> bool {
    let start = NonNull::new(base.as_ptr().wrapping_add(bytes.start));
    bytes.is_empty() || start.is_some_and(|start| addresses::give(start, bytes.len()))
}

pub(super) fn has(pointer: *mut u8) -> bool {
    pointer.addr().wrapping_sub(BASE.load(Relaxed).addr()) < BYTES.load(Relaxed)
}

/// A block of whole granules is gone.
pub(super) fn give(pointer: *mut u8, bytes: usize) {
    let place = pointer.addr() - BASE.load(Relaxed).addr();
    let (part, start) = (Part(place / part_bytes()), place % part_bytes());
    for (word, mask) in words(start, start + bytes) {
        match mask {
            WHOLE => part.word(word).store(0, Release),
            mask => _ = part.word(word).fetch_and(!mask, Release),
        }
    }
    part.lose_user();
}
