//! The memory of the graphs by which a step is launched on a GPU.
//!
//! Always holds: graphs are planned only where they fit beside everything else, so that no run is refused for them; a run makes
//! none that takes more. What a node takes is an assumption ([`graphs::NODE`]) until a run on the card has measured it.

use crate::{
    backend::Rates,
    bytes::Bytes,
    device::{PoolPolicy, Target, graphs},
    experiment::Execution,
    plan::{Plan, Resolved},
};

/// Steps before which none is launched as a graph: the first has other addresses, the second shows what repeats.
const STEPS: u64 = 2;
/// Micro-batches of a step that may need graphs of their own: the first, one between and the last.
const DIFFERENT: usize = 3;

/// Why there are none where the budget is short.
const NO_ROOM: &str = "the budget leaves no room for graphs, unless kernels take less than is allowed for them";

/// The nodes that a step would be, micro-batch by micro-batch.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    before: u64,
    most: u64,
    parts: usize,
}

impl Nodes {
    /// A micro-batch begins; the launches since the one before would be so many nodes.
    pub(super) fn micro_batch(&mut self, since: u64) {
        if self.parts == 0 {
            self.before = since;
        } else {
            self.most = self.most.max(since);
        }
        self.parts += 1;
    }

    /// What graphs of a step are allowed whose last launches would be `rest` nodes, at `node` each.
    pub(super) fn allowance(&self, rest: u64, node: Bytes) -> Bytes {
        let between = self.parts.saturating_sub(1).min(DIFFERENT);
        // Each graph is rounded up; the one with the last launches may be two.
        let graphs = between as u64 + 2;
        let bytes = |nodes| graphs::bytes_of(nodes, node);
        bytes(self.before + self.most * between as u64 + rest) + Bytes((graphs - 1) * bytes(1).0)
    }
}

/// Why the steps of a run that asks for it are not launched as graphs, if there is room for them; `None` if they may be.
fn obstacle(resolved: &Resolved) -> Option<&'static str> {
    if cfg!(feature = "candle-cuda") {
        Some("candle's device queues work of its own between them")
    } else if resolved.experiment().gpu.pool == PoolPolicy::Release {
        Some("a pool that gives memory back after each step keeps no addresses")
    } else if resolved.steps_left() <= STEPS {
        Some("no step repeats another")
    } else {
        None
    }
}

/// Whether a run asks for its steps to be launched as graphs.
fn are_asked_for(resolved: &Resolved) -> bool {
    resolved.target().is_gpu() && resolved.experiment().execution == Execution::Fused
}

/// Whether a run's steps may be launched as graphs, if there is room for them.
fn may_be(resolved: &Resolved) -> bool {
    are_asked_for(resolved) && obstacle(resolved).is_none()
}

impl Plan {
    /// How the steps are launched on a GPU, in a sentence, if the run asks for graphs.
    pub fn launches_in_words(&self) -> Option<String> {
        if !are_asked_for(&self.resolved) {
            return None;
        }
        Some(match (self.graphs, obstacle(&self.resolved)) {
            (Bytes::ZERO, why) => {
                let why = why.unwrap_or(NO_ROOM);
                format!("Steps are launched kernel by kernel: {why}.")
            }
            (allowed, _) => {
                let by = match self.target.profile().and_then(|profile| profile.graph_node) {
                    Some(node) => format!("as this card took no more than {node} a launch"),
                    None => format!("by an assumption of {} a launch", graphs::NODE),
                };
                format!("Steps are launched as graphs, a part of the context. {allowed} are allowed for them, {by}.")
            }
        })
    }
}

/// The rates of a run's kernels, whose launches cost less in a graph.
pub(super) fn rates(resolved: &Resolved, rates: Rates) -> Rates {
    if may_be(resolved) { rates.in_graphs() } else { rates }
}

/// What they are allowed in any room: each graph may be there twice, for addresses that take turns.
pub(super) fn most(resolved: &Resolved, asked: Bytes) -> Bytes {
    if may_be(resolved) { asked + asked } else { Bytes::ZERO }
}

/// What they are allowed where there is room for them: [`most`], or one of each. Without room for that there is none, and
/// launches are queued one by one.
pub(super) fn allowed(resolved: &Resolved, reserved: Bytes, asked: Bytes) -> Bytes {
    let Target::Gpu(profile) = resolved.target() else { return Bytes::ZERO };
    let fits = |graphs: &Bytes| profile.context + reserved + *graphs <= resolved.line();
    let most = most(resolved, asked);
    [most, Bytes(most.0 / 2)].into_iter().find(fits).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn micro_batches_that_repeat_need_no_graphs_of_their_own() {
        let of = |count: usize| {
            let mut nodes = Nodes::default();
            nodes.micro_batch(2);
            (1..count).for_each(|_| nodes.micro_batch(320));
            nodes.allowance(350, graphs::NODE)
        };
        let whole = Bytes::mib(2);
        assert_eq!(of(1), Bytes::mib(22) + whole, "352 nodes of 64 KiB");
        assert_eq!(of(2), Bytes::mib(42) + whole + whole, "672 nodes");
        assert_eq!(of(4), of(40));
        assert!(of(4) > of(3) && of(4) < Bytes::mib(100));
    }
}
