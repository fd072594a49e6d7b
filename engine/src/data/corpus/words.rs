//! The words that a tokenizer keeps with their tokens, so that it cuts them up once. The module counts those of a text, and
//! the memory for keeping them.
//!
//! Owns [`Words`], which a look at the samples counts. Always holds: its figure is never less than the library's memory for
//! the same texts, on each of the threads that cut them up.

use std::{collections::HashSet, hash::BuildHasher};

use crate::sync::Mutex;

/// The most words that a thread keeps.
const MOST: usize = 10_000;
/// Threads that keep words of their own: those that load for training and for testing.
const THREADS: usize = 2;
/// Bytes of a word in the table of words. A full table is doubled, and the old and the new one are both there meanwhile.
const PLACE: usize = 170;
/// Bytes of a word for each of its own bytes: two copies in the name, each with a symbol of 32 bytes.
const OF_BYTE: usize = 66;
/// The most bytes that the system adds by rounding two blocks up.
const ROUNDED: usize = 32;

/// Different words.
#[derive(Debug, Default)]
pub(super) struct Words(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    words: HashSet<u64>,
    bytes: usize,
    hasher: std::hash::RandomState,
}

impl Words {
    /// Takes in the words of a text.
    pub(super) fn add<'a>(&self, words: impl Iterator<Item = &'a str>) {
        let mut seen = self.0.lock();
        for word in words {
            if seen.words.len() >= MOST {
                return;
            }
            let hash = seen.hasher.hash_one(word);
            if seen.words.insert(hash) {
                seen.bytes += word.len();
            }
        }
    }

    /// Host bytes that keeping all words takes at most.
    pub(super) fn kept_bytes(&self) -> usize {
        let seen = self.0.lock();
        THREADS * (seen.words.len() * (PLACE + ROUNDED) + seen.bytes * OF_BYTE)
    }
}
