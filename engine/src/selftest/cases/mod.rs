//! Launches of every kernel, a family a file: a function makes the launches of one size, and a table holds the sizes.
//!
//! The sizes are odd on purpose: 1, primes, a little more than a block of 256 or 1024 threads, channels that are not a multiple
//! of 4. Always holds: every kernel of the vocabulary has a name in [`names`], by a `match` without a wildcard, so that a new
//! one does not compile before it is here.

pub mod activation;
pub mod attention;
pub mod coded;
pub mod convolution;
pub mod depthwise;
pub mod dropout;
pub mod elementwise;
pub mod embedding;
pub mod fused;
pub mod gather;
pub mod int8;
pub mod layout;
pub mod linear;
pub mod loss;
pub mod norm;
pub mod optimizer;
pub mod pool;
pub mod prune;
pub mod rotary;

use crate::{
    backend::{DType, Kernel, Window},
    selftest::draw::Draw,
};

/// The floating-point types.
pub const FLOATS: [DType; 4] = [DType::F64, DType::F32, DType::Bf16, DType::F16];

/// Elements and types of a launch's operands.
pub type Operand = (Vec<f64>, DType);

/// A launch, and how many terms its longest sum has, because roundings add up over them.
#[derive(Debug, Clone)]
pub struct Case {
    /// The kernel that is launched.
    pub kernel: Kernel,
    /// Its inputs.
    pub inputs: Vec<Operand>,
    /// Its outputs, with the values that stand there before.
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
    /// The first rows of a table: for a device that is slow, or simulated.
    Quick,
    /// The whole table.
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

    /// The first row, or the whole table, for tables whose rows are many launches.
    pub fn first<T>(self, table: &[T]) -> &[T] {
        match self {
            Self::Quick => &table[..table.len().min(1)],
            Self::Whole => table,
        }
    }
}

/// The types that a sum of `dtype` may have: its own, and f32 if that is wider.
pub fn sum_types(dtype: DType) -> &'static [DType] {
    match dtype {
        DType::F64 => &[DType::F64],
        DType::Bf16 => &[DType::Bf16, DType::F32],
        DType::F16 => &[DType::F16, DType::F32],
        DType::F32 | DType::U32 | DType::U8 => &[DType::F32],
    }
}

/// The type of statistics for tensors of `dtype`.
pub fn statistics(dtype: DType) -> DType {
    dtype.accumulator()
}

/// How many elements kernels that stream through memory are tried on.
const COUNTS: [usize; 7] = [7, 257, 1, 255, 1025, 2053, 70_001];

/// A convolution and its gradients by `kernels`, that by the weight of type `sum`.
fn sliding(
    draw: &mut Draw,
    dtype: DType,
    w: Window,
    kernels: [impl Into<Kernel>; 3],
    weights: usize,
    sum: DType,
) -> Vec<Case> {
    let [forward, input, weight] = kernels;
    let x = (draw.numbers(w.batch * w.height * w.width * w.channels), dtype);
    let y = (draw.numbers(w.out_pixels() * w.filters), dtype);
    let dw = (draw.numbers(weights), sum);
    let weights = (draw.numbers(weights), dtype);
    vec![
        Case::new(forward, vec![x.clone(), weights.clone()], vec![y.clone()], w.taps()),
        Case::new(input, vec![y.clone(), weights], vec![x.clone()], w.taps() * w.filters),
        Case::new(weight, vec![x, y], vec![dw], w.out_pixels()),
    ]
}

/// Makes some launches of a family.
type Family = fn(&mut Draw, DType, Extent) -> Vec<Case>;

const FAMILIES: [Family; 19] = [
    activation::cases,
    attention::cases,
    coded::cases,
    convolution::cases,
    depthwise::cases,
    dropout::cases,
    elementwise::cases,
    embedding::cases,
    fused::cases,
    gather::cases,
    int8::cases,
    layout::cases,
    linear::cases,
    loss::cases,
    norm::cases,
    optimizer::cases,
    pool::cases,
    prune::cases,
    rotary::cases,
];

/// Launches of every kernel, with operands of `dtype`.
pub fn all(draw: &mut Draw, dtype: DType, extent: Extent) -> Vec<Case> {
    FAMILIES.iter().flat_map(|family| family(draw, dtype, extent)).collect()
}

/// A family's names: the kernels that must have a launch, by a `match` without a wildcard.
macro_rules! kernel_names {
    ($family:ty; $($kernel:pat => $name:literal,)*) => {
        /// Every kernel of the family, by a name of its own.
        pub(super) const NAMES: &[&str] = &[$($name),*];

        /// The kernel's name.
        pub(super) fn name(kernel: &$family) -> &'static str {
            match kernel {
                $($kernel => $name,)*
            }
        }
    };
}

use kernel_names;

/// Every kernel, by a name of its own, and every rule of an update.
pub fn names() -> Vec<&'static str> {
    [
        activation::NAMES,
        attention::NAMES,
        coded::NAMES,
        convolution::NAMES,
        depthwise::NAMES,
        dropout::NAMES,
        elementwise::NAMES,
        embedding::NAMES,
        fused::NAMES,
        gather::NAMES,
        int8::NAMES,
        layout::NAMES,
        linear::NAMES,
        loss::NAMES,
        norm::NAMES,
        optimizer::NAMES,
        pool::NAMES,
        prune::NAMES,
        rotary::NAMES,
    ]
    .concat()
}

/// The kernel's name among [`names`].
pub fn name(kernel: &Kernel) -> &'static str {
    match kernel {
        Kernel::Activation(kernel) => activation::name(kernel),
        Kernel::Attention(kernel) => attention::name(kernel),
        Kernel::Coded(kernel) => coded::name(kernel),
        Kernel::Convolution(kernel) => convolution::name(kernel),
        Kernel::Depthwise(kernel) => depthwise::name(kernel),
        Kernel::Dropout(kernel) => dropout::name(kernel),
        Kernel::Elementwise(kernel) => elementwise::name(kernel),
        Kernel::Embedding(kernel) => embedding::name(kernel),
        Kernel::Fused(kernel) => fused::name(kernel),
        Kernel::Gather(kernel) => gather::name(kernel),
        Kernel::Int8(kernel) => int8::name(kernel),
        Kernel::Layout(kernel) => layout::name(kernel),
        Kernel::Linear(kernel) => linear::name(kernel),
        Kernel::Loss(kernel) => loss::name(kernel),
        Kernel::Norm(kernel) => norm::name(kernel),
        Kernel::Optimizer(kernel) => optimizer::name(kernel),
        Kernel::Pool(kernel) => pool::name(kernel),
        Kernel::Prune(kernel) => prune::name(kernel),
        Kernel::Rotary(kernel) => rotary::name(kernel),
    }
}
