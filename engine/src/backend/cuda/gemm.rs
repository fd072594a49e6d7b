//! Matrix products, by cuBLAS.
//!
//! cuBLAS knows matrices column by column. Ours are row by row, which is the transposed matrix column by column: what is
//! asked of it is `cᵀ = op(b)ᵀ op(a)ᵀ`, with the operands as they lie. Sums are in f32 (f64 for f64), in the library's
//! partial sums too.

use std::ffi::{c_int, c_void};

use cudarc::cublas::{
    result::{self, CublasError},
    sys::{self, cublasComputeType_t as Compute, cublasOperation_t as Operation, cudaDataType as Type},
};

use super::{device::Device, fault::full, launch::Pointer, operands::Operands};
use crate::{
    backend::{DType, kernel::MatMul},
    error::{Error, Result},
};

/// cuBLAS on one device.
pub(super) struct Blas(sys::cublasHandle_t);

/// cuBLAS's refusal.
fn failed(doing: &str, error: CublasError) -> Error {
    if error.0 == sys::cublasStatus_t::CUBLAS_STATUS_ALLOC_FAILED {
        return full("cuBLAS");
    }
    Error::Device(format!("cuBLAS, {doing}: {:?}", error.0))
}

impl Blas {
    /// Starts the library on the device's stream.
    pub(super) fn new(device: &Device) -> Result<Self> {
        let blas = Self(result::create_handle().map_err(|error| failed("starting", error))?);
        // SAFETY: handle and stream are alive.
        unsafe {
            result::set_stream(blas.0, device.stream().cast()).map_err(|error| failed("choosing a stream", error))?;
            sys::cublasSetMathMode(blas.0, sys::cublasMath_t::CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION)
        }
        .result()
        .map_err(|error| failed("choosing full sums", error))?;
        Ok(blas)
    }

    /// Lends it memory to work in, in place of its own; none at all when there are no bytes.
    pub(super) fn lend(&self, start: Pointer, bytes: usize) -> Result<()> {
        // SAFETY: whoever lends the memory takes it back by lending other before it goes.
        unsafe { sys::cublasSetWorkspace_v2(self.0, start.0 as *mut c_void, bytes) }
            .result()
            .map_err(|error| failed("lending a workspace", error))
    }
}

impl Drop for Blas {
    fn drop(&mut self) {
        // SAFETY: nobody else has the handle.
        let _ = unsafe { result::destroy_handle(self.0) };
    }
}

fn data_type(dtype: DType) -> Option<Type> {
    Some(match dtype {
        DType::F64 => Type::CUDA_R_64F,
        DType::F32 => Type::CUDA_R_32F,
        DType::Bf16 => Type::CUDA_R_16BF,
        DType::F16 => Type::CUDA_R_16F,
        DType::U32 | DType::U8 => return None,
    })
}

/// Launches a product of a launch's two inputs into its output.
pub(super) fn launch(p: &MatMul, o: &Operands<'_>) -> Result<()> {
    product(p, o, [o.input(0), o.input(1)], o.input_type(0), o.output(0), o.output_type(0))
}

/// Launches a product of `[a, b]`, of type `from`, into `c`, of type `to`.
pub(super) fn product(
    p: &MatMul,
    o: &Operands<'_>,
    [a, b]: [Pointer; 2],
    from: DType,
    c: Pointer,
    to: DType,
) -> Result<()> {
    let (Some(from_type), Some(to_type)) = (data_type(from), data_type(to)) else { return o.unsupported() };
    if to != from && (to != DType::F32 || from == DType::F64) {
        return o.unsupported();
    }
    let [m, n, k] = match [p.m, p.n, p.k].map(c_int::try_from) {
        [Ok(m), Ok(n), Ok(k)] => [m, n, k],
        _ => return Err(o.error("an extent beyond 2^31")),
    };
    let op = |transposed| if transposed { Operation::CUBLAS_OP_T } else { Operation::CUBLAS_OP_N };
    let leading = |transposed, rows, columns| if transposed { rows } else { columns };
    let compute = match from {
        DType::F64 => Compute::CUBLAS_COMPUTE_64F,
        DType::F32 if o.backend().options().tf32 => Compute::CUBLAS_COMPUTE_32F_FAST_TF32,
        _ => Compute::CUBLAS_COMPUTE_32F,
    };
    let beta = f64::from(u8::from(p.accumulate));
    let (wide, narrow) = ([1.0, beta], [1.0f32, beta as f32]);
    let factor = |i: usize| -> *const c_void {
        if from == DType::F64 { std::ptr::from_ref(&wide[i]).cast() } else { std::ptr::from_ref(&narrow[i]).cast() }
    };
    let blas = o.backend().device().blas()?;
    // SAFETY: the matrices are as large as the extents say, which was checked against the tensors; the factors are of the
    // type that is computed in and outlive the call.
    unsafe {
        result::gemm_ex(
            blas.0,
            op(p.transpose_b),
            op(p.transpose_a),
            n,
            m,
            k,
            factor(0),
            b.0 as *const c_void,
            from_type,
            leading(p.transpose_b, k, n),
            a.0 as *const c_void,
            from_type,
            leading(p.transpose_a, m, k),
            factor(1),
            c.0 as *mut c_void,
            to_type,
            n,
            compute,
            sys::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT,
        )
    }
    .map_err(|error| failed(&format!("a product of {m} by {k} by {n}"), error))
}
