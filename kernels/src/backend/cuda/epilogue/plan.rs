//! What cuBLASLt makes for a product with an epilogue, and the call.
//!
//! Owns the library's handle and its descriptors, which lie in host memory. Always holds: a product is asked about once.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    ffi::c_void,
    ptr,
    rc::Rc,
};

use cudarc::cublaslt::{
    result::{self, CublasError},
    sys::{
        self, cublasComputeType_t as Compute, cublasLtMatmulDescAttributes_t as Attribute,
        cublasLtMatmulPreferenceAttributes_t as Preference, cudaDataType as Type,
    },
};

use super::{Epilogue, Question};
use crate::{
    backend::{
        DType,
        cuda::{
            device::Device,
            handle::{Handle, Owned},
            instead::Piece,
            launch::Pointer,
        },
    },
    error::Error,
};

// SAFETY: the library makes a new handle, and waits for what it has queued before it ends one.
unsafe impl Handle for sys::cublasLtHandle_t {
    type Asked<'a> = ();
    type Error = CublasError;

    const TAKE_BACK: unsafe fn(Self) -> Result<(), CublasError> = result::destroy_handle;

    fn make((): ()) -> Result<Self, CublasError> {
        result::create_handle()
    }
}

// SAFETY: the library makes a new descriptor in host memory, which a call reads before it returns.
unsafe impl Handle for sys::cublasLtMatmulDesc_t {
    /// The types of sums and of the factors that scale them.
    type Asked<'a> = (Compute, Type);
    type Error = CublasError;

    const TAKE_BACK: unsafe fn(Self) -> Result<(), CublasError> = result::destroy_matmul_desc;

    fn make((compute, scale): (Compute, Type)) -> Result<Self, CublasError> {
        result::create_matmul_desc(compute, scale)
    }
}

// SAFETY: as of a product's descriptor.
unsafe impl Handle for sys::cublasLtMatrixLayout_t {
    /// The type, and rows and columns, which lie behind each other.
    type Asked<'a> = (Type, [u64; 2]);
    type Error = CublasError;

    const TAKE_BACK: unsafe fn(Self) -> Result<(), CublasError> = result::destroy_matrix_layout;

    fn make((of, [rows, columns]): (Type, [u64; 2])) -> Result<Self, CublasError> {
        result::create_matrix_layout(of, rows, columns, rows as i64)
    }
}

// SAFETY: as of a product's descriptor.
unsafe impl Handle for sys::cublasLtMatmulPreference_t {
    type Asked<'a> = ();
    type Error = CublasError;

    const TAKE_BACK: unsafe fn(Self) -> Result<(), CublasError> = result::destroy_matmul_pref;

    fn make((): ()) -> Result<Self, CublasError> {
        result::create_matmul_pref()
    }
}

/// The library, and what it has for each product: an algorithm, or a reason why there is none.
pub(super) struct Lt {
    /// Their descriptors are the library's, so they go before it.
    pub(super) plans: RefCell<HashMap<Question, Result<Rc<Plan>, String>>>,
    handle: Owned<sys::cublasLtHandle_t>,
}

impl Lt {
    /// Starts the library.
    pub(super) fn start() -> Result<Self, CublasError> {
        Ok(Self { plans: RefCell::default(), handle: Owned::new(())? })
    }

    /// The algorithm for a product, which is asked for once.
    pub(super) fn plan(&self, question: Question) -> Result<Rc<Plan>, String> {
        let find = || Plan::find(self, &question).map(Rc::new).map_err(|error| question.refused(error));
        self.plans.borrow_mut().entry(question).or_insert_with(find).clone()
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

/// A product with its epilogue: the algorithm that was chosen, and what it is told.
pub(super) struct Plan {
    /// What it was asked for.
    pub(super) question: Question,
    description: Owned<sys::cublasLtMatmulDesc_t>,
    /// Of the library's A, B and D.
    layouts: [Owned<sys::cublasLtMatrixLayout_t>; 3],
    algorithm: sys::cublasLtMatmulAlgo_t,
    workspace_bytes: usize,
    is_wide: bool,
    /// Whether the library has run it, and has not refused it since.
    pub(super) has_run: Cell<bool>,
}

/// Where the operands of a product are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Places {
    /// The library's A and B.
    pub(super) factors: [Pointer; 2],
    pub(super) product: Pointer,
    pub(super) bias: Pointer,
    /// What GELU is applied to.
    pub(super) second: Pointer,
    pub(super) work: Pointer,
}

/// What a descriptor is told: an attribute of a product, or a preference.
enum Setting<'a> {
    Attribute(&'a Owned<sys::cublasLtMatmulDesc_t>, Attribute),
    Preference(&'a Owned<sys::cublasLtMatmulPreference_t>, Preference),
}

/// Sets an attribute of a product.
fn set<T: Copy>(of: &Owned<sys::cublasLtMatmulDesc_t>, which: Attribute, value: T) -> Result<(), CublasError> {
    tell(Setting::Attribute(of, which), value)
}

/// Sets an attribute or a preference.
fn tell<T: Copy>(setting: Setting<'_>, value: T) -> Result<(), CublasError> {
    let (value, bytes) = (ptr::from_ref(&value).cast(), size_of::<T>());
    // SAFETY: the descriptor is alive, and the value is copied.
    unsafe {
        match setting {
            Setting::Attribute(of, which) => result::set_matmul_desc_attribute(of.raw(), which, value, bytes),
            Setting::Preference(of, which) => result::set_matmul_pref_attribute(of.raw(), which, value, bytes),
        }
    }
}

impl Plan {
    /// Asks the library.
    fn find(lt: &Lt, question: &Question) -> Result<Self, CublasError> {
        let Question { extents: [m, n, k], transposed: [transpose_a, transpose_b], types: [from, to], .. } = *question;
        let unserved = CublasError(sys::cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED);
        let [from_type, to_type] = match [from, to].map(data_type) {
            [Some(from), Some(to)] => [from, to],
            _ => return Err(unserved),
        };
        let (compute, scale) = match from {
            DType::F64 => (Compute::CUBLAS_COMPUTE_64F, Type::CUDA_R_64F),
            _ if question.tf32 => (Compute::CUBLAS_COMPUTE_32F_FAST_TF32, Type::CUDA_R_32F),
            _ => (Compute::CUBLAS_COMPUTE_32F, Type::CUDA_R_32F),
        };
        let description = Owned::<sys::cublasLtMatmulDesc_t>::new((compute, scale))?;
        set(&description, Attribute::CUBLASLT_MATMUL_DESC_TRANSA, i32::from(transpose_b))?;
        set(&description, Attribute::CUBLASLT_MATMUL_DESC_TRANSB, i32::from(transpose_a))?;
        set(&description, Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE, question.epilogue.which())?;
        if matches!(question.epilogue, Epilogue::BiasGelu | Epilogue::GeluGradient) {
            set(&description, Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, n as i64)?;
        }
        let lying = |transposed, extents: [u64; 2]| if transposed { [extents[1], extents[0]] } else { extents };
        let layouts = [
            Owned::new((from_type, lying(transpose_b, [n, k])))?,
            Owned::new((from_type, lying(transpose_a, [k, m])))?,
            Owned::new((to_type, [n, m]))?,
        ];
        let [a, b, d] = [&layouts[0], &layouts[1], &layouts[2]].map(Owned::raw);
        let preference = question.preference()?;
        // SAFETY: handle, descriptors and layouts are alive.
        let found = unsafe {
            result::get_matmul_algo_heuristic(lt.handle.raw(), description.raw(), a, b, d, d, preference.raw())
        }?;
        if found.workspaceSize as u64 > question.workspace_bytes {
            return Err(unserved);
        }
        Ok(Self {
            question: *question,
            description,
            layouts,
            algorithm: found.algo,
            workspace_bytes: found.workspaceSize,
            is_wide: from == DType::F64,
            has_run: Cell::new(false),
        })
    }
}

impl Question {
    /// What an algorithm may take and rely on: no partial sum is rounded to the type of the product.
    fn preference(&self) -> Result<Owned<sys::cublasLtMatmulPreference_t>, CublasError> {
        let preference = Owned::<sys::cublasLtMatmulPreference_t>::new(())?;
        let full_sums = sys::cublasLtReductionScheme_t::CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE as u32;
        let of = |which| Setting::Preference(&preference, which);
        tell(of(Preference::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES), self.workspace_bytes)?;
        tell(of(Preference::CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK), full_sums)?;
        let [a, b, d] = self.alignments;
        for (which, bytes) in [
            (Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, a),
            (Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, b),
            (Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, d),
            (Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, d),
        ] {
            tell(of(which), bytes)?;
        }
        Ok(preference)
    }
}

/// A product with its epilogue, ready to be queued.
pub(in crate::backend::cuda) struct Run {
    pub(super) plan: Rc<Plan>,
    pub(super) places: Places,
    /// What runs if the library refuses it.
    pub(super) instead: Vec<Piece>,
}

impl Run {
    /// Whether the other is the same but for addresses.
    pub(in crate::backend::cuda) fn is_like(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.plan, &other.plan)
    }

    /// Whether the other is the same.
    pub(in crate::backend::cuda) fn is_same(&self, other: &Self) -> bool {
        self.is_like(other) && self.places == other.places
    }

    /// A number that others of the same plan have as well.
    pub(in crate::backend::cuda) fn number(&self) -> usize {
        Rc::as_ptr(&self.plan).addr()
    }

    /// Whether the library has refused it, so that other kernels are to run.
    pub(in crate::backend::cuda) fn is_refused(&self) -> bool {
        !self.plan.has_run.get()
    }

    /// Queues it; where the library refuses it, what runs instead.
    ///
    /// # Errors
    /// Fails when that is refused as well.
    pub(in crate::backend::cuda) fn queue(&self, device: &Device) -> crate::error::Result<()> {
        let lt = device.epilogues().library().map_err(Error::Device)?;
        if !self.is_refused() && device.epilogues().has_queued(self, lt, device)? {
            return Ok(());
        }
        self.instead.iter().try_for_each(|piece| piece.load(device)?.queue(device))
    }

    /// Queues it, and nothing else, while the stream is captured: a refusal then may be one of the capture, and not of the product.
    ///
    /// # Errors
    /// Fails when the library refuses it.
    pub(in crate::backend::cuda) fn call(&self, device: &Device) -> crate::error::Result<()> {
        let lt = device.epilogues().library().map_err(Error::Device)?;
        let told = |error: CublasError| format!("cuBLASLt refuses a product that it has run before: {:?}", error.0);
        self.launch(lt, device).map_err(|error| Error::Device(told(error)))
    }

    pub(super) fn launch(&self, lt: &Lt, device: &Device) -> Result<(), CublasError> {
        let (Places { factors, product, bias, second, work }, plan) = (self.places, &*self.plan);
        if bias != Pointer::default() {
            set(&plan.description, Attribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias.0)?;
        }
        if second != Pointer::default() {
            set(&plan.description, Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, second.0)?;
        }
        let before = u8::from(plan.question.accumulate);
        let (wide, narrow) = ([1.0, f64::from(before)], [1.0, f32::from(before)]);
        let factor = |i: usize| -> *const c_void {
            if plan.is_wide { ptr::from_ref(&wide[i]).cast() } else { ptr::from_ref(&narrow[i]).cast() }
        };
        let [a, b] = factors.map(|place| place.0 as *const c_void);
        let [d, work] = [product, work].map(|place| place.0 as *mut c_void);
        let [of_a, of_b, of_d] = [&plan.layouts[0], &plan.layouts[1], &plan.layouts[2]].map(Owned::raw);
        let (of, stream) = (plan.description.raw(), device.stream().raw().cast());
        // SAFETY: handle, descriptors, layouts and stream are alive; the operands are as large as the layouts say, which was
        // checked against the tensors, and the workspace is at least as large as the algorithm asked for; the factors are of
        // the type that is computed in and outlive the call.
        unsafe {
            result::matmul(
                lt.handle.raw(),
                of,
                factor(0),
                factor(1),
                a,
                of_a,
                b,
                of_b,
                d,
                of_d,
                d,
                of_d,
                &plan.algorithm,
                work,
                plan.workspace_bytes,
                stream,
            )
        }
    }
}
