//! A kernel of any family, and the facts that every family states about its kernels.

use super::{
    Activation, Attention, Coded, Convolution, Depthwise, Dropout, Elementwise, Embedding, Fused, Gather, Int8, Layout,
    Linear, Loss, Norm, Optimizer, Pool, Prune, Rotary,
};
use crate::{
    backend::{DType, Shape},
    device::{Processor, Target},
};

/// The facts about a kernel that are known without running it, on any backend.
pub(in crate::backend) trait Contract {
    /// The name on screen and in timelines.
    fn name(&self) -> &'static str;

    /// Whether the kernel takes tensors of these sizes, by number and elements. A kernel that passed may index its operands as
    /// its definition states.
    fn takes(&self, inputs: &[usize], outputs: &[usize]) -> bool;

    /// Multiplications and additions of a launch that does its work in GEMM-like loops; zero for kernels that only stream
    /// through memory, whose time is in the bytes they touch.
    fn flops(&self) -> u64;

    /// Bytes that a launch reads and writes.
    fn traffic_bytes(&self, operands: &OperandBytes) -> u64;

    /// Upper bound of the bytes that a launch allocates on a `processor`, with operands of `dtype`.
    fn cpu_scratch_bytes(&self, dtype: DType, processor: Processor) -> usize;

    /// Bytes that a launch takes from a GPU's pool and gives back when it is over, with operands of `dtype`.
    fn cuda_scratch_bytes(&self, dtype: DType) -> usize;
}

/// The bytes of a launch's operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OperandBytes {
    /// Type of the first operand.
    pub dtype: DType,
    /// Bytes of all inputs.
    pub read: u64,
    /// Bytes of all outputs.
    pub written: u64,
}

impl OperandBytes {
    /// Bytes of inputs and outputs, each counted once.
    pub fn all(&self) -> u64 {
        self.read + self.written
    }
}

/// A matrix whose rows or columns are summed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rows {
    /// Rows.
    pub rows: usize,
    /// Elements of a row.
    pub columns: usize,
}

impl Rows {
    /// The matrix of a tensor, with its last dimension as columns.
    pub fn of(shape: Shape) -> Self {
        Self { rows: shape.rows(), columns: shape.last() }
    }

    /// Elements of the matrix.
    pub fn elements(&self) -> usize {
        self.rows * self.columns
    }
}

macro_rules! kernel {
    ($($family:ident,)*) => {
        /// One launch: a kernel of one of the families. Their definitions list tensors in order as "in" and "out"; out
        /// tensors are written, or updated where it says so.
        #[derive(Debug, Clone, Copy, PartialEq)]
        pub enum Kernel {
            $(
                #[doc = concat!("A kernel of [`", stringify!($family), "`](super::", stringify!($family), ").")]
                $family($family),
            )*
        }

        impl Kernel {
            fn contract(&self) -> &dyn Contract {
                match self {
                    $(Self::$family(kernel) => kernel,)*
                }
            }
        }

        $(impl From<$family> for Kernel {
            fn from(kernel: $family) -> Self {
                Self::$family(kernel)
            }
        })*
    };
}

kernel! {
    Activation,
    Attention,
    Coded,
    Convolution,
    Depthwise,
    Dropout,
    Elementwise,
    Embedding,
    Fused,
    Gather,
    Int8,
    Layout,
    Linear,
    Loss,
    Norm,
    Optimizer,
    Pool,
    Prune,
    Rotary,
}

impl Kernel {
    /// The name on screen and in timelines.
    pub fn name(&self) -> &'static str {
        self.contract().name()
    }

    /// Whether the kernel takes tensors of this many elements.
    pub(in crate::backend) fn takes(&self, inputs: &[usize], outputs: &[usize]) -> bool {
        self.contract().takes(inputs, outputs)
    }

    /// Multiplications and additions of a launch that does its work in GEMM-like loops; zero for kernels that only stream
    /// through memory.
    pub fn flops(&self) -> u64 {
        self.contract().flops()
    }

    /// Bytes that a launch reads and writes.
    pub fn traffic_bytes(&self, operands: &OperandBytes) -> u64 {
        self.contract().traffic_bytes(operands)
    }

    /// Upper bound of the bytes that a launch allocates on `target`, with operands of `dtype`. The executor books them in
    /// the ledger around the launch, and the kernel stays within them. The rules need no device, so that a machine without a
    /// GPU plans for one.
    pub fn scratch_bytes(&self, dtype: DType, target: &Target) -> u64 {
        let bytes = match target {
            Target::Cpu(processor) => self.contract().cpu_scratch_bytes(dtype, *processor),
            Target::Gpu(_) => self.contract().cuda_scratch_bytes(dtype),
        };
        bytes as u64
    }
}

/// Multiplications and additions of `a * b * c` products.
pub(super) fn products(a: usize, b: usize, c: usize) -> u64 {
    2 * a as u64 * b as u64 * c as u64
}
