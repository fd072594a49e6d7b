//! The gradient rule that the normalisations share. It reads the input and the statistics of the forward pass.

mod batch;
mod head;
mod row;

pub use batch::*;
pub use head::QueryKeyNorm;
pub use row::*;

use crate::{
    autograd::{Tape, Value},
    backend::{Backend, Executor, Tensor, ops::GradInto},
    error::Result,
    memory::timeline::LayerId,
    nn::{Param, param::accumulate_all},
};

/// The gradient of a normalised value, and that of the value itself by its other uses, where the kernel is to add it.
pub(super) type Incoming<B> = (Tensor<B>, Option<Tensor<B>>);

/// Records `y`, the normalised `x`, with its gradient rule. Saves `x`, or a recipe for it, and `statistics`. The first of
/// `params` says whether they are trained. If the rule `adds`, and ops are joined, it takes over the sum with the gradient that
/// has reached `x` before, as that of a residual connection has.
pub(super) fn record<'m, B: Backend, S: IntoIterator<Item = Tensor<B>> + 'm, const P: usize>(
    tape: &mut Tape<'m, B>,
    layer: LayerId,
    (x, adds): (Value<B>, bool),
    y: Tensor<B>,
    params: [&'m Param<B>; P],
    statistics: S,
    gradient: impl FnOnce(&Executor<B>, &Tensor<B>, &S, Incoming<B>, &[GradInto<'_, B>]) -> Result<Tensor<B>> + 'm,
) -> Value<B> {
    let (x_id, saved) = (x.id(), x.save());
    drop(x);
    let requires_grad = x_id.is_some() || params[0].is_trained();
    tape.record(layer, requires_grad, y, move |back, dy| {
        let executor = &back.executor().clone();
        let x = saved.tensor(executor)?;
        let other = x_id.filter(|_| adds && executor.joins_ops()).and_then(|id| back.take(id));
        let dx = accumulate_all(&params, executor, |into| gradient(executor, &x, &statistics, (dy, other), into))?;
        drop(x);
        back.release(saved.into_kept().into_iter().chain(statistics));
        back.accumulate_grad(x_id, dx)
    })
}
