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
    /// The stream whose capture ends with it; an empty graph where there is none.
    type Asked<'a> = Option<Queue<'a>>;
    type Error = DriverError;

    const TAKE_BACK: unsafe fn(Self) -> Result<(), DriverError> = graph::destroy;

    fn make(captured: Option<Queue<'_>>) -> Result<Self, DriverError> {
        let mut raw = ptr::null_mut();
        // SAFETY: the stream and the place are alive.
        unsafe {
            match captured {
                Some(queue) => sys::cuStreamEndCapture(queue.raw(), &mut raw),
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
            Filling::of(other, device)?
                .ask(|kernel, child| {
                    // SAFETY: the executable graph was made of the one that has the node; the child is alive; the arguments
                    // are the kernel's own, and are copied.
                    unsafe {
                        match kernel {
                            Some(kernel) => {
                                sys::cuGraphExecKernelNodeSetParams_v2(self.executable.raw(), *node, kernel)
                            }
                            None => sys::cuGraphExecChildGraphNodeSetParams(self.executable.raw(), *node, child),
                        }
                    }
                })
                .map_err(|error| failed("changing a graph", error))?;
        }
        Ok(())
    }
}

/// Adds a node for each piece of work, behind the one before.
fn nodes(graph: &Owned<sys::CUgraph>, work: &[Work], device: &Device) -> Result<Vec<sys::CUgraphNode>> {
    let mut nodes: Vec<sys::CUgraphNode> = Vec::with_capacity(work.len());
    for piece in work {
        let (before, count) = (nodes.last().map_or(ptr::null(), ptr::from_ref), usize::from(!nodes.is_empty()));
        let mut node = ptr::null_mut();
        Filling::of(piece, device)?
            .ask(|kernel, child| {
                // SAFETY: the graph, its last node and the child are alive; the arguments are the kernel's own, and are copied.
                unsafe {
                    match kernel {
                        Some(kernel) => sys::cuGraphAddKernelNode_v2(&mut node, graph.raw(), before, count, kernel),
                        None => sys::cuGraphAddChildGraphNode(&mut node, graph.raw(), before, count, child),
                    }
                }
            })
            .map_err(|error| failed("adding to a graph", error))?;
        nodes.push(node);
    }
    Ok(nodes)
}

/// What a node is filled with.
enum Filling<'a> {
    Kernel(&'a Launch),
    /// The capture of a library's call.
    Child(Owned<sys::CUgraph>),
}

impl<'a> Filling<'a> {
    fn of(work: &'a Work, device: &Device) -> Result<Self> {
        match work {
            Work::Launch(launch) => Ok(Self::Kernel(launch)),
            Work::Product(_) | Work::Epilogue(_) | Work::Convolution(_) => captured(work, device).map(Self::Child),
        }
    }

    /// Asks the driver, for a kernel or for the graph of a library's call.
    fn ask(
        &self,
        mut ask: impl FnMut(Option<&sys::CUDA_KERNEL_NODE_PARAMS>, sys::CUgraph) -> sys::CUresult,
    ) -> Result<(), DriverError> {
        match self {
            Self::Kernel(launch) => {
                let mut places = launch.args.places();
                ask(Some(&parameters(launch, &mut places)), ptr::null_mut())
            }
            Self::Child(child) => ask(None, child.raw()),
        }
        .result()
    }
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
    let queue = device.stream();
    // SAFETY: the stream is alive.
    unsafe { result::stream::begin_capture(queue.raw(), OF_THIS_THREAD) }
        .map_err(|error| failed("capturing a library's call", error))?;
    let called = match work {
        // Kernels of our own are nodes of the graph that follows, and not of this one.
        Work::Epilogue(run) => run.call(device),
        work => work.queue(device),
    };
    // A capture has to end, whatever became of the call.
    let captured = Owned::<sys::CUgraph>::new(Some(queue));
    called?;
    captured.map_err(|error| failed("capturing a library's call", error))
}
