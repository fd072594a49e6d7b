//! Work that waits to be queued together, and the graphs by which it is.
//!
//! Owns what was submitted in a step and not queued yet, and the graphs of the run. Always holds: everything else that is given
//! to the stream of kernels comes behind the work that waits; work that makes no graph, or whose graph the driver refuses, is
//! queued piece by piece, so that no step is lost; graphs take no more than the room that they have, at so many bytes a node
//! as are known of the card. Refuses nothing: what the driver refuses of graphs is kept in words, and no graph is tried
//! after, unless it was a product for which other kernels run.

use std::{
    cell::{Cell, RefCell},
    collections::HashSet,
    hash::{DefaultHasher, Hasher},
    mem,
};

use super::{device::Device, fault::reason, graph::Graph, work::Work};
use crate::{
    bytes::Bytes,
    device::graphs::{self, Captured},
    error::{Error, Result},
};

/// Fewer pieces are not worth a graph.
const LEAST: usize = 8;
/// So many nodes may change from step to step.
const FEW: usize = 8;
/// Graphs of one shape, at addresses that take turns.
const ALIKE: usize = 2;
/// Shapes of work that were seen once. More of them mean that no step repeats.
const SHAPES: usize = 256;

/// Work that waits.
#[derive(Default)]
pub(super) struct Kept {
    work: RefCell<Vec<Work>>,
    is_keeping: Cell<bool>,
    /// What failed where it could not be said.
    failed: Cell<Option<Error>>,
    graphs: RefCell<Graphs>,
}

/// The room for graphs, asked for at the beginning of each step.
pub(super) type Room = Box<dyn Fn() -> Bytes>;

/// The graphs of a run.
#[derive(Default)]
struct Graphs {
    made: Vec<Made>,
    /// What was seen once.
    seen: HashSet<u64>,
    /// The room of the present step.
    room: Bytes,
    ask: Option<Room>,
    /// Bytes of a node.
    node: Bytes,
    steps: u64,
    told: Captured,
    /// Why no graph is tried, or not every graph was made.
    why_not: Option<String>,
    /// Why the work that is about to be queued has no graph, if that was refused.
    refusal: Option<Error>,
    has_stopped: bool,
}

/// A graph, its nodes, its bytes on the device as they are counted and as they were measured, and the step that used it last.
struct Made {
    graph: Graph,
    nodes: u64,
    bytes: Bytes,
    took: Bytes,
    used: u64,
}

impl Kept {
    /// Keeps the work of steps after the first, for graphs that take no more than `room`, at `node` a node; without room, no
    /// work.
    pub(super) fn start(&self, room: Room, node: Bytes) {
        *self.graphs.borrow_mut() = Graphs { ask: Some(room), node, ..Graphs::default() };
    }

    /// The graphs go, and what they were is told from now on.
    pub(super) fn end(&self) {
        self.is_keeping.set(false);
        let graphs = &mut *self.graphs.borrow_mut();
        (graphs.room, graphs.ask, graphs.made) = (Bytes::ZERO, None, Vec::new());
        graphs.seen.clear();
    }

    /// What became of the graphs of the last run.
    pub(super) fn told(&self) -> Captured {
        self.graphs.borrow().told
    }

    /// Why the last run launched its work, or some of it, piece by piece, if it was to make graphs.
    pub(super) fn why_not(&self) -> Option<String> {
        self.graphs.borrow().why_not.clone()
    }

    /// A step begins. The first has other addresses than those after it.
    pub(super) fn begin_step(&self) {
        let graphs = &mut *self.graphs.borrow_mut();
        graphs.steps += 1;
        graphs.room = graphs.ask.as_ref().map_or(Bytes::ZERO, |ask| ask());
        if graphs.held() > graphs.room {
            graphs.made.clear();
        }
        self.is_keeping.set(graphs.room > Bytes::ZERO && graphs.steps > 1 && !graphs.has_stopped);
    }

    /// A step is over. What waits is queued before.
    pub(super) fn end_step(&self) {
        self.is_keeping.set(false);
    }

    /// Whether work waits.
    pub(super) fn is_keeping(&self) -> bool {
        self.is_keeping.get()
    }

    /// Takes work to wait, or hands it back to be queued now.
    pub(super) fn keep(&self, work: Work) -> Result<Option<Work>> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        if !self.is_keeping.get() {
            return Ok(Some(work));
        }
        self.work.borrow_mut().push(work);
        Ok(None)
    }

    /// Queues what waits. A failure is an error of the next [`Kept::keep`] or [`Kept::failure`].
    pub(super) fn flush(&self, device: &Device) {
        // Queueing asks for the stream, and comes here again: nothing waits then.
        let work = mem::take(&mut *self.work.borrow_mut());
        if work.is_empty() {
            return;
        }
        let left = self.graphs.borrow_mut().launch(work, device);
        if let Err(error) = left.iter().try_for_each(|piece| piece.queue(device)) {
            self.failed.set(Some(error));
        }
        self.graphs.borrow_mut().settle(&left);
    }

    /// What failed since it was last asked for.
    pub(super) fn failure(&self) -> Result<()> {
        self.failed.take().map_or(Ok(()), Err)
    }
}

impl Graphs {
    /// Queues work by a graph; hands back what is to be queued piece by piece.
    fn launch(&mut self, mut work: Vec<Work>, device: &Device) -> Vec<Work> {
        if work.len() < LEAST || self.has_stopped {
            return work;
        }
        let nodes = work.iter().map(Work::nodes).sum();
        let bytes = graphs::bytes_of(nodes, self.node);
        let nearest = self.nearest(&work);
        if nearest.is_none() && self.is_new(&work) {
            return work;
        }
        if nearest.is_none_or(|(_, more)| more) && self.has_room(bytes) {
            return self.make(work, (nodes, bytes), device);
        }
        // Room may have been made of others.
        let Some((at, _)) = self.nearest(&work) else {
            self.why_not = Some(format!("a graph of {} launches would take more than was planned for", work.len()));
            return work;
        };
        let (pieces, made) = (work.len(), &mut self.made[at]);
        made.used = self.steps;
        match made.graph.launch(&mut work, device) {
            Ok(()) => self.launched(pieces),
            Err(error) => {
                self.made.remove(at);
                self.refusal = Some(error);
            }
        }
        work
    }

    /// Work is queued of which the driver or a library may have refused a graph. A product that its library refuses is other
    /// kernels from now on, and graphs are made of these; otherwise no graph is tried any more.
    fn settle(&mut self, queued: &[Work]) {
        if let Some(error) = self.refusal.take()
            && !queued.iter().any(Work::is_refused)
        {
            self.stop(error);
        }
    }

    /// The graph of such work of which the fewest nodes have to change, and whether another one would save many changes: blocks
    /// of a step may lie where those of the step before the last one lay.
    fn nearest(&self, work: &[Work]) -> Option<(usize, bool)> {
        let alike = self.made.iter().enumerate().filter(|(_, made)| made.graph.is_of(work));
        let changes = alike.map(|(at, made)| (made.graph.changes(work), at)).collect::<Vec<_>>();
        let (least, at) = *changes.iter().min()?;
        Some((at, least > FEW && changes.len() < ALIKE))
    }

    /// Whether work of this shape comes for the first time.
    fn is_new(&mut self, work: &[Work]) -> bool {
        let mut shape = DefaultHasher::new();
        work.iter().for_each(|piece| piece.hash_shape(&mut shape));
        if self.seen.len() >= SHAPES {
            self.seen.clear();
        }
        self.seen.insert(shape.finish())
    }

    /// Makes a graph of work, and launches it.
    fn make(&mut self, mut work: Vec<Work>, (nodes, bytes): (u64, Bytes), device: &Device) -> Vec<Work> {
        let (pieces, free) = (work.len(), device.free_bytes().ok());
        let graph = match Graph::of(&mut work, device) {
            Ok(graph) => graph,
            Err(error) => {
                self.refusal = Some(error);
                return work;
            }
        };
        let took = free.zip(device.free_bytes().ok()).map_or(0, |(before, after)| before.saturating_sub(after));
        if let Err(error) = graph.queue(device) {
            self.stop(error);
            return graph.into_work();
        }
        self.made.push(Made { graph, nodes, bytes, took: Bytes(took), used: self.steps });
        self.launched(pieces);
        self.why_not = None;
        self.told.graphs += 1;
        self.told.allowed = self.told.allowed.max(self.held());
        let took = self.made.iter().map(|made| made.took).sum();
        if took >= self.told.took {
            let nodes = self.made.iter().map(|made| made.nodes).sum();
            (self.told.took, self.told.nodes, self.told.at_once) = (took, nodes, self.made.len());
        }
        work
    }

    /// So many pieces of work were launched by one.
    fn launched(&mut self, pieces: usize) {
        self.told.launches = self.told.launches.max(pieces);
        self.told.times += 1;
    }

    /// Whether there is room for another graph, once those go that neither this step nor the two before used.
    fn has_room(&mut self, bytes: Bytes) -> bool {
        if self.held() + bytes > self.room {
            let steps = self.steps;
            self.made.retain(|made| made.used + 2 >= steps);
        }
        self.held() + bytes <= self.room
    }

    /// The bytes of the graphs that there are, as they are counted.
    fn held(&self) -> Bytes {
        self.made.iter().map(|made| made.bytes).sum()
    }

    /// Tries no graph from now on.
    fn stop(&mut self, error: Error) {
        self.made.clear();
        self.has_stopped = true;
        self.why_not = Some(reason(error));
    }
}
