//! Matrix products with an epilogue, by cuBLASLt: a bias, GELU after it, or a gradient of one, in the kernel of the product.
//!
//! The library takes column-major matrices and computes the transposed product, as cuBLAS does (`gemm.rs`): the columns of our
//! result are the rows of its own. Sums are in f32 (f64 for f64). A bias is added, and GELU applied, before the sum is rounded.
//! Always holds: the library is asked for an algorithm once for each product, and the algorithm is used from then on, so that a
//! run repeats; it works in the workspace of the run and in no other memory. Refuses nothing: kernels of our own run in place of
//! what the library does not serve, and of what it refuses later, and overwrite all that a refused call may have written.

mod plan;

use std::cell::{OnceCell, RefCell};

use cudarc::cublaslt::{
    result::CublasError,
    sys::{cublasLtEpilogue_t as Which, cublasStatus_t as Status},
};

pub(super) use self::plan::Run;
use self::plan::{Lt, Places};
use super::{device::Device, launch::Pointer, library, linear::gradient_to_add, operands::Operands, work::Work};
use crate::{
    backend::{DType, ops::MatMul},
    error::{Error, Result},
};

/// The alignment that the library asks of its workspace (`cublasLtMatmul`), and the most that it makes use of in operands.
const ALIGNMENT: u64 = 256;
/// The alignment of a bias, and of a second output: an access of a thread has no more bytes.
const ACCESS: u64 = 16;

/// What is done in the kernel of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Epilogue {
    /// Adds the bias that is input 2.
    Bias,
    /// Adds the bias that is input 2; output 1 is GELU of the sum, output 0 the sum.
    BiasGelu,
    /// Multiplies by the derivative of GELU at input 2.
    GeluGradient,
    /// Sums the rows of input 0 into output 1, or, where the product is added, into the place of [`gradient_to_add`].
    BiasGradient,
}

impl Epilogue {
    fn which(self) -> Which {
        match self {
            Self::Bias => Which::CUBLASLT_EPILOGUE_BIAS,
            Self::BiasGelu => Which::CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
            Self::GeluGradient => Which::CUBLASLT_EPILOGUE_DGELU,
            // The library's B is our first operand, the gradient of the output.
            Self::BiasGradient => Which::CUBLASLT_EPILOGUE_BGRADB,
        }
    }
}

/// A product that an algorithm is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Question {
    /// `m`, `n`, `k`.
    extents: [u64; 3],
    transposed: [bool; 2],
    /// Whether the product is added to what is there.
    accumulate: bool,
    /// Of the factors and of the product.
    types: [DType; 2],
    tf32: bool,
    epilogue: Epilogue,
    /// Of the library's A, B and D.
    alignments: [u32; 3],
    workspace_bytes: u64,
}

/// cuBLASLt on one device, and what became of it in a run.
#[derive(Default)]
pub(super) struct Epilogues {
    library: OnceCell<std::result::Result<Lt, String>>,
    why_not: RefCell<Option<String>>,
}

impl Epilogues {
    /// Starts the library, if it is here, so that it holds its own memory from now on.
    pub(super) fn start(&self) {
        let _ = self.library();
    }

    /// The library, or why it is not used.
    fn library(&self) -> std::result::Result<&Lt, String> {
        let start = || {
            library::epilogues().map_err(|why| format!("cuBLASLt is not used: {why}"))?;
            Lt::start().map_err(|error| format!("cuBLASLt does not start: {:?}", error.0))
        };
        self.library.get_or_init(start).as_ref().map_err(Clone::clone)
    }

    /// A run begins.
    pub(super) fn begin(&self) {
        self.why_not.take();
    }

    /// Why kernels of our own ran in place of an epilogue since then; the first reason.
    pub(super) fn why_not(&self) -> Option<String> {
        self.why_not.borrow().clone()
    }

    /// Keeps the first reason why kernels of our own run.
    fn say(&self, why: String) {
        self.why_not.borrow_mut().get_or_insert(why);
    }

    /// Runs a product with its epilogue, or says no, and keeps why. Where it is to be queued later, what `instead` submits is
    /// kept as well, for a library that refuses it then.
    fn run(
        &self,
        (question, places): (Question, Places),
        device: &Device,
        instead: impl FnOnce() -> Result<()>,
    ) -> Result<bool> {
        let (lt, plan) = match self.library().and_then(|lt| Ok((lt, lt.plan(question)?))) {
            Ok(found) => found,
            Err(why) => {
                self.say(why);
                return Ok(false);
            }
        };
        if plan.has_run.get() && device.kept().is_keeping() {
            let instead = device.aside().collect(instead)?;
            device.submit(Work::Epilogue(Run { plan, places, instead }))?;
            return Ok(true);
        }
        // It may be refused, so this is found out at once.
        device.flush()?;
        let run = Run { plan, places, instead: Vec::new() };
        self.has_queued(&run, lt, device)
    }

    /// Queues a product with its epilogue, unless the library refuses it: then it is not asked for it again.
    ///
    /// # Errors
    /// Fails where the product is added to what is there, and the library does not say that it queued nothing.
    fn has_queued(&self, run: &Run, lt: &Lt, device: &Device) -> Result<bool> {
        let Err(error) = run.launch(lt, device) else {
            run.plan.has_run.set(true);
            return Ok(true);
        };
        if run.plan.question.accumulate && !is_of_arguments(error) {
            return Err(Error::Device(format!("cuBLASLt failed as it added a product: {:?}", error.0)));
        }
        run.plan.has_run.set(false);
        let question = run.plan.question;
        let why = question.refused(error);
        lt.plans.borrow_mut().insert(question, Err(why.clone()));
        self.say(why);
        Ok(false)
    }
}

/// Whether the library refused a call for what it was asked, which it looks at before it queues anything
/// ([`cublasLtMatmul`](https://docs.nvidia.com/cuda/cublas/#cublasltmatmul)).
fn is_of_arguments(error: CublasError) -> bool {
    use Status::{CUBLAS_STATUS_ARCH_MISMATCH, CUBLAS_STATUS_INVALID_VALUE, CUBLAS_STATUS_NOT_SUPPORTED};
    matches!(error.0, CUBLAS_STATUS_ARCH_MISMATCH | CUBLAS_STATUS_INVALID_VALUE | CUBLAS_STATUS_NOT_SUPPORTED)
}

/// Queues a product of a launch's first two inputs into its first output, with an epilogue; what `instead` submits where the
/// library does not serve it.
///
/// # Errors
/// The driver's or a library's, for work before this; those of `instead`.
pub(super) fn run(p: &MatMul, epilogue: Epilogue, o: &Operands<'_>, instead: impl Fn() -> Result<()>) -> Result<()> {
    if is_queued(p, epilogue, o, &instead)? { Ok(()) } else { instead() }
}

/// Whether a product is queued with its epilogue. If it is queued later and the library refuses it then, what `instead` submits
/// is queued in its place.
///
/// # Errors
/// The driver's or a library's, for work before this; those of `instead`.
pub(super) fn is_queued(
    p: &MatMul,
    epilogue: Epilogue,
    o: &Operands<'_>,
    instead: impl Fn() -> Result<()>,
) -> Result<bool> {
    let device = o.backend().device();
    Question::of(p, epilogue, o).map_or(Ok(false), |found| device.epilogues().run(found, device, instead))
}

impl Question {
    /// The question for a launch, and where its operands are; none where their types or places are not the library's.
    fn of(p: &MatMul, epilogue: Epilogue, o: &Operands<'_>) -> Option<(Self, Places)> {
        let (from, to) = (o.input_type(0), o.output_type(0));
        let (last, bias, product, second) = match epilogue {
            Epilogue::Bias => (o.input_type(2), o.input(2), o.output(0), Pointer::default()),
            Epilogue::BiasGelu => (o.input_type(2), o.input(2), o.output(1), o.output(0)),
            Epilogue::GeluGradient => (o.input_type(2), Pointer::default(), o.output(0), o.input(2)),
            Epilogue::BiasGradient => {
                let bias = if p.accumulate { gradient_to_add(o) } else { o.output(1) };
                (o.output_type(1), bias, o.output(0), Pointer::default())
            }
        };
        let is_served = o.input_type(1) == from && last == to && (to == from || to == DType::F32 && from != DType::F64);
        let is_aligned = [bias, second].iter().all(|place| place.0.is_multiple_of(ACCESS));
        if !is_served || !is_aligned {
            return None;
        }
        let (work, bytes) = o.backend().workspace();
        let workspace_bytes = if work.0.is_multiple_of(ALIGNMENT) { bytes as u64 } else { 0 };
        let factors = [o.input(1), o.input(0)];
        let aligned = |place: Pointer| 1 << place.0.trailing_zeros().min(ALIGNMENT.trailing_zeros());
        let question = Self {
            extents: [p.m as u64, p.n as u64, p.k as u64],
            transposed: [p.transpose_a, p.transpose_b],
            accumulate: p.accumulate,
            types: [from, to],
            tf32: from == DType::F32 && o.backend().options().tf32,
            epilogue,
            alignments: [factors[0], factors[1], product].map(aligned),
            workspace_bytes,
        };
        Some((question, Places { factors, product, bias, second, work }))
    }

    /// What a refusal is called.
    fn refused(&self, error: CublasError) -> String {
        let Self { extents: [m, n, k], types: [from, to], epilogue, .. } = self;
        let does = match epilogue {
            Epilogue::Bias => "its bias",
            Epilogue::BiasGelu => "its bias and GELU",
            Epilogue::GeluGradient => "the gradient of GELU",
            Epilogue::BiasGradient => "the gradient of its bias",
        };
        let types = format!("{} to {}", from.name(), to.name());
        format!("cuBLASLt does not serve a product of {m} by {k} by {n}, {types}, with {does}: {:?}", error.0)
    }
}
