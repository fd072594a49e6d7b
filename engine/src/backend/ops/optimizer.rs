//! Updates of parameters, and the norm for clipping gradients.

mod state;
mod update;

pub(in crate::backend) use self::update::AdamConstants;
pub use self::{
    state::{StateLayout, StateSpec, StateValues},
    update::{Moments, NarrowWeight, Update, UpdateRule},
};
use super::{Contract, OperandBytes, Rows};
use crate::{
    backend::{Backend, DType, Executor, Tensor, cpu, scratch::split_reduction},
    device::Processor,
    error::Result,
    memory::Category,
};

/// Kernels of the optimizer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Optimizer {
    /// in: `x`; out: `sum [1]` (f64), updated: adds the sum of squares. Infinite or NaN when any element is.
    SumSquares,
    /// in: `squares [1]` (f64); out: `scale [1]` (f64): `limit / sqrt(squares)` where that is below 1, otherwise 1. The
    /// factor that brings gradients with that sum of squares to a norm of at most `limit` (Pascanu, Mikolov & Bengio
    /// 2013).
    Clip {
        /// The largest norm.
        limit: f64,
    },
    /// in: `squares [1]` (f64), the sum of the squares of `x`; out: `x`, updated: `x /= sqrt(squares) + epsilon`.
    Normalise {
        /// Added to the norm.
        epsilon: f64,
    },
    /// in: `grad` and, when given, `scale [1]` (f64), which multiplies the update's `grad_scale`; out: `weight`, updated,
    /// the rule's state, updated, and, when given, the weight's narrower `copy`.
    Update(Update),
}

impl Contract for Optimizer {
    fn name(&self) -> &'static str {
        match self {
            Self::SumSquares => "sum of squares",
            Self::Clip { .. } => "clip",
            Self::Normalise { .. } => "normalise",
            Self::Update(update) => update.rule.name(),
        }
    }

    fn takes(&self, inputs: &[usize], outputs: &[usize]) -> bool {
        match self {
            Self::SumSquares => matches!((inputs, outputs), ([_], [1])),
            Self::Clip { .. } => matches!((inputs, outputs), ([1], [1])),
            Self::Normalise { .. } => matches!((inputs, outputs), ([1], [_])),
            Self::Update(update) => match (inputs, outputs) {
                ([g] | [g, 1], [w, rest @ ..]) => {
                    let state = update.rule.state_layout([*w].into(), DType::F32);
                    let (own, copy) = rest.split_at(state.len().min(rest.len()));
                    let is_whole = own.iter().copied().eq(state.iter().map(|spec| spec.shape.elements()));
                    update.rule.is_of(*w) && g == w && *w > 0 && is_whole && (copy.is_empty() || copy == [*w])
                }
                _ => false,
            },
        }
    }

    fn flops(&self) -> u64 {
        0
    }

    fn traffic_bytes(&self, operands: &OperandBytes) -> u64 {
        operands.all()
    }

    fn cpu_scratch_bytes(&self, dtype: DType, _: Processor) -> usize {
        match self {
            Self::SumSquares | Self::Clip { .. } | Self::Normalise { .. } => 0,
            Self::Update(update) => match update.rule {
                UpdateRule::ApolloMini { extents, .. } => cpu::optimizer::apollo::scratch_bytes(&extents),
                UpdateRule::AdamW4 { extents, .. } => cpu::optimizer::four_bit::scratch_bytes(&extents),
                UpdateRule::Adafactor { extents, .. } => {
                    cpu::optimizer::adafactor::scratch_bytes(&extents, dtype.accumulator().size())
                }
                UpdateRule::Sgd
                | UpdateRule::Momentum { .. }
                | UpdateRule::Nesterov { .. }
                | UpdateRule::RmsProp { .. }
                | UpdateRule::Adam(_)
                | UpdateRule::AdamW(_)
                | UpdateRule::AdamW8(_)
                | UpdateRule::FlashAdamW { .. }
                | UpdateRule::Lion { .. } => 0,
            },
        }
    }

    fn cuda_scratch_bytes(&self, _dtype: DType) -> usize {
        match self {
            Self::SumSquares => split_reduction::ELEMENT_SUMS * size_of::<f64>(),
            Self::Clip { .. } | Self::Normalise { .. } => 0,
            Self::Update(update) => match update.rule {
                UpdateRule::ApolloMini { extents, .. } => apollo_on_cuda(&extents),
                UpdateRule::AdamW4 { extents, .. } => four_bit_on_cuda(&extents),
                UpdateRule::Adafactor { extents, .. } => adafactor_on_cuda(&extents),
                UpdateRule::Sgd
                | UpdateRule::Momentum { .. }
                | UpdateRule::Nesterov { .. }
                | UpdateRule::RmsProp { .. }
                | UpdateRule::Adam(_)
                | UpdateRule::AdamW(_)
                | UpdateRule::AdamW8(_)
                | UpdateRule::FlashAdamW { .. }
                | UpdateRule::Lion { .. } => 0,
            },
        }
    }
}

/// Scratch of the update with 4-bit moments on a GPU: for a matrix, the new largest of each row and of each column.
fn four_bit_on_cuda(extents: &Rows) -> usize {
    if extents.rows == 1 { 0 } else { (extents.rows + extents.columns) * size_of::<f32>() }
}

/// Scratch of APOLLO-Mini's update on a GPU: a factor, the direction, the parts of a sum, and the parts of the sums over the
/// shorter side.
fn apollo_on_cuda(extents: &Rows) -> usize {
    let Rows { rows, columns } = *extents;
    let sums = if rows > columns { rows } else { split_reduction::update_row_splits(extents) * columns };
    (1 + rows.min(columns) + split_reduction::apollo_squares(extents) + sums) * size_of::<f64>()
}

/// Scratch of the factored update on a GPU: the parts of two sums, then, for a matrix, the parts of the sums over its columns.
fn adafactor_on_cuda(extents: &Rows) -> usize {
    use split_reduction::{UPDATE_SPLITS, update_row_splits};
    let columns = if extents.rows == 1 { 0 } else { update_row_splits(extents) * extents.columns };
    (2 * UPDATE_SPLITS + columns) * size_of::<f64>()
}

impl<B: Backend> Executor<B> {
    /// Adds the sum of the squares of all elements of `x` to `sum [1]` (f64): infinite or NaN when any element is.
    ///
    /// # Errors
    /// Fails when memory would cross the budget ([`Error::Budget`](crate::Error::Budget)) or when the device fails.
    pub fn add_sum_of_squares(&self, x: &Tensor<B>, sum: &Tensor<B>) -> Result<()> {
        self.launch(Optimizer::SumSquares, &[x], &[sum])
    }

    /// The factor `[1]` (f64) that brings gradients with the sum of squares `squares [1]` (f64) to a norm of at most `limit`.
    ///
    /// # Errors
    /// Fails when memory would cross the budget ([`Error::Budget`](crate::Error::Budget)) or when the device fails.
    pub fn clip_scale(&self, squares: &Tensor<B>, limit: f64) -> Result<Tensor<B>> {
        self.ledger().set_op("clip");
        let scale = self.allocate([1], DType::F64, Category::Scratch, "clipping")?;
        self.launch(Optimizer::Clip { limit }, &[squares], &[&scale])?;
        Ok(scale)
    }
}
