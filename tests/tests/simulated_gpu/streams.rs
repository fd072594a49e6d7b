//! Streams: work waits until it must run, and a wait that is missing shows.

use cudarc::driver::result;
use plimsoll_tests::on_simulated_gpu;

use crate::gpu::{Gpu, Ptr, Stream, arg, kernel, kernels};

const DOUBLE: &str = r#"
extern "C" __global__ void twice(const float *x, float *y, long long n) {
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (long long)gridDim.x * blockDim.x)
        y[i] = 2.0f * x[i];
}
"#;

fn twice(gpu: &Gpu, x: Ptr, y: Ptr, stream: Stream) {
    let function = kernel(kernels(DOUBLE), c"twice");
    gpu.launch(function, 3, 32, stream, &mut [arg(&x), arg(&y), arg(&100i64)]).expect("launched");
}

#[test]
fn a_wait_that_is_missing_shows() {
    on_simulated_gpu("streams::a_wait_that_is_missing_shows", &[], || {
        let gpu = Gpu::new();
        let (copies, compute) = (gpu.stream(), gpu.stream());
        let out = gpu.alloc(400, compute);
        let x = gpu.upload(&[3.0f32; 100], copies);
        twice(&gpu, x, out, compute);
        assert!(gpu.download::<f32>(out, 100, compute).into_iter().all(f32::is_nan), "the copy has not run");
        let x = gpu.upload(&[3.0f32; 100], copies);
        gpu.wait(compute, gpu.record(copies));
        twice(&gpu, x, out, compute);
        assert_eq!(gpu.download::<f32>(out, 100, compute), [6.0; 100]);
    });
}

#[test]
fn a_buffer_written_too_early_shows_when_the_others_run_first() {
    let settings = [("PLIMSOLL_SIM_ORDER", "first")];
    on_simulated_gpu("streams::a_buffer_written_too_early_shows_when_the_others_run_first", &settings, || {
        let gpu = Gpu::new();
        let (copies, compute) = (gpu.stream(), gpu.stream());
        let (x, out) = (gpu.upload(&[3.0f32; 100], compute), gpu.alloc(400, compute));
        gpu.finish(compute).expect("ready");
        twice(&gpu, x, out, compute);
        // SAFETY: there is room; that the kernel may still read is the point.
        unsafe { result::memcpy_htod_async(x, &[5.0f32; 100], copies) }.expect("a copy");
        assert_eq!(gpu.download::<f32>(out, 100, compute), [10.0; 100], "the next batch came too early");
        twice(&gpu, x, out, compute);
        gpu.wait(copies, gpu.record(compute));
        // SAFETY: there is room, and the kernel runs first.
        unsafe { result::memcpy_htod_async(x, &[7.0f32; 100], copies) }.expect("a copy");
        assert_eq!(gpu.download::<f32>(out, 100, compute), [10.0; 100]);
    });
}

#[test]
fn page_locked_memory_is_read_when_the_copy_runs() {
    on_simulated_gpu("streams::page_locked_memory_is_read_when_the_copy_runs", &[], || {
        let gpu = Gpu::new();
        let stream = gpu.stream();
        // SAFETY: 400 bytes that live as long as the process, written before they are read.
        let host = unsafe {
            std::slice::from_raw_parts_mut(result::malloc_host(400, 0).expect("host memory").cast::<f32>(), 100)
        };
        host.fill(1.0);
        let locked = gpu.upload(host, stream);
        let mut pageable = vec![1.0f32; 100];
        let staged = gpu.upload(&pageable, stream);
        host.fill(2.0);
        pageable.fill(2.0);
        assert_eq!(gpu.download::<f32>(locked, 100, stream), [2.0; 100], "too early to write it again");
        assert_eq!(gpu.download::<f32>(staged, 100, stream), [1.0; 100], "read at the call");
    });
}

#[test]
fn asking_an_event_again_and_again_ends() {
    on_simulated_gpu("streams::asking_an_event_again_and_again_ends", &[], || {
        let gpu = Gpu::new();
        let stream = gpu.stream();
        gpu.upload(&[1.0f32; 100], stream);
        let event = gpu.record(stream);
        // SAFETY: the event is alive.
        let asked = (1..100).find(|_| unsafe { result::event::query(event) }.is_ok());
        assert!(asked.is_some_and(|times| times > 1), "not at once, and not never");
    });
}
