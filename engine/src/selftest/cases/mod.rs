//! Launches of every kernel, a family a file: a function makes the launches of one size, and a table holds the sizes.
//!
//! The sizes are odd on purpose: 1, primes, a little more than a block of 256 or 1024 threads, channels that are no
//! multiple of 4. Always holds: every kernel of the vocabulary has a name in [`NAMES`], by a `match` without a wildcard,
//! so that a new one does not compile before it is here.

pub mod attention;
pub mod gathers;
pub mod loss;
pub mod norms;
pub mod pools;
pub mod products;
pub mod sequence;
pub mod streams;
pub mod updates;

use crate::backend::ops::{
    Activation, ActivationFunction, Attention, Convolution, Depthwise, Elementwise, Embedding, Gather, Layout, Linear,
    Loss, Norm, Optimizer, Pool,
};
use crate::{
    backend::{DType, Kernel, ops::UpdateRule},
    selftest::draw::Draw,
};

/// The floating-point types.
pub const FLOATS: [DType; 4] = [DType::F64, DType::F32, DType::Bf16, DType::F16];

/// Elements and types of a launch's operands.
pub type Operand = (Vec<f64>, DType);

/// A launch, and how many terms its longest sum has: what roundings add up over.
#[derive(Debug, Clone)]
pub struct Case {
    /// What is launched.
    pub kernel: Kernel,
    /// What it reads.
    pub inputs: Vec<Operand>,
    /// What it writes, with what stands there before.
    pub outputs: Vec<Operand>,
    /// Terms of the longest sum.
    pub terms: usize,
}

impl Case {
    /// A launch.
    pub fn new(kernel: impl Into<Kernel>, inputs: Vec<Operand>, outputs: Vec<Operand>, terms: usize) -> Self {
        Self { kernel: kernel.into(), inputs, outputs, terms }
    }
}

/// How much of each table is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Its first rows: for a device that is slow, or simulated.
    Quick,
    /// All of it.
    Whole,
}

impl Extent {
    /// The part of a table that is tried.
    pub fn of<T>(self, table: &[T]) -> &[T] {
        match self {
            Self::Quick => &table[..table.len().min(2)],
            Self::Whole => table,
        }
    }

    /// Its first row, or all of it: of tables whose rows are many launches.
    pub fn first<T>(self, table: &[T]) -> &[T] {
        match self {
            Self::Quick => &table[..table.len().min(1)],
            Self::Whole => table,
        }
    }
}

/// The types that a sum of `dtype` may have: its own, and f32 where that is wider.
pub fn sum_types(dtype: DType) -> &'static [DType] {
    match dtype {
        DType::F64 => &[DType::F64],
        DType::Bf16 => &[DType::Bf16, DType::F32],
        DType::F16 => &[DType::F16, DType::F32],
        _ => &[DType::F32],
    }
}

/// The type of statistics beside tensors of `dtype`.
pub fn statistics(dtype: DType) -> DType {
    dtype.accumulator()
}

/// Makes some launches of a family.
type Family = fn(&mut Draw, DType, Extent) -> Vec<Case>;

const FAMILIES: [Family; 9] = [
    streams::cases,
    products::cases,
    pools::cases,
    norms::cases,
    sequence::cases,
    attention::cases,
    gathers::cases,
    loss::cases,
    updates::cases,
];

/// Launches of every kernel, with operands of `dtype`.
pub fn all(draw: &mut Draw, dtype: DType, extent: Extent) -> Vec<Case> {
    FAMILIES.iter().flat_map(|family| family(draw, dtype, extent)).collect()
}

macro_rules! names {
    ($($kernel:pat => $name:literal,)*) => {
        const KERNELS: &[&str] = &[$($name),*];

        /// Every kernel, by a name of its own, and every rule of an update.
        pub const NAMES: &[&str] = &joined::<{ KERNELS.len() + UpdateRule::NAMES.len() }>(KERNELS, UpdateRule::NAMES);

        /// The kernel's name in [`NAMES`].
        pub fn name(kernel: &Kernel) -> &'static str {
            match kernel {
                $($kernel => $name,)*
                Kernel::Optimizer(Optimizer::Update(update)) => update.rule.name(),
            }
        }
    };
}

/// Both lists, one after the other; `N` is how long they are together.
const fn joined<const N: usize>(first: &[&'static str], second: &[&'static str]) -> [&'static str; N] {
    let mut all = [""; N];
    let mut i = 0;
    while i < N {
        all[i] = if i < first.len() { first[i] } else { second[i - first.len()] };
        i += 1;
    }
    all
}

names! {
    Kernel::Elementwise(Elementwise::Fill(_)) => "fill",
    Kernel::Elementwise(Elementwise::Uniform { .. }) => "uniform",
    Kernel::Elementwise(Elementwise::Normal { .. }) => "normal",
    Kernel::Layout(Layout::Cast) => "cast",
    Kernel::Layout(Layout::CopyColumns(_)) => "copy-columns",
    Kernel::Layout(Layout::Transpose { .. }) => "transpose",
    Kernel::Linear(Linear::MatMul(_)) => "matmul",
    Kernel::Linear(Linear::AddBias) => "add-bias",
    Kernel::Linear(Linear::BiasGrad { .. }) => "bias-gradient",
    Kernel::Activation(Activation::Relu) => "relu",
    Kernel::Activation(Activation::ReluGrad) => "relu-gradient",
    Kernel::Activation(Activation::Relu6) => "relu6",
    Kernel::Activation(Activation::Relu6Grad) => "relu6-gradient",
    Kernel::Elementwise(Elementwise::Add) => "add",
    Kernel::Elementwise(Elementwise::Scale(_)) => "scale",
    Kernel::Convolution(Convolution::Forward(_)) => "convolution",
    Kernel::Convolution(Convolution::InputGrad(_)) => "convolution-input-gradient",
    Kernel::Convolution(Convolution::WeightGrad { .. }) => "convolution-weight-gradient",
    Kernel::Depthwise(Depthwise::Forward(_)) => "depthwise",
    Kernel::Depthwise(Depthwise::InputGrad(_)) => "depthwise-input-gradient",
    Kernel::Depthwise(Depthwise::WeightGrad { .. }) => "depthwise-weight-gradient",
    Kernel::Pool(Pool::Max(_)) => "max-pool",
    Kernel::Pool(Pool::MaxGrad(_)) => "max-pool-gradient",
    Kernel::Pool(Pool::Average(_)) => "average-pool",
    Kernel::Pool(Pool::AverageGrad(_)) => "average-pool-gradient",
    Kernel::Pool(Pool::Global { .. }) => "global-average",
    Kernel::Pool(Pool::GlobalGrad { .. }) => "global-average-gradient",
    Kernel::Norm(Norm::Batch { .. }) => "batch-norm",
    Kernel::Norm(Norm::BatchApply { .. }) => "batch-norm-again",
    Kernel::Norm(Norm::BatchGrad { .. }) => "batch-norm-gradient",
    Kernel::Norm(Norm::BatchFixed { .. }) => "batch-norm-fixed",
    Kernel::Norm(Norm::Layer { .. }) => "layer-norm",
    Kernel::Norm(Norm::LayerGrad { .. }) => "layer-norm-gradient",
    Kernel::Norm(Norm::Rms { .. }) => "rms-norm",
    Kernel::Norm(Norm::RmsGrad { .. }) => "rms-norm-gradient",
    Kernel::Activation(Activation::Apply(ActivationFunction::Gelu)) => "gelu",
    Kernel::Activation(Activation::Apply(ActivationFunction::GeluTanh)) => "gelu-tanh",
    Kernel::Activation(Activation::Apply(ActivationFunction::Silu)) => "silu",
    Kernel::Activation(Activation::ApplyGrad(ActivationFunction::Gelu)) => "gelu-gradient",
    Kernel::Activation(Activation::ApplyGrad(ActivationFunction::GeluTanh)) => "gelu-tanh-gradient",
    Kernel::Activation(Activation::ApplyGrad(ActivationFunction::Silu)) => "silu-gradient",
    Kernel::Dropout(_) => "dropout",
    Kernel::Embedding(Embedding::Forward) => "embedding",
    Kernel::Embedding(Embedding::Grad { .. }) => "embedding-gradient",
    Kernel::Rotary(_) => "rotary",
    Kernel::Activation(Activation::SwiGlu { .. }) => "swiglu",
    Kernel::Activation(Activation::SwiGluGrad { .. }) => "swiglu-gradient",
    Kernel::Attention(Attention::Efficient(_)) => "attention",
    Kernel::Attention(Attention::EfficientGrad(_)) => "attention-gradient",
    Kernel::Attention(Attention::Plain(_)) => "plain-attention",
    Kernel::Attention(Attention::PlainGrad(_)) => "plain-attention-gradient",
    Kernel::Gather(Gather::Images) => "gather-images",
    Kernel::Gather(Gather::Labels) => "gather-labels",
    Kernel::Gather(Gather::Tokens { .. }) => "gather-tokens",
    Kernel::Loss(Loss::CrossEntropy) => "cross-entropy",
    Kernel::Loss(Loss::CrossEntropyGrad { .. }) => "cross-entropy-gradient",
    Kernel::Optimizer(Optimizer::SumSquares) => "sum-of-squares",
    Kernel::Optimizer(Optimizer::Clip { .. }) => "clip",
}
