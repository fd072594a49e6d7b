//! Matrix products, by cuBLAS.
//!
//! cuBLAS takes column-major matrices. The engine's are row-major, which is the transposed matrix in column-major order. So
//! it computes `cᵀ = op(b)ᵀ op(a)ᵀ`, with the operands as they are in memory. Sums are in f32 (f64 for f64), partial sums of
//! the library too. Always holds: the library works in the workspace that it was lent, or in a small one of its own, which is
//! part of the context.

use std::ffi::{c_int, c_void};

use cudarc::{
    cublas::{
        result::{self, CublasError},
        sys::{
            self, cublasComputeType_t as Compute, cublasOperation_t as Operation, cublasStatus_t as Status,
            cudaDataType as Type,
        },
    },
    driver::{self, DriverError, sys::CUdeviceptr},
};

use super::{
    device::Device,
    fault::{of_library, refused},
    handle::{Handle, Owned},
    launch::Pointer,
    operands::Operands,
};
use crate::{
    backend::{DType, ops::MatMul},
    error::{Error, Result},
};

/// The least it can always work in, by its manual (cublasSetWorkspace): with less, a product may fail.
const LEAST: usize = 16 << 10;

// SAFETY: the library makes a new handle, and waits for what it has queued before it ends one.
unsafe impl Handle for sys::cublasHandle_t {
    type Asked<'a> = ();
    type Error = CublasError;

    const TAKE_BACK: unsafe fn(Self) -> std::result::Result<(), CublasError> = result::destroy_handle;

    fn make((): ()) -> std::result::Result<Self, CublasError> {
        result::create_handle()
    }
}

// SAFETY: the driver takes memory for it alone, and waits for what uses it before it frees it. A lost context frees it with
// itself.
unsafe impl Handle for CUdeviceptr {
    /// Bytes.
    type Asked<'a> = usize;
    type Error = DriverError;

    const TAKE_BACK: unsafe fn(Self) -> std::result::Result<(), DriverError> = driver::result::free_sync;

    fn make(bytes: usize) -> std::result::Result<Self, DriverError> {
        // SAFETY: a context is current, because a device is open. Nothing reads the memory before it is written.
        unsafe { driver::result::malloc_sync(bytes) }
    }
}

/// cuBLAS on one device.
pub(super) struct Blas {
    handle: Owned<sys::cublasHandle_t>,
    /// The workspace that it uses when it was lent less than the least. It goes after the library.
    floor: Owned<CUdeviceptr>,
}

/// The error for a refusal by cuBLAS.
fn failed(doing: &str, error: CublasError) -> Error {
    // What a card without room is seen to end in.
    let may_lack_room = matches!(
        error.0,
        Status::CUBLAS_STATUS_NOT_INITIALIZED
            | Status::CUBLAS_STATUS_ALLOC_FAILED
            | Status::CUBLAS_STATUS_EXECUTION_FAILED
            | Status::CUBLAS_STATUS_INTERNAL_ERROR
    );
    of_library("cuBLAS", doing, &error.0, may_lack_room)
}

impl Blas {
    /// Starts the library on the device's stream.
    pub(super) fn new(device: &Device) -> Result<Self> {
        let handle = Owned::<sys::cublasHandle_t>::new(()).map_err(|error| failed("starting", error))?;
        let floor = Owned::new(LEAST).map_err(|error| refused("cuBLAS", "making room for cuBLAS", error))?;
        let mode = sys::cublasMath_t::CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION;
        // SAFETY: handle and stream are alive.
        unsafe {
            result::set_stream(handle.raw(), device.stream().raw().cast())
                .map_err(|error| failed("choosing a stream", error))?;
            sys::cublasSetMathMode(handle.raw(), mode)
        }
        .result()
        .map_err(|error| failed("choosing full sums", error))?;
        Ok(Self { handle, floor })
    }

    /// Lends it memory to work in; where that is too little, it works in its own.
    pub(super) fn lend(&self, start: Pointer, bytes: usize) -> Result<()> {
        let (start, bytes) = if bytes < LEAST { (self.floor.raw(), LEAST) } else { (start.0, bytes) };
        // SAFETY: the caller that lends the memory takes it back, or lends other memory, before it is freed.
        unsafe { sys::cublasSetWorkspace_v2(self.handle.raw(), start as *mut c_void, bytes) }
            .result()
            .map_err(|error| failed("lending a workspace", error))
    }

    /// Takes back what was lent.
    pub(super) fn take_back(&self) -> Result<()> {
        self.lend(Pointer::default(), 0)
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
    operands: [Pointer; 2],
    from: DType,
    c: Pointer,
    to: DType,
) -> Result<()> {
    product_in(p, o, operands, from, c, to, p.n)
}

/// Computes the same product into columns of a matrix whose rows have `stride` elements.
pub(super) fn product_in(
    p: &MatMul,
    o: &Operands<'_>,
    [a, b]: [Pointer; 2],
    from: DType,
    c: Pointer,
    to: DType,
    stride: usize,
) -> Result<()> {
    let (Some(from_type), Some(to_type)) = (data_type(from), data_type(to)) else { return o.unsupported() };
    if to != from && (to != DType::F32 || from == DType::F64) {
        return o.unsupported();
    }
    let [m, n, k, stride] = match [p.m, p.n, p.k, stride].map(c_int::try_from) {
        [Ok(m), Ok(n), Ok(k), Ok(stride)] => [m, n, k, stride],
        _ => return Err(o.error("an extent beyond 2^31")),
    };
    let op = |transposed| if transposed { Operation::CUBLAS_OP_T } else { Operation::CUBLAS_OP_N };
    let leading = |transposed, rows, columns| if transposed { rows } else { columns };
    let compute = match from {
        DType::F64 => Compute::CUBLAS_COMPUTE_64F,
        DType::F32 if o.backend().options().tf32 => Compute::CUBLAS_COMPUTE_32F_FAST_TF32,
        DType::F32 | DType::Bf16 | DType::F16 => Compute::CUBLAS_COMPUTE_32F,
        DType::U32 | DType::U8 => return o.unsupported(),
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
            blas.handle.raw(),
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
            stride,
            compute,
            sys::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT,
        )
    }
    .map_err(|error| failed(&format!("a product of {m} by {k} by {n}"), error))
}
