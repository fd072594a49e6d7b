//! What graphs of launches take of a card, and what became of those of a run.
//!
//! Owns the constants that the plan and the run share. Always holds: a run makes no graph that the plan did not allow for. The
//! memory of a graph is the driver's, and no document states it: what is allowed for is an assumption, and a run measures what
//! was taken.

use crate::bytes::Bytes;

/// Bytes of a node, assumed. A forum thread has 362, 395 and 458 MB in use with graphs of 500, 1,000 and 2,000 kernels on driver
/// 470, so 63 to 66 KB a node (forums.developer.nvidia.com/t/244901).
pub const NODE: Bytes = Bytes::kib(64);
/// A card is given out in pieces of this size.
const PIECE: Bytes = Bytes::mib(2);
/// Nodes of a library's call, assumed: a kernel, and one that adds the parts of a sum or prepares them.
pub const LIBRARY_NODES: u64 = 2;

/// What a graph of this many nodes is allowed.
pub fn bytes_of(nodes: u64) -> Bytes {
    Bytes((nodes * NODE.0).next_multiple_of(PIECE.0))
}

/// The graphs of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Captured {
    /// The most pieces of work that one graph launched.
    pub launches: usize,
    /// How many graphs were made.
    pub graphs: usize,
    /// How often one was launched.
    pub times: u64,
    /// The most that was allowed for those that there were at once.
    pub allowed: Bytes,
    /// What the card had less after they were made.
    pub took: Bytes,
}

impl Captured {
    /// What they were, in a sentence.
    pub fn in_words(&self) -> String {
        let Self { launches, graphs, times, allowed, took } = self;
        format!(
            "captured: {launches} launches in one graph, {graphs} graphs launched {times} times; the card had {took} less, \
             {allowed} were allowed"
        )
    }
}
