//! What graphs of launches take of a card, and what became of those of a run.
//!
//! Owns the constants that the plan and the run share. Always holds: a run makes no graph that the plan did not allow for. The
//! memory of a graph is the driver's, and no document states it: what is allowed for is an assumption until a run has measured
//! what was taken.

use crate::bytes::Bytes;

/// Bytes of a node, assumed. A forum thread has 362, 395 and 458 MB in use with graphs of 500, 1,000 and 2,000 kernels on driver
/// 470, so 63 to 66 KB a node (forums.developer.nvidia.com/t/244901).
pub const NODE: Bytes = Bytes::kib(64);
/// A card is given out in pieces of this size.
const PIECE: Bytes = Bytes::mib(2);
/// Bytes of a node that were measured are rounded up to this.
const STEP: Bytes = Bytes::kib(1);
/// Nodes of a library's call, assumed: a kernel, and one that adds the parts of a sum or prepares them.
pub const LIBRARY_NODES: u64 = 2;

/// What a graph of this many nodes is allowed, at `node` for each.
pub fn bytes_of(nodes: u64, node: Bytes) -> Bytes {
    Bytes((nodes * node.0).next_multiple_of(PIECE.0))
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
    /// The nodes that those were counted as which took it, and how many they were.
    pub nodes: u64,
    /// The graphs that took it.
    pub at_once: usize,
}

impl Captured {
    /// The bytes of a node, where one is taken for `before` so far: never below what was taken. Each graph may have begun in a
    /// piece of the card that the driver had already.
    pub fn node(&self, before: Bytes) -> Bytes {
        let Self { allowed, took, nodes, at_once, .. } = *self;
        let most = (took.0 + at_once as u64 * PIECE.0).div_ceil(nodes.max(1)).next_multiple_of(STEP.0);
        if took > allowed { Bytes(most) } else { before.min(Bytes(most)) }
    }

    /// What they were, in a sentence.
    pub fn in_words(&self) -> String {
        let Self { launches, graphs, times, allowed, took, .. } = self;
        format!(
            "captured: {launches} launches in one graph, {graphs} graphs launched {times} times; the card had {took} less, \
             {allowed} were allowed"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_as_large_as_the_graphs_of_a_run_show() {
        let of = |took: Bytes| {
            let allowed = bytes_of(300, NODE);
            Captured { allowed, took, nodes: 300, at_once: 1, ..Captured::default() }.node(NODE)
        };
        // 2 MiB more than was taken, because the driver may have had so much.
        assert_eq!(of(Bytes::mib(4)), Bytes::kib(21));
        assert_eq!(of(Bytes::ZERO), Bytes::kib(7));
        // As much as was assumed shows no less.
        assert_eq!(of(Bytes::mib(20)), NODE);
        assert_eq!(of(Bytes::mib(40)), Bytes::kib(144));
        for mib in 0..100 {
            assert!(bytes_of(300, of(Bytes::mib(mib))) >= Bytes::mib(mib), "{mib} MiB");
        }
    }
}
