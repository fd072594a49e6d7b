//! Updates of parameters, and the norm for clipping gradients.
//!
//! A kernel that takes several parameters at once computes, for each of them, what the kernel of one computes, to the last bit.

mod moments;
mod state;
mod update;

pub(in crate::backend) use self::moments::AdamConstants;
pub use self::{
    moments::{Moments, NarrowWeight},
    state::{StateLayout, StateSpec, StateValues},
    update::{Update, UpdateRule, WeightForm},
};
use super::{Contract, OperandBytes};
use crate::{
    backend::{Backend, DType, Executor, Tensor, scratch::split_reduction},
    device::Processor,
    error::Result,
    memory::Category,
};

/// Kernels of the optimizer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Optimizer {
    /// in: `x`; out: `sum [1]` (f64), updated: adds the sum of squares. Infinite or NaN when any element is.
    SumSquares,
    /// [`Optimizer::SumSquares`] of several tensors of one type, [`Optimizer::SUMMED`] at the most, one after another.
    SumAllSquares {
        /// Parts of all sums on a GPU, for which it has scratch: [`Optimizer::parts`].
        parts: usize,
        /// Add to `sum` rather than overwrite it.
        accumulate: bool,
    },
    /// in: `squares [1]` (f64); out: `scale [1]` (f64): `limit / sqrt(squares)` if that is below 1, otherwise 1. The
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
    /// [`Optimizer::Update`] of several parameters, [`Optimizer::UPDATED`] at the most, by a rule that goes element by element.
    /// in: every `grad` and, when given, `scale [1]`; out: every `weight`, the first state of every one, the second, and,
    /// when given, every `copy`.
    UpdateAll {
        /// The rule and the constants.
        update: Update,
        /// How many parameters.
        count: usize,
    },
}

impl Optimizer {
    /// The most tensors of [`Optimizer::SumAllSquares`]. Addresses and lengths of that many fit into the 4 KiB of arguments that
    /// a launch has on every card and driver, so that a table takes no memory of the device, and no copy to it.
    pub const SUMMED: usize = 192;
    /// The most parameters of [`Optimizer::UpdateAll`], for the same reason.
    pub const UPDATED: usize = 64;

    /// The parts of the sums over tensors of this many elements.
    pub fn parts(elements: impl IntoIterator<Item = usize>) -> usize {
        elements.into_iter().map(split_reduction::element_splits).sum()
    }
}

impl Contract for Optimizer {
    fn name(&self) -> &'static str {
        match self {
            Self::SumSquares | Self::SumAllSquares { .. } => "sum of squares",
            Self::Clip { .. } => "clip",
            Self::Normalise { .. } => "normalise",
            Self::Update(update) | Self::UpdateAll { update, .. } => update.rule.name(),
        }
    }

    fn takes(&self, inputs: &[usize], outputs: &[usize]) -> bool {
        match self {
            Self::SumSquares => matches!((inputs, outputs), ([_], [1])),
            Self::SumAllSquares { parts, .. } => {
                let is_counted = (1..=Self::SUMMED).contains(&inputs.len());
                is_counted && Self::parts(inputs.iter().copied()) == *parts && outputs == [1]
            }
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
            Self::UpdateAll { update, count } => {
                let (grads, scale) = inputs.split_at(inputs.len().min(*count));
                let own = 1 + update.rule.state_layout([1].into(), DType::F32).len();
                let is_counted = (1..=Self::UPDATED).contains(count) && grads.len() == *count;
                let is_whole = outputs.len() == own * count || outputs.len() == (own + 1) * count;
                // Every tensor is as large as the gradient that it goes with.
                let is_like = is_counted && is_whole && outputs.chunks(*count).all(|of| of == grads);
                update.rule.is_by_element() && is_like && !grads.contains(&0) && matches!(scale, [] | [1])
            }
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
            Self::SumSquares | Self::SumAllSquares { .. } | Self::Clip { .. } | Self::Normalise { .. } => 0,
            Self::Update(update) | Self::UpdateAll { update, .. } => update.rule.scratch_bytes(dtype).cpu,
        }
    }

    fn cuda_scratch_bytes(&self, dtype: DType) -> usize {
        match self {
            Self::SumSquares => split_reduction::ELEMENT_SUMS * size_of::<f64>(),
            Self::SumAllSquares { parts, .. } => parts * size_of::<f64>(),
            Self::Clip { .. } | Self::Normalise { .. } => 0,
            Self::Update(update) | Self::UpdateAll { update, .. } => update.rule.scratch_bytes(dtype).gpu,
        }
    }
}

impl<B: Backend> Executor<B> {
    /// Adds the sum of the squares of all elements of `x` to `sum [1]` (f64): infinite or NaN when any element is.
    ///
    /// # Errors
    /// Fails when memory would cross the budget ([`Error::Budget`](crate::Error::Budget)) or when the device fails.
    pub fn add_sum_of_squares(&self, x: &Tensor<B>, sum: &Tensor<B>) -> Result<()> {
        self.launch(Optimizer::SumSquares, &[x], &[sum])
    }

    /// Writes the sum of the squares of all elements of all these tensors, in their order, by few launches. Of no tensor, it
    /// writes nothing.
    ///
    /// # Errors
    /// Fails if [`Executor::add_sum_of_squares`] does.
    pub fn sums_of_squares(&self, all: &[&Tensor<B>], sum: &Tensor<B>) -> Result<()> {
        let of_one_type = all.chunk_by(|a, b| a.dtype() == b.dtype());
        of_one_type.flat_map(|all| all.chunks(Optimizer::SUMMED)).enumerate().try_for_each(|(i, some)| {
            let parts = Optimizer::parts(some.iter().map(|x| x.elements()));
            self.launch(Optimizer::SumAllSquares { parts, accumulate: i > 0 }, some, &[sum])
        })
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
