//! Graphs: a captured stream runs nothing, calls that wait end a capture, and an executable graph takes other parameters alone.

use std::ptr::null_mut;

use cudarc::{
    cublas::{self, result::CublasError, sys as blas},
    driver::{
        result::{self, DriverError, graph},
        sys::{self, CUresult},
    },
};
use plimsoll_tests::on_simulated_gpu;

use crate::gpu::{Gpu, Ptr, Stream, arg, code, kernel, kernels};

const ADD: &str = r#"
extern "C" __global__ void add(float *x, float by) { x[threadIdx.x] += by; }
"#;

fn begin(stream: Stream) -> Result<(), DriverError> {
    // SAFETY: the stream is alive.
    unsafe { result::stream::begin_capture(stream, sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) }
}

fn end(stream: Stream) -> Result<sys::CUgraph, DriverError> {
    // SAFETY: the stream is alive.
    unsafe { result::stream::end_capture(stream) }
}

fn instantiate(graph: sys::CUgraph) -> Result<sys::CUgraphExec, DriverError> {
    // SAFETY: the graph is alive.
    unsafe { graph::instantiate(graph, sys::CUgraphInstantiate_flags(0)) }
}

fn launch(executable: sys::CUgraphExec, stream: Stream) -> Result<(), DriverError> {
    // SAFETY: both are alive.
    unsafe { graph::launch(executable, stream) }
}

fn update(executable: sys::CUgraphExec, graph: sys::CUgraph) -> CUresult {
    let result = sys::CUgraphExecUpdateResult::CU_GRAPH_EXEC_UPDATE_SUCCESS;
    let mut info = sys::CUgraphExecUpdateResultInfo { result, errorNode: null_mut(), errorFromNode: null_mut() };
    // SAFETY: both are alive, and there is room for the answer.
    unsafe { sys::cuGraphExecUpdate_v2(executable, graph, &mut info) }
}

/// Adds numbers to four of the card's, one kernel after the other.
struct Sum<'a> {
    gpu: &'a Gpu,
    stream: Stream,
    add: sys::CUfunction,
    x: Ptr,
}

impl<'a> Sum<'a> {
    fn new(gpu: &'a Gpu) -> Self {
        let stream = gpu.stream();
        Self { gpu, stream, add: kernel(kernels(ADD), c"add"), x: gpu.upload(&[1.0f32; 4], stream) }
    }

    fn add(&self, by: f32) -> Result<(), DriverError> {
        self.gpu.launch(self.add, 1, 4, self.stream, &mut [arg(&self.x), arg(&by)])
    }

    fn captured(&self, numbers: &[f32]) -> Result<sys::CUgraph, DriverError> {
        begin(self.stream)?;
        numbers.iter().for_each(|by| self.add(*by).expect("captured"));
        end(self.stream)
    }

    /// The last number times `factor`, by cuBLAS: what the library says, and what the capture of its call became.
    fn captured_product(&self, factor: f32) -> (Result<(), CublasError>, Result<sys::CUgraph, DriverError>) {
        let handle = cublas::result::create_handle().expect("a handle");
        // SAFETY: both are alive; the driver's and the library's stream are the same thing.
        unsafe { cublas::result::set_stream(handle, self.stream.cast()) }.expect("set");
        begin(self.stream).expect("begun");
        let (plain, x) = (blas::cublasOperation_t::CUBLAS_OP_N, self.x as *mut f32);
        // SAFETY: x is a matrix of one element; the numbers are read at the call.
        let multiplied =
            unsafe { cublas::result::sgemm(handle, plain, plain, 1, 1, 1, &0.0, x, 1, x, 1, &factor, x.add(3), 1) };
        (multiplied, end(self.stream))
    }

    fn now(&self) -> f32 {
        self.gpu.download::<f32>(self.x, 4, self.stream)[3]
    }
}

#[test]
fn what_is_captured_runs_when_its_graph_is_launched_and_each_time() {
    on_simulated_gpu("graphs::what_is_captured_runs_when_its_graph_is_launched_and_each_time", &[], || {
        let gpu = Gpu::new();
        let sum = Sum::new(&gpu);
        let graph = sum.captured(&[2.0, 3.0]).expect("a graph");
        assert_eq!(sum.now(), 1.0, "nothing has run");
        let executable = instantiate(graph).expect("it can run");
        launch(executable, sum.stream).expect("queued");
        launch(executable, sum.stream).expect("queued");
        assert_eq!(sum.now(), 11.0);
        // What is queued is not changed by an update or an end.
        launch(executable, sum.stream).expect("queued");
        assert_eq!(update(executable, sum.captured(&[10.0, 20.0]).expect("a graph")), CUresult::CUDA_SUCCESS);
        launch(executable, sum.stream).expect("queued");
        // SAFETY: it is not launched again.
        unsafe { graph::exec_destroy(executable) }.expect("gone");
        assert_eq!(sum.now(), 46.0);
        assert!(launch(executable, sum.stream).is_err());
    });
}

#[test]
fn another_number_of_nodes_is_no_update() {
    on_simulated_gpu("graphs::another_number_of_nodes_is_no_update", &[], || {
        let gpu = Gpu::new();
        let sum = Sum::new(&gpu);
        let executable = instantiate(sum.captured(&[2.0, 3.0]).expect("a graph")).expect("it can run");
        let other = sum.captured(&[4.0]).expect("a graph");
        assert_eq!(update(executable, other), CUresult::CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
        launch(executable, sum.stream).expect("queued");
        assert_eq!(sum.now(), 6.0, "as it was");
    });
}

#[test]
fn a_node_takes_other_parameters_and_a_library_s_part_another_capture() {
    on_simulated_gpu("graphs::a_node_takes_other_parameters_and_a_library_s_part_another_capture", &[], || {
        let gpu = Gpu::new();
        let sum = Sum::new(&gpu);
        let (by, more, stream) = (2.0f32, 5.0f32, sum.stream);
        let product = |factor: f32| {
            let (multiplied, graph) = sum.captured_product(factor);
            multiplied.expect("captured");
            graph.expect("a graph")
        };
        let places = |by: &f32| [arg(&sum.x), arg(by)];
        let params = |places: &mut [*mut std::ffi::c_void; 2]| sys::CUDA_KERNEL_NODE_PARAMS {
            func: sum.add,
            gridDimX: 1,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: 4,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: 0,
            kernelParams: places.as_mut_ptr(),
            extra: null_mut(),
            kern: null_mut(),
            ctx: null_mut(),
        };
        let (mut whole, mut nodes, mut first, mut second) = (null_mut(), [null_mut(); 2], places(&by), places(&more));
        // SAFETY: what is named was just made and is alive; the arguments are the kernel's.
        unsafe {
            sys::cuGraphCreate(&mut whole, 0).result().expect("a graph");
            sys::cuGraphAddKernelNode_v2(&mut nodes[0], whole, nodes.as_ptr(), 0, &params(&mut first))
                .result()
                .expect("a node");
            let before = nodes[0];
            sys::cuGraphAddChildGraphNode(&mut nodes[1], whole, &before, 1, product(10.0)).result().expect("a node");
        }
        let executable = instantiate(whole).expect("it can run");
        launch(executable, stream).expect("queued");
        assert_eq!(sum.now(), 30.0);
        // SAFETY: graph, nodes and executable graph are alive; the arguments are the kernel's.
        unsafe {
            sys::cuGraphExecKernelNodeSetParams_v2(executable, nodes[0], &params(&mut second)).result().expect("set");
            sys::cuGraphExecChildGraphNodeSetParams(executable, nodes[1], product(2.0)).result().expect("set");
        }
        launch(executable, stream).expect("queued");
        assert_eq!(sum.now(), 70.0);
        let two = sum.captured(&[1.0, 1.0]).expect("a graph");
        // SAFETY: as above.
        let refused = unsafe { sys::cuGraphExecChildGraphNodeSetParams(executable, nodes[1], two) };
        assert_ne!(refused, CUresult::CUDA_SUCCESS, "another number of nodes");
    });
}

#[test]
fn a_call_that_waits_ends_a_capture_and_the_stream_serves_after() {
    on_simulated_gpu("graphs::a_call_that_waits_ends_a_capture_and_the_stream_serves_after", &[], || {
        let gpu = Gpu::new();
        let sum = Sum::new(&gpu);
        let event = gpu.record(gpu.stream());
        let calls: [&dyn Fn() -> Result<(), DriverError>; 5] = [
            &|| gpu.finish(sum.stream),
            // SAFETY: nothing uses the memory.
            &|| unsafe { result::malloc_sync(512) }.map(drop),
            // SAFETY: the event is alive.
            &|| unsafe { result::event::query(event) },
            // SAFETY: nothing uses the memory.
            &|| unsafe { result::malloc_async(sum.stream, 512) }.map(drop),
            // SAFETY: there is room for four numbers, and nothing comes.
            &|| unsafe { result::memcpy_dtoh_async(&mut [0.0f32; 4], sum.x, sum.stream) },
        ];
        for (i, call) in calls.iter().enumerate() {
            begin(sum.stream).expect("begun");
            sum.add(2.0).expect("captured");
            assert_eq!(code(call()), CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "call {i}");
            assert_eq!(code(end(sum.stream).map(drop)), CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "call {i}");
        }
        assert_eq!(code(end(sum.stream).map(drop)), CUresult::CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
        sum.add(4.0).expect("queued");
        assert_eq!(sum.now(), 5.0, "nothing of the captures ran");
    });
}

#[test]
fn a_capture_does_not_wait_for_what_is_outside_it() {
    on_simulated_gpu("graphs::a_capture_does_not_wait_for_what_is_outside_it", &[], || {
        let gpu = Gpu::new();
        let sum = Sum::new(&gpu);
        let event = gpu.record(gpu.stream());
        begin(sum.stream).expect("begun");
        let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: both are alive.
        let refused = unsafe { result::stream::wait_event(sum.stream, event, flags) };
        assert_eq!(code(refused), CUresult::CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
        assert!(end(sum.stream).is_err());
    });
}

#[test]
fn an_executable_graph_takes_memory_by_its_nodes_and_gives_it_back() {
    on_simulated_gpu("graphs::an_executable_graph_takes_memory_by_its_nodes_and_gives_it_back", &[], || {
        let gpu = Gpu::new();
        let sum = Sum::new(&gpu);
        let free = || result::mem_get_info().expect("the context is current").0;
        let graph = sum.captured(&[1.0; 100]).expect("a graph");
        let before = free();
        let executable = instantiate(graph).expect("it can run");
        assert_eq!(before - free(), 8 << 20, "100 nodes of 64 KiB, in steps of 2 MiB");
        // SAFETY: it is not launched.
        unsafe { graph::exec_destroy(executable) }.expect("gone");
        assert_eq!(before, free());
    });
}

#[test]
fn a_library_that_serves_no_capture_ends_it() {
    let refused = [("PLIMSOLL_SIM_GRAPH_REFUSES", "library")];
    on_simulated_gpu("graphs::a_library_that_serves_no_capture_ends_it", &refused, || {
        let gpu = Gpu::new();
        let sum = Sum::new(&gpu);
        let (multiplied, graph) = sum.captured_product(7.0);
        assert!(multiplied.is_err());
        assert_eq!(code(graph.map(drop)), CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        assert_eq!(sum.now(), 1.0, "nothing has run");
    });
}

/// The first step that a driver refuses, of those from a capture to a launch.
fn refused() -> &'static str {
    let gpu = Gpu::new();
    let sum = Sum::new(&gpu);
    let Ok(graph) = sum.captured(&[1.0]) else { return "capture" };
    let Ok(executable) = instantiate(graph) else { return "instantiate" };
    if update(executable, sum.captured(&[2.0]).expect("a graph")) != CUresult::CUDA_SUCCESS {
        return "update";
    }
    let is_refused = launch(executable, sum.stream).is_err();
    assert_eq!(sum.now(), if is_refused { 1.0 } else { 3.0 });
    if is_refused { "launch" } else { "none" }
}

#[test]
fn a_driver_refuses_what_it_is_told_to() {
    let name = "graphs::a_driver_refuses_what_it_is_told_to";
    for step in ["none", "capture", "instantiate", "update", "launch"] {
        on_simulated_gpu(name, &[("PLIMSOLL_SIM_GRAPH_REFUSES", step)], || {
            assert_eq!(refused(), std::env::var("PLIMSOLL_SIM_GRAPH_REFUSES").expect("set for this process"));
        });
    }
}
