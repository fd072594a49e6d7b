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

/// Records `y`, the normalised `x`, with its gradient rule. Saves `x`, or a recipe for it, and `statistics`. The first of
/// `params` says whether they are trained.
pub(super) fn record<'m, B: Backend, S: IntoIterator<Item = Tensor<B>> + 'm, const P: usize>(
    tape: &mut Tape<'m, B>,
    layer: LayerId,
    x: Value<B>,
    y: Tensor<B>,
    params: [&'m Param<B>; P],
    statistics: S,
    gradient: impl FnOnce(&Executor<B>, &Tensor<B>, &S, Tensor<B>, &[GradInto<'_, B>]) -> Result<Tensor<B>> + 'm,
) -> Value<B> {
    let (x_id, saved) = (x.id(), x.save());
    drop(x);
    let requires_grad = x_id.is_some() || params[0].is_trained();
    tape.record(layer, requires_grad, y, move |back, dy| {
        let executor = back.executor();
        let x = saved.tensor(executor)?;
        let dx = accumulate_all(&params, executor, |into| gradient(executor, &x, &statistics, dy, into))?;
        drop(x);
        back.release(saved.into_kept().into_iter().chain(statistics));
        back.accumulate_grad(x_id, dx)
    })
}
