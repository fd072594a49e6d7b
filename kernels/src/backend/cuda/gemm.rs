//! Matrix products, by cuBLAS.
//!
//! cuBLAS takes column-major matrices. The engine's are row-major, which is the transposed matrix in column-major order. So
//! it computes `cᵀ = op(b)ᵀ op(a)ᵀ`, with the operands as they are in memory. Sums are in f32 (f64 for f64), partial sums of
//! the library too. Always holds: the library works in the workspace that it was lent, or in a small one of its own, which is
//! part of the context.

use std::{
    cell::Cell,
    ffi::{c_int, c_void},
};

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
    work::Work,
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
    /// The workspace of the products that are submitted from now on.
    lent: Cell<Room>,
    /// The workspace that it was told last.
    told: Cell<Option<Room>>,
}

/// A workspace: where it begins, and its bytes.
type Room = (Pointer, usize);

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
        Ok(Self { handle, floor, lent: Cell::default(), told: Cell::default() })
    }

    /// Lends memory to the products that are submitted from now on; where that is too little, they work in the library's own.
    pub(super) fn lend(&self, start: Pointer, bytes: usize) {
        self.lent.set((start, bytes));
    }

    /// Takes back what was lent. Every product that was submitted is queued.
    pub(super) fn take_back(&self) -> Result<()> {
        self.lend(Pointer::default(), 0);
        self.works_in(self.lent.get())
    }

    /// Tells the library to work there.
    fn works_in(&self, (start, bytes): Room) -> Result<()> {
        let room = if bytes < LEAST { (Pointer(self.floor.raw()), LEAST) } else { (start, bytes) };
        if self.told.get() == Some(room) {
            return Ok(());
        }
        // SAFETY: the caller that lends the memory takes it back, or lends other memory, before it is freed.
        unsafe { sys::cublasSetWorkspace_v2(self.handle.raw(), room.0.0 as *mut c_void, room.1) }
            .result()
            .map_err(|error| failed("lending a workspace", error))?;
        self.told.set(Some(room));
        Ok(())
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

/// A product, ready to be queued.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Product {
    form: Form,
    /// The two factors, and where the product goes.
    operands: [Pointer; 3],
    room: Room,
}

/// Everything about a product but its addresses.
#[derive(Debug, Clone, PartialEq)]
struct Form {
    extents: [c_int; 3],
    /// Elements from one row to the next, of each operand.
    strides: [c_int; 3],
    transposed: [Operation; 2],
    from: DType,
    types: [Type; 2],
    compute: Compute,
    accumulate: bool,
}

impl Product {
    /// Whether the other is the same but for addresses.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.form == other.form && self.room.1 == other.room.1
    }

    /// Its extents.
    pub(super) fn extents(&self) -> [c_int; 3] {
        self.form.extents
    }

    /// Tells the library where it works.
    pub(super) fn prepare(&self, blas: &Blas) -> Result<()> {
        blas.works_in(self.room)
    }

    /// Queues it. It was prepared.
    pub(super) fn queue(&self, blas: &Blas) -> Result<()> {
        let Form { extents: [m, n, k], strides, transposed, from, types, compute, accumulate } = &self.form;
        let [a, b, c] = self.operands.map(|pointer| pointer.0 as *mut c_void);
        let beta = f64::from(u8::from(*accumulate));
        let (wide, narrow) = ([1.0, beta], [1.0f32, beta as f32]);
        let factor = |i: usize| -> *const c_void {
            if *from == DType::F64 { (&raw const wide[i]).cast() } else { (&raw const narrow[i]).cast() }
        };
        // SAFETY: the matrices are as large as the extents say, which was checked against the tensors; the factors are of
        // the type that is computed in and outlive the call.
        unsafe {
            result::gemm_ex(
                blas.handle.raw(),
                transposed[1],
                transposed[0],
                *n,
                *m,
                *k,
                factor(0),
                b,
                types[0],
                strides[1],
                a,
                types[0],
                strides[0],
                factor(1),
                c,
                types[1],
                strides[2],
                *compute,
                sys::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT,
            )
        }
        .map_err(|error| failed(&format!("a product of {m} by {k} by {n}"), error))
    }
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
    let compute = match from {
        DType::F64 => Compute::CUBLAS_COMPUTE_64F,
        DType::F32 if o.backend().options().tf32 => Compute::CUBLAS_COMPUTE_32F_FAST_TF32,
        DType::F32 | DType::Bf16 | DType::F16 => Compute::CUBLAS_COMPUTE_32F,
        DType::U32 | DType::U8 => return o.unsupported(),
    };
    let op = |transposed| if transposed { Operation::CUBLAS_OP_T } else { Operation::CUBLAS_OP_N };
    let leading = |transposed, rows, columns| if transposed { rows } else { columns };
    let form = Form {
        extents: [m, n, k],
        strides: [leading(p.transpose_a, m, k), leading(p.transpose_b, k, n), stride],
        transposed: [op(p.transpose_a), op(p.transpose_b)],
        from,
        types: [from_type, to_type],
        compute,
        accumulate: p.accumulate,
    };
    let device = o.backend().device();
    let room = device.blas()?.lent.get();
    match device.aside().keep(Product { form, operands: [a, b, c], room }) {
        Some(product) => device.submit(Work::Product(product)),
        None => Ok(()),
    }
}
