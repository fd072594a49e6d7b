//! Optimizers: in place, one kernel a parameter, no temporaries of a parameter's size.

use crate::{
    backend::{
        Backend, DType, Executor, Kernel, Shape, Tensor,
        kernel::{self, Moments, Rows, Rule},
    },
    error::Result,
    experiment::{self, OptimizerKind},
    nn::{Kept, Param},
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
/// where gradients are clipped, is what [`Kernel::Clip`] made.
pub fn update<B: Backend>(
    executor: &Executor<B>,
    choice: &experiment::Optimizer,
    param: &Param<B>,
    update: Update,
    clip: Option<&Tensor<B>>,
) -> Result<()> {
    let Some(gradient) = param.take_gradient() else { return Ok(()) };
    let _layer = executor.enter(param.layer());
    let rule = rule(choice, param, update.step);
    let state = param.state(executor, &kept(&rule, param))?;
    let Update { rate, grad_scale, .. } = update;
    let kernel = Kernel::Update(kernel::Update { rule, rate, weight_decay: choice.weight_decay, grad_scale });
    let outputs: Vec<&Tensor<B>> = [param.master()].into_iter().chain(&state).chain(param.copy()).collect();
    let inputs: Vec<&Tensor<B>> = [&gradient].into_iter().chain(clip).collect();
    executor.launch(kernel, &inputs, &outputs)
}

/// The rule for one parameter.
fn rule<B: Backend>(choice: &experiment::Optimizer, param: &Param<B>, step: u64) -> Rule {
    let (momentum, beta1, beta2) = (choice.momentum, choice.beta1, choice.beta2);
    let moments = Moments { beta1, beta2, epsilon: choice.epsilon, step };
    match choice.kind {
        OptimizerKind::Sgd => Rule::Sgd,
        OptimizerKind::Momentum => Rule::Momentum { momentum },
        OptimizerKind::Nesterov => Rule::Nesterov { momentum },
        OptimizerKind::Lion => Rule::Lion { beta1, beta2 },
        OptimizerKind::Adam => Rule::Adam(moments),
        OptimizerKind::Adamw8bit if param.weight().elements() >= QUANTISED_FROM => Rule::AdamW8(moments),
        OptimizerKind::Adamw | OptimizerKind::Adamw8bit => Rule::AdamW(moments),
        OptimizerKind::Adafactor => Rule::Adafactor { extents: matrix(param.weight().shape()), step },
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

/// The tensors that a rule keeps beside a parameter.
fn kept<B: Backend>(rule: &Rule, param: &Param<B>) -> Vec<Kept> {
    let alike = |names: &[&'static str]| names.iter().map(|name| param.alike(name)).collect();
    let of = |name, elements: usize, dtype| Kept { name, shape: Shape::from([elements]), dtype };
    match *rule {
        Rule::Sgd => vec![],
        Rule::Momentum { .. } | Rule::Nesterov { .. } => alike(&["velocity"]),
        Rule::Lion { .. } => alike(&["momentum"]),
        Rule::Adam(_) | Rule::AdamW(_) => alike(&["first moment", "second moment"]),
        Rule::AdamW8(_) => {
            let elements = param.weight().elements();
            let blocks = elements.div_ceil(Rule::BLOCK);
            vec![
                of("first moment", elements, DType::U8),
                of("first moment's scales", blocks, DType::F32),
                of("second moment", elements, DType::U8),
                of("second moment's scales", blocks, DType::F32),
            ]
        }
        Rule::Adafactor { extents: Rows { rows: 1, columns }, .. } => vec![of("second moment", columns, param.sums())],
        Rule::Adafactor { extents: Rows { rows, columns }, .. } => {
            vec![of("second moment by row", rows, param.sums()), of("second moment by column", columns, param.sums())]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
