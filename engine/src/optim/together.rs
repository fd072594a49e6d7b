//! The update of all parameters, after the backward pass.
//!
//! Always holds: every parameter comes out as by [`update`] alone, to the last bit. A GPU takes longer to start a kernel than
//! to update most parameters, so it updates as many by one launch as the launch can tell of. A processor starts a kernel by a
//! call, and updates one after another.

use super::{Update, is_orthogonal, rule, update};
use crate::{
    backend::{
        Backend, DType, Executor, Tensor,
        ops::{self, UpdateRule},
    },
    error::Result,
    experiment,
    nn::Param,
};

/// [`update`] of each of these parameters. On a GPU those of a rule that goes element by element come first, many by one launch:
/// their gradients are gone when the others need scratch.
///
/// # Errors
/// Fails if [`update`] does.
pub fn update_all<B: Backend>(
    executor: &Executor<B>,
    choice: &experiment::Optimizer,
    params: &[&Param<B>],
    step: Update,
    clip: Option<&Tensor<B>>,
) -> Result<()> {
    if !executor.backend().target().is_gpu() {
        return params.iter().try_for_each(|param| update(executor, choice, param, step, clip));
    }
    let mut groups: Vec<(Alike, Vec<&Param<B>>)> = Vec::new();
    let mut alone = Vec::new();
    for param in params {
        let Some(alike) = Alike::of(choice, param, step.step) else {
            alone.push(*param);
            continue;
        };
        match groups.iter_mut().find(|(of, _)| *of == alike) {
            Some((_, group)) => group.push(param),
            None => groups.push((alike, vec![param])),
        }
    }
    for (alike, group) in &groups {
        for some in group.chunks(ops::Optimizer::UPDATED) {
            update_some(executor, choice, (some, alike.rule), step, clip)?;
        }
    }
    alone.into_iter().try_for_each(|param| update(executor, choice, param, step, clip))
}

/// What parameters of one launch have in common: the rule, and the types of gradient, weight and copy.
#[derive(PartialEq)]
struct Alike {
    rule: UpdateRule,
    types: [DType; 2],
    copy: Option<DType>,
}

impl Alike {
    /// `None` for a parameter that has no gradient, or a rule that needs a launch for each.
    fn of<B: Backend>(choice: &experiment::Optimizer, param: &Param<B>, step: u64) -> Option<Self> {
        let gradient = param.gradient()?.dtype();
        let rule = rule(choice, param, step);
        let is_together = rule.is_by_element() && !is_orthogonal(choice, param);
        let types = [gradient, param.master().dtype()];
        is_together.then(|| Self { rule, types, copy: param.copy().map(Tensor::dtype) })
    }
}

/// Updates parameters that are alike, by their rule, in one launch, and frees their gradients.
fn update_some<B: Backend>(
    executor: &Executor<B>,
    choice: &experiment::Optimizer,
    (params, rule): (&[&Param<B>], UpdateRule),
    step: Update,
    clip: Option<&Tensor<B>>,
) -> Result<()> {
    let mut states = Vec::with_capacity(params.len());
    for param in params {
        let _layer = executor.enter(param.layer());
        states.push(param.state(executor, || rule.state_layout(param.weight().shape(), param.master().dtype()))?);
    }
    let gradients: Vec<Tensor<B>> = params.iter().filter_map(|param| param.take_gradient()).collect();
    let kept = states.first().map_or(0, |state| state.len());
    let mut outputs: Vec<&Tensor<B>> = params.iter().map(|param| param.master()).collect();
    outputs.extend((0..kept).flat_map(|i| states.iter().map(move |state| &state[i])));
    outputs.extend(params.iter().filter_map(|param| param.copy()));
    let inputs: Vec<&Tensor<B>> = gradients.iter().chain(clip).collect();
    let Update { rate, grad_scale, .. } = step;
    let update = ops::Update { rule, rate, weight_decay: choice.weight_decay, grad_scale };
    executor.launch(ops::Optimizer::UpdateAll { update, count: params.len() }, &inputs, &outputs)
}
