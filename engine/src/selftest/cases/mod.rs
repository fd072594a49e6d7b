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

use crate::{
    backend::{
        DType, Kernel,
        kernel::{Curve, UpdateRule},
    },
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
    pub fn new(kernel: Kernel, inputs: Vec<Operand>, outputs: Vec<Operand>, terms: usize) -> Self {
        Self { kernel, inputs, outputs, terms }
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
    if dtype == DType::F64 { DType::F64 } else { DType::F32 }
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
                Kernel::Update(update) => update.rule.name(),
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
    Kernel::Fill(_) => "fill",
    Kernel::Uniform { .. } => "uniform",
    Kernel::Normal { .. } => "normal",
    Kernel::Cast => "cast",
    Kernel::CopyColumns { .. } => "copy-columns",
    Kernel::Transpose { .. } => "transpose",
    Kernel::MatMul(_) => "matmul",
    Kernel::AddBias => "add-bias",
    Kernel::BiasGrad { .. } => "bias-gradient",
    Kernel::Relu => "relu",
    Kernel::ReluGrad => "relu-gradient",
    Kernel::Relu6 => "relu6",
    Kernel::Relu6Grad => "relu6-gradient",
    Kernel::Add => "add",
    Kernel::Scale(_) => "scale",
    Kernel::Conv2d(_) => "convolution",
    Kernel::Conv2dInputGrad(_) => "convolution-input-gradient",
    Kernel::Conv2dWeightGrad { .. } => "convolution-weight-gradient",
    Kernel::Depthwise(_) => "depthwise",
    Kernel::DepthwiseInputGrad(_) => "depthwise-input-gradient",
    Kernel::DepthwiseWeightGrad { .. } => "depthwise-weight-gradient",
    Kernel::MaxPool(_) => "max-pool",
    Kernel::MaxPoolGrad(_) => "max-pool-gradient",
    Kernel::AvgPool(_) => "average-pool",
    Kernel::AvgPoolGrad(_) => "average-pool-gradient",
    Kernel::GlobalPool { .. } => "global-average",
    Kernel::GlobalPoolGrad { .. } => "global-average-gradient",
    Kernel::BatchNorm { .. } => "batch-norm",
    Kernel::BatchNormAgain { .. } => "batch-norm-again",
    Kernel::BatchNormGrad { .. } => "batch-norm-gradient",
    Kernel::BatchNormFixed { .. } => "batch-norm-fixed",
    Kernel::LayerNorm { .. } => "layer-norm",
    Kernel::LayerNormGrad { .. } => "layer-norm-gradient",
    Kernel::RmsNorm { .. } => "rms-norm",
    Kernel::RmsNormGrad { .. } => "rms-norm-gradient",
    Kernel::Curve(Curve::Gelu) => "gelu",
    Kernel::Curve(Curve::GeluTanh) => "gelu-tanh",
    Kernel::Curve(Curve::Silu) => "silu",
    Kernel::CurveGrad(Curve::Gelu) => "gelu-gradient",
    Kernel::CurveGrad(Curve::GeluTanh) => "gelu-tanh-gradient",
    Kernel::CurveGrad(Curve::Silu) => "silu-gradient",
    Kernel::Dropout { .. } => "dropout",
    Kernel::Embedding => "embedding",
    Kernel::EmbeddingGrad { .. } => "embedding-gradient",
    Kernel::Rotary { .. } => "rotary",
    Kernel::SwiGlu { .. } => "swiglu",
    Kernel::SwiGluGrad { .. } => "swiglu-gradient",
    Kernel::Attention(_) => "attention",
    Kernel::AttentionGrad(_) => "attention-gradient",
    Kernel::AttentionPlain(_) => "plain-attention",
    Kernel::AttentionPlainGrad(_) => "plain-attention-gradient",
    Kernel::GatherImages => "gather-images",
    Kernel::GatherLabels => "gather-labels",
    Kernel::GatherTokens { .. } => "gather-tokens",
    Kernel::CrossEntropy => "cross-entropy",
    Kernel::CrossEntropyGrad { .. } => "cross-entropy-gradient",
    Kernel::SumSquares => "sum-of-squares",
    Kernel::Clip { .. } => "clip",
}
