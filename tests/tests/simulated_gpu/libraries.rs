//! cuBLAS, cuDNN and NVML: against plain loops, and what they refuse.

use cudarc::{
    cublas::{self, sys as blas},
    cudnn::{self, sys as dnn},
};
use nvml_wrapper::{Nvml, enums::device::UsedGpuMemory};
use plimsoll_tests::on_simulated_gpu;

use crate::gpu::{Gpu, Pool, Ptr, Stream, arg};

/// Numbers in [-1, 1), the same at every call.
fn numbers(count: usize) -> Vec<f32> {
    (0..count as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 16) as f32 / 32768.0 - 1.0).collect()
}

fn close(found: &[f32], wanted: &[f64]) {
    assert_eq!(found.len(), wanted.len());
    for (i, (found, wanted)) in found.iter().zip(wanted).enumerate() {
        assert!((f64::from(*found) - wanted).abs() < 1e-5 * (1.0 + wanted.abs()), "element {i}: {found}, not {wanted}");
    }
}

#[test]
fn a_matrix_product_agrees_with_a_loop() {
    on_simulated_gpu("libraries::a_matrix_product_agrees_with_a_loop", &[], || {
        let gpu = Gpu::new();
        let stream = gpu.stream();
        let handle = cublas::result::create_handle().expect("a handle");
        // SAFETY: both are alive; the driver's and the library's stream are the same thing.
        unsafe { cublas::result::set_stream(handle, stream.cast()) }.expect("set");
        // Column-major: a is [m, k] transposed as it lies, b is [k, n].
        let (m, n, k) = (19, 133, 301);
        let (a, b, c) = (numbers(m * k), numbers(k * n), numbers(m * n));
        let [pa, pb, pc] = [&a, &b, &c].map(|values| gpu.upload(values, stream));
        let (op, plain) = (blas::cublasOperation_t::CUBLAS_OP_T, blas::cublasOperation_t::CUBLAS_OP_N);
        let (mi, ni, ki) = (m as i32, n as i32, k as i32);
        let product = |pc: Ptr, ldc: i32| {
            // SAFETY: the simulated library looks at the extents before it computes.
            unsafe {
                cublas::result::sgemm(
                    handle,
                    op,
                    plain,
                    mi,
                    ni,
                    ki,
                    &2.0,
                    pa as *const f32,
                    ki,
                    pb as *const f32,
                    ki,
                    &0.5,
                    pc as *mut f32,
                    ldc,
                )
            }
        };
        product(pc, mi).expect("queued");
        let wanted: Vec<f64> = (0..m * n)
            .map(|at| {
                let (i, j) = (at % m, at / m);
                let sum: f64 = (0..k).map(|p| f64::from(a[i * k + p]) * f64::from(b[j * k + p])).sum();
                2.0 * sum + 0.5 * f64::from(c[at])
            })
            .collect();
        close(&gpu.download::<f32>(pc, m * n, stream), &wanted);
        assert!(product(pc, mi - 1).is_err(), "a leading dimension below the rows");
        assert!(product(pc + 4096 * 64, mi).is_err(), "not in live memory");
    });
}

/// A convolution of x [2, 4, 7, 6] with w [6, 2, 3, 3], two groups, stride 2, padding 1: y [2, 6, 4, 3].
const N: [usize; 3] = [2 * 4 * 7 * 6, 6 * 2 * 3 * 3, 2 * 6 * 4 * 3];

/// Each term of the sums: the places in x, w and y.
fn terms(mut visit: impl FnMut(usize, usize, usize)) {
    for (n, k, p, q) in (0..2 * 6 * 4 * 3).map(|i| (i / 72, i / 12 % 6, i / 3 % 4, i % 3)) {
        for (c, r, s) in (0..2 * 9).map(|i| (i / 9, i / 3 % 3, i % 3)) {
            let (h, w) = (2 * p + r, 2 * q + s);
            if (1..8).contains(&h) && (1..7).contains(&w) {
                let x = ((n * 4 + k / 3 * 2 + c) * 7 + h - 1) * 6 + w - 1;
                visit(x, ((k * 2 + c) * 3 + r) * 3 + s, ((n * 6 + k) * 4 + p) * 3 + q);
            }
        }
    }
}

struct Layer {
    handle: dnn::cudnnHandle_t,
    x: dnn::cudnnTensorDescriptor_t,
    w: dnn::cudnnFilterDescriptor_t,
    conv: dnn::cudnnConvolutionDescriptor_t,
    y: dnn::cudnnTensorDescriptor_t,
}

impl Layer {
    fn new(stream: Stream) -> Self {
        let (float, format) = (dnn::cudnnDataType_t::CUDNN_DATA_FLOAT, dnn::cudnnTensorFormat_t::CUDNN_TENSOR_NCHW);
        let cross = dnn::cudnnConvolutionMode_t::CUDNN_CROSS_CORRELATION;
        let this = Self {
            handle: cudnn::result::create_handle().expect("a handle"),
            x: cudnn::result::create_tensor_descriptor().expect("made"),
            w: cudnn::result::create_filter_descriptor().expect("made"),
            conv: cudnn::result::create_convolution_descriptor().expect("made"),
            y: cudnn::result::create_tensor_descriptor().expect("made"),
        };
        // SAFETY: all were just made and live as long as the process.
        unsafe {
            cudnn::result::set_stream(this.handle, stream.cast()).expect("set");
            cudnn::result::set_tensor4d_descriptor(this.x, format, float, [2, 4, 7, 6]).expect("set");
            cudnn::result::set_tensor4d_descriptor(this.y, format, float, [2, 6, 4, 3]).expect("set");
            cudnn::result::set_filter4d_descriptor(this.w, float, format, [6, 2, 3, 3]).expect("set");
            cudnn::result::set_convolution2d_descriptor(this.conv, 1, 1, 2, 2, 1, 1, cross, float).expect("set");
            cudnn::result::set_convolution_group_count(this.conv, 2).expect("set");
            cudnn::result::set_convolution_math_type(this.conv, dnn::cudnnMathType_t::CUDNN_FMA_MATH).expect("set");
        }
        this
    }
}

#[test]
fn a_convolution_and_its_gradients_agree_with_loops() {
    on_simulated_gpu("libraries::a_convolution_and_its_gradients_agree_with_loops", &[], || {
        let gpu = Gpu::new();
        let stream = gpu.stream();
        let l = Layer::new(stream);
        let values = N.map(numbers);
        let [x, w, y] = [0, 1, 2].map(|i| gpu.upload(&values[i], stream));
        let mut wanted = N.map(|n| vec![0.0; n]);
        let at = |i: usize, j: usize| f64::from(values[i][j]);
        terms(|ix, iw, iy| {
            wanted[0][ix] += at(1, iw) * at(2, iy);
            wanted[1][iw] += at(0, ix) * at(2, iy);
            wanted[2][iy] += at(0, ix) * at(1, iw);
        });
        let (one, zero) = (1.0f32, 0.0f32);
        let (one, zero) = (arg(&one).cast_const(), arg(&zero).cast_const());
        let [dx, dw, out] = N.map(|n| gpu.alloc(n * 4, stream));
        let (forward, data, filter) = (
            dnn::cudnnConvolutionFwdAlgo_t::CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM,
            dnn::cudnnConvolutionBwdDataAlgo_t::CUDNN_CONVOLUTION_BWD_DATA_ALGO_0,
            dnn::cudnnConvolutionBwdFilterAlgo_t::CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0,
        );
        let none = std::ptr::null_mut();
        let (px, pw, py) = (x as *const _, w as *const _, y as *const _);
        // SAFETY: the descriptors are set, and the memory is as large as they say.
        unsafe {
            cudnn::result::convolution_forward(
                l.handle,
                one,
                l.x,
                px,
                l.w,
                pw,
                l.conv,
                forward,
                none,
                0,
                zero,
                l.y,
                out as *mut _,
            )
            .expect("queued");
            cudnn::result::convolution_backward_data(
                l.handle,
                one,
                l.w,
                pw,
                l.y,
                py,
                l.conv,
                data,
                none,
                0,
                zero,
                l.x,
                dx as *mut _,
            )
            .expect("queued");
            cudnn::result::convolution_backward_filter(
                l.handle,
                one,
                l.x,
                px,
                l.y,
                py,
                l.conv,
                filter,
                none,
                0,
                zero,
                l.w,
                dw as *mut _,
            )
            .expect("queued");
        }
        for ((ptr, wanted), n) in [dx, dw, out].into_iter().zip(&wanted).zip(N) {
            close(&gpu.download::<f32>(ptr, n, stream), wanted);
        }
    });
}

#[test]
fn a_workspace_below_the_algorithms_is_refused() {
    on_simulated_gpu("libraries::a_workspace_below_the_algorithms_is_refused", &[], || {
        let gpu = Gpu::new();
        let stream = gpu.stream();
        let l = Layer::new(stream);
        let [x, w, y] = N.map(|n| gpu.upload(&numbers(n), stream));
        let algorithm = dnn::cudnnConvolutionFwdAlgo_t::CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
        // SAFETY: the descriptors are set.
        let needed = unsafe {
            cudnn::result::get_convolution_forward_workspace_size(l.handle, l.x, l.w, l.conv, l.y, algorithm)
        }
        .expect("a size");
        assert!(needed > 0);
        let (one, zero) = (1.0f32, 0.0f32);
        let workspace = gpu.alloc(needed, stream);
        let run = |bytes: usize| {
            // SAFETY: the workspace has at least as many bytes as are said.
            unsafe {
                cudnn::result::convolution_forward(
                    l.handle,
                    arg(&one),
                    l.x,
                    x as *const _,
                    l.w,
                    w as *const _,
                    l.conv,
                    algorithm,
                    workspace as *mut _,
                    bytes,
                    arg(&zero),
                    l.y,
                    y as *mut _,
                )
            }
        };
        assert!(run(needed - 1).is_err());
        run(needed).expect("queued");
        gpu.finish(stream).expect("computed");
    });
}

#[test]
fn the_monitor_counts_this_process_and_the_others() {
    let settings = [("PLIMSOLL_SIM_OTHERS_MIB", "700"), ("PLIMSOLL_SIM_TOTAL_MIB", "4096")];
    on_simulated_gpu("libraries::the_monitor_counts_this_process_and_the_others", &settings, || {
        const MIB: u64 = 1 << 20;
        let nvml = Nvml::init().expect("the simulated monitor starts");
        let card = nvml.device_by_index(0).expect("a card");
        assert_eq!(card.memory_info().expect("its memory").used, 700 * MIB);
        let gpu = Gpu::new();
        let (pool, stream) = (Pool::new(0), gpu.stream());
        pool.alloc(33 << 20, stream).expect("room");
        let memory = card.memory_info().expect("its memory");
        assert_eq!((memory.total, memory.used), (4096 * MIB, (700 + 300 + 34) * MIB));
        let processes = card.running_compute_processes().expect("its processes");
        let mine = processes.iter().find(|process| process.pid == std::process::id()).expect("this process");
        assert!(matches!(mine.used_gpu_memory, UsedGpuMemory::Used(bytes) if bytes == (300 + 34) * MIB));
        assert_eq!(processes.len(), 2);
    });
}
