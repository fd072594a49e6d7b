//! cuBLASLt's products with an epilogue: against plain loops, and what they refuse.

use std::ptr::{from_ref, null_mut};

use cudarc::cublaslt::{
    result::{self, CublasError},
    sys::{
        self, cublasComputeType_t as Compute, cublasLtEpilogue_t as Epilogue,
        cublasLtMatmulDescAttributes_t as Attribute, cudaDataType as Type,
    },
};
use plimsoll_tests::on_simulated_gpu;

use crate::gpu::{Gpu, Ptr, Stream};

/// Rows and columns of the product, and terms of its sums; all matrices are column-major. What GELU keeps has rows of eight.
const M: usize = 8;
const N: usize = 5;
const K: usize = 7;

/// Numbers in [-1, 1), the same at every call.
fn numbers(count: usize, from: u32) -> Vec<f32> {
    (from..from + count as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 16) as f32 / 32768.0 - 1.0).collect()
}

/// A product `a [M, K]` by `b [K, N]`, which lies transposed.
struct Product {
    handle: sys::cublasLtHandle_t,
    about: sys::cublasLtMatmulDesc_t,
    layouts: [sys::cublasLtMatrixLayout_t; 3],
}

impl Product {
    fn new(epilogue: Epilogue) -> Self {
        let float = Type::CUDA_R_32F;
        let layout = |rows: usize, columns: usize| {
            result::create_matrix_layout(float, rows as u64, columns as u64, rows as i64).expect("made")
        };
        let about = result::create_matmul_desc(Compute::CUBLAS_COMPUTE_32F, float).expect("made");
        let this = Self {
            handle: result::create_handle().expect("a handle"),
            about,
            layouts: [layout(M, K), layout(N, K), layout(M, N)],
        };
        this.set(Attribute::CUBLASLT_MATMUL_DESC_TRANSB, 1i32);
        this.set(Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
        this
    }

    fn set<T>(&self, which: Attribute, value: T) {
        // SAFETY: the descriptor is alive, and the value is copied.
        unsafe { result::set_matmul_desc_attribute(self.about, which, from_ref(&value).cast(), size_of::<T>()) }
            .expect("set");
    }

    /// The algorithm that the library proposes.
    fn found(&self) -> Result<sys::cublasLtMatmulHeuristicResult_t, CublasError> {
        let wish = result::create_matmul_pref().expect("made");
        let [a, b, d] = self.layouts;
        // SAFETY: all of them are alive.
        unsafe { result::get_matmul_algo_heuristic(self.handle, self.about, a, b, d, d, wish) }
    }

    fn run(&self, by: &sys::cublasLtMatmulAlgo_t, [a, b, d]: [Ptr; 3], stream: Stream) -> Result<(), CublasError> {
        let [of_a, of_b, of_d] = self.layouts;
        let (one, zero) = (1.0f32, 0.0f32);
        // SAFETY: the simulated library looks at the extents before it computes.
        unsafe {
            result::matmul(
                self.handle,
                self.about,
                from_ref(&one).cast(),
                from_ref(&zero).cast(),
                a as *const _,
                of_a,
                b as *const _,
                of_b,
                d as *const _,
                of_d,
                d as *mut _,
                of_d,
                by,
                null_mut(),
                0,
                stream.cast(),
            )
        }
    }
}

fn product(a: &[f32], b: &[f32]) -> Vec<f64> {
    let at = |i: usize, j: usize| (0..K).map(|p| f64::from(a[p * M + i]) * f64::from(b[p * N + j])).sum();
    (0..M * N).map(|place| at(place % M, place / M)).collect()
}

fn close(found: &[f32], wanted: impl Iterator<Item = f64>) {
    let wanted: Vec<f64> = wanted.collect();
    assert_eq!(found.len(), wanted.len());
    for (i, (found, wanted)) in found.iter().zip(wanted).enumerate() {
        assert!((f64::from(*found) - wanted).abs() < 1e-5, "element {i}: {found}, not {wanted}");
    }
}

fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + (0.797_884_560_802_865_4 * (x + 0.044_715 * x.powi(3))).tanh())
}

#[test]
fn a_bias_gelu_and_a_gradient_of_a_bias_agree_with_loops() {
    on_simulated_gpu("epilogues::a_bias_gelu_and_a_gradient_of_a_bias_agree_with_loops", &[], || {
        let gpu = Gpu::new();
        let stream = gpu.stream();
        let (a, b, bias) = (numbers(M * K, 0), numbers(K * N, 999), numbers(M, 77));
        let [pa, pb, pd, kept, added] =
            [&a, &b, &vec![9.0; M * N], &vec![9.0; M * N], &bias].map(|values| gpu.upload(values, stream));
        let sums = product(&a, &b);
        let biased = || sums.iter().enumerate().map(|(i, sum)| sum + f64::from(bias[i % M]));
        for epilogue in [Epilogue::CUBLASLT_EPILOGUE_BIAS, Epilogue::CUBLASLT_EPILOGUE_GELU_AUX_BIAS] {
            let of = Product::new(epilogue);
            of.set(Attribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER, added);
            of.set(Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, kept);
            of.set(Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, M as i64);
            of.run(&of.found().expect("served").algo, [pa, pb, pd], stream).expect("queued");
            let found = gpu.download::<f32>(pd, M * N, stream);
            if epilogue == Epilogue::CUBLASLT_EPILOGUE_BIAS {
                close(&found, biased());
            } else {
                close(&found, biased().map(gelu));
                close(&gpu.download::<f32>(kept, M * N, stream), biased());
            }
        }
        // What GELU was applied to is read.
        let of = Product::new(Epilogue::CUBLASLT_EPILOGUE_DGELU);
        of.set(Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, kept);
        of.set(Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, M as i64);
        of.run(&of.found().expect("served").algo, [pa, pb, pd], stream).expect("queued");
        let slope = |x: f64| (gelu(x + 1e-5) - gelu(x - 1e-5)) / 2e-5;
        close(&gpu.download::<f32>(pd, M * N, stream), biased().zip(&sums).map(|(x, sum)| sum * slope(x)));
        let of = Product::new(Epilogue::CUBLASLT_EPILOGUE_BGRADB);
        let sum = gpu.upload(&[9.0f32; N], stream);
        of.set(Attribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER, sum);
        of.run(&of.found().expect("served").algo, [pa, pb, pd], stream).expect("queued");
        close(&gpu.download::<f32>(pd, M * N, stream), sums.iter().copied());
        let of_column = |j: usize| (0..K).map(|p| f64::from(b[p * N + j])).sum();
        close(&gpu.download::<f32>(sum, N, stream), (0..N).map(of_column));
    });
}

#[test]
fn an_epilogue_that_does_not_fit_is_refused() {
    on_simulated_gpu("epilogues::an_epilogue_that_does_not_fit_is_refused", &[], || {
        let gpu = Gpu::new();
        let stream = gpu.stream();
        let [pa, pb, pd] = [M * K, K * N, M * N].map(|count| gpu.upload(&numbers(count + 1, 0), stream));
        let of = Product::new(Epilogue::CUBLASLT_EPILOGUE_BIAS);
        let by = of.found().expect("served").algo;
        assert!(of.run(&by, [pa, pb, pd], stream).is_err(), "no bias");
        of.set(Attribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER, pa);
        assert!(of.run(&by, [pa, pb, pd + 4], stream).is_err(), "less aligned than it was to be");
        of.run(&by, [pa, pb, pd], stream).expect("queued");
        let other = Product::new(Epilogue::CUBLASLT_EPILOGUE_BGRADB);
        other.set(Attribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER, pa);
        assert!(other.run(&by, [pa, pb, pd], stream).is_err(), "another's algorithm");
        let gelu = Product::new(Epilogue::CUBLASLT_EPILOGUE_GELU_AUX_BIAS);
        gelu.set(Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, M as i64 + 1);
        assert!(gelu.found().is_err(), "rows of nine");
        gpu.finish(stream).expect("computed");
    });
}
