//! Optimizers: in place, one kernel a parameter, no temporaries of a parameter's size.

use crate::{
    backend::{
        Backend, Executor, Shape, Tensor,
        ops::{self, Moments, Rows, StateLayout, UpdateRule},
    },
    error::Result,
    experiment::{self, OptimizerKind},
    nn::Param,
};

/// Elements below which 8-bit AdamW keeps a parameter's moments as AdamW does: small tensors save little, and a few wrong
/// values weigh more in them (the paper's library has the same number).
const QUANTISED_FROM: usize = 4096;

/// What one update needs beside the experiment's choice.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Update {
    /// Learning rate of this step.
    pub rate: f64,
    /// Multiplies every gradient: undoes loss scaling.
    pub grad_scale: f64,
    /// Updates done, this one included.
    pub step: u64,
}

/// Updates one parameter from its gradient, which is freed. The optimizer's state is born at the first update. `clip [1]`,
/// where gradients are clipped, is what [`Executor::clip_scale`] made.
///
/// # Errors
/// Fails when the state would cross the budget at the first update ([`Error::Budget`](crate::error::Error::Budget)) or
/// when the device fails.
pub fn update<B: Backend>(
    executor: &Executor<B>,
    choice: &experiment::Optimizer,
    param: &Param<B>,
    update: Update,
    clip: Option<&Tensor<B>>,
) -> Result<()> {
    let Some(gradient) = param.take_gradient() else { return Ok(()) };
    let _layer = executor.enter(param.layer());
    let rule = rule(choice, param.weight().shape(), update.step);
    let layout = rule.state_layout(param.weight().shape(), param.master().dtype());
    let state = param.state(executor, &layout)?;
    let Update { rate, grad_scale, .. } = update;
    let kernel = ops::Optimizer::Update(ops::Update { rule, rate, weight_decay: choice.weight_decay, grad_scale });
    let outputs: Vec<&Tensor<B>> = [param.master()].into_iter().chain(&state).chain(param.copy()).collect();
    let inputs: Vec<&Tensor<B>> = [&gradient].into_iter().chain(clip).collect();
    executor.launch(kernel, &inputs, &outputs)
}

/// The tensors of state that the optimizer keeps for a parameter.
pub fn state_layout<B: Backend>(choice: &experiment::Optimizer, param: &Param<B>) -> StateLayout {
    let shape = param.weight().shape();
    rule(choice, shape, 1).state_layout(shape, param.master().dtype())
}

/// The rule of a weight of `shape` at update `step`.
fn rule(choice: &experiment::Optimizer, shape: Shape, step: u64) -> UpdateRule {
    match choice.kind {
        OptimizerKind::Adamw8bit if shape.elements() < QUANTISED_FROM => {
            of_kind(OptimizerKind::Adamw, choice, shape, step)
        }
        kind => of_kind(kind, choice, shape, step),
    }
}

/// The rule of one kind, with the constants of `choice`, whatever the size of the weight.
pub(crate) fn of_kind(kind: OptimizerKind, choice: &experiment::Optimizer, shape: Shape, step: u64) -> UpdateRule {
    let (momentum, beta1, beta2) = (choice.momentum, choice.beta1, choice.beta2);
    let moments = Moments { beta1, beta2, epsilon: choice.epsilon, step };
    match kind {
        OptimizerKind::Sgd => UpdateRule::Sgd,
        OptimizerKind::Momentum => UpdateRule::Momentum { momentum },
        OptimizerKind::Nesterov => UpdateRule::Nesterov { momentum },
        OptimizerKind::Lion => UpdateRule::Lion { beta1, beta2 },
        OptimizerKind::Rmsprop => UpdateRule::RmsProp { alpha: beta2, epsilon: choice.epsilon },
        OptimizerKind::Adam => UpdateRule::Adam(moments),
        OptimizerKind::Adamw => UpdateRule::AdamW(moments),
        OptimizerKind::Adamw8bit => UpdateRule::AdamW8(moments),
        OptimizerKind::Adafactor => UpdateRule::Adafactor { extents: matrix(shape), step },
    }
}

/// A weight as a matrix: a convolution's as `[filters, taps]`, any other's as rows of its last extent. What has a single
/// row or column is a vector: one row.
fn matrix(shape: Shape) -> Rows {
    let columns = match shape.dims() {
        [filters, _, _, _] => shape.elements() / filters.max(&1),
        _ => shape.last(),
    };
    let rows = shape.elements() / columns.max(1);
    if rows == 1 || columns == 1 { Rows { rows: 1, columns: shape.elements() } } else { Rows { rows, columns } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        backend::Cpu,
        memory::{Category, Ledger},
        tensor::DType,
    };

    /// With a constant gradient `g`, `v` after `t` updates is `(1 - alpha^t) g²`, so that every step has a closed form
    /// in which `g` is its sign alone.
    #[test]
    fn rmsprop_follows_its_closed_form() {
        let executor = Executor::new(Cpu::new(1), Ledger::new(None, false));
        let tensor = |value: f64, category| executor.filled(value, [3], DType::F64, category, "x").expect("no budget");
        let choice = experiment::Optimizer { beta2: 0.9, epsilon: 1e-8, ..experiment::Optimizer::default() };
        let (weight, squares) = (tensor(0.5, Category::Parameters), tensor(0.0, Category::OptimizerState));
        let mut wanted = 0.5;
        for step in 1..=20 {
            let rule = of_kind(OptimizerKind::Rmsprop, &choice, weight.shape(), step);
            assert_eq!(rule.state_layout(weight.shape(), DType::F64).len(), 1);
            let update = ops::Update { rule, rate: 0.01, weight_decay: 0.0, grad_scale: 0.5 };
            let gradient = tensor(-4.0, Category::Gradients);
            executor.launch(ops::Optimizer::Update(update), &[&gradient], &[&weight, &squares]).expect("a rule");
            let root = 2.0 * (1.0 - 0.9_f64.powi(step as i32)).sqrt();
            wanted += 0.01 * 2.0 / (root + 1e-8);
            for found in executor.backend().read(&weight).expect("here").expect("numbers") {
                assert!((found - wanted).abs() < 1e-12, "{step}: {found} {wanted}");
            }
        }
    }

    #[test]
    fn a_weight_is_a_matrix_of_filters_or_of_rows_and_a_vector_else() {
        let extents = |shape: Shape| (matrix(shape).rows, matrix(shape).columns);
        assert_eq!(extents([64, 3, 3, 16].into()), (64, 144));
        assert_eq!(extents([3, 3, 16].into()), (9, 16));
        assert_eq!(extents([10, 64].into()), (10, 64));
        assert_eq!(extents([64].into()), (1, 64));
        assert_eq!(extents([64, 1].into()), (1, 64));
    }
}
