//! A low-rank adapter of a frozen dense layer (Hu et al. 2021, "LoRA").
//!
//! `scale * up * down` is added to the weight. Where one layer is several projections, such as queries, keys and values, they
//! share the first matrix, and the second has rows for those that are adapted alone.

use std::{cell::Cell, ops::Range};

use crate::{
    autograd::Pass,
    backend::{
        Backend, DType, Executor, Tensor,
        ops::{Elementwise, GradInto},
    },
    error::Result,
    memory::{Category, timeline::LayerId},
    nn::{Init, Param, ParamRole, ParamUse, Start},
    rng::{Rng, Stream},
};

/// The choices for the adapter of one layer.
#[derive(Debug, Clone, PartialEq)]
pub struct AdapterPlan {
    /// Rows of the first matrix.
    pub rank: usize,
    /// The factor of the product.
    pub scale: f64,
    /// The rows of the layer's weight that are adapted.
    pub rows: Vec<Range<usize>>,
    /// The share of its inputs that training drops.
    pub dropout: f64,
}

/// An adapter.
pub(super) struct Adapter<B: Backend> {
    down: Param<B>, // [rank, in]
    up: Param<B>,   // [adapted rows, rank]
    scale: f64,
    /// The adapted rows, where these are not all of them.
    part: Option<Part>,
    dropout: Option<Dropped>,
}

/// Some of a layer's rows.
struct Part {
    rows: Vec<Range<usize>>,
    out: usize,
}

impl Part {
    /// Each run of rows, with where it begins among the adapted ones.
    fn runs(&self) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
        let mut begin = 0;
        self.rows.iter().map(move |rows| {
            let own = begin..begin + rows.len();
            begin = own.end;
            (own, rows.clone())
        })
    }
}

/// Which inputs are dropped: a key decides, so that nothing is saved for it.
struct Dropped {
    probability: f64,
    stream: u64,
    passes: Cell<u64>,
}

/// The key of a pass that drops inputs.
pub(super) type Key = Option<u64>;

impl<B: Backend> Adapter<B> {
    /// An adapter of the dense layer `layer`. The first matrix is random and the second is zero, so the output does not change
    /// at first.
    pub(super) fn new(
        init: &mut Init<'_, B>,
        layer: LayerId,
        [inner, out]: [usize; 2],
        plan: AdapterPlan,
    ) -> Result<Self> {
        let AdapterPlan { rank, scale, rows, dropout } = plan;
        let adapted = rows.iter().map(Range::len).sum();
        let start = Start::Uniform { fan_in: inner };
        let down = init.param_that(layer, ParamRole::AdapterDown, [rank, inner], start, true)?;
        let up = init.param_that(layer, ParamRole::AdapterUp, [adapted, rank], Start::Zero, true)?;
        let [down, up] = [down, up].map(|matrix| matrix.used(ParamUse::HiddenMatrix));
        let part = (adapted != out).then_some(Part { rows, out });
        let dropout = (dropout > 0.0).then(|| Dropped {
            probability: dropout,
            stream: init.stream(Stream::Dropout),
            passes: Cell::new(0),
        });
        Ok(Self { down, up, scale, part, dropout })
    }

    /// The adapter's matrices.
    pub(super) fn params(&self) -> [&Param<B>; 2] {
        [&self.down, &self.up]
    }

    /// How many training passes have dropped inputs, where they do.
    pub(super) fn passes(&self) -> Option<&Cell<u64>> {
        self.dropout.as_ref().map(|dropped| &dropped.passes)
    }

    /// The key that decides which inputs this pass drops.
    pub(super) fn key(&self, pass: Pass) -> Key {
        let Dropped { stream, passes, .. } = self.dropout.as_ref()?;
        match pass {
            Pass::Evaluation => return None,
            Pass::Training => passes.set(passes.get() + 1),
            Pass::Recompute => {}
        }
        Some(Rng::new(*stream, Stream::Dropout, passes.get()).key())
    }

    fn dropped(&self, executor: &Executor<B>, x: Tensor<B>, key: Key) -> Result<Tensor<B>> {
        match (&self.dropout, key) {
            (Some(Dropped { probability, .. }), Some(key)) => executor.dropout(x, *probability, key),
            _ => Ok(x),
        }
    }

    /// Adds its output for `x [rows, in]` to `y [rows, out]`.
    pub(super) fn add(&self, executor: &Executor<B>, x: &Tensor<B>, y: &Tensor<B>, key: Key) -> Result<()> {
        let narrow = self.narrow(executor, x, key)?;
        executor.add_linear(&narrow, &self.up(executor)?, y)
    }

    /// Adds its input gradient to `dx [rows, in]`, given output gradients `dy [rows, out]`.
    pub(super) fn add_input_gradient(
        &self,
        executor: &Executor<B>,
        dy: &Tensor<B>,
        dx: &Tensor<B>,
        key: Key,
    ) -> Result<()> {
        let narrow = self.narrow_gradient(executor, dy)?;
        if key.is_none() {
            return executor.add_linear_input_grad(&narrow, self.down.weight(), dx);
        }
        let part = executor.linear_input_grad(&narrow, self.down.weight())?;
        drop(narrow);
        let part = self.dropped(executor, part, key)?;
        executor.launch(Elementwise::Add, &[&part], &[dx])
    }

    /// Adds the gradients of its matrices, given inputs `x [rows, in]` and output gradients `dy [rows, out]`.
    pub(super) fn accumulate(&self, executor: &Executor<B>, x: &Tensor<B>, dy: &Tensor<B>, key: Key) -> Result<()> {
        let narrow = self.narrow(executor, x, key)?;
        self.up.accumulate(executor, |into| self.up_gradient(executor, &narrow, dy, into))?;
        drop(narrow);
        let gradient = self.narrow_gradient(executor, dy)?;
        let x = self.dropped(executor, x.clone(), key)?;
        self.down.accumulate(executor, |into| executor.linear_weight_grad(&x, &gradient, into))
    }

    /// `scale * x down^T`: `[rows, rank]`.
    fn narrow(&self, executor: &Executor<B>, x: &Tensor<B>, key: Key) -> Result<Tensor<B>> {
        let x = self.dropped(executor, x.clone(), key)?;
        executor.scale(executor.linear(&x, self.down.weight())?, self.scale)
    }

    /// `scale * dy up`: the gradient by `x down^T`, `[rows, rank]`.
    fn narrow_gradient(&self, executor: &Executor<B>, dy: &Tensor<B>) -> Result<Tensor<B>> {
        executor.scale(executor.linear_input_grad(dy, &self.up(executor)?)?, self.scale)
    }

    /// The second matrix with a row for each of the layer: zero for those that are not adapted, `[out, rank]`.
    fn up(&self, executor: &Executor<B>) -> Result<Tensor<B>> {
        let up = self.up.weight();
        let Some(part) = &self.part else { return Ok(up.clone()) };
        let whole = self.wide(executor, part.out, up.dtype())?;
        executor.launch(Elementwise::Fill(0.0), &[], &[&whole])?;
        for (own, rows) in part.runs() {
            executor.cast_into(&up.rows_view(own), &whole.rows_view(rows))?;
        }
        Ok(whole)
    }

    /// The gradient of the second matrix, from those rows of the layer's that are adapted.
    fn up_gradient(
        &self,
        executor: &Executor<B>,
        narrow: &Tensor<B>,
        dy: &Tensor<B>,
        into: GradInto<'_, B>,
    ) -> Result<()> {
        let Some(part) = &self.part else { return executor.linear_weight_grad(narrow, dy, into) };
        let (gradient, adds) = match into {
            GradInto::Fresh(gradient) => (gradient, false),
            GradInto::Accumulate(gradient) => (gradient, true),
        };
        let whole = self.wide(executor, part.out, gradient.dtype())?;
        executor.linear_weight_grad(narrow, dy, GradInto::Fresh(&whole))?;
        for (own, rows) in part.runs() {
            let (from, to) = (whole.rows_view(rows), gradient.rows_view(own));
            if adds {
                executor.launch(Elementwise::Add, &[&from], &[&to])?;
            } else {
                executor.cast_into(&from, &to)?;
            }
        }
        Ok(())
    }

    fn wide(&self, executor: &Executor<B>, out: usize, dtype: DType) -> Result<Tensor<B>> {
        executor.allocate([out, self.up.weight().shape().last()], dtype, Category::Scratch, "adapter")
    }
}
