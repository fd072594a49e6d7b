//! Kernels: barriers, exchanges, atomics, images on disk, and mistakes that are named.

use std::fs;

use cudarc::driver::{
    result,
    sys::{self, CUmemPool_attribute as Attribute, CUresult},
};
use plimsoll_tests::on_simulated_gpu;

use crate::gpu::{Gpu, Pool, arg, code, compile, kernel, kernels, load};

const SOURCE: &str = r#"
template <class X> __device__ X block_sum(X x) {
    __shared__ X parts[32];
    for (int lanes = 16; lanes > 0; lanes /= 2) x += __shfl_xor_sync(0xffffffffu, x, lanes);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
    __syncthreads();
    x = 0;
    for (int i = 0; i < (int)blockDim.x / 32; i++) x += parts[i];
    __syncthreads();
    return x;
}
extern "C" __global__ void sum_rows(const int *x, double *y, long long n) {
    double sum = 0;
    for (long long i = threadIdx.x; i < n; i += blockDim.x) sum += x[blockIdx.x * n + i];
    sum = block_sum(sum);
    if (threadIdx.x == 0) y[blockIdx.x] = sum;
}
extern "C" __global__ void lanes(int *y) {
    int lane = threadIdx.x, *row = y + 6 * lane;
    row[0] = __shfl_sync(0xffffffffu, lane, 5);
    row[1] = __shfl_down_sync(0xffffffffu, lane, 3);
    row[2] = __shfl_up_sync(0xffffffffu, lane, 3, 8);
    row[3] = (int)__ballot_sync(0xffffffffu, lane % 3 == 0);
    row[4] = __any_sync(0xffffffffu, lane == 31);
    row[5] = __all_sync(0xffffffffu, lane < 31);
}
extern "C" __global__ void count(unsigned *y) {
    atomicAdd(y, 1u);
    atomicMax(y + 1, blockIdx.x);
}
extern "C" __global__ void gone(int *y) {
    if (threadIdx.x < 5) return;
    __syncthreads();
}
extern "C" __global__ void missing(int *y) {
    if (threadIdx.x != 7) y[threadIdx.x] = __shfl_xor_sync(0xffffffffu, 1, 1);
}
extern "C" __global__ void outside(int *y) { y[(1LL << 40) + threadIdx.x] = 1; }
extern "C" __global__ void unsynchronised(int *y) {
    __shared__ int places[64];
    places[threadIdx.x] = 1;
    y[blockIdx.x * 64 + threadIdx.x] = places[63 - threadIdx.x];
}
"#;

#[test]
fn rows_lanes_and_counts_come_out_right() {
    on_simulated_gpu("kernels::rows_lanes_and_counts_come_out_right", &[], || {
        let (gpu, module) = (Gpu::new(), kernels(SOURCE));
        let stream = gpu.stream();
        let values: Vec<i32> = (0..3 * 1000).collect();
        let (x, y) = (gpu.upload(&values, stream), gpu.alloc(24, stream));
        gpu.launch(kernel(module, c"sum_rows"), 3, 256, stream, &mut [arg(&x), arg(&y), arg(&1000i64)])
            .expect("launched");
        let sums: Vec<f64> = values.chunks(1000).map(|row| row.iter().sum::<i32>().into()).collect();
        assert_eq!(gpu.download::<f64>(y, 3, stream), sums);

        let y = gpu.alloc(32 * 24, stream);
        gpu.launch(kernel(module, c"lanes"), 1, 32, stream, &mut [arg(&y)]).expect("launched");
        let every_third = (0..32).filter(|lane| lane % 3 == 0).fold(0u32, |mask, lane| mask | 1 << lane);
        for (lane, row) in (0..).zip(gpu.download::<i32>(y, 32 * 6, stream).chunks(6)) {
            let down = if lane + 3 < 32 { lane + 3 } else { lane };
            let up = if lane % 8 >= 3 { lane - 3 } else { lane };
            assert_eq!(row, [5, down, up, every_third.cast_signed(), 1, 0], "lane {lane}");
        }

        let y = gpu.upload(&[0u32; 2], stream);
        gpu.launch(kernel(module, c"count"), 70, 96, stream, &mut [arg(&y)]).expect("launched");
        assert_eq!(gpu.download::<u32>(y, 2, stream), [70 * 96, 69]);
    });
}

#[test]
fn a_missing_barrier_shows() {
    on_simulated_gpu("kernels::a_missing_barrier_shows", &[], || {
        let (gpu, module) = (Gpu::new(), kernels(SOURCE));
        let stream = gpu.stream();
        let y = gpu.alloc(2 * 64 * 4, stream);
        gpu.launch(kernel(module, c"unsynchronised"), 2, 64, stream, &mut [arg(&y)]).expect("launched");
        let values = gpu.download::<i32>(y, 128, stream);
        assert!(values.chunks(64).all(|block| block.contains(&-1)), "shared memory holds 0xFF until it is written");
    });
}

fn fails_with(name: &str, wanted: CUresult) {
    let (gpu, module) = (Gpu::new(), kernels(SOURCE));
    let stream = gpu.stream();
    let y = gpu.alloc(4096, stream);
    let name = std::ffi::CString::new(name).expect("a name");
    let function = kernel(module, &name);
    gpu.launch(function, 1, 64, stream, &mut [arg(&y)]).expect("the mistake shows later");
    assert_eq!(code(gpu.finish(stream)), wanted);
    let again = gpu.launch(function, 1, 64, stream, &mut [arg(&y)]);
    assert_eq!(code(again), wanted, "a context does not recover");
}

#[test]
fn a_barrier_that_some_threads_never_reach_fails() {
    on_simulated_gpu("kernels::a_barrier_that_some_threads_never_reach_fails", &[], || {
        fails_with("gone", CUresult::CUDA_ERROR_LAUNCH_FAILED);
    });
}

#[test]
fn an_exchange_with_a_lane_missing_fails() {
    on_simulated_gpu("kernels::an_exchange_with_a_lane_missing_fails", &[], || {
        fails_with("missing", CUresult::CUDA_ERROR_LAUNCH_FAILED);
    });
}

#[test]
fn an_access_far_outside_fails() {
    on_simulated_gpu("kernels::an_access_far_outside_fails", &[], || {
        fails_with("outside", CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
    });
}

#[test]
fn an_element_past_the_end_fails_where_a_page_guards_it() {
    let settings = [("PLIMSOLL_SIM_GUARD", "1")];
    on_simulated_gpu("kernels::an_element_past_the_end_fails_where_a_page_guards_it", &settings, || {
        let (gpu, module) = (Gpu::new(), kernels(SOURCE));
        let stream = gpu.stream();
        let (x, y) = (gpu.upload(&[1i32; 64], stream), gpu.alloc(8, stream));
        let sum = kernel(module, c"sum_rows");
        gpu.launch(sum, 1, 32, stream, &mut [arg(&x), arg(&y), arg(&64i64)]).expect("launched");
        assert_eq!(gpu.download::<f64>(y, 1, stream), [64.0]);
        gpu.launch(sum, 1, 32, stream, &mut [arg(&x), arg(&y), arg(&65i64)]).expect("launched");
        assert_eq!(code(gpu.finish(stream)), CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
    });
}

#[test]
fn a_pointer_of_the_host_is_refused_at_the_launch() {
    on_simulated_gpu("kernels::a_pointer_of_the_host_is_refused_at_the_launch", &[], || {
        let (gpu, module) = (Gpu::new(), kernels(SOURCE));
        let host = [0u32; 2];
        let refused = gpu.launch(kernel(module, c"count"), 1, 32, gpu.stream(), &mut [arg(&host.as_ptr())]);
        assert_eq!(code(refused), CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
    });
}

#[test]
fn a_mistake_in_the_source_comes_back_as_a_log() {
    on_simulated_gpu("kernels::a_mistake_in_the_source_comes_back_as_a_log", &[], || {
        let log =
            compile("extern \"C\" __global__ void k(int *x) {\n    x[0] = nowhere;\n}", &[]).expect_err("no such name");
        assert!(log.contains("test.cu:2") && log.contains("nowhere"), "{log}");
        let log = compile("", &["--no-such-option"]).expect_err("no such option");
        assert!(log.contains("--no-such-option"), "{log}");
        compile("#include <cmath>\n", &[]).expect_err("there are no headers");
        compile("__device__ float sum(float *x) { return atomicAdd(x, 1.0f); }", &[])
            .expect_err("its order is not fixed");
    });
}

#[test]
fn an_image_goes_through_the_disk_into_another_process() {
    let name = "kernels::an_image_goes_through_the_disk_into_another_process";
    let Ok(part) = std::env::var("PLIMSOLL_TEST_PART") else {
        let file = std::env::temp_dir().join(format!("image-{}", std::process::id())).display().to_string();
        for part in ["write", "read"] {
            on_simulated_gpu(name, &[("PLIMSOLL_TEST_IMAGE", &file), ("PLIMSOLL_TEST_PART", part)], || {});
        }
        return fs::remove_file(&file).expect("it was written");
    };
    let file = std::env::var("PLIMSOLL_TEST_IMAGE").expect("set with the part");
    if part == "write" {
        return fs::write(&file, compile(SOURCE, &[]).expect("compiled")).expect("written");
    }
    let (gpu, mut image) = (Gpu::new(), fs::read(&file).expect("read"));
    let (stream, module) = (gpu.stream(), load(&image).expect("it loads"));
    let y = gpu.upload(&[0u32; 2], stream);
    gpu.launch(kernel(module, c"count"), 2, 32, stream, &mut [arg(&y)]).expect("launched");
    assert_eq!(gpu.download::<u32>(y, 2, stream), [64, 1]);
    image[500] ^= 1;
    assert!(load(&image).is_err(), "a spoilt image");
    assert!(load(b".version 9.0\0").is_err(), "real PTX is not for this card");
}

#[test]
fn a_kernel_that_fails_takes_its_context_along() {
    let settings = [("PLIMSOLL_SIM_FAIL_KERNEL", "2"), ("PLIMSOLL_SIM_FAULT", "719")];
    on_simulated_gpu("kernels::a_kernel_that_fails_takes_its_context_along", &settings, || {
        let (gpu, module) = (Gpu::new(), kernels(SOURCE));
        let (stream, count) = (gpu.stream(), kernel(module, c"count"));
        let (pool, locked) = (Pool::new(0), host_memory());
        let (x, y) = (pool.alloc(40 << 20, stream).expect("room"), gpu.upload(&[0u32; 2], stream));
        gpu.launch(count, 1, 32, stream, &mut [arg(&y)]).expect("launched");
        gpu.finish(stream).expect("the first does not fail");
        gpu.launch(count, 1, 32, stream, &mut [arg(&y)]).expect("it fails when it runs");
        let lost = CUresult::CUDA_ERROR_LAUNCH_FAILED;
        assert_eq!(code(gpu.finish(stream)), lost);
        assert_eq!(code(gpu.launch(count, 1, 32, stream, &mut [arg(&y)])), lost);
        assert_eq!(pool.alloc(1, stream).expect_err("lost").0, lost);
        // SAFETY: nothing uses them.
        unsafe {
            assert_eq!(code(result::free_async(x, stream)), lost);
            assert_eq!(code(result::mem_pool::destroy(pool.0)), lost);
            assert_eq!(code(result::free_host(locked)), lost);
            assert_eq!(code(result::module::unload(module)), lost);
        }
        assert_eq!(code(result::ctx::synchronize()), lost);
        // SAFETY: nothing of the context is used any more.
        unsafe { sys::cuDevicePrimaryCtxReset_v2(0) }.result().expect("reset");

        let (gpu, module) = (Gpu::new(), kernels(SOURCE));
        let stream = gpu.stream();
        assert_eq!(pool.get(Attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 40 << 20, "pools outlive their context");
        // SAFETY: nothing uses them.
        unsafe { result::free_sync(x).and_then(|()| result::mem_pool::destroy(pool.0)) }.expect("given back");
        let y = gpu.upload(&[0u32; 2], stream);
        gpu.launch(kernel(module, c"count"), 70, 96, stream, &mut [arg(&y)]).expect("launched");
        assert_eq!(gpu.download::<u32>(y, 2, stream), [70 * 96, 69]);
    });
}

#[test]
fn a_release_does_not_end_a_context_that_a_library_holds() {
    on_simulated_gpu("kernels::a_release_does_not_end_a_context_that_a_library_holds", &[], || {
        let _gpu = Gpu::new();
        let is_active = || {
            let (mut flags, mut active) = (0, 0);
            // SAFETY: both places are alive.
            unsafe { sys::cuDevicePrimaryCtxGetState(0, &mut flags, &mut active) }.result().expect("a state");
            active == 1
        };
        let handle = cudarc::cublas::result::create_handle().expect("cuBLAS");
        // SAFETY: nothing uses the handle or the context.
        unsafe {
            cudarc::cublas::result::destroy_handle(handle).expect("destroyed");
            result::primary_ctx::release(0).expect("released");
            assert!(is_active());
            sys::cuDevicePrimaryCtxReset_v2(0).result().expect("reset");
        }
        assert!(!is_active());
    });
}

fn host_memory() -> *mut std::ffi::c_void {
    // SAFETY: it is given back by the same driver, or goes with its context.
    unsafe { result::malloc_host(4096, 0) }.expect("host memory")
}
