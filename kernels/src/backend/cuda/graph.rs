//! A graph of the driver: pieces of work behind each other, launched as one.
//!
//! Owns the graph, the executable graph that was made of it, and the work that it was given last. Always holds: a launch runs
//! the work that it is given: only the nodes whose arguments are others than before are set, and a call of a library is
//! captured again where its operands are others. Refuses what the driver or a library refuses; then nothing of the work was
//! queued, and the graph is not to be used again.

use std::{ffi::c_void, mem, ptr};

use cudarc::driver::{
    DriverError,
    result::{self, graph},
    sys::{self, CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL as OF_THIS_THREAD},
};

use super::{
    device::Device,
    fault::failed,
    handle::{Handle, Owned},
    stream::Queue,
    work::{Launch, Work},
};
use crate::error::Result;

// SAFETY: the driver makes a new graph, and nothing of it is queued.
unsafe impl Handle for sys::CUgraph {
    /// The stream that is captured while something is queued on it; an empty graph where there is none.
    type Asked<'a> = Option<(Queue<'a>, &'a mut dyn FnMut())>;
    type Error = DriverError;

    const TAKE_BACK: unsafe fn(Self) -> Result<(), DriverError> = graph::destroy;

    fn make(captured: Option<(Queue<'_>, &mut dyn FnMut())>) -> Result<Self, DriverError> {
        let mut raw = ptr::null_mut();
        // SAFETY: the stream and the place are alive.
        unsafe {
            match captured {
                Some((queue, call)) => {
                    result::stream::begin_capture(queue.raw(), OF_THIS_THREAD)?;
                    // A capture has to end, whatever became of the call.
                    call();
                    sys::cuStreamEndCapture(queue.raw(), &mut raw)
                }
                None => sys::cuGraphCreate(&mut raw, 0),
            }
        }
        .result()?;
        Ok(raw)
    }
}

// SAFETY: the driver makes a new executable graph, and keeps what is queued of one that is destroyed until it is done.
unsafe impl Handle for sys::CUgraphExec {
    type Asked<'a> = &'a Owned<sys::CUgraph>;
    type Error = DriverError;

    const TAKE_BACK: unsafe fn(Self) -> Result<(), DriverError> = graph::exec_destroy;

    fn make(of: &Owned<sys::CUgraph>) -> Result<Self, DriverError> {
        // SAFETY: the graph is alive.
        unsafe { graph::instantiate(of.raw(), sys::CUgraphInstantiate_flags(0)) }
    }
}

/// A graph that was made, and the work that its nodes have now.
pub(super) struct Graph {
    executable: Owned<sys::CUgraphExec>,
    /// The nodes are its own, and name those of the executable graph.
    _graph: Owned<sys::CUgraph>,
    nodes: Vec<sys::CUgraphNode>,
    work: Vec<Work>,
}

impl Graph {
    /// A graph of this work, which nothing has queued yet and which it takes; it stays where there is none.
    pub(super) fn of(work: &mut Vec<Work>, device: &Device) -> Result<Self> {
        let graph = Owned::<sys::CUgraph>::new(None).map_err(|error| failed("making a graph", error))?;
        let nodes = nodes(&graph, work, device)?;
        let executable = Owned::new(&graph).map_err(|error| failed("making a graph executable", error))?;
        Ok(Self { executable, _graph: graph, nodes, work: mem::take(work) })
    }

    /// Whether it is a graph of such work: the same kernels and calls in the same order, at any addresses.
    pub(super) fn is_of(&self, work: &[Work]) -> bool {
        self.work.len() == work.len() && self.work.iter().zip(work).all(|(own, other)| own.is_like(other))
    }

    /// How many nodes this work, which it is a graph of, would change.
    pub(super) fn changes(&self, work: &[Work]) -> usize {
        self.work.iter().zip(work).filter(|(own, other)| !own.is_same(other)).count()
    }

    /// Queues this work, which it is a graph of, and takes it. What is refused stays, and none of it was queued.
    pub(super) fn launch(&mut self, work: &mut Vec<Work>, device: &Device) -> Result<()> {
        self.set(work, device)?;
        self.queue(device)?;
        self.work = mem::take(work);
        Ok(())
    }

    /// Queues the work that it has.
    pub(super) fn queue(&self, device: &Device) -> Result<()> {
        // SAFETY: the executable graph and the stream are alive; what the nodes name is the run's.
        unsafe { graph::launch(self.executable.raw(), device.stream().raw()) }
            .map_err(|error| failed("launching a graph", error))
    }

    /// The work that it has; it is not to be used after.
    pub(super) fn into_work(self) -> Vec<Work> {
        self.work
    }

    /// Sets the nodes whose work is other than before.
    fn set(&self, work: &[Work], device: &Device) -> Result<()> {
        for ((node, own), other) in self.nodes.iter().zip(&self.work).zip(work) {
            if own.is_same(other) {
                continue;
            }
            fill(Place::Of(&self.executable, *node), other, device)?;
        }
        Ok(())
    }
}

/// Adds a node for each piece of work, behind the one before.
fn nodes(graph: &Owned<sys::CUgraph>, work: &[Work], device: &Device) -> Result<Vec<sys::CUgraphNode>> {
    let mut nodes: Vec<sys::CUgraphNode> = Vec::with_capacity(work.len());
    for piece in work {
        nodes.push(fill(Place::Behind(graph, nodes.last()), piece, device)?);
    }
    Ok(nodes)
}

/// The node that a piece of work fills.
enum Place<'a> {
    /// A new one of the graph, behind one that it has.
    Behind(&'a Owned<sys::CUgraph>, Option<&'a sys::CUgraphNode>),
    /// One of the graph that the executable graph was made of.
    Of(&'a Owned<sys::CUgraphExec>, sys::CUgraphNode),
}

/// Fills a node with a piece of work: a kernel of ours, or the capture of a library's call.
fn fill(place: Place<'_>, work: &Work, device: &Device) -> Result<sys::CUgraphNode> {
    let (launch, child) = match work {
        Work::Launch(launch) => (Some(launch), None),
        Work::Product(_) | Work::Epilogue(_) | Work::Convolution(_) => (None, Some(captured(work, device)?)),
    };
    let mut places = launch.map_or_else(Vec::new, |launch| launch.args.places());
    let kernel = launch.map(|launch| parameters(launch, &mut places));
    let doing = if let Place::Behind(..) = place { "adding to a graph" } else { "changing a graph" };
    let (kernel, child) = (kernel.as_ref().map(ptr::from_ref), child.as_ref().map_or(ptr::null_mut(), Owned::raw));
    // SAFETY: the graphs and their nodes are alive, and so is the child, which is there where no kernel is; the arguments
    // are the kernel's own, and are copied.
    let (node, filled) = unsafe {
        match place {
            Place::Behind(graph, last) => {
                let (before, count) = (last.map_or(ptr::null(), ptr::from_ref), usize::from(last.is_some()));
                let mut node = ptr::null_mut();
                let added = match kernel {
                    Some(kernel) => sys::cuGraphAddKernelNode_v2(&mut node, graph.raw(), before, count, kernel),
                    None => sys::cuGraphAddChildGraphNode(&mut node, graph.raw(), before, count, child),
                };
                (node, added)
            }
            Place::Of(executable, node) => {
                let set = match kernel {
                    Some(kernel) => sys::cuGraphExecKernelNodeSetParams_v2(executable.raw(), node, kernel),
                    None => sys::cuGraphExecChildGraphNodeSetParams(executable.raw(), node, child),
                };
                (node, set)
            }
        }
    };
    filled.result().map_err(|error| failed(doing, error))?;
    Ok(node)
}

/// A launch as the driver reads it, while its arguments are at these places.
fn parameters(launch: &Launch, places: &mut [*mut c_void]) -> sys::CUDA_KERNEL_NODE_PARAMS {
    let [blocks, threads] = launch.grid.extents();
    sys::CUDA_KERNEL_NODE_PARAMS {
        func: launch.function,
        gridDimX: blocks.0,
        gridDimY: blocks.1,
        gridDimZ: blocks.2,
        blockDimX: threads.0,
        blockDimY: threads.1,
        blockDimZ: threads.2,
        sharedMemBytes: 0,
        kernelParams: places.as_mut_ptr(),
        extra: ptr::null_mut(),
        kern: ptr::null_mut(),
        ctx: ptr::null_mut(),
    }
}

/// What a library's call queues, as a graph. Nothing of it runs.
fn captured(work: &Work, device: &Device) -> Result<Owned<sys::CUgraph>> {
    work.prepare(device)?;
    let mut called = Ok(());
    let mut call = || {
        called = match work {
            // Kernels of our own are nodes of the graph that follows, and not of this one.
            Work::Epilogue(run) => run.call(device),
            work => work.queue(device),
        }
    };
    let captured = Owned::<sys::CUgraph>::new(Some((device.stream(), &mut call)));
    called?;
    captured.map_err(|error| failed("capturing a library's call", error))
}
